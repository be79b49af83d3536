#### g1
f() { local OPTIND=1; while getopts "vn:h" o; do echo "o=$o $OPTIND"; done; echo end $OPTIND; }; f -v -n 3 thing; f other; f -z 2>/dev/null; f -z
#### g2
f() { local OPTIND=1; getopts "v" o; echo "$o $? $OPTIND"; }; f -z 2>/dev/null
#### g3
f() { local opt OPTIND OPTARG; while getopts "vn:h" o; do echo "o=$o $OPTIND"; done; echo end $OPTIND; }; f -v -n 3 thing; f other; f -z 2>/dev/null; f -vz
#### g4
echo err >&2 |& cat; { echo out; echo err >&2; } |& cat; (echo a >&2) |& cat; f() { echo f >&2; }; f |& cat
#### g5
type cd nosuch echo 2>&1 | cat; set -n; echo never
#### g6
hash nosuch cat 2>&1 | cat; alias x=1 y z=2 w 2>&1 | cat; kill -l 1 nosuch 2 2>&1; shopt nosuch extglob 2>&1
