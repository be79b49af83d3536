package git_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// hook begins scripts with a function that writes an executable hook from standard input.
const hook = repository + `hook() { { echo '#!/bin/sh'; cat; } >.git/hooks/$1; chmod +x .git/hooks/$1; }
`

// hookScripts are scripts with hooks. What a hook prints goes to standard error, so it writes to the file log.
var hookScripts = []string{
	`echo 'echo "pre-commit $# $(pwd | sed s,.*/,,) $GIT_PREFIX" >>log; git diff --cached --name-only >>log' | hook pre-commit; echo x >>a; git commit -qam one; cd dir; echo y >>c; git commit -qam two; cd ..; git commit -q --allow-empty -n -m three; git commit -q --allow-empty --no-verify -m four; cat log; git log --oneline`,
	`echo 'echo x >made; git add made' | hook pre-commit; echo y >>a; git commit -qam one; git show --stat --format=%s; git status -s`,
	`echo 'echo "$2 $3" >>log; echo "# from the hook" >>$1; sed -i "1s/^/[WIP] /" $1' | hook prepare-commit-msg; git commit -q --allow-empty -m one; git commit -q --allow-empty -F a; git commit -q --amend --no-edit; git commit -q --allow-empty -C HEAD~1; cat log; git log --format=%B -3`,
	`echo 'grep -q "^feat: " $1 || { echo "bad subject" >&2; exit 3; }' | hook commit-msg; git commit -q --allow-empty -m one; echo $?; git commit -q --allow-empty -m 'feat: two'; echo $?; git commit -q --allow-empty --no-verify -m three; echo $?; git log --format=%s -3; git commit -q --amend -m bad; echo $?; git log -1 --format=%s`,
	`echo 'echo "post-commit $(git log -1 --format=%s)" >>log' | hook post-commit; echo 'echo "post-rewrite $1" >>log; cat >>log' | hook post-rewrite; git commit -q --allow-empty -m one; git commit -q --amend --allow-empty -m two; cut -c1-60 log; rm log; git checkout -q -b b; git commit -q --allow-empty -m b1; cat log`,
	`echo 'echo "post-checkout $3 $([ $1 = $2 ] && echo same)" >>log' | hook post-checkout; git checkout -q -b b; git checkout -q main; git commit -q --allow-empty -m m; git switch -q b; git checkout -q -; git checkout -q HEAD~1 -- a; git checkout -q -- a; git switch -q -c c; git switch -q --detach HEAD~1; cat log`,
	`echo 'echo "post-merge $1" >>log' | hook post-merge; git checkout -q -b b; git commit -q --allow-empty -m b; git checkout -q main; git merge -q b; git merge -q b; git checkout -q b; echo x >>a; git commit -qam x; git checkout -q main; git merge -q --squash b; git commit -q -m s; git commit -q --allow-empty -m m; git merge -q --no-ff -m joined b; cat log`,
	`git init -q --bare -b main r.git; git remote add origin r.git; echo 'echo "pre-push $1 $2" >>log; while read l lo r ro; do echo "$l $r $(echo $lo$ro | wc -c)" >>log; done' | hook pre-push; git push -q origin main; git push -q origin main:other HEAD~1:refs/heads/third; git push -q origin --delete third; git push -q origin main; echo 'exit 1' | hook pre-push; git commit -q --allow-empty -m n; git push -q origin main; echo $?; git push -q --no-verify origin main; echo $?; cat log; git ls-remote origin | cut -f2`,
	`mkdir h; git config core.hooksPath h; printf '#!/bin/sh\necho other >>log\n' >h/pre-commit; git commit -q --allow-empty -m one; test -f log; echo $?; chmod +x h/pre-commit; git commit -q --allow-empty -m two; cat log; git -c core.hooksPath=/nowhere commit -q --allow-empty -m three; cat log; git log --format=%s -3`,
	`printf '#!/bin/bash\nset -e\n[[ $(git rev-parse --abbrev-ref HEAD) == main ]] && { echo no >&2; exit 1; }\nexit 0\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit -q --allow-empty -m one; echo $?; git checkout -q -b f; git commit -q --allow-empty -m two; echo $?; git merge -q --no-edit main; git checkout -q main; git merge -q f; echo $?; git log --format=%s -2`,
	`echo 'for f in $(git diff --cached --name-only --diff-filter=ACM); do sed -i "s/[ ]*$//" $f; git add $f; done' | hook pre-commit; printf 'x   \ny\n' >w; git add w; git commit -qm w; cat -A w; git show HEAD:w | cat -A; git status -s; git stash list`,
	`echo 'exit 1' | hook pre-commit; echo x >>a; git add a; git commit -qm no; echo $?; git status -s; git stash -q; git stash pop -q; git cherry-pick HEAD; git revert --no-edit HEAD; echo $?; git log --format=%s -2; git status -s`,
}

// TestHooks compares them with bash and the real git.
func TestHooks(t *testing.T) {
	var cases []commandtest.Case
	for _, script := range hookScripts {
		cases = append(cases, commandtest.Case{
			Name: script, Script: "exec 2>/dev/null\n" + hook + script, Tree: tree,
			Env: append(identity, "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true"), NoFiles: true,
		})
	}
	commandtest.Compare(t, cases)
}
