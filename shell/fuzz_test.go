package shell_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// FuzzExecute runs arbitrary scripts: no program may panic, the command must
// end after its deadline, and the session must work afterwards.
func FuzzExecute(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sh")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		for _, s := range sections(f, file) {
			f.Add(s.script)
		}
	}
	for _, script := range hostile {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		k := kernel.New(kernel.Config{
			FS: vfs.New(vfs.Options{Base: image()}), Programs: programs(), Limits: kernel.Limits{Memory: 16 << 20, Procs: 32},
		})
		s := shell.New(shell.Config{Kernel: k, Dir: "/tmp", Env: []string{"PATH=/bin"}})
		defer s.Close()
		mustFinish(t, "the script", func() {
			_, err := s.Execute(t.Context(), script, shell.IO{Timeout: 100 * time.Millisecond, Drain: time.Millisecond, Output: 1 << 16})
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error: %v", err)
			}
		})
		for _, i := range k.Incidents() {
			if i.Value != "boom" {
				t.Errorf("%s: panic: %s\n%s", i.Program, i.Value, i.Stack)
			}
		}
		st := s.State()
		b, err := st.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := st.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if err := s.Restore(st); err != nil {
			t.Fatal(err)
		}
	})
}
