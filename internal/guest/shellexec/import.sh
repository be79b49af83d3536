# atoll: unpacks an archive from standard input into a directory. Arguments: the
# directory, and a name for a place in it that nobody else uses. In the archive, f/
# is what to unpack, m/sums its checksums, and m/dirs.tar the modes and times of its
# directories. Everything is unpacked and checked first, then moved to its place.
umask 022
command -v tar >/dev/null || exit 42

# fits says whether there is room to write; without, the reason is that.
fits() {
	mkdir -p "$1" && dd if=/dev/zero of="$1/room" bs=65536 count=1 2>/dev/null && rm -f "$1/room"
}

# why tells the reason for a failure in the directory we are in.
why() {
	[ -w . ] && [ -x . ] || return 43
	fits "$1" || return 44
	return 45
}

# above tells why a directory could not be made.
above() {
	while [ ! -e "$1" ] && [ ! -L "$1" ]; do
		set -- "$(dirname -- "$1")"
	done
	[ -d "$1" ] || return 41
	cd -- "$1" || return 43
	why ".$2"
}

# merge moves what is in one directory to another. What is there stays, but files
# and links are replaced; nothing is reached through a link that was there.
merge() {
	for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
		[ -e "$f" ] || [ -L "$f" ] || continue
		t=$2/${f##*/}
		if [ -d "$f" ] && [ ! -L "$f" ]; then
			if [ -d "$t" ] && [ ! -L "$t" ]; then
				merge "$f" "$t" || return
				continue
			elif [ -e "$t" ] || [ -L "$t" ]; then
				echo "$t: it is no directory" >&2
				return 41
			fi
		elif [ -d "$t" ]; then
			if [ ! -L "$t" ]; then
				echo "$t: it is a directory" >&2
				return 41
			fi
			rm -f -- "$t" || return 45 # or mv would go through it
		fi
		set -- "$@" "$f"
		[ $# -lt 300 ] || { move "$@" && set -- "$1" "$2"; } || return
	done
	move "$@"
}

# move moves all but the first two of its arguments to the second.
move() {
	[ $# -gt 2 ] || return 0
	to=$2
	shift 2
	mv -f -- "$@" "$to/" || return 45
}

# modes gives directories their modes, which not every tar does. Each line has a mode
# and a name: = and text, or % and text with escapes.
modes() {
	last=
	set --
	while IFS= read -r line; do
		name=${line#* }
		case $name in
		%*) name=$(printf '%b.' "${name#%}") && name=${name%.} ;;
		*) name=${name#=} ;;
		esac
		if [ "${line%% *}" != "$last" ] || [ $# -ge 300 ]; then
			[ $# = 0 ] || chmod "$last" "$@" || return 43
			last=${line%% *}
			set --
		fi
		set -- "$@" "./$name"
	done
	[ $# = 0 ] || chmod "$last" "$@" || return 43
}

# unpack does it, in the place of its own.
unpack() {
	mkdir -p "$1/f" "$1/m" || return 45
	(umask 0 && cd "$1" && tar -xpof -) || return 45
	[ -e "$1/m/modes" ] || return 46
	if [ -s "$1/m/sums" ] && command -v sha256sum >/dev/null; then
		(cd "$1/f" && sha256sum -c ../m/sums >/dev/null) || return 46
	fi
	merge "$1/f" . || return
	tar -xpof "$1/m/dirs.tar" || return 45
	modes <"$1/m/modes"
}

mkdir -p -- "$1" 2>/dev/null || { above "$1" "/$2"; exit; }
cd -- "$1" || exit 43
unpack "./$2"
code=$?
if [ "$code" = 45 ]; then
	why "./$2"
	code=$?
fi
rm -rf "./$2"
exit "$code"
