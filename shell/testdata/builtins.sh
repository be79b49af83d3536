#### brk
for i in 1 2; do break x; done; echo $?
echo $?
#### brk2
for i in 1 2; do break 1 2; done; echo $?
echo $?
#### brk3
for i in 1 2; do break 0; echo x; done; echo $?
#### exitx
(exit x); echo $?; (exit 1 2); echo $?; exit -1
#### retx
f() { return x; echo no; }; f; echo $?; g() { return 1 2; echo in; }; g; echo $?; h() { return 256; }; h; echo $?
#### shiftx
set -- a b; shift x; echo $? $#
echo $?
#### cd
mkdir -p a/b; cd a/b; pwd; cd ..; pwd; cd -; cd; pwd; cd ../a; cd ./b/../b; pwd; echo $PWD $OLDPWD; cd nosuch; echo $?; cd a b; echo $?; cd ''; pwd
#### cd link
mkdir -p real/sub; : > file; cd file; echo $?
#### pushd
mkdir -p a b; pushd a; pushd ../b; dirs; dirs -v; dirs -p; pushd; popd; popd; popd; echo $?; pushd nosuch; echo $?
#### type
f() { echo; }; alias ll='ls -l'; type f cd if; type -t f cd if nosuch; echo $?; type nosuch; command -v f cd if; command -V cd; command -v nosuch; echo $?
#### type alias
shopt -s expand_aliases
alias ll='echo -l'
type ll; type -t ll; command -v ll; ll x; alias; alias ll nosuch; unalias ll; unalias ll; alias x=
#### alias trailing
shopt -s expand_aliases
alias e='echo ' f=foo
e f
alias -p
#### alias name
alias 'a/b=c'; echo $?
#### hash
hash; hash cat; hash; hash -t cat; hash -d cat; hash; hash nosuch; echo $?; hash -p /bin/foo bar; hash -l
#### umask
umask; umask 077; umask; umask -S; umask u=rwx,g=rx,o=; umask; umask -p; umask 999; echo $?; umask g+w; umask
#### trap p
trap 'echo a' USR1 INT; trap -p; trap; trap - INT; trap -p; trap '' TERM; trap -p TERM; trap 'x' NOSUCH; echo $?; trap 2
#### trap signal
trap 'echo got $?' USR1; kill -USR1 $$; echo after; kill -s USR1 $$; kill -10 $$
#### trap exit in handler
trap 'echo h; exit 5' USR1; kill -USR1 $$; echo no
#### trap return
trap 'echo R $?' RETURN; f() { return 3; }; f; set -T; f; echo . ; echo 'echo s' > s; . ./s
#### trap debug
trap 'echo D $BASH_COMMAND' DEBUG; x=1; echo a; for i in 1 2; do :; done; f() { echo in; }; f; (echo sub); ((x++)); [[ a ]]; case a in a) ;; esac; trap - DEBUG; echo z
#### trap reset in sub
trap 'echo t' USR1; (kill -USR1 $BASHPID; echo no); echo $?
#### trap ignore
trap '' USR1; (kill -USR1 $BASHPID; echo survived); kill -USR1 $$; echo ok
#### kill list
kill -l 9 15 137 TERM SIGKILL; kill -l nosuch; kill; echo $?; kill -9 nosuch; echo $?; kill -NOSUCH 1; echo $?; kill 999999; echo $?
#### trap -l
trap -l | { read a; read b; echo "$b"; }; kill -l | head -1
#### jobs
sleep 0.3 & jobs; wait; jobs; echo $?
#### jobs multi
sleep 0.2 & sleep 0.3 & jobs %1; jobs -r; jobs %5; echo $?; kill %1; wait %1; echo $?; jobs; wait; echo $?
#### wait -n
(sleep 0.1; exit 3) & (sleep 0.3; exit 4) & wait -n; echo $?; wait -n; echo $?; wait -n; echo $?
#### wait -p
(exit 7) & p=$!; wait -p v $p; echo $? $([ $v = $p ] && echo same); wait 99999; echo $?; wait x; echo $?; wait %3; echo $?
#### wait multiple
(exit 1) & a=$!; (exit 2) & b=$!; wait $a $b; echo $?; wait $a; echo $?
#### wait signal
trap 'echo trap' USR1; (sleep 0.1; kill -USR1 $$) & wait; echo $?; wait
#### bg status
false & wait $!; echo $?; { exit 9; } & wait $!; echo $?; (sleep 5) & kill $!; wait $!; echo $?
#### disown
sleep 0.1 & disown; jobs; disown; echo $?; fg; echo $?; bg; echo $?
#### bg stdin
cat & wait; echo end
#### bg order
{ sleep 0.1; echo bg; } & echo fg; wait
#### dollar bang
echo "[$!]"; : & [ -n "$!" ] && echo set
#### command
command echo a; command -p cat <<< x; f() { echo f; }; echo() { builtin echo mine; }; command echo b; echo c; command; command nosuch; builtin echo d; builtin nosuch
#### enable
enable -n echo; enable -n; type -t echo; enable echo; type -t echo; enable nosuch
#### help
help true > /dev/null; echo $?; help nosuch; echo $?
#### ulimit
ulimit -n 200; ulimit -n; ulimit -c
#### times
times | { read a b; echo ok; }
#### exit in sub
x=$(exit 5); echo $?; (exit 6); echo $?; { exit 7; } | cat; echo ${PIPESTATUS[0]}
#### positional ten
set -- 1 2 3 4 5 6 7 8 9 10 11; echo $10 ${10} ${11}
#### comments
echo a # b
# c
echo a#b
#### lines
echo a \
b; echo 'x
y'
#### subshell env
x=1; (x=2; y=3); echo $x $y; { x=4; }; echo $x
#### cmdsubst nested
echo $(echo $(echo $(echo deep))); echo `echo \`echo q\``; echo "$(echo "a b")"
#### cmdsubst file
echo data > f; echo $(<f); echo $(< nosuch); echo $?; x=$(<f); echo $x
#### procsub
cat <(echo a) <(echo b); echo x > >(cat); sleep 0.1; while read l; do echo "l $l"; done < <(echo 1; echo 2)
#### script file
printf 'echo $0 $1 $#\nnosuchx\nf() {\nnosuchy\n}\nf\n' > s.sh; bash s.sh a b; bash ./s.sh; chmod +x s.sh; ./s.sh q; bash nosuch.sh; echo $?
#### shebang
printf '#!/bin/bash\necho $0 $@\n' > s; chmod +x s; ./s a; printf '#!/nosuch/i\n' > t; chmod +x t; ./t; echo $?; printf '#!/bin/cat\nhi\n' > u; chmod +x u; ./u
#### noexec bit
echo 'echo hi' > s; ./s; echo $?; bash s
#### sh -c
sh -c 'echo $0 $1' name arg; bash -c 'exit 4'; echo $?; bash -c; echo $?; bash -c 'echo $#' x 1 2 3; bash -ec 'false; echo no'; echo $?; bash -x -c 'echo t'
#### bash stdin
echo 'echo a; read x; echo "[$x]"' > s; printf 'echo a\nread x\nline\necho $x\n' | bash; echo 'echo $1' | bash -s arg; bash < s
