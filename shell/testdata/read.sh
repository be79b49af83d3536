#### read 1
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x y z\n' a b
#### read 2
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r '  x  y  z  \n' a
#### read 3
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r '  x  y  \n'
#### read 4
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a\\b c\\ d\n' a b
#### read 5
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a\\b c\\ d\n' -r a b
#### read 6
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'one\\\ntwo three\n' a b
#### read 7
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'noeol' a
#### read 8
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r '' a
#### read 9
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a,b,c' -d , a
#### read 10
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x y z' -a arr
#### read 11
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'abcdef' -n 3 a
#### read 12
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'ab\ncd' -n 5 a
#### read 13
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'ab\ncd' -N 5 a
#### read 14
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r ' a b ' -N 4 a b
#### read 15
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r 'x:y:z\n' a b
#### read 16
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r 'x:y:\n' a b
#### read 17
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r 'x:y::\n' a b
#### read 18
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r ':x:y\n' a b c
#### read 19
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=': ' r ' x : y : z \n' a b
#### read 20
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS= r '  x \n' a
#### read 21
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=, r 'a,b,,\n' -a arr
#### read 22
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\0y\n' a
#### read 23
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a b\n' a b c
#### read 24
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r 'x\n' a b
#### read 25
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
IFS=: r '  x : y  \n' a b
#### read 26
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a\tb\n' a b
#### read 27
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r '\\\n' a
#### read 28
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a\\' a
#### read 29
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'q w' -d ' ' a
#### read 30
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\n' 1x
#### read 31
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\n' -u 9 a
#### read 32
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\n' -z
#### read 33
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\n' -n x a
#### read 34
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x\n' -t x a
#### read 35
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'abc' -n 0 a
#### read 36
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'x y\n' -a
#### read 37
r(){ printf "$1" | { read "${@:2}"; s=$?; declare -p a b c REPLY arr 2>/dev/null; echo "=$s"; }; }
r 'a:b c\n' -d '' a
