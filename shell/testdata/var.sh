#### var 1
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
x=1; f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
#### var 2
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
x=2 f; declare -p x
#### var 3
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
echo ---; g(){ unset x; echo "x=$x"; x=9; }; x=5 g; echo $x
#### var 4
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
echo ---; h(){ x=7; declare -p x; }; x=5 h; declare -p x
#### var 5
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
echo ---; x=5 eval 'declare -p x; x=8; declare -p x'; declare -p x
#### var 6
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
echo ---; k(){ local x=3; l; echo k$x; }; l(){ unset x; echo l$x; x=4; echo l$x; unset x; echo l$x; }; x=1; k; echo $x
#### var 7
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
echo ---; declare -A a=([one]=1 [two]=2 [three]=3 [four]=4 [five]=5 [six]=6 [seven]=7); declare -p a; echo "${!a[@]}"
#### var 8
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
b=(1 2 3); b[10]=x; declare -p b; unset 'b[1]'; declare -p b; b+=(q); declare -p b; declare -a c; declare -p c; declare -A d; declare -p d; d=(); declare -p d; c=(); declare -p c
#### var 9
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
declare -i i=3+4; declare -p i; i+=5; echo $i; declare -r r=1; r=2; echo "after $?"; declare -l lo=ABC; declare -u up=abc; declare -c ca=abc; declare -p lo up ca
#### var 10
f(){ declare -p x; local x; declare -p x; unset x; declare -p x; echo "[$x]"; unset x; declare -p x; }
declare -x ex; declare -p ex; declare -n nr=b; declare -p nr; nr[0]=z; echo ${b[0]}; echo ${!nr}
