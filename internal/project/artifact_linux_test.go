package project_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestArtifacts(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	write(t, dir, "build/old", "mine, ignored\n")
	write(t, dir, "out/mine", "mine, not ignored\n")
	write(t, dir, "dist/tracked", "tracked\n")
	git(t, dir, "add", "dist/tracked")
	if err := os.Symlink("/tmp", filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, `mkdir -p build/deep dist out target packages/a/dist packages/b/dist other
echo new >build/old; echo x >build/deep/x; chmod +x build/deep/x; ln -s /etc/passwd build/link; mkfifo build/pipe
echo theirs >out/mine; echo theirs >dist/tracked; echo d >dist/d; echo t >target/t; echo a >packages/a/dist/f; echo b >packages/b/dist/f; echo o >other/o; mkdir -p build/.git; echo x >build/.git/config`)
	for _, dry := range []bool{true, false} {
		taken, err := r.CopyArtifacts(t.Context(), sb, project.ArtifactOptions{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "skipped", strings.Join(taken.Skipped, "\n"), `build/.git/config: invalid file name
build/link: not a regular file
build/pipe: not a regular file
dist/tracked: git tracks it
out/mine: the host has it, and git does not ignore it
target/t: target of the host is not a directory`)
		if taken.Files != 3 {
			t.Errorf("taken %+v", taken)
		}
		if dry {
			same(t, "after a dry run", read(t, dir, "build/old"), "mine, ignored\n")
		}
	}
	same(t, "files", run(t, dir, "sh", "-c", "cat build/old build/deep/x dist/d dist/tracked out/mine; stat -c %a build/deep/x; ls -A build dist out; ls packages other /tmp/t 2>&1 | wc -l"),
		"new\nx\nd\ntracked\nmine, not ignored\n755\nbuild:\ndeep\nold\n\ndist:\nd\ntracked\n\nout:\nmine\n3")
	if _, err := r.CopyArtifacts(t.Context(), sb, project.ArtifactOptions{Patterns: []string{"packages/*/dist/", "packages/a/dist/f"}}); err != nil {
		t.Fatal(err)
	}
	same(t, "packages", run(t, dir, "cat", "packages/a/dist/f", "packages/b/dist/f"), "a\nb")
	for _, p := range []string{"", "..", "../x", "/etc", ".git", "a/.git/hooks", "a/../b", "a//b", "[a]", ".GIT/x"} {
		_, err := r.CopyArtifacts(t.Context(), sb, project.ArtifactOptions{Patterns: []string{p}})
		is(t, err, atoll.ErrInvalid)
	}
	_, err := r.CopyArtifacts(t.Context(), sb, project.ArtifactOptions{Files: 1})
	is(t, err, project.ErrTooLarge)
	_, err = r.CopyArtifacts(t.Context(), sb, project.ArtifactOptions{Bytes: 3})
	is(t, err, project.ErrTooLarge)
}

// smuggler is a sandbox that exports what a test wants.
type smuggler struct {
	atoll.Sandbox
	entries []tar.Header
}

func (s smuggler) Export(context.Context, string) (io.ReadCloser, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range s.entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = 5
		}
		h.Mode = 0o6777
		if err := tw.WriteHeader(&h); err != nil {
			return nil, err
		}
		if h.Size > 0 {
			if _, err := io.WriteString(tw, "evil\n"); err != nil {
				return nil, err
			}
		}
	}
	return io.NopCloser(&b), tw.Close()
}

func (s smuggler) Unwrap() atoll.Sandbox { return s.Sandbox }

func TestArtifactsOfALiar(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "mkdir build")
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	before := hostState(t, dir)
	outside := t.TempDir()
	for i, entries := range [][]tar.Header{
		{file("../../evil")},
		{file("/evil")},
		{file("build/../../evil")},
		{file("build/.git/config")},
		{file(".git/config")},
		{file(".git/hooks/post-merge")},
		{file("../.git/hooks/x")},
		{file("build/./x")},
		{file(".GIT/hooks/x")},
		{file("a.txt")},
		{file("a.txt/x")},
		{file("build/git~1/x")},
		{{Typeflag: tar.TypeSymlink, Name: "build/l", Linkname: outside}, file("build/l/evil")},
		{{Typeflag: tar.TypeLink, Name: "build/h", Linkname: "../a.txt"}, file("build/h")},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			defer func() { _ = os.RemoveAll(filepath.Join(dir, "build")) }()
			if _, err := r.CopyArtifacts(t.Context(), smuggler{sb, entries}, project.ArtifactOptions{}); err != nil {
				t.Fatal(err)
			}
			if i < 12 {
				same(t, "the host", hostState(t, dir), before)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("outside: %v, %v", left, err)
			}
			same(t, "a.txt", read(t, dir, "a.txt"), "one\n")
			if list := glob(t, filepath.Join(dir, ".git/hooks/[px]*[!e]")); len(list) > 0 {
				for _, f := range list {
					if !strings.HasSuffix(f, ".sample") {
						t.Errorf("hook %s", f)
					}
				}
			}
		})
	}
}
