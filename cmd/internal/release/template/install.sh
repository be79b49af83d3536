#!/bin/sh
# Installs atoll {{.Version}} for one user: into $ATOLL_PREFIX, or else ~/.local.
# It fetches one archive, and installs nothing unless its SHA-256 is the one below.
#   sh install.sh              install
#   sh install.sh --uninstall  remove what it installed
set -eu

prefix=${ATOLL_PREFIX:-$HOME/.local}
url=${ATOLL_URL:-{{.URL}}}
list=$prefix/share/atoll/installed

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

uninstall() {
	[ -f "$list" ] || return 0
	while IFS= read -r file; do
		rm -f "$prefix/$file"
	done <"$list"
	rm -f "$list"
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/atoll # to which atoll unpacks its programs
	rm -f "$cache"/atoll-*-????????????????????????????????????????????????????????????????
	rmdir "$cache" 2>/dev/null || true
	for dir in share/atoll share/man/man1 share/man share/bash-completion/completions share/bash-completion \
		share/fish/vendor_completions.d share/fish share/zsh/site-functions share/zsh share bin; do
		rmdir "$prefix/$dir" 2>/dev/null || true # others' files stay
	done
}

digest() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "neither sha256sum nor shasum is here: the archive can't be verified"
	fi
}

fetch() {
	case $url in
	https://* | file://*) ;;
	*) [ -n "${ATOLL_URL:-}" ] || fail "$url is not encrypted" ;;
	esac
	if command -v curl >/dev/null; then
		curl -fsSL -o "$2" "$1" || fail "$1 can't be fetched"
	elif command -v wget >/dev/null; then
		wget -qO "$2" "$1" || fail "$1 can't be fetched"
	else
		fail "neither curl nor wget is here"
	fi
}

main() {
	case ${1:-} in
	--uninstall)
		uninstall
		exit 0
		;;
	'') ;;
	*) fail "unknown argument $1; the only one is --uninstall" ;;
	esac

	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no atoll for $(uname -m)" ;;
	esac
	case $os-$arch in
{{- range .Archives}}{{if ne .OS "windows"}}
	{{.OS}}-{{.Arch}}) archive={{.Name}} want={{.Digest}} ;;
{{- end}}{{end}}
	*) fail "there is no atoll for $os on $arch" ;;
	esac

	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	fetch "$url/$archive" "$tmp/$archive"
	got=$(digest "$tmp/$archive")
	[ "$got" = "$want" ] || fail "$url/$archive is not what was released: its SHA-256 is $got, want $want"
	mkdir "$tmp/files"
	tar -xzf "$tmp/$archive" -C "$tmp/files"

	uninstall # an earlier version
	mkdir -p "$prefix/bin" "$prefix/share/atoll" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
		"$prefix/share/fish/vendor_completions.d" "$prefix/share/zsh/site-functions"
	put() {
		echo "$2" >>"$list"
		cp "$tmp/files/$1" "$prefix/$2.new"
		mv "$prefix/$2.new" "$prefix/$2"
	}
	put completions/atoll.bash share/bash-completion/completions/atoll
	put completions/atoll.fish share/fish/vendor_completions.d/atoll.fish
	put completions/_atoll share/zsh/site-functions/_atoll
	for page in "$tmp"/files/man/*; do
		put "man/${page##*/}" "share/man/man1/${page##*/}"
	done
	put atoll bin/atoll # the last: what is there before it is complete
	"$prefix/bin/atoll" version
	case :$PATH: in
	*:"$prefix/bin":*) ;;
	*) echo "Add $prefix/bin to your PATH." ;;
	esac
	echo "'atoll demo' shows what it does, 'atoll doctor' what works on this machine."
}

main "$@" # a script that was cut off does nothing
