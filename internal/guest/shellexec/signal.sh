# atoll: a signal for a command, or its end with all processes that are left of it.
# Arguments: TOKEN [SIGNAL PID pid|foreground].
__t=$1
exec 2>/dev/null
if [ -z "$2" ]; then
	__who
	__spare=$$ __sids= __root= __wide=1
	__sweep
	exit
fi
if [ "$4" = foreground ]; then
	IFS= read -r __r <"/proc/$3/stat" || exit
	__s=$2
	set -- ${__r##*) }
	kill "-$__s" "-$6"
else
	kill "-$2" "$3"
fi
