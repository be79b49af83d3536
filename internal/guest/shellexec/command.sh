# atoll: one command of a container, for a host that has only this shell there.
# Arguments: TOKEN in|no|tty ROWS COLS. On standard input: the command's
# directory, environment and arguments, then frames of its standard input. What it
# writes goes out as it is; marks between it begin with \036TOKEN and end with ;
# Variables begin with __ so that none of them is one of the command's.
__t=$1 __mode=$2 __rows=$3 __cols=$4
exec 3<&0 5>&1 6>&2 2>/dev/null
trap : INT QUIT HUP TERM USR1 USR2 ALRM TSTP TTIN TTOU
if [ "$__mode" = tty ]; then
	exec 6>&5
	__tty=$(stty -g <&3)
	stty raw -echo <&3
	printf '\036%sr;' "$__t" >&5
fi

# __line reads a line to __v: = and text, or % and text with escapes.
__line() {
	IFS= read -r __l <&3 || exit 125
	case $__l in
	%*) __v=$(printf '%b.' "${__l#%}") && __v=${__v%.} ;;
	*) __v=${__l#=} ;;
	esac
}

# __pump hands on standard input. Where the host is gone, the command ends.
__pump() {
	IFS=' ' read -r __spare __r </proc/self/stat
	__spare="$$ $__spare" __root=$$
	while IFS= read -r __l <&3; do
		case $__l in
		0) exec >&- ;;
		*[!0-9]* | '') break ;;
		*)
			dd bs="$__l" count=1 iflag=fullblock <&3 || break
			printf '\036%sa;' "$__t" >&6
			;;
		esac
	done
	__sweep
}

# __child becomes the command. Its arguments: the number of variables, they, and
# the command's.
__child() {
	IFS=' ' read -r __p __r </proc/self/stat
	printf '\036%sp%s;' "$__t" "$__p" >&6
	exec 3<&- 2>&6 1>&5
	export ATOLL_CALL="$__t"
	[ "$__mode" != tty ] || [ -n "$TERM" ] || export TERM=xterm
	exec 5>&- 6>&-
	__n=$1
	shift
	while [ "$__n" -gt 0 ]; do
		export "$1"
		shift
		__n=$((__n - 1))
	done
	exec "$@"
}

# __finish runs the command, ends what is left of it, and says how it ended: its
# status, and s where this shell says that it was a signal. bash never does here.
__finish() {
	IFS=' ' read -r __spare __r </proc/self/stat
	case $__mode in
	no) __m=$({ trap : INT QUIT HUP TERM USR1 USR2 ALRM; (__child "$@" </dev/null); echo "=$?"; } 2>&1) ;;
	*) __m=$({ trap : INT QUIT HUP TERM USR1 USR2 ALRM; (__child "$@"); echo "=$?"; } 2>&1) ;;
	esac
	__spare="$$ $__spare" __root=$__spare
	__sweep
	__code=${__m##*=} __m=${__m%=*}
	[ -n "$__m" ] && __code=${__code}s
	printf '\036%se%s;' "$__t" "$__code" >&5
	[ "$__mode" = tty ] || printf '\036%se%s;' "$__t" "$__code" >&6
	case $__mode in
	tty) IFS= read -r __r <&3 ;;
	*) cat <&3 >/dev/null ;;
	esac
	exit "${__code%s}"
}

__line
__dir=$__v
__line
__env=$__v
__line
__left=$__v __i=0 __list=
set -- "$__env"
while [ "$__left" -gt 0 ]; do
	__line
	eval "__a$__i=\$__v"
	__list="$__list \"\$__a$__i\"" __i=$((__i + 1)) __left=$((__left - 1))
	if [ "$__i" = 100 ] || [ "$__left" = 0 ]; then
		eval "set -- \"\$@\" $__list"
		__i=0 __list=
	fi
done
if [ "$__mode" = in ] && ! command -v dd >/dev/null; then
	printf '\036%sd4;' "$__t" >&5
	exit 125
fi
if ! cd -- "$__dir"; then
	__code=3
	[ -d "$__dir" ] || __code=2
	[ -e "$__dir" ] || __code=1
	printf '\036%sd%s;' "$__t" "$__code" >&5
	exit 125
fi
__who
__sids= __wide= __root=$$
[ "$__own" = $$ ] && __sids=$$
if [ "$__mode" = tty ]; then
	stty "$__tty" <&3
	stty rows "$__rows" cols "$__cols" <&3
	__finish "$@" <&3
else
	__pump | __finish "$@"
fi
