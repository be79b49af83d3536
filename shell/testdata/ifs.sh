#### ifs 1
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
x='a b  c'; n $x; n "$x"; IFS=; n $x; IFS=b; n $x; unset IFS; n $x; IFS=$'\n'; y=$'a b\nc\n\nd'; n $y
#### ifs 2
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=,; x='a,b,,c,'; n $x; x=',a'; n $x; x=','; n $x; x=',,'; n $x; x='a, b'; n $x; IFS=', '; n $x; x=' , '; n $x; x='a ,, b'; n $x
#### ifs 3
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=x; v=axbxc; n $v; n ${v}d; n d$v; n $v$v; n "$v"$v; n $v"$v"; n axb; n a"x"b$v; n $v'x'; w=; n $w$v; n $v$w; n $w
#### ifs 4
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS='\'; v='a\b'; n $v; IFS='*'; v='a*b'; n $v; IFS='?'; v='a?b'; n $v; IFS='-'; v='1-2-3'; n $v $((1-2)); IFS=1; n $((1+10)) `echo 212`
#### ifs 5
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
set -- 'a b' c; IFS=; n $*; n $@; n "$*"; x=$*; n "$x"; x=$@; n "$x"; IFS=+; n $*; n "$*"; x="$*"; n "$x"; x=$*; echo "$x"; n ${*%c}; n "${*%c}"; n "${@%c}"
#### ifs 7
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=:; a=(x:y z); n ${a[@]}; n ${a[*]}; n "${a[*]}"; n "${a[@]}"; b=${a[*]}; n "$b"; b="${a[@]}"; n "$b"; n $(echo a:b); n "$(echo a:b)"; read p q <<< "1:2:3"; n $p $q "$q"
#### ifs 8
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=:; p=/a:/b:/c; for d in $p; do echo $d; done; set -- $p; echo $#; arr=($p); echo ${#arr[@]}; x=::; set -- $x; echo $#; x=:a:; set -- $x; echo $#; n $x
#### ifs 9
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=' '; x=' lead trail '; n $x; n -$x-; IFS=$' \t\n'; x=$'\t a \n b '; n $x; n $x$x; n ${x}z; n z$x
#### ifs 10
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=' ,'; x='a , b'; n $x; x='a ,, b'; n $x; x=', a'; n $x; x='a ,'; n $x; x='a , '; n $x; x=' ,a'; n $x; x='a  b'; n $x; y=' '; n $y; n a$y; n $y"" ; n a$y,b
#### ifs 11
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
f(){ local IFS=$1; shift; echo "$*"; }; f , a b c; f '' a b; f : "a b" c; IFS=, f2(){ echo; }; echo "${IFS@Q}"
#### ifs 12
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=$'\x01'; x=$'a\x01b'; n $x; IFS=$'\r\n'; x=$'a\r\nb'; n $x; IFS=ab; x=1a2b3ab4; n $x; IFS=0; n $((100)) 
#### ifs 13
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
x="a b"; y=$x; n "$y"; y=$x$x; n "$y"; y="$x"; export z=$x; n "$z"; declare w=$x; n "$w"; local_(){ local v=$1; n "$v"; }; local_ "p q"; case $x in "a b") echo ok;; esac; z=pre$x; n "$z"
#### ifs 14
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
n "a"'b'"c" ""'' "" '' a"" ""b; x=; n $x; n "$x"; n $x""; n ""$x; n '' $x ""; n "$x$x" $x$x; n ${x:-} "${x:-}" ${x:-""} "${x:-""}" ${x:+a} "${x:+a}"
#### ifs 15
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
n $(echo "a  b"; echo c) "$(printf 'x\n\n\n')" $(printf '') "$(printf '')" `echo a b`; n $(printf 'a\nb\n') "$(printf '\na\n')" x$(echo)y
#### ifs 16
n(){ local i; echo -n "$#:"; for i; do echo -n "<$i>"; done; echo; }
IFS=é; export LC_ALL=C.UTF-8; x=aébèc; n $x; n "$*"; set -- 1 2; n "$*"
