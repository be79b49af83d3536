#### errexit basic
set -e; false; echo no
#### errexit if
set -e; if false; then :; fi; echo a; false || echo b; false && echo c; echo d; ! true; echo e; (false); echo f
#### errexit and-last
set -e; true && false; echo no
#### errexit func cond
set -e; f() { false; echo in; }; if f; then echo t; fi; f || echo no; f; echo out
#### errexit pipe
set -e; false | true; echo a; set -o pipefail; false | true; echo b
#### errexit comsub
set -e; x=$(false; echo hi); echo "$x"; y=$(false); echo no
#### errexit inherit
set -e; shopt -s inherit_errexit; x=$(false; echo hi) || echo caught; echo "[$x]"; x=$(false; echo hi); echo no
#### errexit local
set -e; f() { local x=$(false); echo ok; }; f
#### errexit while
set -e; while false; do :; done; until true; do :; done; echo ok; for i in 1; do false; done; echo no
#### errexit case/group
set -e; { false && true; }; echo a; (false && true); echo b
#### errexit func and
set -e; f() { false && true; }; f; echo no
#### errexit trap ERR
trap 'echo ERR $?' ERR; false; f() { false; }; f; (false); false || true; if false; then :; fi; true | false; echo end
#### errtrace
set -E; trap 'echo ERR $LINENO' ERR
f() {
false
}
f
#### err and exit trap
set -e; trap 'echo bye $?' EXIT; false
#### exit trap
trap 'echo bye $?; exit 7' EXIT; exit 3
#### exit trap in sub
trap 'echo outer' EXIT; (trap 'echo inner' EXIT; exit 2); echo $?
#### nounset
set -u; echo ${x-def}; echo $x; echo no
#### nounset sub
set -u; (echo $x; echo no); echo $?
#### xtrace
set -x; x=1; echo a "b c" '' $x; for i in 1; do :; done; [ 1 = 1 ] && echo ok; (echo sub); f() { echo in; }; f 1 2; echo $(echo s); set +x
#### verbose
set -v
echo a
#### noclobber
set -C; echo a > f; echo b > f; echo $?; echo c >| f; cat f; echo d >> f; cat f
#### noglob
touch(){ :>$1; }; touch a1; touch a2; echo a*; set -f; echo a*
#### noexec
echo a
set -n
echo b
#### allexport
set -a; foo=bar; env | while read l; do case $l in foo=*) echo $l;; esac; done
#### set positional
set -- a 'b c' d; echo $# "$2"; set x; echo $#; shift; echo $#; set --; echo $#; set -- -e; echo $1; shift 3; echo $?
#### set -o names
set -o | { n=0; while read -r a b; do n=$((n+1)); done; echo $n; }; set -o errexit; shopt -o errexit; echo $-
#### dash o
set +o | head -1; set -o pipefail; set -o | while read a b; do case $a in pipefail) echo $a $b;; esac; done
#### shopt
shopt -s extglob; shopt extglob; shopt -q nullglob; echo $?; shopt -p nullglob; shopt nosuch; echo $?; shopt -u extglob; shopt extglob
#### pipestatus
(exit 2) | (exit 3) | (exit 0); echo "${PIPESTATUS[@]}"; false; echo "${PIPESTATUS[@]}"; true | false; echo $? "${PIPESTATUS[*]}"; ! false | true; echo $?
#### lastpipe
shopt -s lastpipe; echo x | read y; echo $y; exit 5 | exit 4; echo no
#### pipe amp
{ echo out; echo err >&2; } |& cat
#### pipe var
echo hi | while read x; do y=$x; done; echo "[$y]"
#### function redirect
f() { echo in; } > out; f; cat out; g() { cat; } <<< text; g
#### function args
f() { echo $# $1 $@; shift; echo $1; }; f a b c; echo $#
#### function recursion
fact() { if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(fact $(( $1 - 1 ))) )); fi; }; fact 6
#### funcnest
FUNCNEST=5; f() { echo $1; f $(($1+1)); }; f 1; echo after $?
#### return
f() { return; }; false; f; echo $?; g() { for i in 1 2; do return 5; done; }; g; echo $?; return; echo $?
#### break n
for i in 1 2; do for j in 1 2; do echo $i$j; break 2; done; done; for i in 1 2; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done; break; echo $?
#### break args
for i in 1 2; do break 0; echo x; done; echo $?; for i in 1 2; do break x; done; echo $?
#### while read
printf 'a b\nc\n' | while read x y; do echo "$x-$y"; done
#### until
i=0; until ((i>=3)); do ((i++)); done; echo $i
#### for c-style
for ((i=0,j=10; i<3; i++,j--)); do echo $i $j; done; for ((;;)); do break; done; echo done
#### for no in
set -- a b; for x; do echo $x; done; f() { for x do echo f$x; done; }; f 1 2
#### select
select x in a b c; do echo "[$x]" $REPLY; break; done <<< 2
#### select cols
select x in $(echo one two three four five six seven eight nine ten eleven twelve); do break; done <<< 3; echo $x
#### case fall
case a in a) echo 1;& b) echo 2;; c) echo 3;; esac; case ab in a*) echo 1;;& *b) echo 2;;& c) echo 3;; *) echo 4;; esac; case x in y) ;; esac; echo $?
#### group
{ echo a; echo b; } | cat; { x=5; }; echo $x
#### coproc
coproc { read x; echo "got $x"; }; echo hello >&${COPROC[1]}; read y <&${COPROC[0]}; echo $y; wait $COPROC_PID; echo $?
#### coproc name
coproc CC { cat; }; echo a >&${CC[1]}; exec {CC[1]}>&-; read z <&${CC[0]}; echo $z
#### time
time -p true 2>/dev/null; echo $?; { time true; } 2>&1 | while read a b; do echo "$a"; done; TIMEFORMAT='%%x'; time true
#### heredoc
x=5; cat <<A; cat <<'B'; cat <<-C
$x $(echo y) \$x `echo z`
A
$x
B
	tab
	C
echo end
#### heredoc fd
cat <<A 3<<B <&3
a
A
b
B
#### herestring
cat <<< "a  b"; cat <<< a\ b; x="1 2"; cat <<< $x
#### fd dup
exec 3>f; echo a >&3; echo b 1>&3 2>&1; exec 3>&-; cat f; echo c >&3; echo $?
#### fd move
exec 3<<< hi; exec 4<&3-; cat <&4; cat <&3
#### fdvar
exec {fd}>f; echo x >&$fd; [ $fd -ge 10 ] && echo ok; exec {fd}>&-; cat f; echo y >&$fd
#### rw
echo abc > f; exec 3<>f; read x <&3; echo $x; echo d >&3; cat f
#### both
{ echo a; echo b >&2; } &> f; cat f; { echo c; echo d >&2; } &>> f; cat f; { echo e; echo g >&2; } >& f; cat f
#### order
{ echo a; echo b >&2; } 2>&1 > f; echo; cat f
#### ambiguous
x="a b"; echo hi > $x; echo $?; echo hi > $nosuch; echo $?
#### redirect error
echo hi > /nosuch/x; echo $?; cat < nosuch; echo $?; : > /nosuch/y && echo no; { echo a; } > /nosuch/z; echo $?
#### null command
> f; echo $?; cat f; < nosuch; echo $?; x=1 > /nosuch/a; echo $? $x
#### exec redirect
exec > f; echo hi; exec >&2; echo err; cat f
#### exec program
exec echo replaced; echo no
#### exec missing
exec nosuch; echo no
#### exec -a
exec -a foo bash -c 'echo $0'
#### eval
eval 'x=5; echo $x'; eval echo "a  b" '"c  d"'; eval; echo $?; eval 'false'; echo $?; eval 'exit 3'; echo no
#### eval syntax
eval 'echo )'; echo $?
#### source
echo 'echo in $1; x=7; return 4; echo no' > s; . ./s arg; echo $? $x; source ./nosuch; echo $?; . ./s; set -- p; . ./s; echo $1
#### source args
echo 'echo $#; shift; set -- q' > s; set -- a b; . ./s; echo $#; . ./s x y z; echo $#
#### caller
f() { caller; caller 0; caller 1; echo $?; }
g() {
f
}
g
#### LINENO
echo $LINENO
f() {
echo $LINENO
}
f; echo $LINENO
echo "$LINENO" \
  $LINENO
#### FUNCNAME
f() { echo ${FUNCNAME[@]} ${BASH_LINENO[@]} ${BASH_SOURCE[@]}; }; g() { f; }; g; echo "[${FUNCNAME[0]}]"
#### continue in the condition of until
for i in 1 2; do until continue; do echo x; done; echo "after $i"; done; echo end
#### continue 2 in the condition of until
for i in 1 2; do until continue 2; do echo x; break; done; echo no; done; echo end
#### break in a condition
for i in 1 2; do while break; do echo x; done; until break 2; do echo x; done; echo no; done; echo end
#### command exec with redirections
echo hi > f; command exec 8<f; cat <&8; builtin exec 9<f; cat <&9; echo $?
#### PPID in subshells
p=$PPID; (echo $((PPID == p))); echo $(($(echo $PPID) == p))
#### status in a case
false; case x in x) echo $? ;; esac; false; case $(exit 3) in "") echo $? ;; esac; false; case x in x) ;; esac; echo $?; false; case x in y) ;; esac; echo $?
#### status in traps
trap 'echo "t $?"' USR1; false; kill -USR1 $$; echo "after $?"; trap 'false' USR1; true; kill -USR1 $$; echo "after $?"; f() { trap 'echo "ret $?"' RETURN; return 3; }; f; echo "f $?"
