package about

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// TestRebuildModule: sections without meaning are dropped, the stack is larger, and nothing else is accepted.
func TestRebuildModule(t *testing.T) {
	const head = "\x00asm\x01\x00\x00\x00"
	for _, c := range []struct{ in, want string }{
		{head + "\x00\x03\x01ab" + "\x05\x04" + memoryBefore + "\x06\x08" + stackBefore + "\x0a\x01\x00", head + "\x05\x04" + memoryAfter + "\x06\x09" + stackAfter + "\x0a\x01\x00"},
		{head + "\x05\x03\x01\x00\x05", ""},
		{head + "\x06\x01\x00", ""},
		{head + "\x0a\x05\x00", ""},
		{head + "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ""},
		{head + "\x0a", ""},
		{"\x7fELF\x01\x00\x00\x00", ""},
		{"", ""},
	} {
		got, err := rebuildModule([]byte(c.in))
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q: %q, %v", c.in, got, err)
		}
	}
}

// TestBuildPythonRefusesOtherContent: a package whose content is not the known one leaves nothing behind.
func TestBuildPythonRefusesOtherContent(t *testing.T) {
	cache, unpacked, helpers := t.TempDir(), t.TempDir(), t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(unpacked, "dist"), 0o755), os.WriteFile(filepath.Join(unpacked, "LICENSE"), nil, 0o644),
		os.WriteFile(filepath.Join(helpers, helper.PythonProgram), []byte("#!/bin/false\n"), 0o755),
		os.WriteFile(filepath.Join(unpacked, "dist", helper.PythonFile), []byte("\x00asm\x01\x00\x00\x00"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ATOLL_PYTHON", "")
	f := helper.Finder{Dir: helpers, Cache: cache}
	if _, err := buildPython(t.Context(), f, unpacked); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("it is %v", err)
	}
	if list, err := os.ReadDir(cache); err != nil || len(list) > 0 {
		t.Errorf("the cache has %v, %v", list, err)
	}
	if _, err := f.FindPython(); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("it is found: %v", err)
	}
}
