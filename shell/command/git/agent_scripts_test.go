package git_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// repository makes a repository with three commits.
const repository = `git init -q -b main
git config core.autocrlf false
git add a b.go dir run link bin dir.x && git commit -q -m 'first commit'
echo four >>a && git commit -q -am 'a has four'
mkdir -p src && printf 'package src\n\nfunc F() int {\n\treturn 1\n}\n' >src/f.go && git add src && git commit -q -m 'add src'
`

// agentScripts are scripts as coding agents write them, with pipes, loops and here-documents.
var agentScripts = []string{
	// what is here
	`git rev-parse --is-inside-work-tree && git branch --show-current && git status --short | wc -l && git log --oneline -5 | cat`,
	`test -z "$(git status --porcelain)" && echo clean || { echo dirty; git status --porcelain | awk '{print $1}' | sort | uniq -c; }`,
	`git ls-files | grep -v '^dir' | sort -r | head -3; git ls-files '*.go' | xargs wc -l; git ls-files -z | tr '\0' '\n' | wc -l`,
	`git log --format='%h %s' | while read -r h s; do echo "$h: $(git show --format= --name-only $h | tr '\n' ' ')"; done`,
	`for c in $(git rev-list --reverse HEAD); do printf '%s ' "$(git log -1 --format=%s $c)"; git diff-tree --no-commit-id --numstat -r --root $c | awk '{a+=$1; d+=$2} END {print "+" a " -" d}'; done`,
	`git log --name-only --format= | sort | uniq -c | sort -k1,1nr -k2`,
	`git log --format=%an | sort | uniq -c; git shortlog -sn HEAD; git log --format='%ad' --date=format:'%Y-%m' | sort -u`,
	`git show --stat --oneline HEAD; git show HEAD~1 --format='%H%n%an%n%s' --no-patch; git show HEAD:src/f.go | sed -n 3p`,
	`git diff HEAD~2..HEAD --stat; git diff HEAD~2 HEAD --name-status; git diff --shortstat HEAD~1; git diff HEAD~2 -- src | grep '^+' | grep -v '^+++'`,
	`git blame --line-porcelain a | sed -n 's/^summary //p' | sort | uniq -c; git blame -L '/func/,/}/' src/f.go; git blame -L 2,3 a | awk '{print $1}'`,
	`git log -S'return 1' --oneline; git log -G'fo.r' --oneline -- a;`,
	`git log --all --oneline --graph --decorate; git log -1 --format=%B | head -1; git log --oneline --no-decorate main | tail -1`,
	`git cat-file --batch-check <<<"HEAD
HEAD:a
nope"; git rev-parse HEAD:src | git cat-file --batch-check='%(objecttype) %(objectsize)'; echo HEAD:link | git cat-file --batch`,
	`git grep -n 'four\|return' | sort; git grep -l one -- a dir | cat; git grep -c '' -- src; git grep -in FUNC HEAD~1; git grep --heading -n one`,
	`git count-objects | sed 's/,.*//'; git rev-list --count HEAD; git rev-list --count HEAD -- a; git rev-list --max-parents=0 HEAD`,
	// branches
	`git checkout -b feature/login 2>&1; echo x >login && git add login && git commit -qm 'feat: login' && git checkout main 2>&1 && git merge --no-ff -m 'Merge login' feature/login && git branch -d feature/login && git log --oneline --graph`,
	`for b in one two three; do git checkout -q -b $b main; echo $b >$b.txt; git add .; git commit -qm "add $b"; done; git checkout -q main; for b in one two three; do git merge -q --no-edit $b || echo failed; done; git log --oneline --first-parent; git branch --merged; ls *.txt`,
	`git branch a1; git branch b1 HEAD~1; git branch --list '[ab]*' --format='%(refname:short) %(contents:subject)'; git for-each-ref --format='%(refname) %(objectname:short)' refs/heads; git branch | sed 's/^..//' | grep -v main | xargs git branch -D`,
	`git switch -c x && git commit -q --allow-empty -m x && git switch - && git merge-base main x | xargs git log -1 --format=%s && git log main..x --oneline && git log x..main --oneline && git rev-list --left-right --count main...x`,
	`git checkout -q --detach HEAD~1; git status | head -1; git symbolic-ref -q HEAD || echo detached; git branch rescue; git checkout -q main; git branch -v`,
	`git checkout -q -b old HEAD~2; git checkout -q main; git branch --no-merged old; git branch --merged main; git branch --contains HEAD~1; git merge-base --is-ancestor old main && echo yes; git merge-base --is-ancestor main old || echo no`,
	`git branch -m main trunk; git branch; git status -sb; git config branch.trunk.description 'the trunk'; git config --get branch.trunk.description; git branch -c trunk copy; git branch -f copy HEAD~1; git branch -vv`,
	`git tag v1.0.0 HEAD~2; git tag -a v1.1.0 -m 'Release 1.1' HEAD~1; git tag v1.10.0; git tag --sort=v:refname; git describe --tags; git describe --abbrev=0 HEAD~1; git tag -l 'v1.1*' -n1; git log v1.0.0..v1.1.0 --format='- %s'; git rev-list -n 1 v1.1.0; git for-each-ref --sort=-creatordate --format='%(refname:short)' refs/tags | wc -l`,
	`git tag | tail -1; git tag -d nope; echo "status $?"; git tag x; git tag -f x HEAD~1; git rev-parse x; git show-ref --tags; git show-ref --verify refs/heads/main; git show-ref --verify -q refs/heads/nope || echo none`,
	// commits
	`git add -A && git commit -q -F - <<'EOF'
feat(core): a long message

- first
- second

Closes #12
EOF
git log -1 --format='%s|%b'; git rev-parse HEAD; git log -1 --format=%B | git interpret-trailers --trailer 'Co-authored-by: A <a@x.org>'`,
	`echo y >y; git add y; git commit -q -m "$(printf 'subject\n\nbody line')"; git log -1 --format='[%s][%b]'; git commit --amend -q --no-edit --reset-author; git log -1 --format='%an %ae'; git commit --amend -q -m changed; git reflog | head -3`,
	`echo 1 >n1; echo 2 >n2; git add n1; git commit -q -m n1; git add n2; git commit -q --amend -m 'n1 and n2'; git show --stat --format=%s; git reset -q --soft HEAD~1; git status -s; git commit -q -C ORIG_HEAD; git log -1 --format=%s`,
	`git commit --allow-empty -q -m 'fix: x' --trailer 'Reviewed-by: R <r@x>' --trailer 'Ticket: 7'; git log -1 --format='%(trailers)'; git log -1 --format='%(trailers:key=Ticket,valueonly)'; git log -1 --format='%B'`,
	`git commit -q --allow-empty --author='Jane Doe <jane@x.org>' --date='2024-01-02T03:04:05Z' -m j; git log -1 --format='%an <%ae> %aI'; git log --author=jane --format=%s; git log --committer=Bob --format=%s | wc -l`,
	`GIT_AUTHOR_NAME=Me GIT_AUTHOR_EMAIL=me@x GIT_COMMITTER_DATE='2024-02-03 04:05:06 +0000' git commit -q --allow-empty -m env; git log -1 --format='%an %ae %cI'; git -c user.name=Cfg -c user.email=c@x commit -q --allow-empty -m cfg; git log -1 --format='%an %cn'`,
	`echo 1 >>a; echo 2 >>b.go; git commit -q -m 'only a' a; git status -s; git commit -q -m 'only b' -- b.go; git log -2 --name-only --format=%s; git commit -m nothing; echo $?`,
	`echo 1 >>a; git commit -q -a --dry-run; echo $?; git commit -a --short; git status -s; git commit -q -a -v -m v; git log -1 --oneline`,
	`git rm -q --cached bin && echo bin >.gitignore && git add .gitignore && git commit -q -m 'ignore bin' && git status -s --ignored && git check-ignore -v bin && git ls-files -o --exclude-standard | sort`,
	`printf '*.log\n!keep.log\nbuild/\n/top\n' >.gitignore; mkdir -p build sub; touch x.log keep.log build/o top sub/top; git status -s -uall; git add .; git ls-files -o -i --exclude-standard; git check-ignore -v x.log build/o top sub/top keep.log; echo $?`,
	`git update-index --chmod=+x a && git diff --cached --summary && git commit -q -m mode && git ls-tree HEAD a run; git update-index --assume-unchanged b.go; echo z >>b.go; git status -s; git update-index --no-assume-unchanged b.go; git status -s; git ls-files -v | head -3`,
	// undoing
	`echo bad >>a; git checkout -- a; tail -1 a; echo bad >>a; git restore a; git add a; echo worse >>a; git add a; git restore --staged a; git status -s; git restore .; git status -s | wc -l`,
	`git reset --hard HEAD~1 && ls && git reset --hard ORIG_HEAD && ls && git reset --mixed HEAD~1 && git status -s && git add -A && git commit -qm again && git log --oneline`,
	`git revert --no-edit HEAD && git log -1 --format=%B && ls src 2>&1; git revert --no-edit HEAD && cat src/f.go; git revert --no-commit HEAD~3..HEAD; git status -s; git revert --abort; git status -s`,
	`git stash list; echo w >>a; echo n >n; git stash push -q -u -m wip; git stash list; git status -s; git stash show --stat; git stash pop -q; git status -s; git stash -q -- a; git status -s; git stash apply -q; git diff --stat; git stash drop -q; git stash list | wc -l`,
	`echo one >>a; git stash -q; echo two >>b.go; git stash -q; git stash list --format='%gd %s'; git stash show -p stash@{1} | tail -1; git stash drop -q 'stash@{0}'; git stash pop; git stash clear`,
	`echo s >>a; git add a; echo u >>b.go; git stash push -q --keep-index; git status -s; git stash pop; git diff --name-only; git diff --cached --name-only; git stash push -q --staged; git status -s; git stash show --name-only`,
	`git rm -q -r src dir; git status -s; git reset -q HEAD; git status -s; git checkout -q -- .; git status -s; git clean -fdn; touch junk; mkdir d; touch d/x; git clean -fd -e keep; git clean -fdxq; git status -s`,
	`git reflog --format='%gd %gs'; git reset -q --hard HEAD@{1}; git reflog -1 --format='%gs'; git checkout -q -b lost; git commit -q --allow-empty -m lost; h=$(git rev-parse HEAD); git checkout -q main; git branch -D lost; git branch found $h; git log -1 --format=%s found`,
	`git show HEAD~1:a >old; diff old a && echo same; git checkout HEAD~2 -- a; git diff --cached --stat; git restore -s HEAD~1 -W -S a; git status -s; git diff --no-index a old; echo $?`,
	// conflicts
	`git checkout -q -b other HEAD~1; sed -i s/four/vier/ a; git commit -qam vier; git checkout -q main; sed -i s/four/quatre/ a; git commit -qam quatre; git merge other; echo "status $?"; git diff --name-only --diff-filter=U; grep -c '^<<<<<<<' a; git checkout --theirs a; git add a; git commit -q --no-edit; git log -1 --format=%s; tail -1 a; git log --oneline --graph`,
	`git checkout -q -b other; echo x >n; git add n; git commit -qm other; git checkout -q main; echo y >n; git add n; git commit -qm main; git merge -q other; git status --porcelain; git ls-files -u | cut -f1 | cut -d' ' -f1,3; git show :3:n; git rm -q n; git commit -q -m 'no n'; git status -s; ls`,
	`git checkout -q -b other; git rm -q a; git commit -qm gone; git checkout -q main; echo more >>a; git commit -qam more; git rebase other; echo $?; git status --porcelain; git add a; GIT_EDITOR=true git rebase --continue; git log --format=%s`,
	`git checkout -q -b other HEAD~1; echo other >>a; git commit -qam other; git checkout -q main; echo main >>a; git commit -qam main; git cherry-pick other; git diff | head -20; printf 'resolved\n' >a; git add a; git cherry-pick --continue --no-edit 2>&1 | head -1; git log --oneline; git status -s`,
	`git checkout -q -b other HEAD~1; echo other >>a; git commit -qam other; git checkout -q main; git merge -q -X theirs --no-edit other; cat a; git log -1 --format=%s; git diff HEAD^1 --stat; git diff HEAD^2 --stat`,
	`git checkout -q -b other HEAD~1; echo other >>a; git commit -qam other; git checkout -q main; echo mine >>a; git commit -qam mine; git merge other || git merge --abort; git status -s; git merge -s ours -q -m kept other; tail -1 a; git log --oneline -1`,
	`git config merge.conflictstyle diff3; git checkout -q -b other HEAD~1; echo other >>a; git commit -qam other; git checkout -q main; echo mine >>a; git commit -qam mine; git merge other; cat a; git checkout --conflict=merge a; cat a; git checkout --ours a; git add a; git merge --continue 2>&1 | head -1`,
	`git checkout -q -b other HEAD~1; echo other >>a; git commit -qam other; git checkout -q main; echo dirty >>a; git merge other; echo $?; git stash -q; git merge -q --no-edit other; git stash pop; git status -s; cat a`,
	// rebase
	`git checkout -q -b topic HEAD~1; for i in 1 2 3; do echo $i >t$i; git add t$i; git commit -qm "t$i"; done; git rebase main; git log --oneline --graph; git rebase --onto main~1 main topic; git log --oneline; git status -sb`,
	`git checkout -q -b topic; for i in 1 2 3; do echo $i >>t; git add t; git commit -qm "t$i"; done; GIT_SEQUENCE_EDITOR='sed -i -e 2s/pick/squash/ -e 3s/pick/fixup/' GIT_EDITOR=true git rebase -i main; git log --format='%s|%b'; cat t`,
	`git checkout -q -b topic; for i in 1 2 3; do echo $i >t$i; git add t$i; git commit -qm "t$i"; done; GIT_SEQUENCE_EDITOR='sed -i 2d' git rebase -i main; git log --format=%s; ls t*; GIT_SEQUENCE_EDITOR="sed -i 1s/pick/drop/" git rebase -q -i main; git log --format=%s main..`,
	`git checkout -q -b topic; for i in 1 2 3; do echo $i >t$i; git add t$i; git commit -qm "t$i"; done; GIT_SEQUENCE_EDITOR="sed -i -e '1{h;d}' -e '2G'" git rebase -i main; git log --format=%s main..; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/reword/' GIT_EDITOR="sed -i 1s/.*/renamed/" git rebase -q -i main; git log --format=%s main..`,
	`git checkout -q -b topic; for i in 1 2; do echo $i >t$i; git add t$i; git commit -qm "t$i"; done; git rebase -q --exec 'test -f t2' main; echo $?; git status | head -3; git rebase --abort; git rebase -q -x 'ls t* | wc -l' main; git log --oneline`,
	`git checkout -q -b topic; for i in 1 2; do echo $i >t$i; git add t$i; git commit -qm "t$i"; done; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -i main; echo more >>t1; git add t1; git commit -q --amend --no-edit; git rebase --continue; git log --stat --format=%s main..`,
	`git checkout -q -b topic; echo 1 >t; git add t; git commit -qm 'add t'; echo 2 >u; git add u; git commit -qm 'add u'; echo 1b >>t; git commit -qa --fixup ':/add t'; git log --oneline main..; git -c sequence.editor=: rebase -q -i --autosquash main; git log --format=%s main..; git show --stat --format=%s HEAD~1`,
	`git checkout -q -b topic HEAD~1; echo x >>a; git commit -qam x; git rebase main 2>&1 | head -1; git checkout -q main; echo y >>a; git commit -qam y; git checkout -q topic; git rebase main; git diff --name-only --diff-filter=U; git rebase --show-current-patch | tail -2; git checkout --theirs a; git add a; GIT_EDITOR=: git rebase --continue; cat a`,
	`git pull; echo $?; git rebase --continue; echo $?; git merge --abort; echo $?; git cherry-pick --abort; echo $?; git am --abort; echo $?; git bisect good; echo $?; git stash pop; echo $?`,
	// patches
	`git diff HEAD~1 HEAD >p.patch; git checkout -q -b back HEAD~1; git apply --stat p.patch; git apply --check p.patch && git apply p.patch && git status -s; git apply -R p.patch; git status -s; git apply --numstat <p.patch; git apply --index p.patch; git commit -qm applied; git diff main --stat`,
	`git format-patch -q -2 -o patches; ls patches; git checkout -q -b back HEAD~2; git am -q patches/*.patch; git log --oneline; git diff main --quiet && echo equal; grep -h '^Subject' patches/*`,
	`git format-patch -1 --stdout | grep -v '^index' | tail -12; git format-patch -1 --stdout --subject-prefix='PATCH v2' | grep Subject; git format-patch --cover-letter -q -2 -o c; ls c; sed -n 4,6p c/0000-cover-letter.patch; git format-patch -q --start-number 5 -1 -o d; ls d`,
	`printf 'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n one\n+one and a half\n two\n three\n' | git apply - && git diff a; git diff | git apply -R; git status -s; echo nonsense | git apply -; echo $?; printf -- '--- a/a\n+++ b/a\n@@ -9,1 +9,1 @@\n-nope\n+x\n' | git apply; echo $?`,
	`sed -i s/two/TWO/ a; git diff >p; git checkout -q a; sed -i 1i\\zero a; git apply p; cat a; git checkout -q a; sed -i s/two/2/ a; git apply p; echo $?; git apply --reject p; echo $?; cat a.rej; git commit -qam 2; git apply --3way p; git status -s; cat a`,
	`mkdir -p x; sed -i s/one/ONE/ a; git diff >p; git checkout -q a; cp a x/a; git add x; git commit -qm x; git apply --directory=x p; git diff --stat; git apply -p1 --include='x*' p; git diff --stat; cd x; git apply --exclude=a ../p; git status -s; git diff --relative --stat`,
	`git diff HEAD~1 --output=out.patch; wc -l <out.patch; git diff --name-only HEAD~2 | while read f; do echo "== $f"; git diff HEAD~2 -- "$f" | grep -c '^[+-]'; done; git diff HEAD~2 --diff-filter=A --name-only; git diff HEAD~2 --diff-filter=d --name-only; git diff --dirstat HEAD~2`,
	// remotes
	`git clone -q --bare . ../r.git 2>/dev/null || git clone -q --bare . r.git; git remote add origin "$PWD/r.git"; git push -q -u origin main; git status -sb; git checkout -q -b f; git commit -q --allow-empty -m f; git push -q -u origin HEAD; git branch -r; git ls-remote --heads origin | cut -f2; git push -q origin --delete f; git fetch -q --prune; git branch -r`,
	`git init -q --bare r.git; git remote add origin r.git; git push -q origin main; git clone -q r.git c 2>&1; cd c; git checkout -q main; echo new >n; git add n; git commit -qm n; git push -q origin main; cd ..; git fetch -q; git log HEAD..origin/main --oneline; git merge -q --ff-only origin/main; ls n; git diff origin/main --stat`,
	`git init -q --bare -b main r.git; git remote add origin r.git; git push -q origin main; git clone -q --depth 1 "file://$PWD/r.git" s; git -C s log --oneline; git -C s rev-parse --is-shallow-repository; git -C s fetch -q --unshallow; git -C s log --oneline | wc -l; git -C s rev-parse --is-shallow-repository`,
	`git init -q --bare -b main r.git; git remote add origin r.git; git push -q origin main; git clone -q r.git c; git -C c commit -q --allow-empty -m theirs; git -C c push -q; git commit -q --allow-empty -m mine; git push origin main; echo $?; git pull -q --rebase origin main; git log --format=%s; git push -q origin main; git -C c pull -q; git -C c log -1 --format=%s`,
	`git init -q --bare -b main r.git; git remote add origin r.git; git push -q origin main; git commit -q --amend -m amended; git push -q origin main; echo $?; git push -q --force-with-lease origin main; echo $?; git ls-remote origin main | cut -f1; git rev-parse HEAD; git push -q origin HEAD~1:refs/heads/older main:newer; git ls-remote origin | cut -f2`,
	`git init -q --bare -b main r.git; git remote add origin r.git; git push -q -u origin main; git fetch origin; git remote show -n origin | head -5; git rev-parse --abbrev-ref --symbolic-full-name @{u}; git log @{u}.. --oneline; git config --get remote.origin.url; git config --get-regexp '^branch\.'; git branch --unset-upstream; git status -sb; git rev-parse @{u}; echo $?`,
	`git clone -q . c; cd c; git log --oneline; git remote -v | sed 's/ .*//' ; git branch -a; git config user.name X; git config --local --list | grep user; git checkout -q -b z origin/main~1; git status -sb; cd ..; git -C c rev-parse --show-toplevel | xargs basename`,
	`git clone -q --branch main --single-branch . c; git -C c branch -a; git clone -q --no-checkout . d; ls -A d; git -C d checkout -q main -- a; ls d; git clone -q --mirror . m.git; git -C m.git for-each-ref --format='%(refname)'; git clone . c; echo $?`,
	`git init -q --bare -b main r.git; git remote add origin r.git; git tag v1; git tag -a v2 -m two; git push -q origin main --tags; git ls-remote --tags origin | cut -f2; git push -q origin :refs/tags/v1; git ls-remote -t origin | cut -f2; git clone -q r.git c; git -C c tag; git -C c describe; git push -q --follow-tags origin main; git fetch -q --tags`,
	// worktrees
	`git worktree add -q ../wt-$$ -b side 2>/dev/null || git worktree add -q wt -b side; git worktree list | awk '{print $NF}'; git branch; git worktree prune; git worktree list --porcelain | grep -c ^worktree`,
	`git worktree add -q wt -b side; cd wt; echo s >s; git add s; git commit -qm s; git status -sb; git rev-parse --git-common-dir >/dev/null && echo common; cd ..; git log --oneline --all | head -1; git merge -q --no-edit side; ls s; git worktree remove wt; git branch -d side; git worktree list | wc -l`,
	`git worktree add -q wt HEAD~1; git -C wt status | head -1; git -C wt log --oneline; git checkout -q -b busy; git worktree add wt2 busy; echo $?; echo d >wt/dirty; git worktree remove wt; echo $?; git worktree remove --force wt; ls; git worktree lock nope; echo $?`,
	// history that is rewritten, and found
	`git bisect start -q HEAD HEAD~2 >/dev/null; git bisect run sh -c '! grep -q four a' | tail -12 | head -6; git bisect log | grep -c '^git bisect'; git bisect reset; git status -sb`,
	`for i in 1 2 3 4 5 6 7 8; do echo $i >n; git add n; git commit -qm "n is $i"; done; git bisect start; git bisect bad; git bisect good HEAD~7; git bisect run test "$(cat n)" -lt 9; git bisect reset -q; git bisect start HEAD HEAD~7 --; git bisect run sh -c 'test $(cat n) -lt 5' | grep 'first bad'; git bisect visualize --oneline | cat; git bisect reset`,
	`git log --reverse --format=%s | head -1; git log --max-count=1 --skip=1 --format=%s; git log --since='2023-11-14' --until='2023-11-15' --oneline | wc -l; git log --after=2024-01-01 --oneline; git log -1 --format=%ct; git log --grep='^add' --format=%s; git log --invert-grep --grep=add --format=%s; git log --all-match --grep=a --grep=four --format=%s`,
	`git mv a renamed; git commit -qm 'rename a'; git log --follow --format=%s -- renamed; git log --format=%s -- renamed; git log --diff-filter=R --name-status --format=%s -M; git show --stat -M --format=; git diff HEAD~1 --find-renames=90% --name-status`,
	`cp b.go c.go; git add c.go; git commit -qm copy; git show --format= --name-status; git show --format= --stat=60,20; git diff-tree -r --name-status HEAD~1 HEAD; git show --format=%s --name-only | cat -A`,
	`git log --format='%h%x09%an%x09%ar' | cut -f1,2; git log --format='%C(auto)%h %d %s' -1 | cat; git log --format='%w(20,2,4)%s and some more words to wrap' -1; git log --format='%<(10,trunc)%s|' ; git log --format='%>(8)%h|%><(9)%an|'; git log --format='%e|%G?|%f' -1; git log --format='%aN %cE %as %cs %aD' -1`,
	`git log --oneline | cut -d' ' -f1 | while read c; do git notes add -m "note of $(git log -1 --format=%s $c)" $c; done; git notes list | wc -l; git log --format='%s: %N' -2; git notes show HEAD~1; git notes remove HEAD; git log -1`,
	// files
	`git archive HEAD | tar t; git archive --format=tar --prefix=p/ HEAD src | tar t; git archive HEAD:src | tar xO f.go | head -1; git archive -o x.tgz HEAD a && tar tzf x.tgz; git archive --format=zip HEAD a >x.zip; unzip -l x.zip | tail -1 | awk '{print $2}'`,
	`git ls-tree -r --long HEAD | awk '{print $4, $5}' | sort -n | tail -2; git ls-tree --name-only HEAD src/; git ls-files -s | awk '{print $1}' | sort | uniq -c; git ls-files --stage link; git ls-files -m; echo z >>a; rm b.go; git ls-files -m; git ls-files -d; git ls-files --others --exclude-standard | head -2; git ls-files -t | cut -c1 | sort | uniq -c`,
	`printf 'one\r\ntwo\r\n' >crlf; git add crlf; git commit -qm crlf; git ls-files --eol crlf; git show HEAD:crlf | od -c | head -1; echo '*.txt text eol=lf' >.gitattributes; printf 'x\r\n' >t.txt; git add t.txt .gitattributes; git ls-files --eol t.txt; git show :t.txt | od -c | head -1; git check-attr text eol -- t.txt a`,
	`mkdir -p 'a b' ; echo x >'a b/c d'; echo y >"it's"; printf z >$'tab\there'; git add -A; git status -s | tail -4; git ls-files | tail -5; git commit -qm odd; git show --stat --format=; git ls-files -z | tr '\0' '\n' | tail -4; git rm -q "it's" 'a b/c d'; git status -s; git ls-files --deduplicate | wc -l`,
	`ln -s nowhere broken; git add broken; git status -s; git commit -qm link; git ls-tree HEAD broken; git cat-file -p HEAD:broken; echo; rm broken; mkdir broken; echo x >broken/f; git status -s; git add -A; git status -s; git commit -qm 'now a directory'; git show --stat --format= --summary`,
	`chmod +x a; chmod -x run; git diff --summary; git diff | head -4; git commit -qam modes; git show --summary --format=; git -c core.fileMode=false status -s; chmod -x a; git -c core.fileMode=false status -s; git status -s; git config core.fileMode false; git status -s`,
	`git mv -k nope x; git mv dir newdir; git mv a newdir/; git status -s; git mv b.go run newdir; git mv newdir/a newdir/b; ls newdir; git mv src/f.go newdir/b; echo $?; git mv -f src/f.go newdir/b; git status -s; git commit -qm moved; git ls-files`,
	`touch -d '2024-01-01' a; git status -s; git diff --quiet && echo same; git diff-index --quiet HEAD -- && echo clean; echo x >>a; git diff --quiet || echo changed; git diff-index --quiet HEAD -- || echo dirty; git diff-files --name-only; git update-index --refresh; git add -u; git diff --cached --quiet; echo $?; git diff --exit-code --cached --name-only; echo $?`,
	`git add -n .; git add --dry-run nope; echo $?; git add -v new; git add -f bin; git add 'dir/*'; git add :/ ; git status -s; git reset -q; (cd dir && git add . && git status -s && git add -A && git status -s); git add --intent-to-add new; git status -s; git diff --stat; git ls-files new`,
	`printf '%s\n' 1 2 3 >list; git add list; git commit -qm list; printf '%s\n' 1 two 3 4 >list; printf 'y\n' | git add -p list >/dev/null; git diff --cached --stat; git diff --stat; git reset -q; printf 'n\n' | git add -p >/dev/null; git diff --cached --stat; git commit -q -am all; git show --format= list | tail -6`,
	// config, aliases, hooks
	`git config user.name 'Some One'; git config --global init.defaultBranch dev; git config --global alias.lg 'log --oneline --graph'; git lg | head -1; git config alias.count '!git rev-list --count HEAD'; git count; git config --list --show-origin | grep -c alias; git config --get-all alias.lg; git config --global --unset alias.lg; git init -q n; git -C n branch --show-current; git config --show-scope user.name`,
	`git config --type=bool x.y yes; git config --get --type=bool x.y; git config x.n 2k; git config --int x.n; git config --default d --get x.z; git config --get x.z; echo $?; git config x.y.z 'a "quoted" # value'; git config x.y.z; tail -2 .git/config; git config --rename-section x w; git config --get-regexp '^w'; git config --replace-all w.y no; git config -l --local | tail -3; git config --unset-all w.y; git config --name-only --get-regexp w`,
	`printf '[user]\n\tname = Included\n' >inc; git config include.path ../inc; git config user.name; git var GIT_AUTHOR_IDENT | cut -d' ' -f1; GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=Env git config user.name; git -c user.name=Flag config user.name; git config --file inc user.name; git config -f inc user.email e@x; cat inc; git config --edit 2>&1 | head -1`,
	`cat >.git/hooks/pre-commit <<'EOF'
#!/bin/sh
grep -rq FORBIDDEN a && { echo 'forbidden word' >&2; exit 1; }
exit 0
EOF
chmod +x .git/hooks/pre-commit; echo ok >>a; git commit -qam fine && echo committed; echo FORBIDDEN >>a; git commit -qam bad; echo $?; git commit -qam bad --no-verify && echo forced; git log --format=%s -2`,
	`printf '#!/bin/sh\necho "$(cat "$1") [JIRA-1]" >"$1"\n' >.git/hooks/commit-msg; chmod +x .git/hooks/commit-msg; git commit -q --allow-empty -m msg; git log -1 --format=%s; printf '#!/bin/sh\necho post "$@"\n' >.git/hooks/post-commit; chmod +x .git/hooks/post-commit; git commit -q --allow-empty -m two; mkdir h; printf '#!/bin/sh\nexit 1\n' >h/pre-commit; chmod +x h/pre-commit; git config core.hooksPath h; git commit -q --allow-empty -m three; echo $?`,
	// programs around git
	`root=$(git rev-parse --show-toplevel); cd src; git rev-parse --show-prefix; [ "$(git rev-parse --show-cdup)" = ../ ] && echo up; cd "$root"; git rev-parse --git-path hooks; git rev-parse --verify --quiet HEAD^0 >/dev/null && echo commit; git rev-parse --short=4 HEAD; git rev-parse HEAD^{tree} HEAD: | uniq | wc -l; git rev-parse --symbolic-full-name HEAD; git rev-parse :/first; git rev-parse main@{0} | wc -c`,
	`version=$(git describe --tags --always --dirty); echo "${#version}"; echo x >>a; git describe --always --dirty | grep -o dirty; git describe --always --dirty=-mod | grep -o -- -mod; git diff --name-only | xargs -r -n1 echo changed:; git stash -q; git diff --name-only | xargs -r -n1 echo changed:; echo done`,
	`git ls-files | while IFS= read -r f; do test -f "$f" && ! test -L "$f" && printf '%s %s\n' "$(git hash-object "$f")" "$f"; done | sort -k2 | head -4; git ls-files | git check-attr --stdin binary | head -2; git ls-files -- '*.go' | git hash-object --stdin-paths; echo hi | git hash-object --stdin; echo hi | git hash-object -w --stdin | xargs git cat-file -p`,
	`tree=$(git write-tree); commit=$(echo plumbing | git commit-tree $tree -p HEAD); git update-ref refs/heads/plumb $commit; git log --format=%s plumb -2; git read-tree HEAD~2; git status -s | head -5; git read-tree HEAD; git checkout-index -f -a; git status -s; blob=$(echo content | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$blob,made/file; git ls-files made; git diff --cached --stat`,
	`git fetch origin 2>&1 | head -1; git push; echo $?; git pull origin main; echo $?; git clone nowhere x; echo $?; git checkout nope; echo $?; git merge nope; echo $?; git log nope..main; echo $?; git show 0000000; echo $?; git nosuch; echo $?; git --version | cut -d' ' -f1,2`,
	`cd dir; git status; git status -s; echo x >>c; git diff --stat; git commit -q -m c c; git log --oneline -1 -- c; git log --oneline -- ../a; git checkout -q HEAD~1 -- c; git status -s; git reset -q --hard; git ls-files; git ls-files ..; git ls-files --full-name; git grep -n deep; git -C sub rev-parse --show-prefix; git rm -q sub/d; git status -s ..`,
	`rm -rf .git; git status; echo $?; git init -q; git status -s | head -2; git add a; git status -s | head -2; git commit -q -m only; git log --oneline --stat; git rm -q --cached a; git commit -q -m 'nothing left'; git ls-tree HEAD; git show --stat --format=; git init; git init --bare -q b.git; ls b.git | tr '\n' ' '; cat b.git/HEAD | sed s/master/main/`,
	`git switch -q --orphan pages; ls; echo page >index.html; git add index.html; git commit -q -m page; git log --oneline; git switch -q main; ls | head -3; git log --oneline --all --graph; git merge pages; echo $?; git merge -q --allow-unrelated-histories -m joined pages; ls index.html; git log --graph --oneline`,
	`git reset -q --soft HEAD~2 && git commit -q -m squashed && git log --format=%s && git show --stat --format= | tail -1; git merge --squash ORIG_HEAD; git status -s; git cherry-pick -n HEAD@{1} 2>/dev/null; git status -s; git checkout -q -f; git status -s`,
	`git submodule add "$PWD" sub; git submodule status; git submodule foreach 'echo $name'; git submodule update --init; cat .gitmodules; echo end`,
	`git sparse-checkout set src; ls; git sparse-checkout list; git sparse-checkout disable; ls | wc -l; git gc -q; git fsck; git prune; git log --oneline | wc -l`,
	`git name-rev HEAD~1; git name-rev --name-only HEAD; git whatchanged --oneline | head -4; git rev-list --parents HEAD | wc -l; git diff --check HEAD~1; printf 'x  \n' >>a; git diff --check; echo $?; git merge-file -p a b.go src/f.go | head -3`,
	`git name-rev --tags HEAD; git tag v1 HEAD~1; git name-rev HEAD HEAD~1 HEAD~2; git name-rev --name-only --tags HEAD~2; git rev-parse HEAD~2 | git name-rev --annotate-stdin; git tag -a -m x v2; git name-rev HEAD; cp a x; cp a y; sed -i s/one/ONE/ x; sed -i s/four/FOUR/ y; git merge-file -p x a y; git merge-file x a y; echo $?; cat x; sed -i s/ONE/uno/ y; git merge-file -p -L mine -L base -L yours x a y; echo $?; git merge-file -p --ours x a y; git rerere; echo end`,
}

// TestAgentScripts compares them with bash and the real git.
func TestAgentScripts(t *testing.T) {
	var cases []commandtest.Case
	for _, script := range agentScripts {
		cases = append(cases, commandtest.Case{
			Name: script, Script: "exec 2>/dev/null\n" + repository + script, Tree: tree,
			Env: append(identity, "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true", "GIT_PAGER=cat"), NoFiles: true,
		})
	}
	commandtest.Compare(t, cases)
}
