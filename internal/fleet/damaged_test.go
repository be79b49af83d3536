package fleet

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// damages are ways in which a disk or a program can damage a file.
var damages = map[string]func(b []byte) []byte{
	"Header":    func(b []byte) []byte { _, _ = rand.Read(b[:64]); return b },
	"Middle":    func(b []byte) []byte { clear(b[len(b)/4 : len(b)*3/4]); return b },
	"Truncated": func(b []byte) []byte { return b[:len(b)/2-100] },
	"Other":     func([]byte) []byte { return []byte(strings.Repeat("no database\n", 1000)) },
}

// TestDamagedRegistryIsRebuilt: a damaged registry is found when a fleet is opened, moved aside as
// it is, and rebuilt from the sandboxes of the drivers and the workspaces on disk.
func TestDamagedRegistryIsRebuilt(t *testing.T) {
	skipOnPostgres(t, "its registry is no file")
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			f := openFleet(t, Options{Home: home})
			a := f.Account(LocalCaller())
			sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "web"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
			must(t, errorOf(sb.Exec(t.Context(), atoll.Cmd{Shell: "echo kept > /kept"})))
			mustCreate(t, a, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: []atoll.WorkspaceMount{{Workspace: "notes"}}})
			must(t, os.WriteFile(filepath.Join(home, "workspaces", "local", "local", "notes", "file"), []byte("kept\n"), 0o600)) // an empty one is not worth keeping
			for range 50 {
				must(t, a.SetQuota(t.Context(), atoll.Owner{App: "app", User: rand.Text()}, atoll.Quota{Sandboxes: 1}))
			}
			closeFleet(t, f)
			file := filepath.Join(home, registry.FileName)
			b, err := os.ReadFile(file)
			must(t, err)
			broken := damage(b)
			must(t, os.WriteFile(file, broken, 0o600))

			f = openFleet(t, Options{Home: home})
			r := f.Rebuilt()
			if r == nil || r.Damage == "" {
				t.Fatalf("the damage was not found: %+v", r)
			}
			if kept, err := os.ReadFile(r.Backup); err != nil || !bytes.Equal(kept, broken) {
				t.Errorf("%s is not the damaged file: %v", r.Backup, err)
			}
			a = f.Account(LocalCaller())
			again, err := a.Open(t.Context(), "web")
			must(t, err)
			if b, err := atoll.ReadFile(t.Context(), again, "/kept"); again.ID() != sb.ID() || err != nil || string(b) != "kept\n" {
				t.Errorf("%s has %q, %v", again.ID(), b, err)
			}
			if list, err := a.Workspaces(t.Context()); err != nil || len(list) != 1 || list[0].Name != "notes" {
				t.Errorf("workspaces %+v, %v", list, err)
			}
			closeFleet(t, f)
			if f = openFleet(t, Options{Home: home}); f.Rebuilt() != nil {
				t.Errorf("the rebuilt registry is damaged: %+v", f.Rebuilt())
			}
		})
	}
}

// TestOpenRegistryIsNotRebuilt: a process does not replace a registry that another one uses.
func TestOpenRegistryIsNotRebuilt(t *testing.T) {
	skipOnPostgres(t, "its registry is no file")
	home := t.TempDir()
	one := openFleet(t, Options{Home: home})
	before, err := os.Stat(filepath.Join(home, registry.FileName))
	must(t, err)
	f, err := os.OpenFile(filepath.Join(home, registry.FileName), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	header := make([]byte, 64)
	must(t, errorOf(f.ReadAt(header, 0)))
	must(t, errorOf(f.WriteAt(bytes.Repeat([]byte{1}, len(header)), 0)))
	if two, err := Open(t.Context(), Options{Home: home, Drivers: one.opts.Drivers}); err == nil {
		if two.Rebuilt() != nil {
			t.Error("it was rebuilt")
		}
		_ = two.Close(t.Context())
	}
	must(t, errorOf(f.WriteAt(header, 0)))
	if after, err := os.Stat(filepath.Join(home, registry.FileName)); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
}
