package syntax

import (
	"strings"
	"testing"
)

const everyday = `#!/bin/bash
set -euo pipefail
# build everything that has changed
for dir in "$@"; do
	name=$(basename "$dir")
	if [[ -f $dir/Makefile && $name != skip* ]]; then
		(cd "$dir" && make -j4 "${targets[@]}" 2>&1 | tee "/tmp/$name.log") || {
			echo "error: ${name}: build failed with $?" >&2
			failed=$((failed + 1))
			continue
		}
	elif [ -x "$dir/build.sh" ]; then
		"$dir/build.sh" --prefix="$HOME/.local" ${VERBOSE:+-v} >>build.log
	fi
	case "$name" in
		lib*|*-dev) libs+=("$name") ;;
		*) count=$((count + 1)); printf '%-20s %5d\n' "$name" "$count" ;;
	esac
done
while IFS=, read -r key value; do
	config[$key]=${value//\"/}
done < <(grep -v '^#' config.csv | sort -u)
cat <<END >report.txt
Built $count packages, $failed failed
END
`

func BenchmarkParse(b *testing.B) {
	src := strings.Repeat(everyday, 20)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(src, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseOneLine(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("echo hi", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
