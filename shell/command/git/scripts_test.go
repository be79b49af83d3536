package git_test

import (
	"slices"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

const (
	// second adds a commit, branches makes main and work diverge, conflict makes both change the same line.
	second   = first + "cp dir/c new\ngit add new\ngit commit -q -m second\n"
	branches = first + "git checkout -q -b work\nsed -i s/one/ONE/ a\ngit commit -q -am 'on work'\ngit checkout -q main\nsed -i s/3/three/ b.go\ngit commit -q -am 'on main'\n"
	conflict = first + "git checkout -q -b work\nsed -i s/two/work/ a\ngit commit -q -am 'on work'\ngit checkout -q main\nsed -i s/two/main/ a\ngit commit -q -am 'on main'\n"
)

// scripts are commands whose output, status and, by the names of commits, objects must be those of the real git.
var scripts = []string{
	// merges
	branches + "git merge work\ngit log --oneline --graph\ngit rev-parse HEAD HEAD^{tree}\ngit status",
	branches + "git merge --no-edit -m joined work\ngit show --stat\ngit log --graph --all --oneline",
	branches + "git merge --no-commit work\ngit status\ngit commit -m joined\ngit rev-parse HEAD",
	branches + "git merge --squash work\ngit status -s\ngit commit -m squashed\ngit rev-parse HEAD",
	branches + "git merge --ff-only work\ngit merge-base main work\ngit merge-base --is-ancestor main work\ngit log --oneline main..work\ngit log --oneline main...work\ngit diff main...work",
	first + "git checkout -q -b work\ngit mv a z\ngit commit -qm moved\ngit checkout -q main\nsed -i s/one/ONE/ a\ngit commit -qam changed\ngit merge work\ngit ls-files\ngit rev-parse HEAD\ncat z",
	first + "git checkout -q -b work\ncp dir/c a\ngit commit -qam work\ngit checkout -q main\ngit merge --no-ff work\ngit log --oneline --graph\ngit rev-parse HEAD\ngit merge work",
	conflict + "git merge work\ngit status\ncat a\ngit diff\ngit ls-files -u\ngit status -s\ngit commit -m no\nsed -i -e /^[<>=]/d a\ngit add a\ngit status\ngit commit -q --no-edit\ngit log --oneline --graph\ngit rev-parse HEAD^{tree}",
	conflict + "git merge work\ngit merge --abort\ngit status\ncat a\ngit merge --abort",
	conflict + "git merge -X ours work\ncat a\ngit rev-parse HEAD", conflict + "git merge -X theirs work\ncat a\ngit rev-parse HEAD", conflict + "git merge -s ours work\ncat a\ngit rev-parse HEAD",
	conflict + "git merge work\ngit checkout --ours a\ncat a\ngit checkout --theirs a\ncat a\ngit add a\ngit commit -qm done\ngit rev-parse HEAD",
	first + "git checkout -q -b work\ngit rm -q a\ngit commit -qm gone\ngit checkout -q main\ncp dir/c a\ngit commit -qam changed\ngit merge work\ngit status\ngit status -s\ngit rm -q a\ngit commit -qm agreed\ngit rev-parse HEAD",
	first + "git checkout -q -b work\ncp dir/c n\ngit add n\ngit commit -qm one\ngit checkout -q main\ncp dir.x n\ngit add n\ngit commit -qm two\ngit merge work\ncat n\ngit status -s\ngit reset -q --hard\ngit status -s",
	conflict + "git -c merge.conflictStyle=diff3 merge work\ncat a",
	conflict + "sed -i s/three/local/ a\ngit merge work\ngit status -s",
	first + "git checkout -q --orphan other\ngit commit -qm unrelated\ngit checkout -q main\ngit merge other\ngit merge --allow-unrelated-histories other\ngit rev-parse HEAD",
	// cherry-pick, revert, rebase
	branches + "git cherry-pick work\ngit log --oneline\ngit rev-parse HEAD\ngit cherry-pick -x work~1\ngit revert HEAD\ngit rev-parse HEAD\ngit log -1",
	conflict + "git cherry-pick work\ngit status\ngit cherry-pick --abort\ngit status -s\ngit cherry-pick work\ncp dir/c a\ngit add a\ngit cherry-pick --continue\ngit rev-parse HEAD\ngit log -2 --format='%an %cn %s'",
	conflict + "git cherry-pick work\ncat a\ngit cherry-pick --skip\ngit status -s\ngit log --oneline",
	branches + "git cherry-pick -n work\ngit status -s\ngit cherry-pick --abort",
	second + "git revert --no-edit HEAD\ngit show --stat\ngit rev-parse HEAD\ngit revert --no-edit HEAD\ngit log --oneline\ngit revert -n HEAD\ngit status -s",
	branches + "git checkout -q work\ngit rebase main\ngit log --oneline --graph\ngit rev-parse HEAD\ngit rebase main\ngit reflog",
	branches + "git rebase work\ngit log --format='%an %cn %s'\ngit rev-parse HEAD\ngit rebase --onto work~1 work main\ngit rev-parse HEAD",
	conflict + "git rebase work\ngit status\ngit diff\ngit rebase --abort\ngit status\ngit rebase work\ncp dir/c a\ngit add a\ngit -c core.editor=true rebase --continue\ngit log --oneline\ngit rev-parse HEAD",
	conflict + "git rebase work\ngit rebase --skip\ngit log --oneline\ngit status\ngit rebase --continue",
	branches + "sed -i s/two/TWO/ a\ngit rebase work\ngit stash\ngit rebase work\ngit stash pop\ngit status -s",
	branches + "sed -i s/two/TWO/ dir/c\ngit rebase --autostash work\ngit status -s\ngit stash list\ngit log --oneline --graph\ncat dir/c\ngit rev-parse HEAD",
	conflict + "cp a n\ngit add n\ngit rebase --autostash work\ngit status -s\ngit rebase --abort\ngit status -s\ngit stash list\ngit rev-parse HEAD",
	branches + "sed -i s/three/local/ b.go\ngit checkout -q work\ngit status -s", branches + "git checkout -q work\nsed -i s/3/local/ b.go\ngit rebase --autostash main\ngit status -s\ncat b.go\ngit stash list",
	branches + "git -c rebase.autostash=true rebase work\ngit rebase --autostash work\ngit rev-parse HEAD",
	// history
	branches + "git merge -q work -m merged\ngit log --oneline\ngit log --oneline --first-parent\ngit log --merges --oneline\ngit log --no-merges --oneline\ngit log -n 1\ngit log -2 --stat\ngit log --reverse --oneline",
	branches + "git log --all --oneline --graph\ngit log --all --graph\ngit log --graph --all --stat --oneline\ngit log --graph -p",
	second + "git log --author=Ann --oneline\ngit log --author=Zoe --oneline\ngit log --grep=sec --oneline\ngit log -i --grep=SEC --oneline\ngit log --since=2020-01-01 --oneline\ngit log --until=2020-01-01 --oneline\ngit log -S deep --oneline\ngit log --oneline -- new\ngit log --oneline new\ngit log --skip=1 --oneline",
	second + "git log --format=fuller\ngit log --format=full\ngit log --format=short\ngit log --format=raw\ngit log --pretty=oneline\ngit log --pretty=oneline --abbrev-commit\ngit log --format=reference\ngit log --format=email",
	second + "git tag v1\ngit branch side\ngit log --decorate --oneline\ngit log --format='%h%d %D'\ngit log --format='%<(20)%an|%>(20)%s|'\ngit log --date=short --format=%ad\ngit log --date=iso --format=%ad\ngit log --date=unix --format=%ad%n%cI\ngit log --format=format:%s",
	second + "git log --name-only\ngit log --name-status --oneline\ngit log --numstat --format=%h\ngit log --shortstat\ngit log -p --oneline\ngit log -p --stat -1\ngit log --summary",
	second + "git show HEAD~1:a\ngit show -s\ngit show -s --format=%s HEAD HEAD~1\ngit show HEAD:dir\ngit show --name-only\ngit show --oneline --stat HEAD~1\ngit rev-list HEAD\ngit rev-list --count HEAD\ngit rev-list --count HEAD~1..HEAD",
	second + "git shortlog HEAD\ngit shortlog -s HEAD\ngit shortlog -sne HEAD\ngit shortlog -s -n HEAD",
	second + "git tag v1 HEAD~1\ngit describe --tags\ngit describe\ngit tag -a -m annotated v2 HEAD~1\ngit describe\ngit describe --always --long\ngit describe --tags HEAD~1\ngit describe --exact-match\ngit describe --abbrev=0",
	second + "git blame new\ngit blame -s a\ngit blame -L 2,3 a\ngit blame -e a\ngit blame --porcelain new\ngit blame nope",
	branches + "git merge -q work -m merged\ngit blame a\ngit blame b.go\ngit blame -l a",
	second + "git reflog\ngit rev-parse HEAD@{1} HEAD^ HEAD~1 @ HEAD^{tree}\ngit reset -q --hard HEAD~1\ngit reflog\ngit reset -q --hard HEAD@{1}\ngit log --oneline\ngit reflog -n 1\ngit log -g --oneline",
	second + "git rev-parse HEAD:a\ngit rev-parse :a\ngit rev-parse HEAD..HEAD~1\ngit rev-parse --verify nope\ngit rev-parse -q --verify nope\ngit rev-parse --short=10 HEAD\ngit rev-parse --abbrev-ref main\ngit rev-parse --git-dir\ngit -C dir rev-parse --show-cdup\ngit rev-parse HEAD^2",
	// branches and tags
	second + "git branch -v\ngit branch -a\ngit branch x HEAD~1\ngit branch --contains HEAD\ngit branch --merged\ngit branch --no-merged\ngit branch -d x\ngit branch --format='%(refname:short) %(objectname:short)'\ngit branch -l 'm*'\ngit branch -m trunk\ngit branch",
	second + "git switch -c a1\ngit switch -\ngit switch nope\ngit checkout -\ngit branch --show-current\ngit switch --detach HEAD~1\ngit branch\ngit status\ngit switch main\ngit branch -D a1",
	second + "git tag -a v1 -m 'the first'\ngit tag v0 HEAD~1\ngit tag -n\ngit show v1\ngit cat-file -p v1\ngit rev-parse v1 v1^{} v1^{commit}\ngit tag -l 'v*'\ngit tag --points-at HEAD\ngit tag --contains HEAD~1\ngit for-each-ref\ngit for-each-ref --format='%(refname:short) %(objecttype) %(subject)' refs/tags\ngit tag -d v1\ngit tag --sort=-refname",
	second + "git checkout HEAD~1 -- a\ngit checkout HEAD~1\ngit checkout -q main\ngit checkout nope\ngit checkout -- nope\ngit checkout -b new1 HEAD~1\ngit log --oneline\ngit checkout -B new1 main\ngit log --oneline",
	// status and index
	first + "git mv a z\ngit status\ngit status -s\ngit diff --cached\ngit diff --cached --stat\ngit diff --cached --name-status\ngit commit -m renamed\ngit show --stat\ngit show --name-status\ngit log --follow --oneline z\ngit diff HEAD~1 --summary",
	first + "sed -i s/one/1/ a\ngit mv a dir/z\ngit status -s\ngit add -A\ngit status\ngit commit -qm renamed\ngit show --stat\ngit show -M --summary\ngit rev-parse HEAD",
	first + "git status --porcelain=v2\ncp dir/c a\ngit rm -q dir.x\ngit mv run walk\ngit status --porcelain=v2 -b\ngit status -sb\ngit status --porcelain -z\ngit status -uno\ngit status -s -uall\ngit status dir",
	first + "sed -i s/one/1/ a\ngit diff -U1\ngit diff -U0\ngit diff --numstat\ngit diff --shortstat\ngit diff --raw\ngit diff -R\ngit diff --name-only -z\ngit diff --no-prefix\ngit diff --stat=40\ngit diff -- b.go\ngit diff HEAD -- a\ngit diff --quiet",
	first + "sed -i 's/two/  two/' a\ngit diff -w\ngit diff -b\ngit diff --stat -w\ngit diff --ignore-space-at-eol\nsed -i 's/three/three  /' a\ngit diff --ignore-space-at-eol\ngit diff -w --exit-code",
	first + "cp dir/c a\ncp dir/c b.go\ngit add a\ngit commit -qm one\ngit status -s\ngit commit -q -m two b.go\ngit rev-parse HEAD\ngit commit --amend -m 'two again'\ngit rev-parse HEAD\ngit commit --amend --no-edit --author='Zoe <z@example.com>'\ngit log -1 --format='%an <%ae> %s'\ngit commit --allow-empty -m x --date='2024-05-06 07:08:09 +0200'\ngit log -1 --format=%ad\ngit rev-parse HEAD",
	first + "git commit --allow-empty -m one -m two\ngit log -1 --format=%B\ngit commit --allow-empty -s -m signed\ngit log -1 --format=%B\ngit rev-parse HEAD\ngit commit --allow-empty --fixup HEAD\ngit log -1 --format=%s\ngit commit --allow-empty -C HEAD~1\ngit rev-parse HEAD\ngit commit -F nope\ngit commit --allow-empty -F a\ngit log -1",
	first + "cp dir/c a\ncp dir/c n\ngit stash\ngit status -s\ngit stash list\ngit stash show\ngit stash show -p\ngit stash pop\ngit status -s\ngit stash push -m named -u\ngit status -s\ngit stash list\ngit stash apply\ngit stash drop\ngit stash list\ngit stash pop",
	first + "cp dir/c a\ngit add a\nsed -i s/4/four/ b.go\ngit stash\ngit stash apply --index\ngit status -s\ngit reset -q --hard\ngit stash branch side\ngit status -s\ngit stash clear\ngit stash\ngit stash drop stash@{1}",
	conflict + "sed -i s/main/local/ a\ngit stash\ngit checkout -q work\ngit stash pop\ngit status -s\ncat a\ngit stash list",
	first + "cp a n1\ncp a n2\ngit clean\ngit clean -n\ngit clean -f\ngit status -s\ngit clean -fd\ngit clean -fdx\ngit ls-files -o",
	first + "git grep two\ngit grep -n two\ngit grep -l two\ngit grep -c e\ngit grep -i TWO\ngit grep -w one\ngit grep nope\ngit grep -e one -e three\ngit grep -v o a\ngit grep two HEAD\ngit grep -n func -- '*.go'\ngit grep -h two\ngit grep -E 't(w|h)'\ngit grep -F 'func f('\ngit -C dir grep deep\ngit grep -q two\ngit grep --count two",
	first + "git ls-tree HEAD\ngit ls-tree -r HEAD\ngit ls-tree -r --name-only HEAD\ngit ls-tree HEAD dir\ngit ls-tree HEAD dir/\ngit ls-tree -d HEAD\ngit ls-tree -l HEAD\ngit -C dir ls-tree HEAD\ngit cat-file -p HEAD^{tree}\ngit ls-tree -t -r HEAD\ngit ls-tree nope",
	first + "git reset --soft nope\nsed -i s/one/1/ a\ngit reset a\ngit add a\ngit reset a\ngit reset -- nope\ngit add a\ngit reset\ngit checkout a\ngit status -s\ngit restore --source=HEAD --staged --worktree a\ngit restore nope\ngit rm --cached a\ngit status -s\ngit restore --staged .\ngit status -s",
	// patches
	second + "git format-patch -1 --stdout\ngit format-patch HEAD~1\ncat 0001-second.patch\ngit reset -q --hard HEAD~1\ngit am 0001-second.patch\ngit log --oneline\ngit rev-parse HEAD\ngit status -s",
	second + "git format-patch -o out HEAD~1\ngit format-patch -2 -o out2\ngit ls-files -o",
	first + "cp a n1\ngit add n1\ncp dir/c bin\ngit commit -qam 2\ngit format-patch -q --root -o out\ngit checkout -q --orphan again\ngit reset -q --hard\ngit am -q out/0001-first.patch\ngit am -q out/0002-2.patch\ngit rev-parse HEAD\ngit log --oneline",
	second + "git format-patch -1 -o out\ngit apply -R out/0001-second.patch\ngit status -s\ngit apply --check out/0001-second.patch\ngit apply --stat out/0001-second.patch\ngit apply --index out/0001-second.patch\ngit status -s\ngit apply out/0001-second.patch\ngit apply nope",
	// working trees, bisect and config
	second + "git worktree list",
	second + "git bisect start\ngit bisect bad\ngit bisect good HEAD~1\ngit bisect reset\ngit status",
	first + "git commit -q --allow-empty -m 2\ngit commit -q --allow-empty -m 3\ngit commit -q --allow-empty -m 4\ngit commit -q --allow-empty -m 5\ngit bisect start HEAD HEAD~4\ngit bisect good\ngit bisect bad\ngit bisect log\ngit bisect reset\ngit branch --show-current",
	first + "git config alias.st 'status -s'\ngit st\ngit config alias.last 'log -1 --format=%s'\ngit last\ngit config --get-regexp alias\ngit config --unset alias.st\ngit st\ngit config a.b.c d\ngit config --list --local\ngit config --add x.y 1\ngit config --add x.y 2\ngit config --get-all x.y\ngit config --remove-section a.b\ngit config x.z\ngit config --get nope.nope\ngit config nope\ngit -c user.name=Other config user.name\ngit config --bool x.y",
	first + "git remote\ngit remote add origin https://example.com/x.git\ngit remote add origin y\ngit remote -v\ngit remote get-url origin\ngit remote set-url origin https://example.com/y\ngit remote -v\ngit remote rename origin up\ngit remote\ngit config --list --local\ngit remote remove up\ngit remote\ngit remote remove up",
	first + "git hash-object a\ngit hash-object -w new\ngit cat-file -p HEAD:a\ngit write-tree\ngit symbolic-ref HEAD\ngit symbolic-ref --short HEAD\ngit update-ref refs/heads/x HEAD\ngit branch\ngit update-ref -d refs/heads/x\ngit branch\ngit check-ignore a\ngit ls-files --error-unmatch nope",
}

// TestScripts compares scripts with the real git.
func TestScripts(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range slices.Concat(scripts, workflows, plumbing) {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Env: append(identity, "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true"), Shell: true, NoFiles: true, Loose: true})
	}
	for _, c := range plumbingInput {
		c.Tree, c.Env, c.NoFiles, c.Loose = tree, identity, true, true
		cases = append(cases, c)
	}
	commandtest.Compare(t, cases)
}
