package archive_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestCpioKeepsFiles(t *testing.T) {
	s := commandtest.New(t, "/work")
	commandtest.MakeTree(t, s.FS, "/work", []string{"d/s/f=text\n", "0755 d/run=#!/bin/sh\n", "d/l->s/f", "empty="})
	made := s.Exec("d\nd/s\nd/s/f\nd/run\nd/l\nempty\nnofile\n", "cpio", "-o")
	if made.Code != 2 || !strings.HasSuffix(made.Stderr, "2 blocks\n") || !strings.Contains(made.Stderr, "cpio: nofile: Cannot stat: No such file or directory\n") {
		t.Errorf("create: %d %q", made.Code, made.Stderr)
	}
	if got := s.Exec(made.Stdout, "cpio", "-t", "--quiet"); got.Stdout != "d\nd/s\nd/s/f\nd/run\nd/l\nempty\n" {
		t.Errorf("list: %q %q", got.Stdout, got.Stderr)
	}
	s.Must(s.FS.Mkdir("/work/out", 0o755))
	if got := s.Exec(made.Stdout, "cpio", "-idm", "-D", "out", "d/*"); got.Code != 0 {
		t.Errorf("extract: %d %q", got.Code, got.Stderr)
	}
	if got := s.ReadFile("out/d/l"); got != "text\n" {
		t.Errorf("the link leads to %q", got)
	}
	info, err := s.FS.Stat("/work/out/d/run")
	if err != nil || info.Mode().Perm() != 0o755 || !info.ModTime().Equal(commandtest.TreeTime.Truncate(1e9)) {
		t.Errorf("run is %v, %v", info, err)
	}
}

func TestCpioStaysInItsDirectory(t *testing.T) {
	s := commandtest.New(t, "/work")
	s.Must(s.FS.MkdirAll("/work/in/side", 0o755))
	s.Must(s.FS.Symlink("/work", "/work/l"))
	s.Must(s.FS.WriteFile("/work/escape", nil, 0o644))
	archive := s.Exec("l\nl/escape\n../work/escape\n/work/escape\n", "cpio", "-o").Stdout
	s.Must(s.FS.Unlink("/work/escape"))
	s.Exec(archive, "cpio", "-idu", "-D", "in/side")
	for _, p := range []string{"/work/escape", "/work/in/work/escape"} {
		if _, err := s.FS.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made: %v", p, err)
		}
	}
}
