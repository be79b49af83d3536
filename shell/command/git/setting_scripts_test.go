package git_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// settingScripts are scripts that set values of the configuration and change the index.
var settingScripts = []string{
	`printf '# top\n[core]\n\tbare = false ; why\n[a "B.c"] x = 1\n\ty\n[a]\n\tz = "q # r" tail\\\n more\n' >f; git config -f f -l; git config -f f a.B.c.y; git config -f f --bool a.B.c.y; git config -f f --get-regexp '^a'; git config -f f core.bare true; git config -f f a.new 1; git config -f f --unset a.B.c.x; git config -f f --unset a.B.c.y; git config -f f New.Sec.Key v; cat f; git config -f f --remove-section a; echo $?; git config -f f --remove-section a; echo $?; cat f`,
	`git config --add r.v one; git config --add r.v two; git config --add r.v three; git config r.v; git config --get-all r.v; git config --get r.v '^t'; git config --get-all r.v '!^t'; git config r.v four; echo $?; git config r.v TWO two; git config --get-all r.v; git config --unset r.v; echo $?; git config --unset r.v '^th'; git config --replace-all r.v all; git config --get-all r.v; git config --fixed-value r.v x all; git config r.v; git config --unset r.none; echo $?; git config nokey v; echo $?; git config a. v; echo $?; git config a.1b v; echo $?; git config a.b_c v; echo $?; git config nokey; echo $?; tail -3 .git/config`,
	`for v in 1k 2M 3g 0 -1 0x10 yes off '' 12x; do git config t.v "$v"; for k in int bool bool-or-int path; do printf '%s %s: ' "$v" $k; git config --type=$k t.v || echo "status $?"; done; done; git config --type=int t.w 4k; git config --type=bool t.b ON; git config --bool-or-int t.bi 7k; git config --int t.bad nope; echo $?; git config --path t.p '~/x'; git config t.p; test "$(git config --path t.p)" = "$HOME/x" && echo home; git config --type=nope t.p; echo $?; tail -5 .git/config`,
	`git config a.b 'two
lines'; git config -z -l --local | tr '\0\n' '#|' | sed 's/.*#a/a/'; echo; git config -z a.b | od -c | tail -2; git config --null --get-regexp '^a' | tr '\0\n' '#|'; echo; git config --name-only -l --local | tail -1; git config --show-origin a.b; git -c a.b=c config --show-origin --show-scope a.b; git -c a.flag config -l --show-scope | tail -1; git config --show-origin --local -l | sed -n 1p; cd dir; git config --show-origin a.b`,
	`printf '[u]\n\tn = inc\n[include]\n\tpath = sub/two\n' >.git/one; mkdir .git/sub; printf '[u]\n\tm = two\n' >.git/sub/two; git config --add include.path one; git config --get-regexp '^u'; git config --show-origin u.m; git config --local --get-regexp '^u'; git config --includes --local --get-regexp '^u'; git config -f .git/one -l; git config -f .git/one --includes -l; printf '[include]\n\tpath = loop\n' >.git/loop; git config --add include.path loop; git config u.n; echo $?; git status -s; echo $?; sed -i /loop/d .git/config; git config include.path; git config --add include.path missing; git config u.n`,
	`printf '[who]\n\tis = here\n' >"$PWD/w"; git config "includeIf.gitdir:$PWD/.path" "$PWD/w"; git config who.is; git config --unset "includeIf.gitdir:$PWD/.path"; git config 'includeIf.onbranch:feat/.path' ../w; git config who.is; echo $?; git checkout -q -b feat/x; git config who.is; git checkout -q main; git config who.is; echo $?; git config 'includeIf.gitdir:**/.git.path' ../w; git config who.is; git config -l --local --name-only | grep -i includeif`,
	`export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=E0 GIT_CONFIG_KEY_1=x.Y GIT_CONFIG_VALUE_1=; git config user.name; git config x.y; git -c user.name=E2 config --get-all user.name; git config --show-scope x.y; GIT_CONFIG_COUNT=3 git config x.y; echo $?; GIT_CONFIG_COUNT=x git status; echo $?; unset GIT_CONFIG_COUNT; printf '[user]\n\tname = G\n' >g; GIT_CONFIG_GLOBAL=$PWD/g git config --global -l; git config broken; printf '[x\n' >>.git/config; git config user.name; echo $?; git status -s; echo $?`,
	`git config alias.top '!pwd | sed "s|.*/||"; echo "[$GIT_PREFIX]"'; (cd dir; git top | tail -1); git config alias.args '!f() { echo "$# $1 $2"; return 3; }; f'; git args 'a b' c; echo $?; git config alias.l 'log --oneline -1'; git l --skip=1; git config alias.v '!git -c'; git v user.name=Z config user.name; git config alias.hi '!echo hi'; git -c x.y=z hi there; git config alias.s '!git config x.y'; git -c x.y=z s; git config alias.loop loop2; git config alias.loop2 loop; git loop; echo $?; git config --get-regexp '^alias.[ls]$'`,
	`h=$(git rev-parse HEAD:a); git update-index --cacheinfo 100644 $h no/pe; echo $?; git update-index --add --cacheinfo 100755 $h ex --cacheinfo 120000,$h,ln; git ls-files -s ex ln; git update-index --add --cacheinfo 100644,$h,a/b; echo $?; git update-index --force-remove ex ln; printf '100644 %s\tx1\n100755 %s 0\tx2\n100644 blob %s\tx3\n0 %s\tb.go\n' $h $h $h 0000000000000000000000000000000000000000 | git update-index --index-info; git ls-files -s 'x?' b.go; git status -s; git update-index x9; echo $?; rm a; git update-index a; echo $?; git update-index --remove a; git ls-files a; echo n >n1; git update-index n1; echo $?; git update-index --add --chmod=+x n1; git ls-files -s n1; echo n1 | git update-index --remove --stdin; git update-index --chmod=+x link; echo $?; git update-index --verbose --chmod=-x run`,
	`git update-index --skip-worktree a; git update-index --assume-unchanged b.go run; git ls-files -v a b.go run link; git ls-files -t a; echo x >>a; echo y >>b.go; rm run; git status -s; git diff --stat; git ls-files -m; git ls-files -d; git add -A; git status -s; git commit -qam none; echo $?; git stash -q; cat a | tail -1; git update-index --no-skip-worktree a; git update-index --no-assume-unchanged b.go; git status -s; git reset -q --hard; git ls-files -v run; git update-index --really-refresh; echo $?`,
	`git read-tree --empty; git ls-files | wc -l; git status -s | head -2; git read-tree HEAD; git status -s; git read-tree --prefix=old/ HEAD~1; git ls-files old | head -2; git read-tree --prefix=old/ HEAD; echo $?; git write-tree; git read-tree -m HEAD; git ls-files | wc -l; git read-tree -m -u HEAD~2; git status -s; ls src; git read-tree -m -u HEAD~2 HEAD; ls src; git status -s; git read-tree nope; echo $?; echo l >>a; git read-tree -m -u HEAD HEAD~2; echo $?; git read-tree --reset -u HEAD; git status -s; git read-tree -u HEAD; echo $?`,
	`git checkout -q -b o HEAD~2; echo o >o; sed -i 1s/.*/ONE/ a; git add .; git commit -qm o; git read-tree -m HEAD~1 HEAD main; git ls-files -s a o src; git ls-files -u | wc -l; git reset -q --hard; git checkout-index --prefix=out/ a dir/c; ls out out/dir; git checkout-index -a --prefix=all-; ls -d all-*; rm a; echo z >>b.go; git checkout-index a b.go; echo $?; git checkout-index -f b.go; git checkout-index nope; echo $?; git status -s | head -3; echo a | git checkout-index -f --stdin; git checkout-index -a; echo $?; git checkout-index -q -f -a; echo $?`,
	`rm -r dir; echo f >dir; git status -s; git add -A; git status -s; git ls-files dir dir.x; git commit -qm file; rm a; mkdir a; echo 1 >a/1; git status -s; git status -s -uall; git ls-files -o; git add a/1; git status -s; git commit -qm d; git show --stat --format=; git rm -rq a; echo back >a; git add a; git status -s`,
	`mkdir -p src/in/er dir/x; echo 1 >src/in/f; echo 2 >src/in/er/g; echo 3 >dir/x/h; git add src dir; git commit -qm more; git sparse-checkout list; echo $?; git sparse-checkout add dir; echo $?; git sparse-checkout set src/in; find . -path ./.git -prune -o -type f -print | sort; git status -s; git ls-files -t | cut -c1 | sort | uniq -c; git sparse-checkout list; cat .git/info/sparse-checkout; git config core.sparseCheckout; git sparse-checkout add dir/x; git sparse-checkout list; ls dir dir/x; git checkout -q -b o HEAD~1; git status -s; ls; git checkout -q main; ls dir src; git diff HEAD~1 --stat; git sparse-checkout set a; echo $?; git sparse-checkout set; ls; git reset -q --hard HEAD~1; ls; git sparse-checkout disable; git status -s; find . -path ./.git -prune -o -type f -print | sort; git config core.sparseCheckout; git ls-files -t | cut -c1 | uniq -c`,
	`git -c user.name="it's \"x\" y" -c user.email= config -l | tail -2; git -c user.name="a 'b" -c alias.n='!git config user.name' n; git -c nodot config -l; echo $?; git config --worktree w.t 1; git config --show-scope w.t; git sparse-checkout init; git config --worktree w.t 2; git config --show-scope --get-all w.t; cat .git/config.worktree; tail -4 .git/config; git config --show-origin w.t; cd ..; git config --local -l; echo $?; git config a.b c; echo $?; git config -l >/dev/null; echo $?; git config --global a.b 'x;y'; git config a.b; cat "$HOME/.gitconfig"; printf '\357\273\277[b]\r\n\tc = d\r\n' >bom; git config -f bom b.c; git config -f bom b.c e; od -c bom; git config -f nope -l; echo $?; git config -f nope a.b; echo $?; git config; echo $?; git config --get; echo $?`,
	`rm a; git ls-files -d -m; git ls-files -d -m --deduplicate; git update-index --assume-unchanged b.go; rm b.go; git diff-files --name-only; git diff --name-only; echo x >dir/c; git update-index --add --replace --cacheinfo 100644,$(git rev-parse HEAD:a),run/x; git ls-files run; printf 'new\0b.go\0' | git update-index --add --remove -z --stdin; git status -s; git update-index --info-only --add new; git update-index --refresh; echo $?; git update-index dir; echo $?; git update-index --nope; echo $?; git update-index --index-info </dev/null; echo bad | git update-index --index-info; echo $?; git ls-files -s | git update-index --index-info; git ls-files -s | sed 's/\t/\tcopy-/' | git update-index --index-info; git ls-files | wc -l; git ls-tree -r HEAD | sed 's/\t/\tt-/' | git update-index --index-info; git ls-files 't-*' | wc -l`,
	`git config core.fileMode false; chmod +x a; chmod -x run; echo x >new2; chmod +x new2; git status -s; git add -A; git ls-files -s a run new2; git commit -qm n; git checkout -q HEAD~1; git checkout -q main; git diff --summary; git -c core.fileMode=true diff --summary; git config --bool core.fileMode; git config core.fileMode true; git status -s`,
}

// TestSettingScripts compares them with bash and the real git.
func TestSettingScripts(t *testing.T) {
	var cases []commandtest.Case
	for _, script := range settingScripts {
		cases = append(cases, commandtest.Case{
			Name: script, Script: "exec 2>/dev/null\n" + repository + script, Tree: tree,
			Env: append(identity, "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true", "GIT_PAGER=cat"), NoFiles: true,
		})
	}
	commandtest.Compare(t, cases)
}

// TestHostileIncludes checks that files which include each other end within the limits.
func TestHostileIncludes(t *testing.T) {
	s := commandtest.NewWithShell(t, "/w")
	s.WriteFile(".gitconfig", "[include]\n\tpath = f0\n")
	s.Env = append(s.Env, "HOME=/w")
	for n := range 10 {
		line := fmt.Sprintf("\tpath = f%d\n", n+1)
		s.WriteFile(fmt.Sprintf("f%d", n), "[include]\n"+strings.Repeat(line, 200)+"[includeIf \"gitdir:"+strings.Repeat("**/a*", 200)+"\"]\n"+line)
	}
	commandtest.RunHostile(t, s, "", "git", "config", "user.name")
	commandtest.RunHostile(t, s, "", "git", "config", "-f", "f0", "--includes", "-l")
	checkEnded(t, s, "includes")
}
