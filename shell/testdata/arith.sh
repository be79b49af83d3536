#### arith 2
((a[1/0]))
#### arith 3
((x=1,x/=0)); ((x%=0 , 3)); ((x = 5 / (3 - 3) + 2));((2**(-1)));((1+2**-1*4)); z=$((x/=0))
#### arith 4
echo $((  5 / 0 ))
#### arith 5
let 'y = 4/0' x=3; echo $x
#### arith 6
a=(1); ((a[0]/=0)); ((a[5-5/0]++))
#### arith 7
x=5; ((x--)) ; echo $x; ((x=-5)); echo $((x / -0)) 
#### arithc 1
((x=5, y=x*2)); echo $x $y $?; ((0)); echo $?; ((1)); echo $?; ((x>3 && y<20)) && echo yes; (( )) ; echo $?; ((x++)); ((++x)); echo $x; ((x--)); echo $((x--)) $x
#### arithc 2
for ((i=0,j=10;i<j;i+=3,j--)); do echo $i $j; done; for ((;;)); do break; done; i=5; while ((i--)); do echo -n $i; done; echo; until ((i>=2)); do ((i++)); done; echo $i
#### arithc 3
a=(1 2 3); ((a[0]+=10)); ((a[a[1]]++)); echo ${a[@]}; ((a[5]=a[0]+a[1])); echo ${!a[@]}; echo $((a)) $((a[1])) $((a[-1])); i=1; echo $((a[i++]+a[i])) $i; b[2**3]=x; echo ${!b[@]}
#### arithc 4
x=010; echo $((x)) $((10#$x)); x=0xff; echo $((x)); x=' 5 '; echo $((x)); x=; echo $((x)) $((x+1)); x=1+2; echo $((x*3)) $(($x*3)); x='y'; y='z+1'; z=4; echo $((x)); x=-3; echo $((-x)) $((- x)) $((--x))
#### arithc 5
echo $((1<2)) $((2<=2)) $((1>2)) $((2>=3)) $((1==1)) $((1!=1)) $((1&&0)) $((1||0)) $((!0)) $((~1)) $((5&3)) $((5|3)) $((5^3)) $((1<<4)) $((256>>2)) $((-8>>1)) $((7%3)) $((-7%3)) $((7%-3)) $((2**10)) $((2**0)) $((-2**2)) $((2**3**2))
#### arithc 6
echo $((1?2:3)) $((0?2:3)) $((1?0?4:5:6)) $((x=1?2:3)) $x $((1,2,3)) $(((1,2)+3)) $((1?x=7:0)) $x $((0||1&&0)) $((1|2&3^4)) $((1+2*3-4/2%3)) $(( -1 ** 2 )) $((!1+1)) $((~0+1)) $((1<<2+1))
#### arithc 7
echo $((x=5,x+=2)) $((x-=1)) $((x*=3)) $((x/=4)) $((x%=3)) $((x<<=3)) $((x>>=1)) $((x|=3)) $((x&=6)) $((x^=5)) $x; echo $((a=b=c=4)) $a$b$c; y=1; echo $((y+++y)) $y; echo $((y---y)) $y; echo $((- -y)) $((+y)) $((!y)) $((!!y))
#### arithc 8
echo $((9223372036854775807+1)) $((-9223372036854775808)) $((9223372036854775807*2)) $((1<<63)) $((1<<62)) $((-1>>1)) $((0x7fffffffffffffff)) $((18446744073709551615)) $((18446744073709551616)) $((-9223372036854775808-1)) $((3000000000*3000000000))
#### arithc 9
echo $((16#ff)) $((2#1010)) $((8#17)) $((36#z)) $((36#Z)) $((64#_)) $((64#@)) $((64#Z)) $((62#Z)) $((10#10)) $((16#FF)) $((037)) $((0)) $((00)) $((0x0)) $((3#12))
#### arithc 10
let x=1 y=2 'z=x+y' "w = z * 2"; echo $x$y$z$w; let 'x=0'; echo $?; let x++ y--; echo $x$y; let "x<5" && echo lt; let 1 0; echo $?; let 'a[2]=5' ; echo ${a[2]}; let "x=(1+2)*3"; echo $x; let x=5 'x=='; echo $?
#### arithc 11
echo $(( 1 + # comment
#### arithc 12
2 )); echo $((
#### arithc 13
1 +
#### arithc 14
2
#### arithc 15
)); (( x = 1
#### arithc 17
declare -i i=1; i=i+1; echo $i; i+=5; echo $i; i=2*3 j=4*5; echo $i $j; i="1 + 1"; echo $i; unset i; i=1+1; echo $i; f(){ local -i k=$1*2; echo $k; }; f 4; declare -i arr=(1+1 2+2); echo ${arr[@]}; arr[1]+=3; echo ${arr[@]}
#### arithc 18
if (( x = 0 )); then echo t; else echo f; fi; (( y = 5 > 3 )) && echo $y; ! (( 1 )); echo $?; (( 1 )) || echo no; ((a=1)) && ((b=2)) && echo $((a+b)); set -e; ((1)); (( 0 )) || true; echo ok; ((0)); echo notreached
#### arithc 19
x=5; ((x==5?(y=1):(y=2))); echo $y; echo $((x>5?x:x<5?-x:0)); ((z = x > 3 ? 10 : 20, z++)); echo $z; n=10; s=0; for ((i=1;i<=n;i++)); do ((s+=i)); done; echo $s; echo $(( (n*(n+1))/2 == s ))
#### arithc 20
[ $((1+1)) -eq 2 ] && echo e; [[ 1+1 -eq 2 ]] && echo e2; x=3; [[ x -eq 3 ]] && echo e3; [[ x+1 -gt x ]] && echo e4; [[ "x" -lt 5 ]] && echo e5; [[ 010 -eq 8 ]] && echo oct; [ 010 -eq 10 ] && echo dec; [[ -1 -lt 0 ]] && echo neg; [[ 0x10 -eq 16 ]] && echo hex
#### arithc 21
echo ${a[1+1]} ${x:1-1:1+0}; s=hello; echo ${s:1+1} ${s:x-3:2} ${s:(-3)}; a=(a b c d); echo ${a[@]:1+1:1} ${a[x]} ${a[$((x-1))]} ${a[x-1]}; i=0; echo ${a[i++]} ${a[i++]} $i; a[i]=Z; echo ${a[@]}; unset "a[i-1]"; echo ${!a[@]}
#### arithx 1
x=3 y=2
echo $(( 1++ )); echo "st $? $x $y ${a[*]}"
#### arithx 2
x=3 y=2
echo $(( ++1 )); echo "st $? $x $y ${a[*]}"
#### arithx 3
x=3 y=2
echo $(( 08+1 )); echo "st $? $x $y ${a[*]}"
#### arithx 4
x=3 y=2
echo $(( 2#3 )); echo "st $? $x $y ${a[*]}"
#### arithx 5
x=3 y=2
echo $(( 65#1 )); echo "st $? $x $y ${a[*]}"
#### arithx 6
x=3 y=2
echo $(( 1x )); echo "st $? $x $y ${a[*]}"
#### arithx 7
x=3 y=2
echo $(( @ )); echo "st $? $x $y ${a[*]}"
#### arithx 8
x=3 y=2
echo $(( 1?2 )); echo "st $? $x $y ${a[*]}"
#### arithx 9
x=3 y=2
echo $(( 1?2: )); echo "st $? $x $y ${a[*]}"
#### arithx 10
x=3 y=2
echo $(( a b )); echo "st $? $x $y ${a[*]}"
#### arithx 11
x=3 y=2
echo $(( -- )); echo "st $? $x $y ${a[*]}"
#### arithx 12
x=3 y=2
echo $(( 5=3 )); echo "st $? $x $y ${a[*]}"
#### arithx 13
x=3 y=2
echo $(( x=5=3 )); echo "st $? $x $y ${a[*]}"
#### arithx 14
x=3 y=2
echo $(( 1,,2 )); echo "st $? $x $y ${a[*]}"
#### arithx 15
x=3 y=2
echo $(( 0x )); echo "st $? $x $y ${a[*]}"
#### arithx 16
x=3 y=2
echo $(( 1.5 )); echo "st $? $x $y ${a[*]}"
#### arithx 17
x=3 y=2
echo $(( "1" )); echo "st $? $x $y ${a[*]}"
#### arithx 18
x=3 y=2
echo $(( '1' )); echo "st $? $x $y ${a[*]}"
#### arithx 19
x=3 y=2
echo $(( 2# )); echo "st $? $x $y ${a[*]}"
#### arithx 20
x=3 y=2
echo $(( $ )); echo "st $? $x $y ${a[*]}"
#### arithx 21
x=3 y=2
echo $(( \ )); echo "st $? $x $y ${a[*]}"
#### arithx 22
x=3 y=2
echo $(( 1 2 )); echo "st $? $x $y ${a[*]}"
#### arithx 23
x=3 y=2
echo $(( [ )); echo "st $? $x $y ${a[*]}"
#### arithx 24
x=3 y=2
echo $(( a[ )); echo "st $? $x $y ${a[*]}"
#### arithx 25
x=3 y=2
echo $(( a[1 )); echo "st $? $x $y ${a[*]}"
#### arithx 27
x=3 y=2
echo $(( 10#08 )); echo "st $? $x $y ${a[*]}"
#### arithx 28
x=3 y=2
echo $(( 37#z )); echo "st $? $x $y ${a[*]}"
#### arithx 29
x=3 y=2
echo $(( 64#@ )); echo "st $? $x $y ${a[*]}"
#### arithx 30
x=3 y=2
echo $(( 64#_ )); echo "st $? $x $y ${a[*]}"
#### arithx 31
x=3 y=2
echo $(( 9223372036854775808 )); echo "st $? $x $y ${a[*]}"
#### arithx 32
x=3 y=2
echo $(( -9223372036854775808/-1 )); echo "st $? $x $y ${a[*]}"
#### arithx 33
x=3 y=2
echo $(( 1<<64 )); echo "st $? $x $y ${a[*]}"
#### arithx 34
x=3 y=2
echo $(( 1<<-1 )); echo "st $? $x $y ${a[*]}"
#### arithx 35
x=3 y=2
echo $(( -1>>63 )); echo "st $? $x $y ${a[*]}"
#### arithx 36
x=3 y=2
echo $(( 2**63 )); echo "st $? $x $y ${a[*]}"
#### arithx 37
x=3 y=2
echo $(( 2**64 )); echo "st $? $x $y ${a[*]}"
#### arithx 38
x=3 y=2
echo $(( 3**40 )); echo "st $? $x $y ${a[*]}"
#### arithx 39
x=3 y=2
echo $(( !5 )); echo "st $? $x $y ${a[*]}"
#### arithx 40
x=3 y=2
echo $(( ~0 )); echo "st $? $x $y ${a[*]}"
#### arithx 41
x=3 y=2
echo $(( 5%-3 )); echo "st $? $x $y ${a[*]}"
#### arithx 42
x=3 y=2
echo $(( -5%3 )); echo "st $? $x $y ${a[*]}"
#### arithx 43
x=3 y=2
echo $(( -7/2 )); echo "st $? $x $y ${a[*]}"
#### arithx 44
x=3 y=2
echo $(( 1&&0||1 )); echo "st $? $x $y ${a[*]}"
#### arithx 45
x=3 y=2
echo $(( 1?2:3?4:5 )); echo "st $? $x $y ${a[*]}"
#### arithx 46
x=3 y=2
echo $(( 1,2 )); echo "st $? $x $y ${a[*]}"
#### arithx 47
x=3 y=2
echo $(( x+=3 )); echo "st $? $x $y ${a[*]}"
#### arithx 48
x=3 y=2
echo $(( x )); echo "st $? $x $y ${a[*]}"
#### arithx 49
x=3 y=2
echo $(( x++ )); echo "st $? $x $y ${a[*]}"
#### arithx 50
x=3 y=2
echo $(( +x )); echo "st $? $x $y ${a[*]}"
#### arithx 51
x=3 y=2
echo $(( x+++x )); echo "st $? $x $y ${a[*]}"
#### arithx 52
x=3 y=2
echo $(( - -3 )); echo "st $? $x $y ${a[*]}"
#### arithx 53
x=3 y=2
echo $(( !!3 )); echo "st $? $x $y ${a[*]}"
#### arithx 54
x=3 y=2
echo $(( 0x1F )); echo "st $? $x $y ${a[*]}"
#### arithx 55
x=3 y=2
echo $(( 010 )); echo "st $? $x $y ${a[*]}"
#### arithx 56
x=3 y=2
echo $(( 16#fF )); echo "st $? $x $y ${a[*]}"
#### arithx 57
x=3 y=2
echo $(( 36#Zz )); echo "st $? $x $y ${a[*]}"
#### arithx 58
x=3 y=2
echo $(( 7 / 2 * 2 )); echo "st $? $x $y ${a[*]}"
#### arithx 59
x=3 y=2
echo $(( 1<2<3 )); echo "st $? $x $y ${a[*]}"
#### arithx 60
x=3 y=2
echo $(( 4|1^7&3 )); echo "st $? $x $y ${a[*]}"
#### arithx 61
x=3 y=2
echo $(( a=1,b=2,a+b )); echo "st $? $x $y ${a[*]}"
#### arithx 62
x=3 y=2
echo $(( y?x=1:2 )); echo "st $? $x $y ${a[*]}"
#### arithx 63
x=3 y=2
echo $(( y?1:x=2 )); echo "st $? $x $y ${a[*]}"
#### arithx 64
x=3 y=2
echo $(( 9999999999999999999 )); echo "st $? $x $y ${a[*]}"
#### arithx 65
x=3 y=2
echo $(( 0x8000000000000000 )); echo "st $? $x $y ${a[*]}"
#### arithx 66
x=3 y=2
echo $(( -0x8000000000000000/-1 )); echo "st $? $x $y ${a[*]}"
#### arithx 67
x=3 y=2
echo $(( -9223372036854775808%-1 )); echo "st $? $x $y ${a[*]}"
#### arithx 68
x=3 y=2
echo $(( i+++++i )); echo "st $? $x $y ${a[*]}"
#### arithx 69
x=3 y=2
echo $(( 1 ? : 2 )); echo "st $? $x $y ${a[*]}"
#### arithx 70
x=3 y=2
echo $(( 1:2 )); echo "st $? $x $y ${a[*]}"
#### arithx 71
x=3 y=2
echo $(( 1/0 )); echo "st $? $x $y ${a[*]}"
#### arithx 72
x=3 y=2
echo $(( 5%0 )); echo "st $? $x $y ${a[*]}"
#### arithx 73
x=3 y=2
echo $(( x=3, x**=2 )); echo "st $? $x $y ${a[*]}"
#### arithx 74
x=3 y=2
echo $(( 2**-1 )); echo "st $? $x $y ${a[*]}"
#### arithx 75
x=3 y=2
echo $(( (1+2)*3 )); echo "st $? $x $y ${a[*]}"
#### arithx 76
x=3 y=2
echo $(( ((1)) )); echo "st $? $x $y ${a[*]}"
#### arithx 77
x=3 y=2
echo $(( x=1?2:3 )); echo "st $? $x $y ${a[*]}"
#### arithx 78
x=3 y=2
echo $(( a[0]=5, a[0]+1 )); echo "st $? $x $y ${a[*]}"
#### arithx 79
x=3 y=2
echo $(( a[1]++ + a[1] )); echo "st $? $x $y ${a[*]}"
#### arithx 80
x=3 y=2
echo $(( ${#x} )); echo "st $? $x $y ${a[*]}"
#### arithx 81
x=3 y=2
echo $(( $((1+1))*2 )); echo "st $? $x $y ${a[*]}"
#### arithx 82
x=3 y=2
echo $(( 1 <= 2 )); echo "st $? $x $y ${a[*]}"
#### arithx 83
x=3 y=2
echo $(( 3>=4 )); echo "st $? $x $y ${a[*]}"
#### arithx 84
x=3 y=2
echo $(( 1==1 != 0 )); echo "st $? $x $y ${a[*]}"
#### arithx 85
x=3 y=2
echo $(( ~5&0xff )); echo "st $? $x $y ${a[*]}"
#### arithx 86
x=3 y=2
echo $(( 1|2 )); echo "st $? $x $y ${a[*]}"
#### arithx 87
x=3 y=2
echo $(( 6^3 )); echo "st $? $x $y ${a[*]}"
#### arithx 88
x=3 y=2
echo $(( x<<=2 )); echo "st $? $x $y ${a[*]}"
#### arithx 89
x=3 y=2
echo $(( x|=5 )); echo "st $? $x $y ${a[*]}"
#### arithx 90
x=3 y=2
echo $(( x&=3 )); echo "st $? $x $y ${a[*]}"
#### arithx 91
x=3 y=2
echo $(( x^=1 )); echo "st $? $x $y ${a[*]}"
#### arithx 92
x=3 y=2
echo $(( x%=2 )); echo "st $? $x $y ${a[*]}"
#### arithx 93
x=3 y=2
echo $(( x-=1 )); echo "st $? $x $y ${a[*]}"
#### arithx 94
x=3 y=2
echo $(( x*=3 )); echo "st $? $x $y ${a[*]}"
#### arithx 95
x=3 y=2
echo $(( x/=2 )); echo "st $? $x $y ${a[*]}"
#### arithx 96
x=3 y=2
echo $(( 0 && 1/0 )); echo "st $? $x $y ${a[*]}"
#### arithx 97
x=3 y=2
echo $(( 1 || 1/0 )); echo "st $? $x $y ${a[*]}"
#### arithx 98
x=3 y=2
echo $(( "3" + 4 )); echo "st $? $x $y ${a[*]}"
#### arithx 99
x=3 y=2
echo $(( $x + 1 )); echo "st $? $x $y ${a[*]}"
#### arithx 100
x=3 y=2
echo $(( ${x:-5}+1 )); echo "st $? $x $y ${a[*]}"
#### arithx 101
x=3 y=2
echo $(( -x )); echo "st $? $x $y ${a[*]}"
#### arithx 102
x=3 y=2
echo $(( 08 )); echo "st $? $x $y ${a[*]}"
#### arithx 103
x=3 y=2
echo $(( 1e3 )); echo "st $? $x $y ${a[*]}"
#### arithx 104
x=3 y=2
echo $(( a.b )); echo "st $? $x $y ${a[*]}"
#### arithx 105
x=3 y=2
echo $(( 1 + )); echo "st $? $x $y ${a[*]}"
#### arithx 106
x=3 y=2
echo $(( + )); echo "st $? $x $y ${a[*]}"
#### arithx 107
x=3 y=2
echo $(( *2 )); echo "st $? $x $y ${a[*]}"
#### arithx 108
x=3 y=2
echo $(( 2 * )); echo "st $? $x $y ${a[*]}"
#### arithx 109
x=3 y=2
echo $(( () )); echo "st $? $x $y ${a[*]}"
#### arithx 111
x=3 y=2
echo $(( x = )); echo "st $? $x $y ${a[*]}"
#### arithx 112
x=3 y=2
echo $(( = 3 )); echo "st $? $x $y ${a[*]}"
#### arithx 113
x=3 y=2
echo $(( 1 = x )); echo "st $? $x $y ${a[*]}"
#### arithx 115
x=3 y=2
echo $(( 16# )); echo "st $? $x $y ${a[*]}"
#### arithx 116
x=3 y=2
echo $(( 1#0 )); echo "st $? $x $y ${a[*]}"
#### arithx 117
x=3 y=2
echo $(( a[b] )); echo "st $? $x $y ${a[*]}"
#### arithx 118
x=3 y=2
echo $(( a[b c] )); echo "st $? $x $y ${a[*]}"
#### arithx 119
x=3 y=2
echo $(( ! )); echo "st $? $x $y ${a[*]}"
#### arithx 120
x=3 y=2
echo $(( 1 ! 2 )); echo "st $? $x $y ${a[*]}"
#### arithx 121
x=3 y=2
echo $(( x ? y )); echo "st $? $x $y ${a[*]}"
#### arithx 122
x=3 y=2
echo $(( 1 ,  )); echo "st $? $x $y ${a[*]}"
#### arithx 123
x=3 y=2
echo $(( 0b1 )); echo "st $? $x $y ${a[*]}"
#### arithx 124
x=3 y=2
echo $(( 0x1g )); echo "st $? $x $y ${a[*]}"
