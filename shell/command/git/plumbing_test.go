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
	{Stdin: "nonsense\n", Run: first + "git mktree\ngit commit-tree HEAD^{tree}\ngit commit-tree -p HEAD HEAD^{tree}"},
	{Stdin: "4bf281bbc19a6697f341dc6ce676bddbab10305a\n4b9ff3d27734bbf8e8b49dc130a868de053a40c9\n", Run: second + "git diff-tree --stdin -r --name-only\ngit diff-tree --stdin --root"},
}
