#### cond 1
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc == a*'; echo "${BASH_REMATCH[@]}"
#### cond 2
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc == "a*"'; echo "${BASH_REMATCH[@]}"
#### cond 3
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ ^a(b)c$'; echo "${BASH_REMATCH[@]}"
#### cond 4
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ "a."'; echo "${BASH_REMATCH[@]}"
#### cond 5
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a.c =~ a\.c'; echo "${BASH_REMATCH[@]}"
#### cond 6
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ a\.c'; echo "${BASH_REMATCH[@]}"
#### cond 8
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '3 -gt 2'; echo "${BASH_REMATCH[@]}"
#### cond 9
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"3+1" -eq 4'; echo "${BASH_REMATCH[@]}"
#### cond 10
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc < abd'; echo "${BASH_REMATCH[@]}"
#### cond 11
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '! a == b && (c == c || d == e)'; echo "${BASH_REMATCH[@]}"
#### cond 12
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-v x'; echo "${BASH_REMATCH[@]}"
#### cond 13
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-v a[1]'; echo "${BASH_REMATCH[@]}"
#### cond 14
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-v a[5]'; echo "${BASH_REMATCH[@]}"
#### cond 15
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-v a'; echo "${BASH_REMATCH[@]}"
#### cond 16
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-v a[@]'; echo "${BASH_REMATCH[@]}"
#### cond 17
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-z ""'; echo "${BASH_REMATCH[@]}"
#### cond 18
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-n ""'; echo "${BASH_REMATCH[@]}"
#### cond 19
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '""'; echo "${BASH_REMATCH[@]}"
#### cond 20
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a'; echo "${BASH_REMATCH[@]}"
#### cond 21
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-o errexit'; echo "${BASH_REMATCH[@]}"
#### cond 22
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ ^(x)?abc'; echo "${BASH_REMATCH[@]}"
#### cond 23
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a1b2 =~ ([a-z])([0-9])(.)'; echo "${BASH_REMATCH[@]}"
#### cond 24
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ $r'; echo "${BASH_REMATCH[@]}"
#### cond 25
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ b|z'; echo "${BASH_REMATCH[@]}"
#### cond 26
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"a b" =~ a\ b'; echo "${BASH_REMATCH[@]}"
#### cond 27
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'ABC == abc'; echo "${BASH_REMATCH[@]}"
#### cond 28
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'foo == @(foo|bar)'; echo "${BASH_REMATCH[@]}"
#### cond 29
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'w =~ \w'; echo "${BASH_REMATCH[@]}"
#### cond 30
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'ab =~ \bab'; echo "${BASH_REMATCH[@]}"
#### cond 31
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x =~ [[:alpha:]]'; echo "${BASH_REMATCH[@]}"
#### cond 32
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a] =~ []]'; echo "${BASH_REMATCH[@]}"
#### cond 33
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"x]" =~ x"]"'; echo "${BASH_REMATCH[@]}"
#### cond 34
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc =~ a{1}'; echo "${BASH_REMATCH[@]}"
#### cond 35
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-R x'; echo "${BASH_REMATCH[@]}"
#### cond 36
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-R nr'; echo "${BASH_REMATCH[@]}"
#### cond 37
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '1 -eq 1x'; echo "${BASH_REMATCH[@]}"
#### cond 38
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a -eq 0'; echo "${BASH_REMATCH[@]}"
#### cond 39
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"" -eq 0'; echo "${BASH_REMATCH[@]}"
#### cond 40
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x -eq 1'; echo "${BASH_REMATCH[@]}"
#### cond 41
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-t 9'; echo "${BASH_REMATCH[@]}"
#### cond 42
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc != a?c'; echo "${BASH_REMATCH[@]}"
#### cond 43
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a > b'; echo "${BASH_REMATCH[@]}"
#### cond 44
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-e /tmp && -d /tmp'; echo "${BASH_REMATCH[@]}"
#### cond 45
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '! ( a == a )'; echo "${BASH_REMATCH[@]}"
#### cond 46
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'abc = abc'; echo "${BASH_REMATCH[@]}"
#### cond 47
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '$r == "^b"'; echo "${BASH_REMATCH[@]}"
#### cond 49
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '2 -lt 10 && b < a'; echo "${BASH_REMATCH[@]}"
#### cond 50
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'aXb == a[A-Z]b'; echo "${BASH_REMATCH[@]}"
#### cond 51
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a/b == a*'; echo "${BASH_REMATCH[@]}"
#### cond 52
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '.x == *'; echo "${BASH_REMATCH[@]}"
#### cond 53
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x =~ *'; echo "${BASH_REMATCH[@]}"
#### cond 54
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x =~ a**'; echo "${BASH_REMATCH[@]}"
#### cond 55
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x =~ ['; echo "${BASH_REMATCH[@]}"
#### cond 56
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a =~ a$'; echo "${BASH_REMATCH[@]}"
#### cond 57
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"a$" =~ a\$'; echo "${BASH_REMATCH[@]}"
#### cond 58
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'ab =~ (a)(b)(c)?'; echo "${BASH_REMATCH[@]}"
#### cond 59
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-f /etc/passwd'; echo "${BASH_REMATCH[@]}"
#### cond 60
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x -nt y'; echo "${BASH_REMATCH[@]}"
#### cond 61
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '/tmp -ef /tmp'; echo "${BASH_REMATCH[@]}"
#### cond 62
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '-n $nope'; echo "${BASH_REMATCH[@]}"
#### cond 63
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '$nope'; echo "${BASH_REMATCH[@]}"
#### cond 64
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '$nope == ""'; echo "${BASH_REMATCH[@]}"
#### cond 65
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '"a b" == a\ b'; echo "${BASH_REMATCH[@]}"
#### cond 66
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'a -eq b'; echo "${BASH_REMATCH[@]}"
#### cond 67
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c 'x = $x'; echo "${BASH_REMATCH[@]}"
#### cond 68
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '(a)'; echo "${BASH_REMATCH[@]}"
#### cond 69
c(){ eval "[[ $1 ]]"; echo "$? : $1"; }
a=(1 2); r="^b"; x=1; declare -n nr=x
c '((a) || b) && !c'; echo "${BASH_REMATCH[@]}"
