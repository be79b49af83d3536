#### fields 8
export LC_ALL=C.UTF-8
n() { local IFS=' '; echo "$#:$(printf '<%s>' "$@")"; }
IFS=:; x=a; n $x:b; n $x"":b; y=a:b; n $y:c; n x$y; 
set -- a "" b; n $*; n $@; n "$*"; n "$@"; n x$@y; n "x$@y"; n "$@$@"
set -- ; n "$@"; e=; n "$@$e"; n "$e$@"; n ""$@; n "$@"""; n x"$@"; n '' $@; n "${@}" ; n "$*"; n ${e:+$@}; n "${e:+$@}"; n "${e:-$@}"; n $e"$@"; n ${a[@]}; n "${a[@]}"; n "${a[*]}"
IFS=' :'; y=' a : b::c : '; n $y; IFS=:; y=':a::b:'; n $y; IFS=' '; n $y; unset IFS; y=' a  b '; n $y; n -$y-; n "-"$y"-"; IFS=; y='a b'; n $y; set -- a b; n $*; n "$*"; n $@; n "$@"; z=$*; IFS=-; echo "$z"; 
IFS=', '; y='a , b ,c,,d'; n $y; p='a '; q=',b'; n $p$q; IFS=:; set -- 'a:b' c; n $@; n $*; x=$@; IFS=; echo "$x"; 
IFS=:; set -- a b; n "$*"; n ${*}; n ${@:1}; n "${@:1}"; n "${*:1}"; x="$*"; y=$*; echo "$x|$y"; x=$@; echo "$x"; x="$@"; echo "$x"; case $* in "a b") echo sp;; a:b) echo colon;; esac; case $@ in "a b") echo sp;; a:b) echo colon;; esac
n pre${*}post; n "pre${*}post"; a=(1 "2 3" ''); n ${a[@]}; n "${a[@]}"; n ${a[*]}; n "${a[*]}"; n "${#a[@]}" ; n ${a[@]/1/x}; n "${a[@]#?}"; n "${a[@]:1:2}"; n "${!a[@]}"; n "x${a[@]:+y}z";n "x${a[@]-y}z"; n "${e:-"$@"}"; n ${e:-"$@"}; n ${e:-a:b}; n ${e:-"a:b":c}; n "${e:-'a b'}"; n ${e:-'a b'}; n ${e:-a' b'c};n ${e:-$y}
IFS=' '; n ${e:-a b}; n x${e:-a b}y; n "${e:-a  b}"; n ${e:-*nope*}; n ~/x; n a=~/x; n --p=~; n x:~; v=~:~/b:~root:c~; n "$v"; v=a=~; n "$v"; n ~+ ~- ~nouser; n "~"; n \~; n ${e:-~}; n "${e:-~}"; n ${e:=~/q}; echo $e
