#### scope 1
f(){ local x=1; g; echo f:$x; }; g(){ echo g:$x; x=2; }; x=0; f; echo $x
#### scope 2
f(){ local x; x=5; unset x; echo "[${x-u}]"; x=7; }; x=g; f; echo $x
#### scope 3
f(){ local x=1; g; echo "f:${x-unset}"; }; g(){ unset x; echo "g:${x-unset}"; x=9; }; x=0; f; echo $x
#### scope 4
shopt -s localvar_unset; f(){ local x=1; g; echo "f:${x-unset}"; }; g(){ unset x; echo "g:${x-unset}"; x=9; }; x=0; f; echo $x
#### scope 5
shopt -s localvar_inherit; x=5; f(){ local x; echo "[$x]"; x=6; }; f; echo $x; declare -a a=(1 2); g(){ local a; declare -p a; }; g
#### scope 6
f(){ local a=(1 2 3); local -A h=([k]=v); echo "${a[@]} ${h[k]}"; g; }; g(){ echo "in g: ${a[1]} ${h[k]}"; a[1]=x; }; f; echo "${a[@]-none}"
#### scope 7
x=out; f(){ local x=$x-in; echo $x; local y=$x z=$y; echo "$y|$z"; }; f; echo $x
#### scope 8
f(){ local -r c=1; local -i n=2+3; local -u u=abc; local -x e=1; declare -p c n u e; }; f; declare -p n u 2>&1
#### scope 9
f(){ declare x=1; typeset y=2; declare -g z=3; }; f; echo "[$x][$y][$z]"
#### scope 10
f(){ local IFS=:; set -- a b c; echo "$*"; }; f; set -- a b c; echo "$*"
#### scope 11
f(){ local i; for i in 1 2; do :; done; echo $i; }; i=0; f; echo $i
#### scope 12
f(){ if (( $1 > 0 )); then local n=$1; f $((n-1)); echo $n; fi; }; f 3
#### scope 13
f(){ local x=1; ( x=2; echo sub:$x ); echo $x; }; f
#### scope 14
x=1 y=2; f(){ local x; local y=3; echo "[$x][$y]"; unset y; echo "[$y]"; }; f; echo $x$y
#### scope 15
f(){ local PATH=/nope; nosuch 2>/dev/null; echo $?; }; f; echo ok
#### scope 16
x=1 f 2>/dev/null; f(){ echo "x=$x"; x=changed; }; x=tmp f; echo "[$x]"
#### scope 17
f(){ env | { while IFS= read -r l; do case $l in TMPV=*) echo $l;; esac; done; }; }; TMPV=hello f; echo "[${TMPV-unset}]"
#### scope 18
f(){ local TMPV; echo "[${TMPV-unset}]"; }; TMPV=t f; f(){ local TMPV=2; g; }; g(){ echo $TMPV; }; TMPV=t f
#### scope 19
IFS=: read a b <<< "x:y"; echo "$a $b"; [ "$IFS" = $' \t\n' ] && echo default
#### scope 20
x=5; x=6 eval 'echo $x'; echo $x; x=7 : ; echo $x; x=8 true; echo $x
#### scope 21
set -o posix; x=9 : ; echo $x; x=3 export y=1; echo $x; set +o posix
#### scope 22
f(){ local -; set -u; shopt -s nullglob; echo $-; }; f; case $- in *u*) echo leaked;; *) echo restored;; esac
#### scope 23
f() { local x=1; return 3; }; x=0; f; echo $? $x
#### scope 24
f(){ local x; x=1; g(){ local x=2; h; }; h(){ x=3; }; g; echo $x; }; f; echo "[$x]"
#### scope 25
declare -r ro=1; f(){ local ro=2; echo $ro; }; f; echo "st $?"
#### scope 26
f(){ readonly q=1; }; f; q=2; echo no
#### scope 27
f(){ local -a a; a+=(x); a+=(y); echo ${#a[@]} ${a[*]}; }; a=(g); f; echo ${a[*]}
#### scope 28
f(){ export E1=v; }; f; bash -c 'echo $E1' 2>/dev/null || echo $E1
#### scope 29
f(){ local v=1; trap 'echo trap $v' RETURN; }; f; trap - RETURN
#### scope 30
f(){ local OPTIND=1; while getopts a:b o; do echo $o $OPTARG; done; }; f -a 1 -b; f -b; echo $OPTIND
#### scope 31
x=1; f(){ declare -g x=2; local x=3; declare -g x=4; echo $x; }; f; echo $x
#### scope 32
x=g; f(){ local x=l; declare -gi x=5; declare -p x; g; }; g(){ declare -p x; }; f; declare -p x
#### scope 33
a=(1 2); f(){ local a=$a; declare -p a; }; f; declare -p a
#### scope 34
f(){ local a b=2 c; declare -p a b c; a=1; declare -p a; }; f
#### scope 35
f(){ local x=1 x=2; echo $x; local x; echo $x; }; f
#### scope 36
f(){ local -n r=$1; r=new; local -n s=r; s=newer; }; v=old; f v; echo $v
#### scope 37
f(){ local v=inner; g v; echo "f:$v"; }; g(){ local -n r=$1; r=set; }; v=outer; f; echo $v
#### scope 38
f(){ unset -v x; x=1; local x=2; unset x; echo "[$x]"; }; f; echo $x
#### scope 39
local x 2>&1; f(){ typeset -p nope; }; f 2>&1; echo $?
#### scope 40
f(){ local x=a; x+=b; local x+=c; echo $x; }; f; f(){ local -a x=(1); local x+=(2); declare -p x; }; f
#### scope 41
f(){ echo "$#:$*:$FUNCNAME"; g a; }; g(){ echo "${FUNCNAME[@]}"; }; f 1 2
#### scope 42
f(){ local _x=$(( $1 * 2 )); echo $_x; }; f 4; for i in 1 2 3; do local j=1; done 2>/dev/null; echo $?
