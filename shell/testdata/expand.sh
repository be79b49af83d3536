#### expn 1
export LC_ALL=C.UTF-8
x=hello; echo ${x:1:3} ${x: -3} ${x: -3:2} ${x:0:-1} ${x:10} "[${x:5}]" ${x:(-2)} ${x:1+1:1} ${x::2} ${x:} 2>&1
#### expn 2
export LC_ALL=C.UTF-8
x=hello; echo ${x#h} ${x#*l} ${x##*l} ${x%l*} ${x%%l*} ${x#z} ${x%o} ${x#"h"} ${x#[a-h]} ${x#?} ${x%%?} ${x##*} "[${x%%*}]"
#### expn 3
export LC_ALL=C.UTF-8
x=a.b.c; echo ${x/./-} ${x//./-} ${x/#a/Z} ${x/%c/Z} ${x//[a-c]/x} ${x/b} ${x//./} ${x/./\/} ${x//./"\\"} ${x/z/y} ${x/*/q} ${x//?/<&>}
#### expn 4
export LC_ALL=C.UTF-8
x='a*b'; echo "${x/\*/star}" "${x/'*'/star}" "${x/"*"/star}" "${x//*/all}"; y='*'; echo "${x/$y/v}" "${x/"$y"/v}"; x=a/b/c; echo ${x//\//.} ${x////.} ${x/\//}
#### expn 5
export LC_ALL=C.UTF-8
x=abc; echo ${x^} ${x^^} ${x^^[ac]} ${x^b} ${x,} ${x,,} ${x~} ${x~~}; y=ABC; echo ${y,} ${y,,} ${y,,[AC]} ${y~}; z=éàü; echo ${z^^} ${z^} ${#z}; e=; echo "[${e^}]"
#### expn 6
export LC_ALL=C.UTF-8
unset x; echo ${x-a} ${x:-b} ${x+c} ${x:+d} ${x=e} $x ${x:=f} ${x+g} ${x:+h}; x=; echo "[${x-a}]" ${x:-b} "[${x+}]" "[${x:+d}]" ${x:=z} $x
#### expn 7
export LC_ALL=C.UTF-8
echo ${x:-$(echo sub)} ${x:-"q q"} "${x:-"q q"}" "${x:-'q'}" ${x:-'q'} ${x:-\$} "${x:-\$}" "${x:-\}}" ${x:-\}} "${x:-a}b}" ${x:-{a}} "${x:-{a}}" ${x:-a{b,c}d}
#### expn 8
export LC_ALL=C.UTF-8
unset x; (echo ${x?}) ; (echo ${x:?custom msg}); (echo ${x?"quoted  msg"}); x=; (echo ${x?ok}fine); (echo ${x:?}); echo done; : ${x:?final}; echo notreached
#### expn 9
export LC_ALL=C.UTF-8
set -- one two three; echo $1 ${2} $# $* "$*" $@ ${@: -1} ${!#} ${#1} ${1:1} ${*:2:1} "${@:2}" ${@:0:1} ${10} $10 ${1}0; shift; echo $*; set -- ; echo "[$*]" "[$@]" $#
#### expn 10
export LC_ALL=C.UTF-8
set -- a b c; for i; do echo -n $i; done; echo; for ((i=1;i<=$#;i++)); do echo -n ${!i}; done; echo; echo "${@/b/X}" "${@^}" "${*//?/z}" "${@%c}" ${@#a}; set -- "$@" d; echo $#; echo "$@"x y"$@"
#### expn 11
export LC_ALL=C.UTF-8
echo $? $((1)) $- > /dev/null; true; echo $?; false; echo $?; (exit 7); echo $?; echo ${?} ${#?}; x=$(exit 3); echo $?; echo "$(exit 4)$?"; y=`false`; echo $?
#### expn 12
export LC_ALL=C.UTF-8
echo "a\"b" 'a"b' "a'b" a\ b "a\b" "a\\b" "\$x" '\$x' $'a\tb' $'\x41\u00e9\101' $'a\'b' "`echo "x y"`" "$(echo "x  y")" $"trans" "\`" "a"
#### expn 13
export LC_ALL=C.UTF-8
echo ~ ~/x "~" '~' \~ a~ ~root ~nosuch x=~ ~/"a b" "~/x" ~+ ; cd /; echo ~+ ~-; HOME=/h; echo ~ ~/y; HOME=; echo "[$(echo ~)]"; unset HOME; echo ~ | cat; x=~; p=a:~:b; echo $p
#### expn 14
export LC_ALL=C.UTF-8
x=5; echo $((x+1)) $((x++)) $x $((++x)) $((x--)) $((-x)) $((x**2)) $((x%3)) $((x<<2)) $((x>5?1:0)) $((x,2)) $((x=9)) $x $((x+=1)) $(( (1+2)*3 )) $[1+2] $((0x1f)) $((2#101)) $((010)) $((1e2)) 2>&1
#### expn 15
export LC_ALL=C.UTF-8
a=b; b=c; c=5; echo $((a)) $((a+1)); e='1+1'; echo $((e*2)) $(($e*2)); echo $((z)) $((z+1)); s='x=3'; echo $((s)) $x; echo $(( ${#a} + 1 )) $((`echo 2`+1)) $(($(echo 3)+1))
#### expn 16
export LC_ALL=C.UTF-8
echo ${#x} ${#} ${#*} ${#@} ${#-} ${##} ${#!} ${!x} 2>&1; x=y; y=z; z=1; echo ${!x} ${!y}; p='a[1]'; a=(1 2); echo ${!p} ${!p:0:1} ${!p-q}; n=nope; echo "[${!n}]" ${!n-d}; echo ${!nope-d}; echo ${!nope}; echo after
#### expn 17
export LC_ALL=C.UTF-8
v=vv; v1=1 v2=2; echo ${!v*} ${!v@} "${!v@}" ${!nosuch*}; vx=3; set -- ${!v*}; echo $#; IFS=,; echo "${!v*}" "${!v@}"; unset v1; echo ${!v*}
#### expn 18
export LC_ALL=C.UTF-8
x='$y'; y='`echo hi`'; echo $x $y "$x" "$y"; eval echo $x; eval "echo $y"; z='a b'; set -- $z "$z"; echo $#; w="'a b'"; set -- $w; echo $# $1; q='"a"'; echo $q
#### expn 19
export LC_ALL=C.UTF-8
echo "${x:-"a"b"c"}" "${x:+"a b"}" "${x+"$(echo "n n")"}" ${x:+a b} ${x:+"a b" c} "a${x:+"b c"}d"; y="q r"; echo ${u:-$y} "${u:-$y}" ${u:-"$y"} "${u:-"$y"}" x${u:-$y}z
#### expn 20
export LC_ALL=C.UTF-8
s=abcdef; n=2; echo ${s:n} ${s:$n} ${s:n:n} ${s:$((n+1))} ${s:n+1:2} ${s: -n} ${s:0:${#s}-1} ${s:${#s}-1} ${s: n } ${s:n?1:0}; s=日本語テキスト; echo ${s:1:2} ${#s} ${s: -2} ${s/本/x} ${s#日} ${s%?} ${s##*本}
#### expn 21
export LC_ALL=C.UTF-8
x=aXbXc; echo ${x%%X*} ${x%X*} ${x#*X} ${x##*X}; p='*X'; echo ${x#$p} "${x#$p}" ${x#"$p"} ${x##$p}; f=/a/b/c.d.e; echo ${f##*/} ${f%/*} ${f%.*} ${f%%.*} ${f##*.} ${f#*.}; b=${f##*/}; echo ${b%.*}
#### expn 22
export LC_ALL=C.UTF-8
x='a b'; y="${x}"; echo "${y/ /_}" ${x/ /  } "${x/ /  }" "${x//[[:space:]]/}" "${x/a/"  "}" "${x/b/$x$x}" "${x/#/>}" "${x/%/<}" ${x/a/'q  q'} "${x/a/'q'}"; r='\&'; echo "${x/a/$r}" "${x/a/\&}" "${x/a/\\&}" "${x/a/[&&]}" "${x/a/"&"}"
#### expn 23
export LC_ALL=C.UTF-8
shopt -u patsub_replacement; x=ab; echo ${x/a/&} ${x/a/\&} "${x/a/\\&}"; shopt -s patsub_replacement; echo ${x/a/&} "${x/a/x&y}" ${x/b/'&'} ${x//[ab]/&&}; y='&'; echo ${x/a/$y} "${x/a/$y}" "${x/a/"$y"}"
#### expn 24
export LC_ALL=C.UTF-8
echo ${x@Q} ${nope@Q} ; x=$'a\nb'; echo "${x@Q}" ${x@E}; x='\n'; echo "${x@E}"; a=(1 'b c'); echo "${a[@]@Q}" ${a@A} "${a[@]@A}" ${a[@]@a} ${a[0]@Q}; declare -rx rx=1; echo ${rx@a} ${rx@A}; f(){ echo "${@@Q}"; }; f "a b" c "d'e"
#### expn 25
export LC_ALL=C.UTF-8
echo ${ x } 2>&1; echo next
#### expn 26
export LC_ALL=C.UTF-8
echo ${x y} 2>&1; echo next
#### expn 28
export LC_ALL=C.UTF-8
echo ${1x} ${x!} 2>&1; echo next
#### expn 29
export LC_ALL=C.UTF-8
echo "${x:-${y:-${z:-deep}}}" "${x:-$(echo ${y:-"in ner"})}" ${x:-${y:-a b}}; echo $(( ${x:-5} + ${y:-6} )); echo "$((1 + $((2 + $((3))))))" `echo \`echo nested\``  $(echo $(echo $(echo deep)))
#### expn 31
export LC_ALL=C.UTF-8
$x ${y:-d "q"} $((1+1)) `echo b` \$x \\ \` "dq" 'sq' ${x:+"q"} ${x:-'s'} $(echo "in") \
joined
E
