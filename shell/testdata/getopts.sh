#### getopts 1
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g ab:c o -a -b x -c y
#### getopts 2
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g ab:c o -abfoo -c
#### getopts 3
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g ab o -z -a
#### getopts 4
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g :ab: o -z -b
#### getopts 5
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g ab: o -b
#### getopts 6
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g a o -- -a
#### getopts 7
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g a o -a - b
#### getopts 8
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g a o x -a
#### getopts 9
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g a: o -a ''
#### getopts 10
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g 'a' 1x -a
#### getopts 11
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
getopts
#### getopts 12
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
echo $?
#### getopts 13
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
getopts a
#### getopts 14
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
echo $?
#### getopts 15
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
set -- -a -b
#### getopts 16
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
OPTIND=1
#### getopts 17
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
getopts ab o
#### getopts 18
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
echo $o
#### getopts 19
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
getopts ab o
#### getopts 20
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
echo $o
#### getopts 21
g(){ OPTIND=1; while getopts "$@"; do echo "$o|$OPTARG|$OPTIND"; done; echo "end $? $o|${OPTARG-unset}|$OPTIND"; }
g ab:c o -a -b x -c y; g ab:c o -abfoo -c; g ab o -z -a; g :ab: o -z -b; g ab: o -b; g a o -- -a; g a o -a - b; g a o x -a; g a: o -a ''; g 'a' 1x -a; getopts; echo $?; getopts a; echo $?; set -- -a -b; OPTIND=1; getopts ab o; echo $o; getopts ab o; echo $o; getopts ab o; echo $? $o $OPTIND; OPTERR=0; g a o -z;unset OPTERR; g a o -?; g a o -:; g :a o -:; g a o --foo;
