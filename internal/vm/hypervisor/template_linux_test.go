package hypervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// newDisk returns a sparse raw disk.
func newDisk(t testing.TB, c *Config, serial string, size int64) Disk {
	t.Helper()
	name := filepath.Join(t.TempDir(), serial)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return Disk{File: name, Format: "raw", Serial: serial}
}

func TestClonesOfATemplate(t *testing.T) {
	c := vmConfig(t)
	c.Disks = []Disk{newDisk(t, c, "root", 1<<30)}
	template := filepath.Join(t.TempDir(), "template")
	began := time.Now()
	if err := SaveTemplate(deadline(t), c, template); err != nil {
		t.Fatal(err)
	}
	t.Log("saved after", time.Since(began))
	before, err := os.ReadFile(filepath.Join(template, memoryFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := SaveTemplate(deadline(t), c, template); !errors.Is(err, atoll.ErrExists) {
		t.Error("saved twice:", err)
	}
	for _, serial := range []string{"one", "two", "three"} {
		one := *c
		one.Dir, one.Template = sandboxDir(t), template
		one.Disks = []Disk{newDisk(t, c, serial, 1<<30)}
		one.Setup = []byte(`{"i":"` + serial + `"}`)
		began := time.Now()
		m := startVM(t, &one)
		serves := time.Since(began)
		checkEcho(t, m)
		t.Log("serves after", serves, "answers after", time.Since(began))
		expectLine(t, sendLine(t, m, "setup"), string(one.Setup))
		expectLine(t, sendLine(t, m, "disks"), "vda "+serial+" 2097152")
		s, err := m.Status(deadline(t))
		if err != nil || !s.Facts.Cloned || s.Facts.Resident > 200<<20 {
			t.Errorf("%+v, %v", s, err)
		}
		t.Log("memory: ", s.Facts.Resident>>20, "MiB")
	}
	after, err := os.ReadFile(filepath.Join(template, memoryFile))
	if err != nil || string(before) != string(after) {
		t.Error("a clone has changed its template", err)
	}
	for name, change := range map[string]func(c *Config){
		"memory": func(c *Config) { c.Memory *= 2 },
		"disks":  func(c *Config) { c.Disks = nil },
		"kernel": func(c *Config) { c.Append = "other" },
	} {
		other := *c
		other.Dir, other.Template = sandboxDir(t), template
		change(&other)
		if _, err := Start(deadline(t), &other); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "that of another VM") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
