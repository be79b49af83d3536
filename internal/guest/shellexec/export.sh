# atoll: packs a path. Its argument: the path. The archive goes to standard output,
# its checksum is the last line of standard error.
above=$1
while [ ! -e "$above" ] && [ ! -L "$above" ]; do
	above=$(dirname -- "$above")
done
if [ "$above" != "$1" ]; then
	[ -d "$above" ] && [ ! -x "$above" ] && exit 43
	exit 40
fi
if [ ! -L "$1" ]; then
	[ -r "$1" ] || exit 43
	[ ! -d "$1" ] || [ -x "$1" ] || exit 43
fi
command -v tar >/dev/null || exit 42
dir=${1%/*} base=${1##*/}
if [ -z "$base" ]; then
	base=.
fi
cd -- "${dir:-/}" || exit 43
if command -v sha256sum >/dev/null && command -v tee >/dev/null; then
	exec 8>&1
	all=$({ { { tar -cf - -- "$base"; echo "$?-" >&7; } | tee /proc/self/fd/9 >&8; } 9>&1 | sha256sum; } 7>&1)
	code=127 sum=
	for word in $all; do
		case $word in
		-) ;;
		*-) code=${word%-} ;;
		*) sum=$word ;;
		esac
	done
else
	tar -cf - -- "$base"
	code=$? sum=
fi
if [ "$code" = 1 ]; then # files that changed meanwhile, says one of them
	case $(tar --version 2>&1) in *GNU*) code=0 ;; esac
fi
[ "$code" = 0 ] || exit 45
echo "sum $sum" >&2
