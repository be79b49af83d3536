package git_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/git"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// mailConflict prepares two mails of which the first does not apply.
const mailConflict = first + "sed -i s/two/work/ a\ngit commit -q -am 'change a'\ncp dir/c new\ngit add new\ngit commit -q -m 'add new'\ngit format-patch -q -2 -o /tmp/OUT\ngit reset -q --hard HEAD~2\nsed -i s/two/main/ a\ngit commit -q -am other\n"

// attributeScripts are compared with the real git, with files that have CR LF.
var attributeScripts = []string{
	// ends of lines
	first + "cp dos d1\ngit add d1\ngit commit -qm 1\ngit rev-parse HEAD:d1\ncp text .gitattributes\ngit status -s\ngit add d1\ngit rev-parse :d1\ngit status -s\ngit diff --cached --stat",
	first + "cp text .gitattributes\ncp dos d1\ngit add .\ngit rev-parse :d1 :a\ngit commit -qm 1\nrm d1\ngit checkout -q d1\nod -c d1\ngit status -s",
	first + "cp auto .gitattributes\ncp dos d1\ncp zero d2\ncp a d3\ngit add .\ngit rev-parse :d1 :d2 :d3\ngit status -s",
	first + "cp crlf .gitattributes\ncp a x.bat\ncp dos y.bat\ngit add .\ngit rev-parse :x.bat :y.bat\ngit commit -qm 1\nrm x.bat y.bat\ngit checkout -q .\nod -c x.bat\nod -c y.bat\ngit status -s\nsed -i s/one/1/ x.bat\ngit diff --stat",
	first + "git config core.autocrlf true\ncp dos d1\ncp a d2\ngit add .\ngit rev-parse :d1 :d2\ngit commit -qm 1\nrm d1 d2\ngit checkout -q .\nod -c d1\nod -c d2\ngit status -s",
	first + "git config core.autocrlf input\ncp dos d1\ngit add d1\ngit rev-parse :d1\ngit status -s",
	first + "cp dos d1\ngit add d1\ngit commit -qm 1\ncp auto .gitattributes\ngit status -s d1\nsed -i s/one/1/ d1\ngit status -s d1\ngit diff --stat",
	// diff
	first + "cp nodiff .gitattributes\nsed -i s/one/1/ a\nsed -i s/3/three/ b.go\ngit diff\ngit diff --stat\ngit diff --numstat\ngit commit -qam 2\ngit show --stat\ngit log -p -1",
	first + "cp binary .gitattributes\nsed -i s/one/1/ a\ngit diff\ngit check-attr -a a b.go\ngit check-attr diff text -- a b.go dir/c\ngit check-attr binary a",
	first + "cp subdir dir/.gitattributes\nsed -i s/deep/DEEP/ dir/c\ngit diff\ngit check-attr diff dir/c a\ngit -C dir check-attr diff c",
	// am
	mailConflict + "git am /tmp/OUT/0001-change-a.patch /tmp/OUT/0002-add-new.patch\ngit status\ngit am --continue\nsed -i s/main/work/ a\ngit add a\ngit am --continue\ngit log --format='%an %s'\ngit rev-parse HEAD\ngit status",
	mailConflict + "git am /tmp/OUT/0001-change-a.patch /tmp/OUT/0002-add-new.patch\ngit am --skip\ngit log --format=%s\ngit rev-parse HEAD\ngit am --skip",
	mailConflict + "git am /tmp/OUT/0001-change-a.patch\ngit am /tmp/OUT/0002-add-new.patch\ngit am --abort\ngit log --format=%s\ngit status -s\ngit am --abort\ngit am --continue",
	mailConflict + "git am /tmp/OUT/0002-add-new.patch /tmp/OUT/0001-change-a.patch\ngit am --abort\ngit log --format=%s\ngit status -s",
	mailConflict + "git am -s /tmp/OUT/0001-change-a.patch\nsed -i s/main/work/ a\ngit add a\ngit am --resolved\ngit log -1 --format=%B\ngit rev-parse HEAD",
	// upkeep
	second + "git gc -q\ngit prune\ngit log --oneline\ngit status\ngit branch --move trunk\ngit branch",
}

var attributeTree = append(slices.Clone(tree), "dos=one\r\ntwo\r\n", "text=* text\n", "auto=* text=auto\n", "crlf=*.bat text eol=crlf\n", "nodiff=a -diff\n*.go diff\n", "binary=a binary\nb.go -text\n", "subdir=c -diff\n", "zero=a\x00\r\n")

// TestAttributes compares attributes, and sessions of git am, with the real git.
func TestAttributes(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range attributeScripts {
		run = strings.ReplaceAll(run, "/tmp/OUT", "out")
		cases = append(cases, commandtest.Case{Run: run, Tree: attributeTree, Env: append(identity, "GIT_EDITOR=true"), NoFiles: true, Loose: true})
	}
	commandtest.Compare(t, cases)
}

// TestRefusedOptions checks that options without effect are refused, and that the message names what to use instead.
func TestRefusedOptions(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.Env = append(s.Env, identity...)
	s.Exec("", "git", "init", "-q")
	for _, line := range []string{
		"git merge --autostash x", "git diff --color-words", "git clone --filter=blob:none a b", "git clone --filter blob:none a b", "git clone --recurse-submodules a b",
		"git log --color=always", "git push --atomic", "git config --system a.b c", "git log --show-signature", "git diff --patience", "git fetch --recurse-submodules",
	} {
		o := s.Exec("", commandtest.SplitWords(line)...)
		option := regexp.MustCompile(` (--?[a-z3-]+)`).FindStringSubmatch(line)[1]
		if o.Code != 129 || !strings.Contains(o.Stderr, option+" is not supported here: ") {
			t.Errorf("%s: %d %q", line, o.Code, o.Stderr)
		}
	}
	if o := s.Exec("", "git", "status", "-s"); o.Code != 0 {
		t.Errorf("status: %+v", o)
	}
	if o := s.Exec("", "git", "diff", "--color=never"); o.Code != 0 {
		t.Errorf("diff --color=never: %+v", o)
	}
	if o := s.Exec("", "git", "submodule", "add", "x"); o.Code != 1 || !strings.Contains(o.Stderr, "clone the other repository") {
		t.Errorf("submodule: %+v", o)
	}
}

// sourceOf returns the code of the package, without its tests.
func sourceOf(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var b strings.Builder
	for _, name := range names {
		if text, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		} else if !strings.HasSuffix(name, "_test.go") {
			b.Write(text)
		}
	}
	return b.String()
}

// harmlessOptions are accepted although nothing reads them: each asks for what happens anyway (the default, or what a git
// without terminal, hooks, signatures and submodules does).
const harmlessOptions = `--progress --no-progress --no-verify --no-gpg-sign --no-sign --no-status --no-post-rewrite --no-refresh --mixed --only --commit --no-squash --no-log --no-autostash
--no-color --no-column -unormal --ahead-behind --guess --no-hardlinks -j --jobs --no-recurse-submodules --thin --no-thin --cc --ignore-submodules --no-filters --end-of-options --no-deref --checkout
--no-keep-index --keep-empty --no-reapply-cherry-picks --no-abbrev-commit --no-mailmap --use-mailmap --find-renames --no-ext-diff --no-textconv --indent-heuristic
--full --no-dangling --write-tree -H --basic-regexp --recursive --null --auto --aggressive --prune --no-prune --force --expire --cone`

// TestEveryOptionIsRead checks that the code reads each option of the tables, unless it is harmless.
func TestEveryOptionIsRead(t *testing.T) {
	source := sourceOf(t)
	harmless := strings.Fields(harmlessOptions)
	for name, options := range git.Options() {
		for _, option := range strings.Fields(options) {
			option = strings.TrimSuffix(option, "=")
			if !strings.Contains(source, `"`+option+`"`) && !slices.Contains(harmless, option) {
				t.Errorf("git %s %s is accepted, but nothing reads it: refuse it in refuse.go", name, option)
			}
		}
	}
}
