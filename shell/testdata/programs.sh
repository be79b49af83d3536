#### fizz
for i in {1..15}; do if (( i % 15 == 0 )); then echo FizzBuzz; elif (( i % 3 == 0 )); then echo Fizz; elif (( i % 5 == 0 )); then echo Buzz; else echo $i; fi; done
#### argparse
parse() { local verbose=0 name=; while [[ $# -gt 0 ]]; do case "$1" in -v|--verbose) verbose=1; shift;; -n|--name) name="$2"; shift 2;; --name=*) name="${1#*=}"; shift;; --) shift; break;; -*) echo "bad $1" >&2; return 1;; *) break;; esac; done; echo "$verbose $name $*"; }; parse -v -n x a b; parse --name=y -- -z; parse -q; echo $?
#### stack
declare -a st=(); push() { st+=("$1"); }; pop() { local n=${#st[@]}; ((n)) || return 1; echo "${st[n-1]}"; unset "st[n-1]"; }; push a; push "b c"; pop; pop; pop; echo $?
#### wordcount
declare -A c; while read -r -a ws; do for w in "${ws[@]}"; do ((c[$w]++)); done; done <<< "a b a
c a b"; for k in a b c; do echo $k ${c[$k]}; done
#### retry
n=0; try() { ((++n)); [ $n -ge 3 ]; }; until try; do echo "attempt $n"; done; echo ok $n
#### logging
log() { printf '[%s] %s\n' "$1" "${*:2}"; }; log INFO hello world; log ERR "a  b"
#### cleanup
tmp=f.tmp; trap 'rm -f $tmp; echo cleaned' EXIT; echo x > $tmp; cat $tmp; exit 3
#### strict mode
set -euo pipefail; IFS=$'\n\t'; f() { local x=${1:?need arg}; echo "got $x"; }; f a; (f) 2>&1 || echo "failed $?"; g() { cat nosuch 2>/dev/null | cat; }; g || echo "g $?"; echo end
#### heredoc func
usage() { cat <<EOF
Usage: $0 [options]
  -h  help
EOF
}; usage; x=$(usage); echo "${#x}"
#### menu
choice=b; case $choice in [aA]) echo A;; [bB]|[cC]) echo BC;; *) echo other;; esac
#### readloop
while IFS=: read -r user _ uid _ _ home shell; do echo "$user $uid $home"; done <<< $'root:x:0:0:root:/root:/bin/sh\nbin:x:1:1:b:/bin:/no'
#### parallel
for i in 1 2 3; do (sleep 0.0$i; echo $i) & done; wait; echo all
#### parallel status
pids=(); for i in 0 1 2; do (exit $i) & pids+=($!); done; for p in "${pids[@]}"; do wait $p; echo $?; done
#### lock
if ( set -o noclobber; echo $$ > lock ) 2>/dev/null; then echo locked; fi; if ( set -o noclobber; echo $$ > lock ) 2>/dev/null; then echo no; else echo busy; fi
#### tee like
{ echo a; echo b; } | while read x; do echo $x; echo $x >> f; done; cat f
#### matrix
for i in 1 2 3; do for j in 1 2 3; do printf '%d ' $((i*j)); done; echo; done
#### recursion dirs
mkdir -p a/b/c; : > a/x; : > a/b/y; walk() { local d; for d in "$1"/*; do echo "$d"; [ -d "$d" ] && walk "$d"; done; return 0; }; walk a
#### fib memo
declare -A m; fib() { local n=$1; if ((n<2)); then r=$n; return; fi; if [[ -n ${m[$n]} ]]; then r=${m[$n]}; return; fi; fib $((n-1)); local a=$r; fib $((n-2)); r=$((a+r)); m[$n]=$r; }; fib 50; echo $r
#### quoting
a='single "double"'; b="double 'single' \$x \`y\`"; c=$'ansi\ttab\x41'; echo "$a" "$b" "$c"; printf '%q ' "$a" 'x y' "$c"; echo
#### subst nest
f() { echo "$(g "$(h "$1")")"; }; g() { echo "g:$1"; }; h() { echo "h:$1"; }; f "a b"
#### co fd
exec 3>&1 4>&2; { echo out; echo err >&2; } 3>&1 >&4 2>&3; exec 3>&- 4>&-
#### swap
{ echo out; echo err >&2; } 3>&1 1>&2 2>&3 3>&- | cat
#### process list
a=$(cat <(echo x) <(echo y)); echo "$a"; diff_() { [ "$(cat $1)" = "$(cat $2)" ] && echo same || echo differ; }; diff_ <(echo a) <(echo a)
#### eval gen
for v in a b; do eval "$v=val_$v; get_$v() { echo \$$v; }"; done; get_a; get_b
#### indirect
x=y; y=z; echo ${!x}; declare -n r=y; r=new; echo $y; f() { local -n o=$1; o+=(x); }; arr=(1); f arr; echo ${arr[@]}
#### dispatch
cmd_start() { echo starting $1; }; cmd_stop() { echo stop; }; for c in start stop nope; do if declare -F cmd_$c > /dev/null; then cmd_$c x; else echo "unknown $c"; fi; done
#### timeout-like
(sleep 5) & p=$!; (sleep 0.1; kill $p 2>/dev/null) & wait $p 2>/dev/null; echo $?
#### signals loop
trap 'c=$((c+1))' USR1; c=0; for i in 1 2 3; do kill -USR1 $$; done; echo $c
#### trap cleanup sub
f() ( trap 'echo sub cleanup' EXIT; echo in; exit 2 ); f; echo $?
#### pipes bool
if echo abc | { read x; [ "$x" = abc ]; }; then echo y; fi; echo a | while read x; do exit 3; done; echo $?
#### nested func arrays
f() { local -a a=("$@"); local i; for i in "${!a[@]}"; do echo "$i=${a[i]}"; done; }; f x "y z"
#### string ops
s=hello.tar.gz; echo ${s%.*} ${s%%.*} ${s#*.} ${s##*.} ${s/l/L} ${s//l/L} ${s^} ${s^^} ${#s} ${s:1:3} ${s: -2}
#### here in func in pipe
f() { while read -r l; do echo "> $l"; done <<X
$1
second
X
}; f first | cat
#### arith
x=5; ((x+=3, x*=2)); echo $x $((x>10?1:0)) $((0x1f)) $((2#101)) $((x**2)) $((-7/2)) $((-7%3)) $((1<<10)) $((~5)) $((!0))
#### printf
printf '%s-%s\n' a b c; printf '%05d|%-5s|%+d|%x|%o|%e|%.2f\n' 42 ab 5 255 8 1234.5 3.14159; printf '%b' 'a\tb\n'; printf '%c%c\n' abc def
#### glob
touch_() { for f; do : > $f; done; }; touch_ a.txt b.txt c.md .hid; echo *.txt; echo [ab]*; echo ?.md; echo *.none; shopt -s nullglob; echo *.none x; shopt -s dotglob; echo *
#### extglob
shopt -s extglob; touch_() { for f; do : > $f; done; }; touch_ a1 a2 b1; echo !(a*) @(a1|b1) a+([0-9]); case foobar in foo@(bar|baz)) echo m;; esac
#### brace
echo {a,b}{1,2} {1..5} {a..e} {01..03} {1..10..3} x{,y}z {a,b {5..1}
#### tilde
HOME=/h; echo ~ ~/x "~" a~ x=~; y=~/q; echo $y
#### cd pwd oldpwd
mkdir a; cd a; cd - > /dev/null; echo ${OLDPWD##*/}; (cd a; echo ${PWD##*/}); echo ${PWD##*/} | { read x; [ "$x" != a ] && echo ok; }
#### set args
set -- $(echo a b c); echo $#; set -- "$@" d; echo "$*" $#; set -- "${@:2:2}"; echo $*
#### type all
type -a echo | head -1; type -t type; command -v echo; type -P echo | { read p; echo ${p##*/}; }
#### test ops
: > f; mkdir d; [ -f f ] && [ -d d ] && [ ! -e n ] && [ -z "" ] && [ -n x ] && [ 1 -lt 2 ] && [ a = a ] && [ a != b ] && echo all; [[ abc == a* && abc =~ ^a.c$ ]] && echo m; test 1 -eq 1 -a 2 -eq 2 && echo and; [ a \< b ] && echo lt
#### mapfile
mapfile -t l <<< $'a\nb c\nd'; echo ${#l[@]} "${l[1]}"; mapfile -t -s 1 -n 1 q < <(printf '1\n2\n3\n'); echo $q
#### read opts
read -r -p 'x' a b <<< 'a\b c d'; echo "$a|$b"; IFS=, read -ra p <<< 'x,y,,z'; echo ${#p[@]}; read -n 2 z <<< abcdef; echo $z; read -d : y <<< 'q:w'; echo $y; echo abc | { read -N 2 w; echo $w; }
#### cmd sub in arith
echo $(( $(echo 3) + $(echo 4) )) $[1+2]; a=(1 2 3); echo $(( a[1] + ${a[2]} )); i=0; a[i++]=9; echo $i ${a[0]}
#### long pipeline
echo {1..20} | cat | cat | cat | cat | cat | cat | while read -a x; do echo ${#x[@]}; done
#### unset stuff
x=1; unset x; echo ${x-u}; a=(1 2 3); unset 'a[1]'; echo ${!a[@]}; unset a; echo ${#a[@]}; f() { unset v; echo ${v-gone}; local v=1; unset v; echo ${v-still}; }; v=g; f; echo ${v-gone2}
#### ifs
IFS=:; x=a:b::c; set -- $x; echo $#; IFS=' :'; x=' a : b '; set -- $x; echo $# "$1"; unset IFS; x='a  b'; set -- $x; echo $#
#### exit codes misc
true; echo $?; false; echo $?; nosuch 2>/dev/null; echo $?; : > nx; ./nx 2>/dev/null; echo $?; (exit 42); echo $?; bash -c 'kill -TERM $$'; echo $?
#### last
echo "done"; exit 0
