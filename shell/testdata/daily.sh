#### u1
env | while read l; do case $l in _=*) echo ${l##*/};; esac; done; export X=1; env | tail -1 2>/dev/null | cat >/dev/null; f() { :; }; export -f f; env | while read l; do case $l in BASH_FUNC*) echo "$l";; esac; done
#### u2
x=$(echo "in sub"; echo err >&2) 2>/dev/null; echo "$x"; x=$(echo a) > f; echo "[$x]"; ls f >/dev/null 2>&1; [ -e f ] && echo made
#### u3
declare -a a=(1 "2 3"); declare -A m=([x]="y z" [k]=v); declare -p a m; local_() { local -a l=(p q); echo ${#l[@]}; declare -p l; }; local_
#### u4
echo "a b" > "my file"; cat "my file"; cat < "my file"; read x < "my file"; echo $x; cp_() { cat "$1" > "$2"; }; cp_ "my file" "new file"; cat new\ file
#### u5
i=0; while true; do i=$((i+1)); if [ $i -eq 3 ]; then continue; fi; if [ $i -gt 5 ]; then break; fi; echo $i; done
#### u6
printf '%s\n' "${arr[@]}" | wc -l >/dev/null 2>&1; arr=(); printf '[%s]' "${arr[@]}"; echo; arr=(a); printf '[%s]' "${arr[@]}" x; echo; for x in "${arr[@]}" "${none[@]}"; do echo "<$x>"; done
#### u7
if [ -z "$UNSET" ]; then echo empty; fi; if [ "$UNSET" = "" ]; then echo eq; fi; [ $UNSET = x ] 2>/dev/null; echo $?; [ -n $UNSET ]; echo $?
#### u8
(( x = 5, y = x * 2 )); echo $x $y; (( x > 3 )) && echo big; echo $(( x++ + ++y )) $x $y; echo $(( x == 6 ? 100 : 200 )); let "z = x << 2"; echo $z; echo $(( 5 % 3 )) $(( -5 / 2 )) $(( 2 ** 10 ))
#### u9
set -- one two three; echo "$#: $1 $2 $3"; shift 2; echo "$#: $1"; set -- "$@" four; echo "$*"; echo "${@: -1}" "${!#}"
#### u10
s="The quick brown fox"; for w in $s; do echo ${#w}; done; echo ${s/quick/slow}; echo ${s,,}; read -ra w <<< "$s"; echo ${w[2]} ${#w[@]}; echo ${s:4:5}
#### u11
function log { local level=$1; shift; printf '%s: %s\n' "$level" "$*" >&2; }; log WARN a b 2>&1; { log ERR x; } 2> e; cat e
#### u12
trap 'echo "Error on line $LINENO"; exit 1' ERR
echo start
false
echo no
#### u13
tmp=$(mktemp -d 2>/dev/null || echo /tmp/x); [ -n "$tmp" ] && echo ok; n=$(( $(printf '1\n2\n3\n' | while read x; do echo $x; done | { c=0; while read x; do c=$((c+1)); done; echo $c; }) )); echo $n
#### u14
case "$1" in "") echo none;; esac; case 3.14 in [0-9]*.[0-9]*) echo num;; esac; case "a|b" in "a|b") echo pipe;; esac; case $'\t' in $'\t') echo tab;; esac
#### u15
exec 2>&1; nosuchcommand; echo "status $?"; cat /nonexistent; cd /nonexistent; echo ${x:?must be set}; echo no
