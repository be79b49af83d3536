#### assoc 1
declare -A h; h[a]=1 h[b]=2; h[c d]=3; echo ${#h[@]} "${h[c d]}" "${!h[@]}" "${h[@]}"; unset 'h[a]'; echo ${!h[@]}; h=(); echo ${#h[@]}
#### assoc 2
declare -A h=([x]=1 [y]=2); h+=([z]=3 [x]=9); for k in "${!h[@]}"; do echo "$k=${h[$k]}"; done; echo ${h[nope]-unset} ${h[x]+set} ${#h[x]}
#### assoc 3
declare -A h; k='a b'; h[$k]=1; h["$k"]+=2; echo ${h[$k]} "${h["a b"]}" ${h['a b']}; h[$k$k]=x; echo "${!h[@]}"
#### assoc 4
declare -A h; for i in {1..50}; do h[k$i]=$i; done; echo ${h[@]}; echo ${!h[@]}; for i in {1..50..2}; do unset "h[k$i]"; done; echo ${!h[@]}
#### assoc 5
declare -A h=([a]=1); (( h[a]++ )); (( h[b] += 5 )); echo ${h[a]} ${h[b]} $((h[a]*h[b])); k=a; ((h[$k]=7)); echo ${h[a]}; ((h[k]=8)); echo ${!h[@]}
#### assoc 6
declare -A h; h[@]=1 2>&1; h[*]=2; echo "${!h[@]}"; h['@']=3; echo ${#h[@]}; h["]"]=4; echo "${h["]"]}"; h[\$x]=5; echo "${!h[@]}"
#### assoc 7
declare -A h=([one]=1 [two]=2); declare -p h; echo "${h[@]@Q}" "${h[@]@A}" "${!h[@]}"; set -- "${h[@]}"; echo $#; g=("${h[@]}"); declare -p g
#### assoc 8
declare -A a b; a[x]=1; b[y]=2; declare -n r=a; echo ${r[x]}; unset a; echo ${#a[@]}; a[x]=3; declare -p a
#### assoc 9
declare -A h; h[a]=; [[ -v h[a] ]] && echo set; [[ -v h[b] ]] || echo unset; [ -v 'h[a]' ] && echo s2; k=a; [[ -v h[$k] ]] && echo s3; [[ -n ${h[a]} ]] || echo empty
#### assoc 10
a=(1 2 3); a[5]=6; echo ${!a[@]} ${#a[@]} ${a[-1]} ${a[@]:1:2} ${a[*]: -2}; unset 'a[1]'; echo ${!a[@]}; a=("${a[@]}"); echo ${!a[@]}; a+=(x y); echo ${a[-2]}
#### assoc 11
a=([3]=x [1]=y z); declare -p a; a[a[0]+1]=q; declare -p a; i=2; a[i]=two a[$i+5]=seven a[i++]=inc; echo $i; declare -p a; a[0x10]=h; echo ${!a[@]}
#### assoc 12
a=(a b c); a[1]+=X; a+=Y; echo ${a[@]}; a[-1]=last; echo ${a[@]} ${a[-3]}; echo ${a[-4]}; b=("${a[@]}" d); echo ${#b[@]}; c=(${a[*]}); echo ${c[0]}; echo "${a[@]/%/!}"
#### assoc 13
a=(1 2 3); echo "${a[@]}" "${a[*]}" ${a} $a ${a[0]} ${#a} ${a:0:1}; a=5; declare -p a; unset a[0]; declare -p a; a=(); echo "${a[@]}" ${#a[@]} ${a[0]-none}; unset a; a+=(x); declare -p a
#### assoc 14
s=str; s+=(x); declare -p s; s[3]=q; declare -p s; t=5; t[1]=6; declare -p t; u=; u+=(a); declare -p u; unset v; v[2]=x; declare -p v; echo ${v-unset} ${v[@]+set}
#### assoc 15
a=(x); a[9223372036854775807]=y 2>&1; echo ${#a[@]} ${!a[@]}; a+=(z) 2>&1; echo ${#a[@]}; a[1000000]=w; echo ${!a[@]}
#### assoc 16
a=(b a c); IFS=$'\n'; echo "${a[*]}"; for e in "${a[@]}"; do echo "[$e]"; done; for i in "${!a[@]}"; do echo $i:${a[i]}; done; b=("${a[@]:1}"); echo ${b[@]}; echo ${#b[@]} ${#a[1]}
#### assoc 17
a=($(echo 1 2 3)); echo ${#a[@]}; a=(`echo x`); a=("$(echo 1 2)"); echo ${#a[@]}; a=(*nomatch* "q r" 's'); declare -p a; a=([0]=x [0]=y); declare -p a; 
#### assoc 18
declare -a a; a[2]=x; [[ -v a ]]; echo $?; [[ -v a[2] ]]; echo $?; a[0]=y; [[ -v a ]]; echo $?; declare -A h; h[x]=1; [[ -v h ]]; echo $?; h[0]=1; [[ -v h ]]; echo $?
#### assoc 19
readonly -a ra=(1 2); ra[0]=x; echo next
#### assoc 20
readonly -A rh=([a]=1); rh[b]=2; echo next
#### assoc 21
declare -a a=(1 2); declare -a b=("${a[@]}" 3); declare -p b; declare -a c=$a; declare -p c; declare -ai d=(1+1 x=5); declare -p d; declare -au e=(ab cd); declare -p e; e+=(ef); e[0]=gh; declare -p e
#### assoc 22
declare -A h=([a]=b c); echo $?; declare -A k=(x y z); declare -p k; declare -A m=([a]=1 [a]=2); declare -p m; declare -A n; n=([x]=1 y); declare -p n; n=(p q r s); declare -p n
#### assoc 23
mapfile -t a < <(printf '%s\n' x y z); echo ${a[@]}; read -ra b <<< "p q r"; echo ${b[1]}; IFS=, read -ra c <<< "1,2,3"; echo ${#c[@]}; printf -v d[2] %s hey; declare -p d; a=(); [[ ${#a[@]} -eq 0 ]] && echo empty
#### assoc 24
f(){ echo $#; }; a=("" ""); f "${a[@]}"; a=(); f "${a[@]}" x; f "${a[@]}"; f "${a[*]}"; f ${a[@]}; f "${a[@]:-d}"; f "${a[@]+x}"; f "x${a[@]}y"; a=(1); f "${a[@]:5}" ; f "${a[@]:0:0}"
