#### xtrace PS4
PS4='+$LINENO '; set -x
echo a
f() {
echo b
}
f
#### xtrace nested
set -x; echo $(echo $(echo a)); eval eval echo b; x=$(y=1; echo $y)
#### xtracefd
exec 5> tr; BASH_XTRACEFD=5; set -x; echo a; set +x; cat tr
#### xtrace quote
set -x; echo '' ' ' a\\b '$x' "a'b" 'a"b' $'\t' '*' '!' '#' a#b '~' '{a}' 'a;b' '=' 'x=y' é '^' '%' ',' '@'
#### alias in func
shopt -s expand_aliases
alias z='echo first'
f() { z; }
alias z='echo second'
f; z
#### alias recursion
shopt -s expand_aliases
alias echo='echo e'
echo a
alias x='y 1' y='x 2'
x 2>/dev/null; echo e $?
#### command_not_found
command_not_found_handle() { echo "nf $*"; return 5; }; nosuch a b; echo $?; x=$(nosuch q); echo $x
#### exec fd
exec 3>&1; echo a >&3; exec 3>&-; exec 4<<< "x
y"; read a <&4; read b <&4; echo $a $b
#### exec err
exec 2> err; nosuch; echo done; cat err
#### exec in sub
(exec echo sub); echo after; (exec > f; echo q); cat f; echo still
#### exec fail
exec ./nosuch; echo no
#### exec fail execfail
shopt -s execfail; exec nosuch; echo yes $?
#### exec redirect fail
exec < nosuch; echo $?
#### exec -c
x=1; export x; exec -c env
#### exec login
exec -l bash -c 'echo $0'
#### trap exit order
trap 'echo E' EXIT; f() { trap 'echo F' EXIT; }; f; exit 0
#### trap exit code
trap 'echo $?' EXIT; false
#### trap exit syntax err
trap 'echo E' EXIT; eval ')' 2>/dev/null; echo $?
#### trap err details
trap 'echo "E $LINENO $?"' ERR
false
(exit 3)
x=$(false)
[[ a = b ]]
((0))
f() { return 2; }
f
false | true
true | false
! true
if false; then :; fi
false && true
false || false
#### trap int default
trap - INT; trap; trap '' INT; trap; (trap); trap INT; trap
#### trap in function
f() { trap 'echo T' USR1; }; f; kill -USR1 $$
#### trap names
trap 'echo x' SIGUSR1 usr2 12 0; trap -p; trap - EXIT USR1
#### trap multi
trap 'echo 1' USR1; trap 'echo 2' USR2; kill -USR2 $$; kill -USR1 $$; trap - USR1 USR2
#### trap and wait builtin
trap 'echo got' TERM; sleep 5 & p=$!; kill -TERM $$; kill $p; wait $p; echo $?
#### trap return val
trap 'false' USR1; true; kill -USR1 $$; echo $?
#### trap set in sub
(trap 'echo sub' EXIT); trap 'echo main' EXIT; (echo x); x=$(trap); echo "$x"
#### debug extdebug
shopt -s extdebug; trap '[[ $BASH_COMMAND != "echo b" ]]' DEBUG; echo a; echo b; echo c
#### return trap source
trap 'echo R' RETURN; echo 'echo s' > s; . ./s; f() { :; }; declare -ft f; f; g() { :; }; g
#### set e subtle
set -e; f() { false; echo f; }; if f; then :; fi; f || :; ! f; f && :; echo "$(f)"; x=$(f) || true; echo $x; (f; echo sub) || echo or; while f; do break; done; f; echo no
#### set e in subshell cond
set -e; (set +e; false; echo a); (false; echo no) || echo b; if (false; echo c); then echo d; fi
#### set e pipeline last
set -e; true | false | true; echo a; { false; echo no; } | cat; echo b
#### set e redirect
set -e; echo a > /nosuch/f; echo no
#### set e assignment comsub
set -e; x=$(exit 3); echo no
#### set e cmd not found
set -e; nosuch; echo no
#### set e arithmetic
set -e; ((1)); ((0)); echo no
#### set e let
set -e; i=0; let i++ || true; ((i--)) || true; echo $i; [[ a = b ]] || echo ok; [[ a = b ]]; echo no
#### set e bg
set -e; false & wait $! || echo w; false & wait; echo x; false & wait $!; echo no
#### set e func in sub
set -e; f() { (false); echo no; }; f; echo no
#### set e exit trap
set -e; trap 'echo t $?' EXIT ERR; f() { false; }; f
#### set -u kinds
set -u; echo ${#x}
#### set -u arrays
set -u; a=(); echo "${a[@]}"; echo $#; echo "$@"; echo ${a[0]}
#### set -u cond
set -u; [[ -n $x ]]; echo no
#### pipefail multi
set -o pipefail; (exit 3) | (exit 0) | (exit 5) | true; echo $?; true | (exit 2) | true && echo no; if (exit 4) | true; then :; else echo $?; fi
#### inherit opts
set -euo pipefail; (echo $-; shopt -o pipefail); bash -c 'echo $-'; echo $SHELLOPTS
#### SHELLOPTS export
export SHELLOPTS; set -u; bash -c 'echo $x; echo no'
#### local dash
f() { local -; set -f; echo $-; }; f; echo $-
#### posix exit
set -o posix; . ./nosuch; echo no
#### posix special
set -o posix; export 1a=2; echo no
#### posix readonly
set -o posix
readonly x=1
x=2
echo no
#### posix function name
set -o posix
eval() { :; }
echo no
#### coproc read write
coproc { while read l; do echo "[$l]"; done; }; echo a >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x; echo b >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x; eval "exec ${COPROC[1]}>&-"; wait $COPROC_PID; echo $? ${COPROC[0]-none}
#### coproc simple
coproc cat; echo hi >&"${COPROC[1]}"; exec {COPROC[1]}>&-; cat <&"${COPROC[0]}"
#### jobs text
sleep 0.2 | cat & jobs; { sleep 0.1; echo x; } & jobs; wait; (sleep 0.1; true) & jobs; wait; f() { sleep 0.1; }; f a 'b c' & jobs; wait
#### job spec
sleep 0.1 & sleep 0.2 & kill %sleep; echo $?; kill %?0.2; wait %2; echo $?; kill %9; echo $?; wait
#### set -m notify
set -m; true & sleep 0.2; echo x; jobs
#### kill 0
(kill -0 $$) && echo alive; kill -0 99999; echo $?; sleep 1 & kill -0 $!; echo $?; kill $!
#### hash after path
mkdir d; echo 'echo d' > d/cmd1; chmod +x d/cmd1; PATH=$PATH:$PWD/d; cmd1; hash -t cmd1 | while read x; do echo ${x##*/}; done; rm d/cmd1; cmd1; echo $?
#### PATH empty
PATH=; cat x; echo $?; PATH=/bin; cat /dev/null; echo $?; unset PATH; cat /dev/null; echo $?
#### PATH prefix
mkdir d; echo 'echo d' > d/cmd1; chmod +x d/cmd1; PATH=$PWD/d:$PATH cmd1; cmd1; echo $?
#### dot script in path
mkdir d; echo 'echo sourced' > d/lib.sh; PATH=$PATH:$PWD/d; . lib.sh; . nosuch.sh; echo $?
#### script args
echo 'echo $# "$@" $0' > s; bash s 'a b' c; bash -s <s x y; bash -c 'echo $0 $@' a b c; sh s
#### script exit trap
echo 'trap "echo bye" EXIT; echo hi; exit 4' > s; bash s; echo $?
#### dollar zero
echo $0; f() { echo $0; }; f; bash -c 'echo $0'; echo 'echo $0' > s; . ./s
#### BASH_SOURCE
echo 'echo ${BASH_SOURCE[@]} $LINENO; f() { echo ${BASH_SOURCE[@]} ${FUNCNAME[@]} ${BASH_LINENO[@]}; }; f' > s; bash s; . ./s; f
#### caller in script
printf 'f() {\ncaller 0; caller 1; caller\n}\ng() {\nf\n}\ng\n' > s; bash s
#### BASH_COMMAND
echo $BASH_COMMAND; x=$BASH_COMMAND; echo "$x"; trap 'echo "$BASH_COMMAND"' EXIT; echo last
#### dirstack var
mkdir a b; cd a; pushd ../b > /dev/null; echo ${DIRSTACK[1]##*/} ${#DIRSTACK[@]}
