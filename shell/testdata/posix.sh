#### p1
bash --posix -c 'set -Z; echo no'; echo $?; bash --posix -c 'unset -Z; echo no'; echo $?; bash --posix -c 'export -Z; echo no'; echo $?; bash --posix -c 'shift 5; echo $?'; echo $?; bash --posix -c 'shift x; echo $?'; echo $?
#### p2
bash --posix -c ': > /nosuch/x; echo no'; echo $?; bash --posix -c 'echo > /nosuch/x; echo yes'; echo $?; bash --posix -c '{ :; } > /nosuch/x; echo yes'; echo $?
#### p3
bash --posix -c '. /nosuch; echo no'; echo $?; bash --posix -c 'command . /nosuch; echo yes'; echo $?; bash --posix -c 'exec nosuch; echo no'; echo $?
#### p5
bash --posix -c 'eval "echo )"; echo no' 2>/dev/null; echo $?; bash --posix -c 'trap "echo t" NOSUCH; echo yes'; echo $?; bash --posix -c 'return; echo yes'; echo $?
#### p6
bash --posix -c 'x=1 :; echo $x; y=2 eval :; echo $y; z=3 true; echo [$z]; f() { :; }; w=4 f; echo [$w]'
#### p8
bash --posix -c 'alias a="echo al"
a; type a; alias a; unalias a; unalias a; echo $?'
#### p9
bash --posix -c 'trap "echo e" EXIT; trap; kill -l HUP; kill -l 9; trap - EXIT; trap "" INT; trap'
#### p11
bash --posix -c 'break; echo $?; continue; echo $?'; bash --posix -c 'for i in 1; do break 0; echo no; done; echo no2'; echo $?
#### p12
bash --posix -c 'f() { return 3; }; f; echo $?; f() { exit 4; }; (f); echo $?; f'; echo $?
#### p13
bash --posix -c 'echo a | exit 3; echo $?; ! exit 5 | true; echo $?'; bash --posix -c 'exit 2 & wait $!; echo $?'
#### p14
bash --posix -c 'readonly x=5; readonly -p | while read l; do case $l in *x=*) echo "$l";; esac; done; export E=1; export -p | while read l; do case $l in *" E="*) echo "$l";; esac; done'
#### p15
bash --posix -c 'type :; type echo; command -v :; command -V export; type nosuch; echo $?'
#### p16
bash --posix -c 'echo {a,b} <(true)'; bash --posix -c 'cd -P .; echo $?; pwd | { read x; [ -n "$x" ] && echo ok; }'
#### bgout
x=$(sleep 0.05 && echo bg & wait; echo fg); echo "$x"
#### subst env
x=1; y=$(x=2; echo $x); echo $x $y; cd_() { cd /; }; z=$(cd_; pwd); echo $z; [ "$PWD" != / ] && echo ok; w=$(umask 077; umask); umask; echo $w; v=$(set -f; echo *); echo "$v"; u=$(trap 'echo e' EXIT; echo b); echo "$u"
#### subshell state
(cd /; umask 0; set -u; f() { :; }; alias q=w; exec 3>o; trap 'x' USR1; shopt -s nullglob); pwd | { read x; [ "$x" != / ] && echo ok; }; umask; type -t f; shopt -q nullglob || echo off; trap; echo a >&3
#### pipe subshell state
set -- a b; echo x | { set -- q; echo $1; }; echo $1; echo x | read y; echo ${y-none}; x=1 | true; echo ${x-none}
#### fd inherit
exec 5> f; bash -c 'echo hi >&5'; (echo sub >&5); echo fun | cat >&5; cat f; exec 5>&-; bash -c 'echo no >&5'; echo $?
#### stdin share
{ read a; read b; echo "$a|$b"; cat; } ; echo end
#### stdin share2
read a; (read b; echo $b); bash -c 'read c; echo $c'; read d; echo $? "[$d]"
#### dev fd
echo hi | cat /dev/stdin; echo x > /dev/stderr; echo y > /dev/stdout; cat /dev/fd/0 <<< z; cat < /dev/null; echo a > /dev/full; echo $?
#### append order
echo 1 > f; { echo 2 >> f; echo 3 >> f; }; cat f; exec 3>>f; echo 4 >&3; echo 5 >> f; echo 6 >&3; cat f
#### offset share
exec 3> f; echo a >&3; (echo b >&3); echo c >&3; bash -c 'echo d >&3'; cat f
#### read offset
printf '1\n2\n3\n' > f; exec 4< f; read a <&4; (read b <&4; echo $b); read c <&4; echo $a $c
#### rw same
echo abcdef > f; exec 3<> f; read -n 3 x <&3; echo -n XX >&3; cat f; echo $x
#### noclobber race
set -C; : > f; : > f; echo $?; : >| f; echo $?; set +C; : > f; echo $?
#### var fd close
exec {a}>f1 {b}>f2; echo 1 >&$a; echo 2 >&$b; exec {a}>&- {b}>&-; cat f1 f2; { echo q; } {c}>f3; echo $c | { read n; [ $n -ge 10 ] && echo big; }
#### dup chain
exec 3>f 4>&3 5>&4; echo a >&5; exec 3>&- 4>&-; echo b >&5; cat f
#### both order
(echo a; echo b >&2) > f 2>&1; cat f; (echo a; echo b >&2) 2>&1 > f | cat; cat f
#### redirect func args
f() { echo "$@"; }; f a > o b c; cat o; > o2 f d; cat o2; f x y >o3 2>&1 z; cat o3
#### redirect expansions
n=o; echo a > $n.txt; cat o.txt; echo b > "$n 2"; cat "$n 2"; echo c > ~/tl; cat ~/tl; echo d > {x,y}; echo $?
#### redirect glob
: > only1; echo a > only*; cat only1; echo q > nomatch*; cat 'nomatch*'
#### here in subst
x=$(cat <<E
in $((1+1))
E
); echo "$x"; echo "$(cat <<'E'
lit $x
E
)"
#### here nested loops
while read a; do while read b; do echo $a$b; done <<I
1
2
I
done <<O
x
y
O
#### cond cmds
[[ -n $(echo a) && ! -z b ]] && echo 1; [[ a < b || c > d ]] && echo 2; [[ ( a = a ) && b ]] && echo 3; [[ x ]] && [[ ! '' ]] && echo 4; [[ 5 -gt 3 && 2+2 -eq 4 ]] && echo 5
#### declare funcs
f() { :; }; declare -F f; declare -F; declare -f nosuch; echo $?; typeset -f f
#### func stdin
f() { read x; echo "f:$x"; }; echo hi | f; f < <(echo yo); f <<< sup
#### recursion depth
r() { [ $1 -gt 0 ] && r $(($1-1)) || echo bottom; }; r 200
#### many args
f() { echo $#; }; f $(for ((i=0;i<5000;i++)); do echo $i; done)
#### big string
x=$(for ((i=0;i<1000;i++)); do echo -n abcdefghij; done); echo ${#x}; y=$x$x; echo ${#y}
#### deep nesting
if true; then if true; then if true; then while true; do for i in 1; do case a in a) { ( echo deep ); } ;; esac; done; break; done; fi; fi; fi
#### history off
history; echo $?; fc -l; echo $?
#### ulimit
ulimit -S -n > /dev/null; echo $?; ulimit -x 5 2>/dev/null; ulimit -Z; echo $?
#### suspend etc
suspend; echo $?; logout; echo $?; bind -l > /dev/null 2>&1; compgen -b ec; compgen -W 'abc abd xyz' ab; compgen -A function; echo $?; complete -W 'a b' foo; complete -p foo; complete -r foo; complete -p foo; echo $?
