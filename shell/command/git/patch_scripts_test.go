package git_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// patchScripts are scripts that make, mail and apply patches.
var patchScripts = []string{
	`git checkout -q -b topic HEAD~1; sed -i s/two/TWO/ a; git commit -qam 'loud two'; git format-patch -1 --stdout >m; git checkout -q main; sed -i s/three/3/ a; git commit -qam three; git am m; echo $?; git am --abort; git am -3 m; echo $?; cat a; git status -s; git checkout -q a; git add a; git am --abort; git log --oneline -2`,
	`sed -i '1i zero' a; git commit -qam zero; git format-patch -q -1 -o p; git reset -q --hard HEAD~1; echo five >>a; git commit -qam five; git am -3 -q p/*; echo $?; cat a; git log --oneline -2; git am -3 p/*; echo $?`,
	`git format-patch -v2 -s --cover-letter -2 -o o; ls o; cat o/v2-0000*; head -20 o/v2-0002*; git format-patch --rfc --stdout -1 | grep Subject; git format-patch -1 --stdout --no-signature | tail -3; git format-patch -1 --stdout --signature=me | tail -4`,
	`mkdir ../n; cp a ../n/a; sed s/one/ONE/ a >../n/b; cd ../n; git diff --no-index a b; echo $?; git diff a b --stat; git diff --no-index --name-status a b; git diff --no-index --quiet a a; echo $?; git diff --no-index /dev/null a; git diff --no-index a b | sed s/b.b/b\\/a/ >p; git apply p; cat a; cd ..; rm -r n`,
	`printf 'five  \nsix\t\n' >>a; git diff >p; git checkout -q a; git apply --whitespace=fix p; cat -A a; git checkout -q a; git apply --whitespace=nowarn p; cat -A a; git checkout -q a; sed -i 's/^/  /' a; git apply p; echo $?; git apply --ignore-whitespace p; echo $?; cat a`,
	`mkdir l r; echo 1 >l/x; echo 2 >r/x; echo 3 >l/gone; echo 4 >r/come; mkdir r/d; echo 5 >r/d/e; git diff --no-index l r; echo $?; git diff --no-index --numstat l r; git diff --no-index --name-only l r; git diff --no-index l/x r`,
	`printf 'x  \n \ty\n<<<<<<< HEAD\nz\n\n\n' >>a; git diff --check; echo $?; git add a; git diff --cached --check; echo $?; git diff --check HEAD -- src; echo $?; git diff --cached --check --exit-code; echo $?`,
	`sed -i s/one/ONE/ a; mkdir -p src/deep; echo q >src/deep/q; echo r >src/r; git add .; git diff --cached --dirstat; git diff --cached --dirstat=lines,0; git diff --cached --dirstat=files,cumulative; git diff --cached --dirstat=10 --stat; git diff --cached --output=o --stat; cat o`,
	`seq 30 >s; git add s; git commit -qm s; sed -i 's/^5$/five/;s/^25$/xxv/' s; git diff >p; git diff -U0 >p0; git checkout -q s; git apply p0; echo $?; git apply --unidiff-zero p0; echo $?; git apply -R p; sed -i 's/^24$/XXIV/' s; git apply p; echo $?; git apply -C1 p; echo $?; git apply --reject p; echo $?; cat s.rej; git diff --stat`,
	`printf -- '--- a/a\n+++ b/a\n@@ -1,9 +1,2 @@\n one\n-two\n+2\n three\n' >p; git apply p; echo $?; git apply --recount p; echo $?; cat a; printf -- '--- x/y/a\n+++ x/y/a\n@@ -1,2 +1,2 @@\n one\n-2\n+zwei\n' >q; git apply -p2 q; echo $?; git apply -p9 q; echo $?; cat a; cd src; printf -- '--- a/f.go\n+++ b/f.go\n@@ -1 +1 @@\n-package src\n+package x\n' | git apply; echo $?; head -1 f.go`,
	`git format-patch -2 --stdout >all; git reset -q --hard HEAD~2; echo b >>a; git apply --check all; echo $?; git checkout -q a; git apply --stat --summary all; git apply --cached all; git status -s; git reset -q --hard; git apply --exclude='*.go' all; git status -s; git apply -R --include=a all; git status -s; git apply --index --apply --numstat all; git status -s; printf 'two\n' >a; git add a; git apply -3 all; echo $?; git status -s`,
}

// TestPatchScripts compares them with bash and the real git.
func TestPatchScripts(t *testing.T) {
	var cases []commandtest.Case
	for _, script := range patchScripts {
		cases = append(cases, commandtest.Case{
			Name: script, Script: "exec 2>/dev/null\n" + repository + script, Tree: tree,
			Env: append(identity, "GIT_MERGE_AUTOEDIT=no", "GIT_EDITOR=true", "GIT_PAGER=cat"), NoFiles: true,
		})
	}
	commandtest.Compare(t, cases)
}
