#### stdin script
printf 'echo a\nread x\nline one\necho "got $x"\nfor i in 1 2\ndo\necho $i\ndone\ncat\nrest\nof it\n' | bash
#### stdin heredoc
printf 'cat <<E\nfoo\nE\necho done $LINENO\n' | bash
#### stdin syntax
printf 'echo a\necho )\necho b\n' | bash; echo $?
#### file syntax
printf 'echo a\nif true; then\necho b\n' > s; bash s; echo $?; printf 'echo x\necho )\necho y\n' > s; bash s; echo $?; . ./s; echo $?
#### eof heredoc
cat <<E
abc
#### unterminated
echo 'abc
#### unterminated2
echo $(abc
#### unterm3
if true; then echo a
#### nested func def
f() { g() { echo g; }; g; }; f; g; unset -f g; g; type -t g
#### func names
a-b() { echo dash; }; a-b; function x.y { echo dot; }; x.y; function f() { echo both; }; f; function g { echo kw; }; g
#### func with subshell body
f() ( x=5; echo $x; exit 3 ); f; echo $? [$x]; g() if true; then echo if; fi; g; h() [[ a = a ]]; h; echo $?; k() for i in 1 2; do echo $i; done; k
#### declare -f
f() { echo a; if true; then echo b; fi; for i in 1 2; do echo $i; done > /dev/null; case $x in a|b) echo;; esac; }; declare -f f; type f
#### declare -f 2
f() { while read x; do :; done < file; until false; do break; done; [[ a == b && -f x ]]; ((x++)); (sub; shell) & { a; b; }; a && b || c; ! d | e; x=1 y=2 cmd "a b" 'c' > f 2>&1; cat <<E
hi $x
E
}; declare -f f
#### special assign
x=1 eval 'echo $x'; echo [$x]; x=2 :; echo [$x]; x=3 export y=1; echo [$x]; f() { echo $x; }; x=4 f; echo [$x]
#### special assign posix
set -o posix; x=1 eval 'echo $x'; echo [$x]; x=2 :; echo [$x]; f() { echo $x; }; x=4 f; echo [$x]
#### env assign
x=1 bash -c 'echo $x'; echo [$x]; x=1 y=$x; echo [$y]; A=1 B=2 env | while read l; do case $l in A=*|B=*) echo $l;; esac; done
#### readonly assign
readonly r=1; r=2; echo no
#### readonly assign 2
readonly r=1
r=2
echo $? next
r=3 echo hi; echo $?
(r=4; echo no); echo $?
f() { r=5; echo infunc; }
f
echo end
#### assign status
x=$(false); echo $?; x=$(exit 3) y=$(exit 4); echo $?; x=1; echo $?; false; x=; echo $?; x=$(false) true; echo $?
#### pipeline negation
! false; echo $?; ! true | false; echo $?; ! ! true; echo $?; if ! false; then echo y; fi
#### and or chain
false && echo a || echo b && echo c; true || echo a && echo b; { false || true; } && echo d; true && ! false && echo e
#### background list
{ false || echo x; } & wait; (echo a; echo b) & wait; echo c | cat & wait; x=1 & wait; for i in 1 2; do echo $i; done & wait; true && echo q & wait
#### status of bg
(exit 3) & p=$!; sleep 0.05; wait $p; echo $?; wait $p; echo $?
#### subshell levels
echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)); echo $(echo $BASH_SUBSHELL) ; { echo $BASH_SUBSHELL; } | cat
#### pid
[ $$ = $(echo $$) ] && echo same; (b=$BASHPID; [ $b != $$ ] && echo diff); [ $BASHPID = $$ ] && echo same
#### last arg
echo a b c; echo $_; : x y; echo $_; f() { :; }; f q; echo $_; x=1; echo $_
#### dash dash help
cd --help | head -1; type --help 2>&1 | head -1; echo --help; true --help; echo $?; set --help 2>&1 | head -1
#### redirect to fd
echo a >&2; echo b 2>&1; echo c >&1; echo d >&9; echo $?; echo e 9>&1 >&9
#### redirect multiple
echo a > x > y; cat x y; echo b >x 2>y; cat < x < y; { echo 1; echo 2 >&2; } > o 2> e; cat o e
#### redirect in function def
f() { echo a; echo b >&2; } > o 2>&1; f; cat o; f() { cat; } < o; f
#### redirect loops
for i in 1 2 3; do echo $i; done > o; while read l; do echo "r $l"; done < o; if true; then echo x; fi > o; cat o; case a in a) echo c;; esac >> o; cat o; (echo s) >> o; cat o
#### heredoc in loop
for i in 1 2; do cat <<E
i=$i
E
done
#### heredoc pipe
cat <<E | cat
a
E
echo b
#### heredoc quoted
x=1; cat <<"E"
$x \a
E
cat <<E
\$x \\ \a "q" 'q' $(echo "sub") ${x:-"d"} $((x+1))
E
cat <<\E
$x
E
#### heredoc tabs
if true; then
	cat <<-E
		a
	  b
	E
fi
#### herestring multi
read a b <<< "1 2"; echo $a $b; cat <<< ""; cat <<<"x
y"
#### noclobber devnull
set -C; echo a > /dev/null; echo $?; echo a > f; echo b > f; echo $?; echo b &> f; echo $?; echo c >> f; echo d <> f; cat f
#### errors lines
echo a
nosuch
  nosuch2
(nosuch3)
f() {
  nosuch4
  cd /nosuch
}
f
x=$(nosuch5)
eval nosuch6
eval 'true
nosuch7'
#### if elif
if false; then echo 1; elif true; then echo 2; else echo 3; fi; if false; then :; fi; echo $?; if nosuch; then :; else echo e $?; fi 2>/dev/null
#### while status
while false; do :; done; echo $?; i=0; while [ $i -lt 2 ]; do i=$((i+1)); false; done; echo $?; for i in; do :; done; echo $?; until true; do :; done; echo $?
#### continue in while cond
i=0; while i=$((i+1)); [ $i -lt 4 ]; do [ $i = 2 ] && continue; echo $i; done
#### break in case in loop
for i in 1 2 3; do case $i in 2) break;; esac; echo $i; done; while :; do if true; then break; fi; done; echo ok
#### break from function in loop
f() { break; }; for i in 1 2; do f; echo $i; done 2>&1
#### return in subshell
f() { (return 3); echo $?; return 4 | cat; echo $?; }; f; echo $?
#### exit codes
(exit 256); echo $?; (exit -1); echo $?; bash -c 'exit 300'; echo $?; f() { return -1; }; f; echo $?
#### exit in if
if (exit 3); then :; else echo $?; fi; true; (exit) ; echo $?; false; (exit); echo $?
#### nested quotes in subst
echo "$(echo "a $(echo "b c")")"; echo "`echo "x y"`"; x='a  b'; echo $(echo "$x") "$(echo $x)"
#### comsub trailing
x=$(printf 'a\n\n\n'); echo "[$x]"; x=$(printf '\n\na'); echo "[$x]"; x=`printf 'a\\\\nb'`; echo "$x"
#### comsub null
x=$(printf 'a\0b'); echo "$x"
#### comsub exit
x=$(echo a; exit 3; echo b); echo $? $x; echo $(exit 4)$?; false; echo $(echo $?)
#### comsub bg
x=$(sleep 0.1 & echo hi); echo $x; x=$( (sleep 0.1; echo late) & echo early); echo $x
#### comsub case
x=$(case a in a) echo yes;; esac); echo $x; echo $(if true; then echo a; fi) $(for i in 1 2; do echo $i; done)
#### comsub comment
echo $(echo a # comment )
)
#### procsub write
echo hi > >(cat > o); sleep 0.1; cat o; { echo a; echo b; } > >(while read l; do echo "[$l]"; done); sleep 0.1
#### procsub nested
cat <(cat <(echo deep)); f() { cat $1 $2; }; f <(echo 1) <(echo 2); read x < <(echo y); echo $x
#### procsub exit
cat <(exit 3); echo $?
#### let
let x=1+2 y=x*2; echo $x $y; let 'z = 0'; echo $?; ((0)); echo $?; ((5)); echo $?; ((1/0)); echo $?; echo after
#### select eof
select x in a b; do echo $x; done < /dev/null; echo $?
#### time fmt
TIMEFORMAT='r%0R'; time sleep 0.01; TIMEFORMAT=; time true; time; echo x
#### test v
shopt -s nosuch; echo $?; set -o nosuch; echo $?; set -Z; echo $?
#### set minus
set -x; set +x; set -; set -u -e; echo $-; set +eu; echo $-
#### lineno multi
echo $LINENO; echo "
$LINENO"; echo $LINENO
f() { echo $LINENO; }
f
eval 'echo $LINENO
echo $LINENO'
#### shift all
set -- a b c; while [ $# -gt 0 ]; do echo $1; shift; done; shift; echo $?
#### args
set -- 'a b' c; for x in "$@"; do echo "[$x]"; done; for x in $*; do echo "[$x]"; done; echo "$*"; IFS=,; echo "$*"; echo "${#@}" ${@:2}
#### getopts
while getopts ab:c o -a -b x -- y; do echo $o $OPTARG; done; echo $OPTIND
