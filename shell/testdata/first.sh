#### echo
echo hi
#### vars
x=1; y=$x; echo $x $y "$x$y"
#### pipe
echo a | cat | cat; echo ${PIPESTATUS[@]}
#### loop
for i in 1 2 3; do echo $i; done; i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done
#### func
f() { echo "f $1"; return 3; }; f x; echo $?
#### subst
echo $(echo a; echo b) `echo c`
#### redirect
echo hi > f; cat < f; echo more >> f; cat f; cat nosuch; echo $?; cat <<< "here $x"; cat <<X
doc $((1+2))
X
#### notfound
nosuchcmd; echo $?; ./nosuch; echo $?; /tmp; echo $?
#### exit
echo a; exit 3; echo b
#### case
case abc in a*) echo yes;; *) echo no;; esac
#### sub
(x=5; echo $x; exit 4); echo $? $x
#### andor
true && echo a || echo b; false && echo a || echo b; ! true; echo $?
#### bg
sleep 0.05 & wait $!; echo $?; (exit 3) & wait $!; echo $?
#### syntax
echo ok
echo )
