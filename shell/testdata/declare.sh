#### declare 1
declare -z; echo $?; local; echo $?; f(){ local 1x=2; echo $?; local -z; echo $?; local a=1 b; local -p; local; declare -p a b; }; f; declare 1x=2; echo $?; declare -p nope; echo $?; export 1x; echo $?; export -p nope; readonly r1=5; readonly r1=6; echo $?; declare r1=7; echo $?; declare +r r1; echo $?; declare -i r1; echo $?; unset r1; echo $?; unset -f nof; echo $?; unset -v nov; echo $?; unset -z; echo $?; unset 1x; echo $?; unset 'a[0]x'; echo $?
#### declare 2
declare -a arr; declare -A arr; echo $?; declare -A as; declare -a as; echo $?; declare +a arr; echo $?; arr=(1); declare +a arr; echo $?; declare -p arr; declare -i x=5+5 y; y=2*3; declare -p x y; declare +i x; x=1+1; declare -p x; declare -u u=abc; u+=def; echo $u; declare -l u; declare -p u; declare -x e1=1; declare +x e1; declare -p e1; typeset -r t1=1; declare -p t1
#### declare 3
g(){ declare -g gv=5; declare lv=3; declare -p gv lv; }; g; declare -p gv lv; h(){ local x=1; i; echo "h:$x"; }; i(){ x=2; local x=3; echo "i:$x"; }; h; 
#### declare 5
f2(){ local -r z=1; z=2; echo here; }; f2; echo $?
#### declare 6
f3(){ local -; set -f; echo $-; }; f3; echo $-; declare -a x2=(a b); declare x2=c; declare -p x2; declare x2+=d; declare -p x2; declare -a x2+=(e); declare -p x2; declare -ia n2=(1+1 2); declare -p n2; declare -A m=([a]=1) ; declare m[b]=2; declare -p m; declare 'm[c d]=3'; declare -p m
