#### ro 1
readonly x=1; x=2; echo same line
#### ro 2
readonly x=1; (x=2; echo in); echo "st $?"; x=3 true; echo "pre $?"; x=3 eval 'echo ev'; echo "$?"
#### ro 3
readonly x=1; unset x; echo $?; declare x=2; echo $?; export x; declare -p x; local_(){ local x=5; echo $x; }; local_; echo $?
#### ro 4
readonly x=1; for x in a b; do echo $x; done; echo "for $?"
#### ro 5
readonly x=1; read x <<< v; echo "read $?"; printf -v x 5; echo "printf $?"; ((x=5)); echo "arith $?"; let x=6; echo "let $?"; getopts a x -a; echo "getopts $?"; mapfile x < /dev/null; echo "mapfile $?"
#### ro 6
readonly x=1; echo $((x=2)); echo no
#### ro 7
readonly x; x=1; echo no
#### ro 8
readonly a=(1 2); a=(3); echo no
#### ro 9
readonly a=(1 2); a+=(3); echo no
#### ro 10
readonly a=(1 2); unset 'a[0]'; echo $?; a[5]=1; echo no
#### ro 11
readonly x=1; f(){ x=2; echo in; }; f; echo out
#### ro 12
readonly x=1; if x=2; then echo t; else echo e; fi; echo after
#### ro 13
readonly x=1; x=2 || echo or; echo next
#### ro 14
readonly x=1; x=2; 
#### ro 15
readonly x=1; set -o posix; x=2; echo no
#### ro 16
declare -r y=5; declare +r y; echo $?; declare -i y; echo $?; declare -r y; echo $?; typeset -x y; echo $?; readonly y; echo $?; readonly y=5; echo $?; readonly -p | { while read -r l; do case $l in *" y="*) echo "$l";; esac; done; }
#### ro 17
readonly HOME; cd; echo $?; UID=5; echo no
#### ro 19
BASH_VERSINFO=1; echo no
#### ro 20
SHELLOPTS=x; echo no
