package project

import (
	"context"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// lfsFilterName is the file in a sandbox's repository with lfsFilter.
const lfsFilterName = ".git/atoll-lfs"

// lfsFilter does in a sandbox what the filter of git-lfs does, with the objects beside it and no network. An image need not
// have git-lfs, and one that has it would look for a server.
const lfsFilter = `# atoll: the filter of git-lfs, with the objects of this repository
store=${0%/*}/lfs/objects
mkdir -p "$store" && temp=$(mktemp "$store/tmp.XXXXXX") && trap 'rm -f "$temp"' EXIT && cat >"$temp" || exit 1
size=$(($(wc -c <"$temp")))
id=
if [ $size -le 1024 ] && head -n 1 "$temp" | grep -q '^version https://git-lfs\.github\.com/spec/v1$'; then
	id=$(sed -n 's/^oid sha256:\([0-9a-f]*\)$/\1/p' "$temp")
fi
case $1 in
clean)
	if [ -n "$id" ] || [ $size = 0 ]; then
		cat "$temp"
		exit
	fi
	id=$(sha256sum "$temp") && id=${id%% *} || exit 1
	to=$store/$(printf %.2s $id)/$(printf %.4s $id | tail -c 2)
	mkdir -p "$to" && chmod 644 "$temp" && mv -f "$temp" "$to/$id" || exit 1
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' $id $size
	;;
smudge)
	object=$store/$(printf %.2s "$id")/$(printf %.4s "$id" | tail -c 2)/$id
	if [ -n "$id" ] && [ -f "$object" ]; then cat "$object"; else cat "$temp"; fi
	;;
esac
`

// configureLFS makes the git of a repository inside use lfsFilter for the files that its attributes give to git-lfs.
func (g guest) configureLFS(ctx context.Context) error {
	script := path.Join(g.dir, lfsFilterName)
	if err := atoll.WriteFile(ctx, g.sb, script, []byte(lfsFilter), 0o644); err != nil {
		return err
	}
	command := "sh '" + strings.ReplaceAll(script, "'", `'\''`) + "' "
	for _, s := range [][2]string{{"clean", command + "clean"}, {"smudge", command + "smudge"}, {"required", "true"}} {
		if err := g.run(ctx, nil, nil, "config", "filter.lfs."+s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}
