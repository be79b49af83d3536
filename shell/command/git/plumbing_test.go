package git_test

import "github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"

// plumbing are scripts with the commands that programs use.
var plumbing = []string{
	// words
	first + "sed -i -e 's/2/2 two deux/' -e 's/func f/func g/' b.go\nsed -i 's/two/two and a half/' a\ngit diff --word-diff\ngit diff --word-diff=plain a\ngit diff --word-diff=porcelain\ngit diff --word-diff=none a\ngit diff --word-diff=odd\ngit diff --word-diff -U0\ngit diff --word-diff --stat",
	first + "sed -i 2,3d a\nsed -i -e '1i\\top line' -e '$a\\last' b.go\ngit diff --word-diff\ngit diff --word-diff=porcelain\ngit commit -qam x\ngit show --word-diff\ngit log -p --word-diff --format=%s",
	first + "sed -i -e 's/one/the quick brown fox/' -e 's/two/jumps over\\n/' -e 's/three/the lazy dog/' a\ngit commit -qam t\nsed -i -e 's/the quick brown/a quick red/' -e 's/jumps over/\\njumps  over and over/' -e 's/dog/cat/' a\ngit diff --word-diff\ngit diff --word-diff=porcelain\ngit diff --word-diff -w\ngit diff --word-diff -R",
	// diff-index, diff-files, diff-tree
	first + "git diff-index --quiet HEAD --\ngit diff-index HEAD\nsed -i s/one/1/ a\ngit diff-index --quiet HEAD --\ngit diff-index HEAD\ngit diff-index --cached HEAD\ngit diff-index --name-only HEAD\ngit diff-files\ngit diff-files --quiet\ngit diff-files --name-status\ngit add a\ngit diff-files\ngit diff-index --cached HEAD\ngit diff-index --cached --name-status HEAD -- a\ngit diff-index -p HEAD\ngit diff-index\ngit diff-index nope",
	second + "git rm -q --cached a\nsed -i s/3/three/ b.go\ngit mv dir/sub/d e\ngit add b.go\ngit commit -qm third\ngit diff-tree HEAD\ngit diff-tree --no-commit-id --name-only -r HEAD\ngit diff-tree --name-status HEAD\ngit diff-tree -r HEAD\ngit diff-tree -p HEAD\ngit diff-tree HEAD~2 HEAD\ngit diff-tree -r --name-only HEAD~2 HEAD\ngit diff-tree -r -M HEAD~1 HEAD\ngit diff-tree --stat HEAD~1 HEAD\ngit diff-tree HEAD~1 HEAD dir\ngit diff-tree HEAD~2\ngit diff-tree --root --name-only -r HEAD~2\ngit diff-tree\ngit diff-tree -r --abbrev HEAD",
	branches + "git merge -q --no-edit work\ngit diff-tree HEAD\ngit diff-tree -r --name-only HEAD^1 HEAD\ngit diff-tree -m -r --name-only HEAD",
	// objects
	first + "git commit-tree -m one HEAD^{tree}\ngit commit-tree HEAD^{tree} -p HEAD -m one -m two\ngit commit-tree HEAD -p HEAD -F a\ngit commit-tree -m x nope\ngit commit-tree\ngit commit-tree HEAD^{tree} -p HEAD -F a\ngit rev-parse HEAD^{tree}",
	second + "git rev-list --objects HEAD\ngit rev-list --objects HEAD~1..HEAD\ngit rev-list --objects --all\ngit rev-list --objects -1 HEAD\ngit rev-list --objects HEAD -- dir",
	second + "git fsck\ngit fsck --full --no-progress\ngit pack-refs --all\ngit maintenance run --auto --quiet\ngit rev-parse HEAD\ngit branch\ngit count-objects",
	// merges without a working tree
	branches + "git merge-tree main work\ngit merge-tree --write-tree --messages main work\ngit status -s\ngit merge-tree main main\ngit merge-tree main~1 work\ngit merge-tree main nope",
	first + "git checkout -q -b work\ngit rm -q a\ngit commit -qm gone\ngit checkout -q main\ncp dir/c a\ngit commit -qam changed\ngit merge-tree main work\ngit checkout -q --orphan other\ngit commit -qm unrelated\ngit merge-tree other work\ngit merge-tree --allow-unrelated-histories other main",
	// notes
	second + "git notes\ngit notes show\ngit notes add -m one\ngit notes show\ngit notes add -m two\ngit notes add -f -m two\ngit notes append -m three -m four\ngit notes show\ngit notes add -F a HEAD~1\ngit notes list\ngit notes list HEAD\ngit log\ngit log --oneline\ngit log --no-notes -1\ngit log --format=medium -1\ngit log --notes --format=short -1\ngit show --stat\ngit log --graph\ngit log -p -1\ngit rev-parse refs/notes/commits refs/notes/commits^{tree}\ngit notes get-ref",
	second + "git notes add -m one\ngit notes copy HEAD HEAD~1\ngit notes copy HEAD HEAD~1\ngit notes copy -f HEAD HEAD~1\ngit notes remove HEAD nope\ngit notes remove\ngit notes remove\ngit notes remove --ignore-missing HEAD\ngit notes list\ngit notes copy HEAD HEAD~1\ngit log --format='%H %s' refs/notes/commits\ngit notes --ref=x add -m other\ngit log -1\ngit log -1 --notes=x\ngit -c core.notesRef=refs/notes/x log -1\ngit notes --ref x list\ngit for-each-ref\ngit notes add -m '' HEAD~1\ngit notes show nope\ngit rev-parse refs/notes/commits@{1}",
	// bundles
	second + "git bundle create x.bundle --all\ngit bundle verify x.bundle\ngit bundle list-heads x.bundle\ngit bundle list-heads x.bundle HEAD\ngit clone x.bundle y\ngit -C y log --oneline\ngit -C y status\ngit -C y remote -v\ngit -C y branch -a\ngit ls-remote x.bundle\nhead -n 3 x.bundle",
	branches + "git tag -a -m t v1 work\ngit bundle create b main~1..main\ngit bundle verify b\ngit bundle create c work ^main~1 v1\ngit bundle verify c\ngit bundle list-heads c\ngit bundle create d main..main~1\ngit bundle create d nope\ngit bundle create d HEAD\ngit bundle verify d\ngit bundle verify a\ngit bundle verify nope\ngit bundle verify -q d\ngit bundle\ngit init -q other\ngit -C other bundle verify ../b\ngit -C other fetch -q ../b main\ngit -C other fetch ../d HEAD:one\ngit -C other fetch ../c work:two\ngit -C other log --oneline --all\ngit -C other bundle unbundle ../d",
	// small ones
	branches + "git cherry work\ngit cherry -v work main\ngit cherry main work\ngit cherry-pick work\ngit cherry -v work\ngit cherry main work\ngit cherry nope",
	first + "git submodule\ngit submodule status\ngit submodule update --init --recursive\ngit submodule sync",
	first + "git update-index --refresh\nsed -i s/one/1/ a\nrm b.go\ngit update-index --refresh\ngit update-index -q --refresh",
}

// plumbingInput are such commands with standard input.
var plumbingInput = []commandtest.Case{
	{Stdin: "\n\na  \n\n\n# b\n\tc\n\n", Run: "git stripspace\ngit stripspace -s\ngit stripspace -c"},
	{Stdin: "100644 blob 4cb29ea38f70d7c61b2a3a25b02e3bdf44905402\tz\n040000 tree 72ca1650a5a3250a8857f401a7d7dbbff255bd98\td\n100644 blob 4cb29ea38f70d7c61b2a3a25b02e3bdf44905402\td.x\n", Run: first + "git mktree\ngit ls-tree -r 9bb2a6d2"},
	{Stdin: "100644 blob 72ca1650a5a3250a8857f401a7d7dbbff255bd98\tz\n", Run: first + "git mktree"},
	{Stdin: "100644 tree 72ca1650a5a3250a8857f401a7d7dbbff255bd98\tz\n", Run: first + "git mktree"},
	{Stdin: "100644 blob 82ca1650a5a3250a8857f401a7d7dbbff255bd98\tz\n", Run: first + "git mktree\ngit mktree --missing"},
	{Stdin: "subject\n\nbody\nof two lines\n", Script: "cat > m\ngit interpret-trailers m\ngit interpret-trailers --trailer 'Fixes: #1' m\ngit interpret-trailers --trailer Reviewed-by='Ann <a@x>' --trailer 'Change-Id: I1' m\ngit interpret-trailers --trailer a=b --trailer a=b --trailer a:c m\ngit interpret-trailers --only-trailers --trailer a=b m\ngit interpret-trailers --parse m\ngit interpret-trailers --trailer key m\ngit interpret-trailers --trim-empty --trailer key --trailer k=v m\ngit interpret-trailers --in-place --trailer a=b m\ncat m\ngit interpret-trailers --in-place --trailer a=b --trailer c=d m\ncat m\ngit interpret-trailers nope"},
	{Stdin: "subject\n\nbody\n\nSigned-off-by: Ann <a@x>\nfixes : 2\nLong: one\n  two\n\tthree\n\n# comment\n", Script: "cat > m\ngit interpret-trailers m\ngit interpret-trailers --parse m\ngit interpret-trailers --only-trailers m\ngit interpret-trailers --only-trailers --unfold m\ngit interpret-trailers --only-input --only-trailers m\ngit interpret-trailers --trailer x=y m\ngit interpret-trailers --trailer 'Signed-off-by: Ann <a@x>' m"},
	{Stdin: "subject\n\nKey: value\nnot one\n", Script: "cat > m\ngit interpret-trailers --parse m\ngit interpret-trailers --trailer x=y m"},
	{Stdin: "subject\n\nnot one\nnor this\nSigned-off-by: Ann <a@x>\n", Script: "cat > m\ngit interpret-trailers --parse m\ngit interpret-trailers --trailer x=y m"},
	{Stdin: "subject: x\n", Script: "cat > m\ngit interpret-trailers --parse m\ngit interpret-trailers --trailer x=y m\ntr -d x < m > x\nhead -c 6 m > n\ngit interpret-trailers --trailer x=y n\ntouch e\ngit interpret-trailers --trailer x=y e\ngit interpret-trailers e"},
	{Stdin: "subject\n\nbody\n\nkey: value\n---\n a | 1 +\n", Script: "cat > m\ngit interpret-trailers --parse m\ngit interpret-trailers --trailer x=y m\ngit interpret-trailers --trailer x=y < m\ngit interpret-trailers --no-divider --trailer x=y m"},
	{Stdin: "nonsense\n", Run: first + "git mktree\ngit commit-tree HEAD^{tree}\ngit commit-tree -p HEAD HEAD^{tree}"},
	{Stdin: "4bf281bbc19a6697f341dc6ce676bddbab10305a\n4b9ff3d27734bbf8e8b49dc130a868de053a40c9\n", Run: second + "git diff-tree --stdin -r --name-only\ngit diff-tree --stdin --root"},
	{Script: conflict + "git merge-tree main work\ngit merge-tree --name-only main work\ngit merge-tree --no-messages work main\ngit merge-tree --write-tree --name-only --no-messages main work~1\ngit cat-file -p $(git merge-tree main work | head -n 1):a\ngit status -s"},
	{Script: first + "git var GIT_AUTHOR_IDENT\ngit var GIT_COMMITTER_IDENT\ngit var GIT_EDITOR\ngit var nope > /dev/null\ngit -c init.defaultBranch=x var GIT_DEFAULT_BRANCH"},
}
