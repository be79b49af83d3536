package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// errAsked is what a fleet says that should not have been asked.
var errAsked = errors.New("the fleet was asked")

// askedFleet refuses whatever it is asked.
type askedFleet struct{}

func (askedFleet) Create(context.Context, atoll.Config) (atoll.Sandbox, error) { return nil, errAsked }

func (askedFleet) Open(context.Context, string) (atoll.Sandbox, error) { return nil, errAsked }

func (askedFleet) List(context.Context) ([]atoll.Info, error) { return nil, errAsked }

// TestBoundsBeforeTheFleet has calls say more than anybody needs: the fleet, which
// would note it in the audit, never hears of it.
func TestBoundsBeforeTheFleet(t *testing.T) {
	long := strings.Repeat("x", 15<<20)
	env := func(n, size int) map[string]string {
		m := make(map[string]string, n)
		for i := range n {
			m[fmt.Sprintf("V%d", i)] = strings.Repeat("v", size)
		}
		return m
	}
	ts := &tools{fleet: askedFleet{}, opts: Options{Sandbox: "mcp", AnyHost: true}}
	create := func(in createIn) error { _, err := ts.create(t.Context(), nil, in); return err }
	for _, c := range []struct {
		law  string
		err  error
		want error
		says string
	}{
		{"Plain", create(createIn{Name: "box", MemoryMB: maxMemoryMB, Env: env(maxEnv, 10)}), errAsked, ""},
		{"MemoryThatWraps", create(createIn{MemoryMB: 1 << 44}), atoll.ErrInvalid, "memory_mb"},
		{"MemoryThatWrapsToLittle", create(createIn{MemoryMB: 1<<44 + 64}), atoll.ErrInvalid, "memory_mb"},
		{"NegativeMemory", create(createIn{MemoryMB: -1}), atoll.ErrInvalid, "memory_mb"},
		{"LongName", create(createIn{Name: long}), atoll.ErrInvalid, "name has"},
		{"NoName", create(createIn{Name: "No Good"}), atoll.ErrInvalid, "No Good"},
		{"LongDriver", create(createIn{Driver: long}), atoll.ErrInvalid, "driver"},
		{"LongImage", create(createIn{Image: long}), atoll.ErrInvalid, "image"},
		{"LongWorkspace", create(createIn{Workspace: long}), atoll.ErrInvalid, "workspace"},
		{"LongHost", create(createIn{Allow: []string{long}}), atoll.ErrInvalid, "allow[0]"},
		{"ManyHosts", create(createIn{Allow: make([]string, maxAllow+1)}), atoll.ErrInvalid, "allow has"},
		{"ManyVariables", create(createIn{Env: env(maxEnv+1, 1)}), atoll.ErrInvalid, "env has"},
		{"LargeVariables", create(createIn{Env: env(2, maxEnvBytes/2)}), atoll.ErrInvalid, "env has"},
		{"LongKeyOfASandbox", func() error { _, err := ts.open(t.Context(), long); return err }(), atoll.ErrInvalid, "sandbox"},
		{"LongKeyToDestroy", func() error { _, err := ts.destroySandbox(t.Context(), nil, oneIn{long}); return err }(), atoll.ErrInvalid, "sandbox"},
		{"LongNameOfASnapshot", func() error { _, err := ts.takeSnapshot(t.Context(), nil, snapshotIn{Name: long}); return err }(), atoll.ErrInvalid, "name"},
		{"LongSnapshot", func() error { _, err := ts.restoreSnapshot(t.Context(), nil, restoreIn{Snapshot: long}); return err }(), atoll.ErrInvalid, "snapshot"},
		{"LongNameOfAFork", func() error { _, err := ts.forkSandbox(t.Context(), nil, forkIn{Name: long}); return err }(), atoll.ErrInvalid, "name"},
		{"LongPath", func() error { _, err := ts.read(t.Context(), nil, readIn{Path: "/" + long}); return err }(), atoll.ErrInvalid, "path"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) || len(c.err.Error()) > 1000 {
			t.Errorf("%s: %.200v, want %v that says %q", c.law, c.err, c.want, c.says)
		}
	}
	err := create(createIn{Name: long, MemoryMB: -1, Image: long})
	for _, what := range []string{"name", "memory_mb", "image"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("not all at once: nothing of %s in %v", what, err)
		}
	}
}
