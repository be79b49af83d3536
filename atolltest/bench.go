package atolltest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// Bench measures a driver: the time to the first output of a new sandbox, of
// a command, a file transfer and a fork. The benchmark names are the same for
// every driver, so that benchstat can compare them.
func Bench(b *testing.B, d atoll.Driver) {
	b.Run("CreateAndFirstOutput", func(b *testing.B) {
		for b.Loop() {
			sb := benchSandbox(b, d)
			benchExec(b, sb, atoll.Cmd{Args: []string{"echo", "hi"}})
			if err := sb.Destroy(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Exec", func(b *testing.B) {
		sb := lastingSandbox(b, d)
		for b.Loop() {
			benchExec(b, sb, atoll.Cmd{Args: []string{"true"}})
		}
	})
	b.Run("ExecShellPipe", func(b *testing.B) {
		sb := lastingSandbox(b, d)
		for b.Loop() {
			benchExec(b, sb, atoll.Cmd{Shell: "echo hi | cat"})
		}
	})
	for _, size := range []int{1 << 10, 1 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		b.Run(fmt.Sprintf("WriteReadFile/%d", size), func(b *testing.B) {
			sb := lastingSandbox(b, d)
			b.SetBytes(int64(2 * size))
			for b.Loop() {
				if err := atoll.WriteFile(b.Context(), sb, "/tmp/bench", data, 0o644); err != nil {
					b.Fatal(err)
				}
				if _, err := atoll.ReadFile(b.Context(), sb, "/tmp/bench"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Fork", func(b *testing.B) { benchFork(b, d) })
}

func benchFork(b *testing.B, d atoll.Driver) {
	sb := lastingSandbox(b, d)
	if _, ok := atoll.As[atoll.Forker](sb); !ok {
		b.Skip("the driver has no Forker")
	}
	for b.Loop() {
		fork, err := atoll.Fork(b.Context(), sb, "", atoll.Spec{Labels: map[string]string{label: b.Name()}})
		if err != nil {
			b.Fatal(err)
		}
		if err := fork.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchSandbox(b *testing.B, d atoll.Driver) atoll.Sandbox {
	b.Helper()
	sb, err := d.Create(b.Context(), atoll.Spec{Labels: map[string]string{label: b.Name()}})
	if err != nil {
		b.Fatal(err)
	}
	return sb
}

func lastingSandbox(b *testing.B, d atoll.Driver) atoll.Sandbox {
	b.Helper()
	sb := benchSandbox(b, d)
	b.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return sb
}

func benchExec(b *testing.B, sb atoll.Sandbox, cmd atoll.Cmd) {
	b.Helper()
	exit, err := sb.Exec(b.Context(), cmd)
	if err != nil || exit.Code != 0 {
		b.Fatalf("exit status %d, %v: %s", exit.Code, err, exit.Stderr)
	}
}
