#### nameref 1
declare -n r=x; r=5; echo $x; x=6; echo $r; r+=1; echo $x; unset r; echo "[${x-unset}]"; declare -p r
#### nameref 2
declare -n r=a; a=(1 2 3); echo ${r[1]} ${r[@]} ${#r[@]} ${!r[@]}; r[1]=x; echo ${a[@]}; r+=(4); echo ${#a[@]}; unset r[0]; echo ${a[@]}
#### nameref 3
declare -n r='a[1]'; a=(1 2 3); echo $r; r=z; echo ${a[@]}; unset r; declare -p a
#### nameref 4
declare -A h=([k]=v); declare -n r=h; echo ${r[k]} ${!r[@]}; r[n]=2; echo ${h[n]}; declare -n e='h[k]'; e=new; echo ${h[k]}
#### nameref 5
f(){ local -n out=$1; out=(a b); }; f res; echo ${res[@]}; g(){ local -n o=$1; o=$2; }; g s hello; echo $s
#### nameref 6
declare -n r=x; echo ${!r}; declare -n q=r; echo ${!q} $q; x=deep; echo $q; q=set; echo $x
#### nameref 7
declare -n r; r=x; x=1; echo $r; declare -p r; r=2; echo $x
#### nameref 8
declare -n r=x; declare +n r; declare -p r; r=1; echo "$r [$x]"
#### nameref 9
declare -n r=x; unset -n r; echo "[${r-unset}]"; x=1; declare -n r=x; unset x; echo "[${r-unset}]"; r=2; echo $x
#### nameref 10
x=1 y=2 z=3; for r in x y z; do echo $r; done; declare -n n; for n in x y z; do echo $n; n=0; done; echo $x$y$z
#### nameref 11
declare -n r=x; readonly r; r=5; echo $x; declare -n r=y; echo $?
#### nameref 12
declare -n r=1bad; echo $?; declare -n r='a b'; echo $?; declare -n r=; echo $?; declare -n r=a.b; echo $?
#### nameref 13
declare -n r=r; echo $?; declare -n a=b b=a; echo $a; echo $?
#### nameref 14
declare -n r=x; r=(1 2); declare -p x r; declare -n e='a[0]'; e=(1 2); echo $?
#### nameref 15
x=5; declare -n r=x; (( r++ )); echo $x; (( r += 10, r *= 2 )); echo $x $((r+1))
#### nameref 16
x=abc; declare -n r=x; echo ${r:1} ${r^^} ${#r} ${r/b/X} ${r@Q} ${r:-d} ${r:+alt}; r=; echo "${r:-dflt}" "${r:=asg}" $x
#### nameref 17
declare -n r=x; read r <<< "input"; echo $x; printf -v r %s fmt; echo $x; mapfile -t r <<< $'l1\nl2'; declare -p x
#### nameref 18
declare -n r=x; declare r=7; declare -p x r; declare -i r=3+4; declare -p x; export r; declare -p x
#### nameref 19
f(){ local -n a=$1 b=$2; local t=$a; a=$b; b=$t; }; p=1 q=2; f p q; echo $p $q
#### nameref 20
f(){ local -n arr=$1; local i; for i in "${!arr[@]}"; do echo "$i=${arr[$i]}"; done; }; declare -A m=([x]=1 [y]=2); f m
#### nameref 21
declare -n r=x; [[ -v r ]]; echo $?; x=1; [[ -v r ]]; echo $?; [[ -R r ]]; echo $?; [[ -R x ]]; echo $?
#### nameref 22
x=1; declare -n r=x; unset -v r; echo "[${x-gone}]"; declare -p r
#### nameref 23
declare -n r=PATH; [ "$r" = "$PATH" ] && echo same; declare -n i=IFS; i=:; set -- a b; echo "$*"
#### nameref 24
declare -n r=x; set -u; x=1; echo $r; unset x; (echo $r); echo "st $?"
#### nameref 25
f(){ declare -n r=$1; echo "$r"; }; r=val; f r 2>/dev/null
#### nameref 26
foo=bar; declare -n ref=foo; f(){ echo "${!ref}"; ref=q; }; f; echo $foo
#### nameref 27
declare -n r=arr; declare -a r=(1 2); declare -p arr; declare -A m; declare -n mr=m; mr=([a]=1); declare -p m
