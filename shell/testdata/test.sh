#### test 1
t(){ "$@"; echo "$? : $*"; }
x=1
t test
#### test 2
t(){ "$@"; echo "$? : $*"; }
x=1
t test a
#### test 3
t(){ "$@"; echo "$? : $*"; }
x=1
t test ''
#### test 4
t(){ "$@"; echo "$? : $*"; }
x=1
t test '!'
#### test 5
t(){ "$@"; echo "$? : $*"; }
x=1
t test '!' a
#### test 6
t(){ "$@"; echo "$? : $*"; }
x=1
t test -n
#### test 7
t(){ "$@"; echo "$? : $*"; }
x=1
t test -z ''
#### test 8
t(){ "$@"; echo "$? : $*"; }
x=1
t test a b
#### test 9
t(){ "$@"; echo "$? : $*"; }
x=1
t test a = a
#### test 10
t(){ "$@"; echo "$? : $*"; }
x=1
t test a -eq 1
#### test 11
t(){ "$@"; echo "$? : $*"; }
x=1
t test 1 -eq 1x
#### test 12
t(){ "$@"; echo "$? : $*"; }
x=1
t test ' 1 ' -eq 1
#### test 13
t(){ "$@"; echo "$? : $*"; }
x=1
t test -f
#### test 14
t(){ "$@"; echo "$? : $*"; }
x=1
t test '(' a ')'
#### test 15
t(){ "$@"; echo "$? : $*"; }
x=1
t test '(' a
#### test 16
t(){ "$@"; echo "$? : $*"; }
x=1
t test a -a b
#### test 17
t(){ "$@"; echo "$? : $*"; }
x=1
t test a -a ''
#### test 18
t(){ "$@"; echo "$? : $*"; }
x=1
t test '' -o b
#### test 19
t(){ "$@"; echo "$? : $*"; }
x=1
t test ! a = b
#### test 20
t(){ "$@"; echo "$? : $*"; }
x=1
t test ! '(' a ')'
#### test 21
t(){ "$@"; echo "$? : $*"; }
x=1
t test a = b -o c = c
#### test 22
t(){ "$@"; echo "$? : $*"; }
x=1
t test -Q a
#### test 23
t(){ "$@"; echo "$? : $*"; }
x=1
t test a b c
#### test 24
t(){ "$@"; echo "$? : $*"; }
x=1
t test a b c d
#### test 25
t(){ "$@"; echo "$? : $*"; }
x=1
t test a b c d e
#### test 26
t(){ "$@"; echo "$? : $*"; }
x=1
t [ a
#### test 27
t(){ "$@"; echo "$? : $*"; }
x=1
t [ a = a ]
#### test 28
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -n a -a -z '' ]
#### test 29
t(){ "$@"; echo "$? : $*"; }
x=1
t [ ! ]
#### test 30
t(){ "$@"; echo "$? : $*"; }
x=1
t [ ! ! ]
#### test 31
t(){ "$@"; echo "$? : $*"; }
x=1
t [ ! ! a ]
#### test 32
t(){ "$@"; echo "$? : $*"; }
x=1
t [ '(' ')' ]
#### test 33
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -t 0 ] < /dev/null
#### test 34
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -t x ]
#### test 35
t(){ "$@"; echo "$? : $*"; }
x=1
t [ a '<' b ]
#### test 36
t(){ "$@"; echo "$? : $*"; }
x=1
t [ a '>' b ]
#### test 37
t(){ "$@"; echo "$? : $*"; }
x=1
t [ 1 -lt 2 -a 3 -gt 2 ]
#### test 38
t(){ "$@"; echo "$? : $*"; }
x=1
t [ '(' 1 -eq 2 ')' -o a ]
#### test 39
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -e /nope ]
#### test 40
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -v x ]
#### test 41
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -v y ]
#### test 42
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -o errexit ]
#### test 43
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -o nosuch ]
#### test 44
t(){ "$@"; echo "$? : $*"; }
x=1
t test 99999999999999999999 -eq 1
#### test 45
t(){ "$@"; echo "$? : $*"; }
x=1
t test + -eq 1
#### test 46
t(){ "$@"; echo "$? : $*"; }
x=1
t test '' -eq 0
#### test 47
t(){ "$@"; echo "$? : $*"; }
x=1
t test a == a
#### test 48
t(){ "$@"; echo "$? : $*"; }
x=1
t test a =~ a
#### test 49
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -a /etc ]
#### test 50
t(){ "$@"; echo "$? : $*"; }
x=1
t [ -a ]
#### test 51
t(){ "$@"; echo "$? : $*"; }
x=1
t [ a -nt b ]
#### test 52
t(){ "$@"; echo "$? : $*"; }
x=1
t test -eq
#### test 53
t(){ "$@"; echo "$? : $*"; }
x=1
t test 1 -eq
#### test 54
t(){ "$@"; echo "$? : $*"; }
x=1
t test -n = -n
#### test 55
t(){ "$@"; echo "$? : $*"; }
x=1
t test '(' = '('
#### test 56
t(){ "$@"; echo "$? : $*"; }
x=1
t test '!' = '!'
#### test 57
t(){ "$@"; echo "$? : $*"; }
x=1
t test -f = ''
#### test 58
t(){ "$@"; echo "$? : $*"; }
x=1
t test a -o
#### test 59
t(){ "$@"; echo "$? : $*"; }
x=1
t test -a -a -a
#### test 60
t(){ "$@"; echo "$? : $*"; }
x=1
t test x -a '(' y -o '' ')'
#### test 61
t(){ "$@"; echo "$? : $*"; }
x=1
t test '!' '!' '!' ''
#### test 62
t(){ "$@"; echo "$? : $*"; }
x=1
t test 0x10 -eq 16
#### test 63
t(){ "$@"; echo "$? : $*"; }
x=1
t test 010 -eq 10
#### test 64
t(){ "$@"; echo "$? : $*"; }
x=1
t test -1 -lt 0
#### test 65
t(){ "$@"; echo "$? : $*"; }
x=1
t test +5 -eq 5
#### test 66
t(){ "$@"; echo "$? : $*"; }
x=1
t test 1 -eq
#### test 67
t(){ "$@"; echo "$? : $*"; }
x=1
t test ! -f
#### test 68
t(){ "$@"; echo "$? : $*"; }
x=1
t test ! !
#### test 69
t(){ "$@"; echo "$? : $*"; }
x=1
t test -d /tmp -a -f /etc/passwd
#### test 70
t(){ "$@"; echo "$? : $*"; }
x=1
t test -x /tmp
#### test 71
t(){ "$@"; echo "$? : $*"; }
x=1
t test -s /etc/passwd
#### test 72
t(){ "$@"; echo "$? : $*"; }
x=1
t test a -ef b
#### test 73
t(){ "$@"; echo "$? : $*"; }
x=1
t test /tmp -ef /tmp/.
#### test 74
t(){ "$@"; echo "$? : $*"; }
x=1
t test '(' ')'
#### test 75
t(){ "$@"; echo "$? : $*"; }
x=1
t test '(' a = a ')'
#### test 76
t(){ "$@"; echo "$? : $*"; }
x=1
t test ! a = a -o b
#### test 77
t(){ "$@"; echo "$? : $*"; }
x=1
t [ x ] ]
#### test 78
t(){ "$@"; echo "$? : $*"; }
x=1
t [ ]
#### test 79
t(){ "$@"; echo "$? : $*"; }
x=1
t test -v a[0]
#### test 80
t(){ "$@"; echo "$? : $*"; }
x=1
t test -L /tmp
