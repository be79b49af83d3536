#### misc 1
x=$(false); echo $?; x=$(true) y=$(false); echo $?; a=($(exit 3)); echo $?; export e=$(false); echo $?; x=1; echo $?; false; x=1; echo $?; x=$(exit 4)$(exit 5); echo $?; : $(exit 6); echo $?; $(exit 7); echo $?; `exit 8`; echo $?
#### misc 2
case "a b" in "a b") echo 1;; esac; case ab in a\b) echo 2;; esac; case 'a*' in 'a*') echo 3;; esac; x='a*'; case abc in $x) echo 4;; esac; case abc in "$x") echo no;; *) echo 5;; esac; case '' in '') echo 6;; esac; case x in a|x|b) echo 7;; esac; case [ in [) echo 8;; esac; case ] in []]) echo 9;; esac
#### misc 3
shopt -s extglob; case foo.c in *.@(c|h)) echo 1;; esac; case foo in !(bar)) echo 2;; esac; case aab in +(a)b) echo 3;; esac; [[ abc == a?(b)c ]] && echo 4; x='+(a)'; [[ aaa == $x ]] && echo 5; [[ aaa == "$x" ]] || echo 6; case '+(a)' in "+(a)") echo 7;; esac; echo ${x/+/p} ; y=aaab; echo ${y##+(a)} ${y%%+(b)} ${y/+(a)/X} ${y//@(a|b)/-}
#### misc 4
x=abc; case $x in [a-c]*) echo r;; esac; case A in [[:upper:]]) echo u;; esac; case 5 in [!0-9]) echo no;; [0-9]) echo d;; esac; case a-b in *[-]*) echo dash;; esac; case 'a]' in *]) echo br;; esac; case $'a\nb' in a*b) echo nl;; esac; case a in ?) echo q;; esac; case é in ?) echo e;; esac
#### misc 5
x=5; eval "y=\$x"; echo $y; eval 'a[1]=z'; echo ${a[1]}; v=name; eval "$v=val"; echo $name; declare "$v=new"; echo $name; printf -v "$v" pf; echo $name; read "$v" <<< rd; echo $name; export "$v=ex"; echo $name; declare -n r=$v; r=ref; echo $name; echo ${!v}; unset "$v"; echo ${name-gone}
#### misc 6
IFS= read -r l <<< "  a\\b  "; echo "[$l]"; read l <<< "  a\\b  "; echo "[$l]"; read -r a b <<< "1 2 3"; echo $a,$b; read a <<< ""; echo "$? [$a]"; read -r x y z <<< $'a\tb\nc'; echo "$x|$y|$z"; while IFS=, read -r p q; do echo "$q-$p"; done <<< $'1,2\n3,4'; read -n1 c <<< abc; echo $c; read -d: f <<< a:b; echo $f; read -a arr <<< "x y z"; echo ${#arr[@]} ${arr[2]}
#### misc 7
while read -r l; do echo "<$l>"; done; read x; echo "$? [$x]"
#### misc 8
read a; read -r b c; echo "$a|$b|$c"; mapfile -t rest; echo ${#rest[@]} ${rest[0]}
#### misc 9
mapfile -t a < <(printf 'x\ny\nz'); echo ${#a[@]} "${a[2]}"; mapfile -t -s1 -n1 a <<< $'p\nq\nr'; echo ${a[@]}; mapfile -d: -t a <<< "1:2:3"; echo "${a[@]@Q}"; mapfile a <<< x; echo "${a[0]@Q}"; printf 'a\nb\n' | { mapfile -t b; echo ${#b[@]}; }; mapfile -t -O2 c <<< $'m\nn'; echo ${!c[@]}; mapfile < /dev/null; echo ${#MAPFILE[@]}; cb(){ echo "[$1:$2]"; }; mapfile -t -C cb -c1 d <<< $'u\nv'
#### misc 10
printf '%s %s\n' a b c d e; printf '%d\n' 1 2 3; printf '%s\n'; printf '%s'; echo; printf 'no newline'; echo; printf '%5.2f|%-8s|%08d|%+d|%x|%o|%e\n' 3.14159 ab 42 5 255 8 12345.678; printf '%%|%c|%b|%q\n' xyz 'a\tb' 'a b'; printf -- '-%s-\n' x; printf '%s\n' "a b" 'c\nd'; printf '\x41\101\n'; printf '%*d|%-*d|%.*f\n' 5 1 5 2 2 3.14159; printf '%s,' a b c; echo; printf "%s" ; printf '%3d|%-3d|%03d\n' 1 2 3
#### misc 11
printf '%(%Y-%m-%d)T\n' 0; printf '%(%H:%M:%S)T\n' 3661; TZ=UTC printf '%(%F %T %Z)T\n' 86400; printf '%(%j %U %a %b %e)T\n' 1000000000; printf '%(%s)T\n' 12345; x=$(printf '%(%s)T' -1); [[ $x -gt 1700000000 ]] && echo now; printf '%10(%Y)T|\n' 0; printf '%(%D %I %p)T\n' 50000
#### misc 12
printf '%.3s|%10.3s|%-10s|\n' abcdef abcdef abc; printf '%d %d\n' 0x10 010; printf '%d\n' "'A" '"B'; printf '%i %u\n' -5 5; printf '%X %#x %#o\n' 255 255 8; printf '%g %g %g\n' 0.0001 100000 1e20; printf '%.2e %.0f %5.1f|\n' 12345 2.5 3.14159; printf '%f\n' 1e3 .5 -0; printf '%a\n' 1; printf '%s %d\n' a; printf '%d\n' 3.7 abc ''; echo $?
#### misc 13
echo -e 'a\tb\nc\\d\x41\0101\e[0m' | cat; echo -n x; echo; echo -e '\u00e9\U0001f600'; echo -E 'a\tb'; echo -ne 'a\n'; echo -en 'b\n'; echo --; echo -x; echo '-n'; echo -e 'x\cy'; echo; shopt -s xpg_echo; echo 'a\tb'; shopt -u xpg_echo; echo "a\tb"; echo a  b   c; echo "a  b"; echo
#### misc 14
test -e /tmp && echo e; [ -d /tmp ] && echo d; [ ! -f /tmp ] && echo nf; : > f1; : > f2; [ -f f1 ] && [ ! -s f1 ] && echo empty; echo x > f1; [ -s f1 ] && echo size; [ -r f1 -a -w f1 ] && echo rw; [ -x f1 ] || echo nx; [ f1 -ef ./f1 ] && echo ef; [ -e nope ] || echo ne; [ -L f1 ] || echo nl; [[ -e f1 && ! -e nope ]] && echo both; [ -p /dev/stdin ] || echo np; [ -c /dev/null ] && echo c; [ -b /dev/null ] || echo nb; [ -h f1 ] || echo nh; [ -k /tmp ]; [ -O f1 ] && echo O; [ -G f1 ] && echo G; [ -N f1 ]; [ -u f1 ] || echo nu; [ -t 1 ] || echo nt
#### misc 15
a=1; b=2; [ $a -lt $b ] && echo lt; [ "$a" = 1 ] && echo eq; [ $a != $b ] && echo ne; [ -z "" ] && echo z; [ -n "x" ] && echo n; [ "a" \< "b" ] && echo less; [ 5 -ge 5 ] && echo ge; [ 1 -eq 1 -a 2 -eq 2 ] && echo and; [ 1 -eq 2 -o 2 -eq 2 ] && echo or; [ ! 1 -eq 2 ] && echo not; [ \( 1 -eq 1 \) ] && echo paren; test x; echo $?; test; echo $?; [ "" ]; echo $?; [ a b ] 2>/dev/null; echo $?
#### misc 16
getopts ab: o -a; echo $o $OPTIND; OPTIND=1; parse(){ local OPTIND o; while getopts ":vf:o:" o; do case $o in v) echo v;; f) echo "f=$OPTARG";; o) echo "o=$OPTARG";; \?) echo "bad $OPTARG";; :) echo "missing $OPTARG";; esac; done; shift $((OPTIND-1)); echo "rest $*"; }; parse -v -f file arg1 arg2; parse -vffile -o out; parse -x; parse -f; parse -- -v; parse a -v; parse -vx -o x y z
#### misc 17
trap 'echo dbg' DEBUG; x=1; trap - DEBUG; f(){ trap 'echo ret' RETURN; echo in; }; f; trap - RETURN; x=1; trap "echo $x" EXIT; x=2; trap 'echo $x' EXIT; trap -p EXIT; x=3
#### misc 18
declare -f nope; f(){ echo a; local x=1; if true; then echo b; fi; }; declare -f f; declare -F f; type f | head -1; f2 () { :; }; declare -F; unset -f f; declare -f f; echo $?; export -f f2; declare -F; g(){ f2; }; declare -pf g 2>&1; readonly -f g; readonly -pf 2>/dev/null | head -1
#### misc 19
set -- a b c; a=("$@"); a=("${a[@]:1}"); echo "${a[@]}"; set -- "${@:1:$#-1}"; echo "$@"; last=${!#}; echo $last; set -- "$@" new; echo $#; rev=(); for i in "$@"; do rev=("$i" "${rev[@]}"); done; echo "${rev[@]}"; echo "${@: -2:1}" "${*:1:2}"; IFS=-; echo "$*"; unset IFS; join(){ local IFS=$1; shift; echo "$*"; }; join , x y z; args=(-l "a b"); printf '<%s>' "${args[@]}"; echo
#### misc 20
s="The quick brown fox"; echo ${#s} ${s:4:5} ${s##* } ${s%% *} ${s/quick/slow} ${s// /_} ${s^^} ${s,,}; w=($s); echo ${#w[@]} ${w[1]}; echo "${s:0:1}${s:1}"; t=${s//[aeiou]/}; echo $t; echo "${s//[^a-z]/}"; u=$(echo "$s" | { read a b; echo $b; }); echo $u; [[ $s == *quick* ]] && echo has; [[ $s =~ ([a-z]+)\ fox ]] && echo ${BASH_REMATCH[1]}; p=${s%fox}; echo "[$p]"; echo "${s/#The/A}" "${s/%fox/dog}"
#### misc 21
declare -A c; for w in a b a c b a; do ((c[$w]++)); done; for k in a b c; do echo $k ${c[$k]}; done; declare -A m=([x]=1); m[y]=$((m[x]+1)); echo ${m[y]}; for k in "${!m[@]}"; do echo "$k:${m[$k]}"; done; unset "m[x]"; echo ${#m[@]}; [[ ${m[z]} ]] || echo nz; [[ -v m[y] ]] && echo vy; echo ${m[y]:-d} ${m[q]:-d}; m+=([z]=3); echo ${m[@]}
#### misc 22
i=0; while [ $i -lt 3 ]; do echo -n $i; i=$((i+1)); done; echo; until [ $i -eq 0 ]; do ((i--)); echo -n $i; done; echo; for f in *.nope; do echo $f; done; for ((a=1,b=5;a<b;a++,b--)); do echo -n "$a$b "; done; echo; n=5; f=1; for ((i=2;i<=n;i++)); do f=$((f*i)); done; echo $f; seq_(){ local i; for ((i=$1;i<=$2;i++)); do echo -n "$i "; done; }; seq_ 1 5; echo; a=(5 3 1 4); for ((i=0;i<${#a[@]};i++)); do for ((j=i+1;j<${#a[@]};j++)); do if ((a[i]>a[j])); then t=${a[i]}; a[i]=${a[j]}; a[j]=$t; fi; done; done; echo ${a[@]}
#### misc 23
x=5 y=10; echo "$x + $y = $((x+y))"; echo "${x}px ${y}%" $x$y "$x"'$y' "\$x" '$'x "a${x}b" a$x-b $x.txt "${x:+set}" ${#x}; cat <<< "$x $y"; cat << E
$x ${y} $((x*y)) \$x "$x" '$y' `echo bt` $(echo cs) \\ \a
E
cat << 'E'
$x ${y} \$x
E
cat <<- E
	tab $x
	E
#### misc 32
x=1; { x=2; }; echo $x; (x=3); echo $x; x=4 | true; echo $x; echo 5 | { read x; echo in $x; }; echo $x; f(){ x=6; }; f; echo $x; f | cat; y=$(x=7; echo $x); echo $x $y; for x in 8; do :; done; echo $x; if x=9; then echo $x; fi; while read x; do :; done <<< "last"; echo "[$x]"; . /dev/stdin <<< 'x=sourced'; echo $x; eval x=ev; echo $x; shopt -s lastpipe; echo lp | read x; echo $x
