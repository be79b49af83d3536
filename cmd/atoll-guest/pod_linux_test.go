package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestEnvironmentOfPod(t *testing.T) {
	ofImage, ofSandbox := sortOut([]string{
		"PATH=/bin", "LANG=C", "HOME=/root", "HOSTNAME=h", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ATOLL_KEY=k", "OWN=1", "KUBERNETES_MINE=2", "EMPTY=",
	}, []string{"OWN", "KUBERNETES_MINE"})
	if !slices.Equal(ofImage, []string{"PATH=/bin", "LANG=C", "EMPTY="}) || !slices.Equal(ofSandbox, []string{"OWN=1", "KUBERNETES_MINE=2"}) {
		t.Errorf("%q, %q", ofImage, ofSandbox)
	}
}

func TestCopyOfSelf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atoll-guest")
	for range 2 { // what is there makes way
		if err := copySelf(path); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, self) {
		t.Errorf("%d of %d bytes, %v", len(b), len(self), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if err := copySelf(filepath.Join(path, "x")); err == nil {
		t.Error("a file is a directory")
	}
}
