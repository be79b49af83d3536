package helper_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// finds makes this test binary look for a helper.
const finds = "ATOLL_HELPER_FINDS"

func TestMain(m *testing.M) {
	if name := os.Getenv(finds); name != "" {
		path, err := helper.Finder{}.Find(name)
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		if !helper.IsPacked(name) {
			path += " beside"
		}
		_, _ = os.Stdout.WriteString(path)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestPacked packs a helper into a copy of this program, which then finds it.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program, small := filepath.Join(dir, "program"), filepath.Join(dir, "src", "small")
	if err := errors.Join(os.WriteFile(program, b, 0o755), os.Mkdir(filepath.Dir(small), 0o755), os.WriteFile(small, []byte("#!/bin/sh\necho small\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	find := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{finds + "=small", "HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := find(); err == nil || !strings.Contains(out, "make build") {
		t.Errorf("a program without helpers says %q, %v", out, err)
	}
	if err := helper.Pack(program, small); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is in the cache
		path, err := find()
		if err != nil {
			t.Fatalf("%v: %s", err, path)
		}
		if out, err := exec.CommandContext(t.Context(), path).Output(); err != nil || string(out) != "small\n" {
			t.Errorf("%s says %q, %v", path, out, err)
		}
	}
}

func TestNamedDirectoryIsBelieved(t *testing.T) {
	dir := t.TempDir()
	if _, err := (helper.Finder{Dir: dir}).Find("atoll-guest"); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a named directory without the helper: %v", err)
	}
}

// TestEveryHelperIsPacked checks that all helpers in cmd are built and packed into atoll, and built
// for tests.
func TestEveryHelperIsPacked(t *testing.T) {
	dirs, err := filepath.Glob("../../cmd/atoll-*")
	if err != nil || len(dirs) < 3 {
		t.Fatalf("helpers: %v, %v", dirs, err)
	}
	for file, mark := range map[string]string{"../../Makefile": "$(CACHE)/helpers/%s", "../testing/helpertest/build.go": `"./cmd/%s"`} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if filepath.Base(dir) == helper.FullProgram && strings.HasSuffix(file, ".go") {
				continue // testenv.Atoll builds it
			}
			if want := strings.ReplaceAll(mark, "%s", filepath.Base(dir)); !strings.Contains(string(b), want) {
				t.Errorf("%s has no %s", file, want)
			}
		}
	}
}
