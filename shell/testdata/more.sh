#### a4
PS4='[${FUNCNAME[0]}:$LINENO] '
set -x
f() {
  echo in
}
f
#### a5
set -ex; false; echo no
#### a6
set -v; echo a; echo b
# comment
echo c
#### b1
shopt -u expand_aliases
alias x='echo hi'
x
#### b2
echo $-; set -k; echo $-; set +k; set -B; set +B; echo {a,b}; set -h; set +h; hash; set -P; set -H; set +H; echo $-
#### b3
set -o noglob -o nounset; echo * $-; set +o noglob +o nounset; set -f -C; set -o | while read n v; do [ $v = on ] && echo $n; done
#### b4
set -t; echo a; echo b
echo c
#### b5
set a b; set -- ; echo $#; set - x y; echo $1; set -e -- q; echo $1 $-; set +e; set -o nosuch; echo $?; set -o 'no such'
#### b7
shopt -po errexit; shopt -so errexit; echo $-; shopt -uo errexit; shopt -qo errexit; echo $?; shopt -s -u x; echo $?
#### c1
echo "pid" $(( $$ > 0 )) $(( PPID >= 0 )) ${#BASH_VERSINFO[@]} $BASH_VERSION; [[ $RANDOM -ge 0 ]] && echo r; echo ${BASH##*/} $OSTYPE $MACHTYPE $HOSTTYPE $UID $EUID
#### c2
echo $SHLVL; bash -c 'echo $SHLVL'; (echo $SHLVL)
#### c3
echo "$@" $# $* "$*"; set -- a; echo ${1+x} ${2+y} ${2-z}
#### c4
f() { echo "$FUNCNAME" "${FUNCNAME[1]}"; }; f; g() { f; }; g; ( f ); x=$(f); echo $x
#### d1
exec 3< <(echo a; echo b); read x <&3; read y <&3; echo $x $y; exec 3<&-
#### d2
f() { exec > out; echo in; }; (f); echo visible; cat out
#### d3
{ echo 1; exec >&2; echo 2; } > f; cat f; echo 3
#### d4
exec 3>&1; x=$(echo cap; echo direct >&3); echo "x=$x"; exec 3>&-
#### d6
exec 9>f; echo a >&9; exec 10>&9; echo b >&10; exec 9>&-; echo c >&10; cat f; echo d 11>g >&11; cat g
#### d7
cat 0<<< fd0; cat 3<<< fd3 <&3; read -u 4 x 4<<< four; echo $x
#### d8
echo x >f; cat <f >f; cat f; echo "empty: $?"
#### d9
> a > b > c; echo *; echo >d x; cat d; 2>&1 nosuchcmd | cat
#### d10
for x in 1 2; do echo $x; done >f 2>&1 </dev/null; cat f; f() { cat; } <<E
func doc
E
f; f
#### e1
trap 'echo int; exit 9' INT; kill -INT $$; echo no
#### e2
trap 'echo a' HUP; trap; kill -HUP $$; (kill -HUP $$); echo b
#### e3
trap "echo 'single q'" EXIT; trap -p EXIT
#### e4
f() { trap 'echo ret' RETURN; echo body; }; f; g() { echo g; }; g
#### e5
trap 'echo err; trap - ERR' ERR; false; false; echo end
#### e6
trap 'x=$?; echo "exit $x"; exit $((x+1))' EXIT; (exit 5)
#### e7
trap 'return 5' USR1; f() { kill -USR1 $$; echo after; }; f; echo $?
#### e8
trap 'break' USR1; for i in 1 2 3; do echo $i; kill -USR1 $$; done; echo end
#### e9
trap 'echo chld' CHLD; (true); true & wait; echo end
#### e10
( trap 'echo sub exit' EXIT; kill -TERM $BASHPID; sleep 1 ); echo $?
#### e11
bash -c 'trap "echo bye" EXIT; kill -TERM $$; sleep 1'; echo $?; bash -c 'trap "echo bye" EXIT; set -e; false'; echo $?
#### e12
trap 'echo D' DEBUG; f() { echo f; }; f; set -o functrace; f; trap - DEBUG
#### f1
(exit 3) | (exit 4); echo ${PIPESTATUS[@]} $?; true | false | true; echo "${PIPESTATUS[@]}"; x=(${PIPESTATUS[@]}); : ; echo ${#PIPESTATUS[@]}; if true | false; then :; fi; echo ${PIPESTATUS[@]}
#### f2
echo a | (read x; exit 3) || echo f $?; ! (exit 2) && echo n; (true && false) || echo o; { false; true; } && echo p
#### f3
time (true; exit 3) 2>/dev/null; echo $?; { time ! false; } 2>/dev/null; echo $?
#### f4
a() { echo a; return 1; }; b() { echo b; }; a && b; a || b; ! a; echo $?; if a; then b; else echo c; fi; while a; do :; done; echo $?
#### f5
i=0; until [ $((i++)) -ge 2 ]; do echo $i; done; echo "i=$i $?"
#### f6
for i in a b; do for i in c d; do echo $i; done; done; echo $i; for f in "x y" z; do echo "$f"; done; for i in; do echo no; done; for i
do echo no; done; set -- p; for i
do echo $i; done
#### g1
cat <<-E
	a
		b	c
	$(echo d)
	E
cat <<'a b'
q
a b
cat <<E$x"y"
lit
E$xy
#### g3
cat << E ; echo after
1
E
(cat <<E)
2
E
{ cat <<E; }
3
E
if cat <<E; then echo t; fi
4
E
f() { cat <<E
$1
E
}; f 5
#### g4
x=$(cat <<E
a 'b "c
E
)
echo "$x"; y=`cat <<E
d
E
`; echo $y
#### h1
echo one; eval "echo two
echo three"; eval 'f() { echo $1; }' ; f four; eval "eval 'echo five'"; x='echo six | cat'; eval $x; eval "for i in 7 8; do echo \$i; done"
#### h2
eval 'return 3'; echo $?; f() { eval 'return 4'; echo no; }; f; echo $?; for i in 1 2; do eval continue; echo no; done; eval 'break'; for i in 1 2; do eval 'break'; done; echo $i
#### h3
echo 'x=1; f() { echo lib; }; return 2' > lib; . ./lib; echo $? $x; f; g() { . ./lib; echo $?; }; g; echo 'set -- z; echo $1; shift' > lib2; set -- q r; . ./lib2; echo $# $1; . ./lib2 arg; echo $1
#### h4
echo 'exit 5' > lib; (. ./lib; echo no); echo $?; echo 'break' > lib; for i in 1 2; do . ./lib; done; echo $i; echo 'false' > lib; set -e; . ./lib; echo no
