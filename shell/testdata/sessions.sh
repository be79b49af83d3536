#### e1
set -E; trap 'echo "err in ${FUNCNAME[0]:-main}"' ERR; f() { false; }; g() { f; }; g
#### e2
set -E; trap 'echo "err"' ERR;  (false)
#### e3
set -E; trap 'echo "err"' ERR;  $(false)
#### e4
set -E; trap 'echo "err"' ERR;  echo x | false
#### e5
set -E; trap 'echo "err"' ERR;  { false; }
#### e6
set -E; trap 'echo "err"' ERR; while false; do :; done; [ 1 = 2 ]
#### e7
set -E; trap 'echo "err"' ERR;  true && false || false
#### e9
set -E; trap 'echo "err"' ERR; x=$(false); f() { return 2; }; f; eval false; x=$(f)
#### h1
trap 'echo "err"' ERR; eval false
#### h2
trap 'echo "err"' ERR; . /dev/stdin <<< 'false'
#### h3
trap 'echo "err"' ERR; command false; builtin false; f() { false; }; f
#### h4
trap 'echo "err"' ERR; x=$(false); $(false)
#### h5
set -E; trap 'echo "err"' ERR; f() { false; }; f | cat; f | f; f & wait $!; false & wait $!; (f); { false; } | cat
#### h6
set -e; eval false; echo no
#### h7
set -e; f() { false; }; f | cat; echo ok; cat <(false); echo ok2
#### r1
echo 'echo env $0' > be; BASH_ENV=./be bash -c 'echo main'; echo 'echo main2' > s; BASH_ENV=./be bash s; BASH_ENV=./nosuch bash -c 'echo q'; BASH_ENV=./be bash --posix -c 'echo posix'
#### r2
echo 'echo prof' > ~/.bash_profile; echo 'echo rc' > ~/.bashrc; bash -c 'echo a'; bash -l -c 'echo b'; bash --login --noprofile -c 'echo c'
#### r3
umask 022; : > a; mkdir d; umask 077; : > b; stat_() { [ -x $1 ] && echo x; }; ls_=1; (umask 0; umask); umask; bash -c umask; umask -S u=rw; umask; umask 0022; umask a-w; umask
#### r4
set -o history; echo a; history | while read n c; do echo "$c"; done
#### r5
history -s 'echo one'; history -s 'echo two'; history; history -d 1; history; fc -l; fc -s echo; history -c; history; history x; echo $?
#### r7
exec 3<>f; echo hello >&3; exec 3>&-; read x < f; echo $x; cat 0< f; cat <<< $x 1>&2 2>g
#### r8
f() { caller 0; echo "${BASH_LINENO[@]}" "${FUNCNAME[@]}"; }
g() {
  f
}
g
echo "${#FUNCNAME[@]}" "${BASH_SOURCE[0]}"
#### r9
printf 'f() {\n  echo "${FUNCNAME[*]} ${BASH_LINENO[*]} ${BASH_SOURCE[*]}"\n  caller\n}\nsource ./t\n' > s; printf 'g() {\n f\n}\ng\n' > t; bash s
#### r10
trap 'echo "line $LINENO cmd $BASH_COMMAND"' ERR
true
f() {
  false
}
f || true
f
x=$(false; echo a)
#### r11
kill -l TERM; kill -l 143; kill -l EXIT; kill -l 0; kill -s TERM; echo $?; kill -15; echo $?; kill -n 0 $$; echo $?; kill -SIGTERM 999999; echo $?; kill -s NOPE $$; echo $?; kill %1; echo $?; kill -l RTMIN RTMAX 34 64 65
#### r13
(trap '' TERM; sleep 0.2; echo survived) & sleep 0.05; kill $!; wait $!; echo $?
#### r15
f() { sleep 0.05; return 7; }; f & wait $!; echo $?; { f; } & wait %%; echo $?; f | f & wait; echo $?; ! f & wait $!; echo $?
#### r17
trap 'echo w' USR1; (sleep 0.1; kill -USR1 $$; sleep 0.1) & p=$!; wait $p; echo $?; wait $p; echo $?
#### r18
x=$(trap 'echo t' EXIT; exit 3); echo $? $x; echo "$(trap 'echo in' EXIT; echo body)"; (trap 'exit 4' EXIT; exit 3); echo $?; f() { trap 'echo fexit' EXIT; }; (f; echo sub)
#### r19
set -e; f() { trap 'echo cleanup; trap - EXIT' EXIT; false; echo no; }; f; echo no
#### r21
set -o errexit -o pipefail; trap 'echo E; exit 9' ERR; x() { return 3; }; x | cat; echo no
#### r22
for i in 1 2 3; do (exit $i) || { echo "fail $i"; continue; }; done; for f in a b; do { [ $f = b ] && break; echo $f; }; done; while read -r x; do [ "$x" = two ] && continue; echo "$x"; done <<< $'one\ntwo\nthree'
#### r23
echo ${BASH_VERSINFO[0]} ${BASH_VERSION%%.*} ${SHELL+set} ${HOSTNAME+set} ${PWD+set} ${IFS+set} ${OPTIND} ${PS1-nops1} ${PS2-} ${PS4} ${PPID+set} ${LINES-} ${SECONDS} ${DIRSTACK+x} ${GROUPS+g} ${BASHOPTS+b} ${_+u}
#### r25
export A=1; B=2; env | { while read l; do case $l in A=*|B=*) echo $l;; esac; done; }; A=3 B=4 bash -c 'echo $A$B'; export -n A; bash -c 'echo ${A-unset}'; declare -x C=5; bash -c 'echo $C'; export D; D=6; bash -c 'echo $D'
#### r26
a=1 b=2 c=$((a+b)); echo $c; a=5 echo $a; a=6 eval 'echo $a'; x=1 y=$x z=$y; echo $z; p=~/x; echo $p; q=a*; echo "$q"; r="a  b"; s=$r; echo "$s"
#### r27
cat << EOF1 << EOF2
one
EOF1
two
EOF2
cat <<EOF; echo "after"
${undefined:-default
multi}
EOF
#### r28
func_with_heredoc() {
	cat <<-END
	indented $1
		more
	END
}
func_with_heredoc arg; declare -f func_with_heredoc | cat
#### r30
if [[ $'\n' == $'\n' ]]; then echo nl; fi; [[ "a b" == "a b" ]] && echo sp; [[ abc == [a-c]* ]] && echo cls; [[ a.c =~ a\.c ]] && echo re; [[ "x" =~ "x" ]] && echo q; re='^[0-9]+$'; [[ 123 =~ $re ]] && echo "${BASH_REMATCH[0]}"; [[ -z $unset && -n "x" ]] && echo zn; [[ 10 -gt 9 ]] && echo gt; [[ b > a ]] && echo str
#### r31
coproc P { while read x; do echo "r:$x"; [ "$x" = q ] && break; done; }; echo a >&"${P[1]}"; read r <&"${P[0]}"; echo $r; echo q >&"${P[1]}"; read r <&"${P[0]}"; echo $r; wait $P_PID; echo $?
#### r33
select x in a b; do case $x in a) echo A; break;; "") echo inv $REPLY;; esac; done <<< $'9\n1'
#### r34
time_test() { TIMEFORMAT=%R; { time sleep 0.1; } 2>&1 | { read t; case $t in 0.1*) echo ok;; *) echo bad $t;; esac; }; }; time_test
#### r35
shopt -s nocasematch; case ABC in abc) echo m;; esac; [[ ABC == abc ]] && echo m2; shopt -u nocasematch; shopt -s nocaseglob; : > FiLe; echo f*; shopt -s failglob; echo nomatch*; echo after
#### r36
exec {a}<<< x {b}<<< y; cat <&$a; cat <&$b; exec {a}<&- {b}<&-; echo z >&$a
#### r38
a() { b; }; b() { c; }; c() { local i=0; while caller $i; do ((i++)); done; }; a
