#### array 1
a=(1 2 3)
a=(1 2 3); echo "[${a[-5]}]" ; echo st $?
#### array 2
a=(1 2 3)
a[-7]=1; echo st $?
#### array 3
a=(1 2 3)
echo next $?
#### array 4
a=(1 2 3)
a[-7]+=1; echo st
#### array 5
a=(1 2 3)
echo next
#### array 6
a=(1 2 3)
declare -A h; k=; h[$k]=1; echo st $?
#### array 7
a=(1 2 3)
h[]=1; echo st $?
#### array 8
a=(1 2 3)
echo "[${h[$k]}]"; echo st $?
#### array 10
a=(1 2 3)
unset 'h[nope]'; echo $?
#### array 11
a=(1 2 3)
unset 'a[-9]'; echo $?
#### array 12
a=(1 2 3)
x=5; echo "${x[0]} ${x[1]} ${x[@]} ${#x[@]} ${!x[@]}"; x[3]=q; declare -p x
#### array 13
a=(1 2 3)
unset 'x[0]'; declare -p x
#### array 14
a=(1 2 3)
s=str; unset 's[0]'; declare -p s; s=str; unset 's[1]'; echo $?
#### array 15
a=(1 2 3)
a=(1 2 3); a=9; declare -p a; a+=5; declare -p a; a+=([5]=x y); declare -p a; a[1]+=z; declare -p a
#### array 16
a=(1 2 3)
declare -i n; n=abc; declare -p n; n+=2; declare -ai m=(1+1 2*3); m+=(5); m[0]+=4; declare -p m
#### array 17
a=(1 2 3)
declare -A h=(a 1 b 2 c); declare -p h; h+=(d 4); h=([x]=1 y 2); declare -p h
#### array 18
a=(1 2 3)
declare -a z=([2]=a b [1]=c d); declare -p z; z=([k+1]=1); declare -p z; z=(1 2 [0]+=x); declare -p z
#### array 19
a=(1 2 3)
q=(a); q[0]=([1]=2); echo $?
#### array 20
a=(1 2 3)
echo next; declare -a arr='(1 2 3)'; declare -p arr; declare arr2='(1 2 3)'; declare -p arr2;declare -a arr3=x; declare -p arr3
#### array 21
a=(1 2 3)
declare -n r=tgt; r=5; declare -p tgt r; unset r; declare -p r tgt; unset -n r; declare -p r
#### array 22
a=(1 2 3)
declare -n r1=r2 r2=r1; echo $?; r1=5; echo "st $?"; echo "[$r1]" 
#### array 23
a=(1 2 3)
declare -n e; e=foo; declare -p e; e=bar; declare -p foo e; declare -n bad=1x; echo $?; declare -n e2; e2=1y; echo $?
#### array 25
a=(1 2 3)
declare -n self=self; echo $?
#### array 26
a=(1 2 3)
declare -n ra=arr[1]; echo $ra; ra=new; declare -p arr; 
