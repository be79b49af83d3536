package command

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestCsplitAgreesWithGNU(t *testing.T) {
	var cases []deed
	for _, run := range []string{
		"csplit f 5 10", "csplit f /5/", "csplit f /5/ {*}", "csplit -f o -n 3 f /1/+2", "csplit -z f %10% 20", "csplit f 30", "csplit -k f 5 30", "csplit -s f 3 {2}", "csplit f /zz/", "csplit f", "csplit f x",
		"csplit -b %03d.txt f 4", "csplit --suppress-matched f /^1/ {2}", "csplit nofile 1", "csplit f 5 3", "csplit - 2", "csplit f /1/ {2}", "csplit -k f /zz/", "csplit f /9/-2", "csplit f %5% /8/", "csplit f 1", "csplit f 0", "csplit -z f 1",
		"csplit f /5", "csplit f {2}", "csplit -s f /2/ {1} 20", "csplit f %zz%", "csplit f 25", "csplit f 26",
	} {
		cases = append(cases, deed{run: run, tree: []string{"f=" + countTo(25)}, stdin: "a\nb\nc"})
	}
	compare(t, cases)
}

func TestCpioKeepsFiles(t *testing.T) {
	s := newSandbox(t, "/work")
	plant(t, s.fs, "/work", []string{"d/s/f=text\n", "0755 d/run=#!/bin/sh\n", "d/l->s/f", "empty="})
	made := s.exec("d\nd/s\nd/s/f\nd/run\nd/l\nempty\nnofile\n", "cpio", "-o")
	if made.Code != 2 || !strings.HasSuffix(made.Stderr, "2 blocks\n") || !strings.Contains(made.Stderr, "cpio: nofile: Cannot stat: No such file or directory\n") {
		t.Errorf("create: %d %q", made.Code, made.Stderr)
	}
	if got := s.exec(made.Stdout, "cpio", "-t", "--quiet"); got.Stdout != "d\nd/s\nd/s/f\nd/run\nd/l\nempty\n" {
		t.Errorf("list: %q %q", got.Stdout, got.Stderr)
	}
	s.must(s.fs.Mkdir("/work/out", 0o755))
	if got := s.exec(made.Stdout, "cpio", "-idm", "-D", "out", "d/*"); got.Code != 0 {
		t.Errorf("extract: %d %q", got.Code, got.Stderr)
	}
	if got := s.read("out/d/l"); got != "text\n" {
		t.Errorf("the link leads to %q", got)
	}
	info, err := s.fs.Stat("/work/out/d/run")
	if err != nil || info.Mode().Perm() != 0o755 || !info.ModTime().Equal(then.Truncate(1e9)) {
		t.Errorf("run is %v, %v", info, err)
	}
}

func TestCpioStaysInItsDirectory(t *testing.T) {
	s := newSandbox(t, "/work")
	s.must(s.fs.MkdirAll("/work/in/side", 0o755))
	s.must(s.fs.Symlink("/work", "/work/l"))
	s.must(s.fs.WriteFile("/work/escape", nil, 0o644))
	archive := s.exec("l\nl/escape\n../work/escape\n/work/escape\n", "cpio", "-o").Stdout
	s.must(s.fs.Unlink("/work/escape"))
	s.exec(archive, "cpio", "-idu", "-D", "in/side")
	for _, p := range []string{"/work/escape", "/work/in/work/escape"} {
		if _, err := s.fs.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made: %v", p, err)
		}
	}
}
