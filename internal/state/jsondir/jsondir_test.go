package jsondir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestDir(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "docs"))
	if names, err := d.Names(); err != nil || len(names) > 0 {
		t.Errorf("no directory: %v, %v", names, err)
	}
	if err := os.Mkdir(string(d), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Write("b", 1), d.Write("a", 2), d.Write("b", 3)); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(string(d), ".new-1234")
	if err := os.WriteFile(half, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Names(); err != nil || fmt.Sprint(names) != "[a b]" {
		t.Errorf("%v, %v", names, err)
	}
	var n int
	if err := d.Read("b", &n); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	if err := d.Read("c", &n); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a missing document: %v", err)
	}
	if err := errors.Join(d.Remove("b"), d.Remove("b"), d.Sweep(), d.Sweep()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(string(d)); err != nil || len(left) != 1 || left[0].Name() != "a.json" {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, name := range []string{"", "..", ".a", "a/b", "a\x00"} {
		if err := errors.Join(d.CheckName(name), d.Write(name, 1)); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
