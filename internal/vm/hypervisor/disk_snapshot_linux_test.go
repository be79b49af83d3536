package hypervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// addTestLayer adds a layer to a VM with the disks root and workspace, and returns its files.
func addTestLayer(t *testing.T, m *VM, name string, backing [2]string, format string) (over [2]string) {
	t.Helper()
	var files []*os.File
	for i := range over {
		over[i] = filepath.Join(t.TempDir(), name)
		if err := qcow2.Create(over[i], qcow2.Options{Backing: backing[i], Format: format}); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(over[i], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if err := m.AddLayer(deadline(t), name, files); err != nil {
		t.Fatal(err)
	}
	return over
}

// TestAddLayer adds two layers to the disks of a VM that runs, and boots one from each state.
func TestAddLayer(t *testing.T) {
	skipShort(t)
	c := vmConfig(t)
	c.Disks = []Disk{newDisk(t, c, "root", 1<<20), newDisk(t, c, "workspace", 2<<20)}
	low := [2]string{c.Disks[0].File, c.Disks[1].File}
	m := startVM(t, c)
	put := func(text string) {
		t.Helper()
		for _, disk := range []string{"vda", "vdb"} {
			expectLine(t, sendLine(t, m, fmt.Sprintf("put %s %s", disk, text)), "put <nil>")
		}
	}
	put("before")
	middle := addTestLayer(t, m, "one", low, "raw")
	put("middle")
	top := addTestLayer(t, m, "two", middle, "qcow2")
	put("latest")
	expectLine(t, sendLine(t, m, "head vdb"), `"latest"`)
	for name, want := range map[string]bool{"one": false, "two": true, "three": false} {
		if has, err := m.HasLayer(deadline(t), name); err != nil || has != want {
			t.Errorf("HasLayer(%s): %v, %v", name, has, err)
		}
	}
	if err := m.AddLayer(deadline(t), "three", nil); err == nil {
		t.Error("a layer without files was added")
	}
	if err := m.AddLayer(deadline(t), "no,name", nil); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if err := m.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for i, name := range low {
		if b, err := os.ReadFile(name); err != nil || string(b[:6]) != "before" {
			t.Errorf("disk %d: %.6q, %v", i, b, err)
		}
	}
	for _, state := range []struct {
		files [2]string
		below [][2]string
		want  string
	}{{middle, nil, "middle"}, {top, [][2]string{middle}, "latest"}} {
		for i := range c.Disks {
			d := Disk{File: state.files[i], Format: "qcow2", Serial: c.Disks[i].Serial}
			for _, b := range state.below {
				d.Backing = append(d.Backing, Backing{b[i], "qcow2"})
			}
			d.Backing = append(d.Backing, Backing{low[i], "raw"})
			c.Disks[i] = d
		}
		m = startVM(t, c)
		for _, disk := range []string{"vda", "vdb"} {
			expectLine(t, sendLine(t, m, "head "+disk), fmt.Sprintf("%q", state.want))
		}
		if err := m.Kill(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
}
