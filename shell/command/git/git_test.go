package git_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

var (
	identity = []string{
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_AUTHOR_DATE=1700000000 +0100",
		"GIT_COMMITTER_NAME=Bob", "GIT_COMMITTER_EMAIL=bob@example.com", "GIT_COMMITTER_DATE=1700000100 -0230",
		"GIT_CONFIG_NOSYSTEM=1",
	}
	tree = []string{"a=one\ntwo\nthree\n", "b.go=func f() {\n\t1\n\t2\n\t3\n\t4\n\t5\n\t6\n}\n", "dir/c=deep\n", "dir/sub/d=deeper\n", "0755 run=#!/bin/sh\n", "link->a", "new=", "bin=\x00\x01\x02", "dir.x=between\n"}
)

const first = "git init -q -b main\ngit add a b.go dir run link bin dir.x\ngit commit -q -m first\n"

// TestGitAgreesWithTheRealOne compares output, status and, by the names of commits, every stored object.
func TestGitAgreesWithTheRealOne(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"git status", "git init -b main .\ngit status\ngit add .\ngit status\ngit status -s\ngit status --porcelain",
		"git init -q -b main\ngit add a\ngit commit -m 'the first'\ngit log\ngit log --oneline\ngit rev-parse HEAD HEAD^{tree}",
		first + "git log\ngit rev-parse HEAD\ngit ls-files -s\ngit status\ngit show --stat",
		first + "cp new a\ngit status\ngit diff\ngit diff --stat\ngit commit -a -m second\ngit log --oneline\ngit show\ngit rev-parse HEAD~1 HEAD",
		first + "sed -i s/4/four/ b.go\ngit diff\ngit add b.go\ngit diff --cached\ngit diff\ngit status -s\ngit restore --staged b.go\ngit status -s\ngit restore b.go\ngit status",
		first + "sed -i -e 2i\\new -e 7d b.go\ngit diff\ngit diff --name-only\ngit diff --name-status\ngit diff --exit-code",
		first + "rm a\ngit status\ngit add -A\ngit status -s\ngit commit -m gone\ngit show --name-status",
		first + "git rm a\ngit rm dir\ngit rm -r dir\ngit rm --cached run\ngit rm nope\ngit status -s",
		first + "git mv a dir/z\ngit ls-files\ngit mv nope x\ngit commit -q -m moved\ngit rev-parse HEAD",
		first + "chmod +x a\ngit diff\ngit commit -am mode\nchmod -x run\ngit status -s",
		first + "git branch\ngit branch x\ngit branch x\ngit branch\ngit switch x\ngit branch --show-current\ngit switch -c y\ngit switch nope\ngit checkout main\ngit branch -d x\ngit branch -d main\ngit branch -m y z\ngit branch",
		first + "git checkout -q -b work\ncp dir/c a\ngit commit -qam work\ngit checkout -q main\ncat a\ngit merge work\ngit merge work\ncat a\ngit log --oneline\ngit rev-parse HEAD",
		first + "git checkout -q -b work\ncp dir/c a\ngit commit -qam work\ncp dir.x a\ngit checkout main\ngit checkout -- a\ngit checkout main\ngit status -s",
		first + "cp dir/c a\ngit commit -qam second\ngit reset --soft HEAD~1\ngit status -s\ngit reset -q\ngit status -s\ngit reset --hard\ngit status",
		first + "cp dir/c a\ngit commit -qam second\ngit reset --hard HEAD^\ncat a\ngit log --format=%H",
		first + "git tag v1\ngit tag\ngit tag v1\ngit rev-parse v1\ngit tag -d v1\ngit tag -d v1",
		first + "git commit -m nothing\ngit commit --allow-empty -m empty\ngit log -1 --format='%h %an %ae %ad %s'\ngit log --format='%cn|%ce|%ct|%ai|%P'\ngit commit --amend -m other\ngit log --oneline",
		first + "git show HEAD:dir/c\ngit show HEAD:nope\ngit show nope\ngit log nope\ngit rev-parse --abbrev-ref HEAD\ngit rev-parse --short HEAD\ngit rev-parse --is-inside-work-tree\ngit rev-parse --show-toplevel",
		first + "cp bin a\ngit diff\ngit diff --stat\ngit commit -qam binary\ngit show --stat",
		"git init -q -b main\nto-file .gitignore\ngit add a",
		first + "git log -p -- a\ngit log --oneline -- nope\ngit log --reverse --oneline\ngit cat-file -t HEAD\ngit cat-file -p HEAD\ngit cat-file -s HEAD",
		first + "git config user.name\ngit config user.name Zoe\ngit config user.name\ngit config --get core.bare\ngit config nope.x",
		first + "git -C dir status -s\ngit -C dir rev-parse --show-prefix\ngit -C nope status\ngit diff HEAD\ngit ls-files dir\ngit ls-files -o",
		"git init -q -b main\ngit log\ngit diff\ngit add nope\ngit commit -m x\ngit add -A\ngit commit -q -m all\ngit status\ngit rev-parse HEAD",
	} {
		if strings.Contains(run, "to-file") {
			continue
		}
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Env: identity, NoFiles: true, Loose: true})
	}
	ignore := append([]string{".gitignore=*.log\n!keep.log\n/build/\nsub/*.tmp\n", "x.log=1", "keep.log=1", "build/o=1", "src/build/o=1", "sub/a.tmp=1", "src/sub/a.tmp=1"}, tree...)
	cases = append(cases, commandtest.Case{Name: "ignored", Run: "git init -q -b main\ngit status -s\ngit add .\ngit ls-files\ngit add x.log\ngit status --porcelain", Tree: ignore, Env: identity, NoFiles: true, Loose: true})
	commandtest.Compare(t, cases)
}

// TestGitErrors compares messages word by word.
func TestGitErrors(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"git log", first + "git switch nope\ngit branch main\ngit branch -d nope\ngit rm nope\ngit add nope\ngit tag -d x\ngit restore nope", "git init -q -b main\ngit log\ngit commit -m ''",
		first + "git checkout -q -b work\ncp dir/c a\ngit commit -qam work\ncp dir.x a\ngit switch main",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Env: identity, NoFiles: true})
	}
	commandtest.Compare(t, cases)
}

// TestOtherGitsReadIt checks a repository with the real git, which finds nothing wrong and nothing changed.
func TestOtherGitsReadIt(t *testing.T) {
	testenv.Real(t, "git")
	dir := t.TempDir()
	s := commandtest.New(t, dir)
	s.Env = append(s.Env, identity...)
	commandtest.MakeTree(t, s.FS, dir, tree)
	for line := range strings.Lines(first + "cp dir/c a\ngit commit -qam second\ngit tag v1\ngit switch -c work\ngit rm -q -r dir\ngit commit -q -m removed\n") {
		if o := s.Exec("", commandtest.SplitWords(strings.TrimSpace(line))...); o.Code != 0 {
			t.Fatalf("%s: %d %s", line, o.Code, o.Stderr)
		}
	}
	copyOut(t, s, dir)
	for _, args := range [][]string{{"fsck", "--strict", "--full"}, {"status", "--porcelain"}, {"log", "--format=%s"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		want := map[string]string{"fsck": "", "status": "?? new\n", "log": "removed\nsecond\nfirst\n"}[args[0]]
		if err != nil || string(out) != want {
			t.Errorf("git %v: %v\n%s", args, err, out)
		}
	}
}

// copyOut copies the files of a sandbox to the host.
func copyOut(t *testing.T, s *commandtest.Sandbox, dir string) {
	t.Helper()
	files := commandtest.Sub(t, s.FS.IO(), dir)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			text, err := s.FS.Readlink(to)
			if err == nil {
				err = os.Symlink(text, to)
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := s.FS.ReadFile(to)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBombs gives git what costs more than it may, and checks that it ends and that nothing stays charged.
func TestBombs(t *testing.T) {
	var bomb bytes.Buffer
	w := zlib.NewWriter(&bomb)
	_, err := w.Write([]byte("blob 134217728\x00"))
	for range 128 {
		_, werr := w.Write(make([]byte, 1<<20))
		err = errors.Join(err, werr)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("a", 40)
	lines := func(prefix string) string {
		var b strings.Builder
		for n := range 100_000 {
			fmt.Fprintf(&b, "%s%d\n", prefix, n)
		}
		return b.String()
	}
	for _, c := range []struct {
		file, content, run, want string
		code                     int
	}{
		{".git/objects/aa/" + name[2:], bomb.String(), "git cat-file -p " + name, "memory limit of 64 MiB exceeded", 137},
		{".git/index", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff" + strings.Repeat("\x00", 40), "git status", "fatal: index file corrupt", 128},
		{"a", lines("x"), "git diff --stat", "", 0},
		{"big", strings.Repeat("\x00", 60<<20), "git add big", "memory limit of 64 MiB exceeded", 137},
		{".gitignore", strings.Repeat("*a*b*c*d*e\n", 1000), "git status -s", "", 0},
	} {
		s := commandtest.New(t, "/w")
		s.Env = append(s.Env, identity...)
		s.WriteFile("a", lines("y"))
		for _, line := range []string{"git init -q", "git add a", "git commit -qm a"} {
			if o := s.Exec("", strings.Fields(line)...); o.Code != 0 {
				t.Fatalf("%s: %d %q", line, o.Code, o.Stderr)
			}
		}
		s.Must(s.FS.MkdirAll("/w/.git/objects/aa", 0o755))
		s.WriteFile(c.file, c.content)
		if o := s.Exec("", strings.Fields(c.run)...); o.Code != c.code || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%s with %s: %d %.200q", c.run, c.file, o.Code, o.Stderr)
		}
		if n := s.Kernel.Memory(); n != 0 {
			t.Errorf("%s with %s: %d bytes stay charged", c.run, c.file, n)
		}
		if list := s.Kernel.Incidents(); len(list) > 0 {
			t.Errorf("%s with %s: %s\n%s", c.run, c.file, list[0].Value, list[0].Stack)
		}
	}
}

// TestRefused checks that commands and options that are not supported say so.
func TestRefused(t *testing.T) {
	s := commandtest.New(t, "/w")
	for line, want := range map[string]string{
		"git frobnicate": "git: 'frobnicate' is not a git command that works in a virtual sandbox. See 'git --help'.", "git clone https://example.com/x": "this sandbox has no network", "git --frob log": "unknown option: --frob",
	} {
		if o := s.Exec("", commandtest.SplitWords(line)...); o.Code == 0 || !strings.Contains(o.Stderr, want) {
			t.Errorf("%s: %d %q", line, o.Code, o.Stderr)
		}
	}
}

// TestHostileTrees checks that a checkout writes neither outside the working tree nor into .git, and follows
// no links.
func TestHostileTrees(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.Env = append(s.Env, identity...)
	must := func(stdin, line string) string {
		o := s.Exec(stdin, commandtest.SplitWords(line)...)
		if o.Code != 0 {
			t.Fatalf("%s: %d %q", line, o.Code, o.Stderr)
		}
		return strings.TrimSpace(o.Stdout)
	}
	s.Must(s.FS.MkdirAll("/w/d", 0o755))
	s.Must(s.FS.MkdirAll("/out", 0o755))
	s.WriteFile("d/x", "inside\n")
	for _, line := range []string{"git init -q", "git add d", "git commit -qm a", "git branch good", "git rm -q d/x", "git commit -qm b"} {
		must("", line)
	}
	s.Must(s.FS.Symlink("/out", "/w/d"))
	must("", "git checkout -q good")
	if _, err := s.FS.Lstat("/out/x"); err == nil || s.ReadFile("d/x") != "inside\n" {
		t.Error("the checkout wrote through a link")
	}
	blob := must("", "git rev-parse HEAD^{tree}")
	for _, name := range []string{"..", ".", ".git", ".GIT", "a/b", ""} {
		raw, err := hex.DecodeString(blob)
		s.Must(err)
		object := "100644 " + name + "\x00" + string(raw)
		object = fmt.Sprintf("tree %d\x00%s", len(object), object)
		sum := fmt.Sprintf("%x", sha1.Sum([]byte(object)))
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, err = w.Write([]byte(object))
		s.Must(errors.Join(err, w.Close(), s.FS.MkdirAll("/w/.git/objects/"+sum[:2], 0o755)))
		s.WriteFile(".git/objects/"+sum[:2]+"/"+sum[2:], z.String())
		if o := s.Exec("", strings.Fields("git reset --hard "+sum)...); o.Code == 0 {
			t.Errorf("a tree was reset to: %q", o.Stdout)
		}
		if o := s.Exec("", "git", "diff", sum); o.Code != 128 || !strings.Contains(o.Stderr, "bad tree object") {
			t.Errorf("a tree with %q: %d %q", name, o.Code, o.Stderr)
		}
	}
}
