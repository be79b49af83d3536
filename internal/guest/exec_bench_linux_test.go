package guest_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// BenchmarkBare is what BenchmarkExec is measured against.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if out, err := exec.Command("/bin/echo", "hi").Output(); err != nil || string(out) != "hi\n" {
			b.Fatal(err)
		}
	}
}

// BenchmarkExec runs a command in the real guest.
func BenchmarkExec(b *testing.B) {
	for name, m := range machines() {
		b.Run(name, func(b *testing.B) {
			sb := m.boot(b)
			for b.Loop() {
				if exit, err := sb.Exec(b.Context(), atoll.Cmd{Args: []string{"/bin/echo", "hi"}}); err != nil || string(exit.Stdout) != "hi\n" {
					b.Fatal(exit, err)
				}
			}
		})
	}
}

// BenchmarkOutput carries output of a command.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20
	sb := machines()["switch"].boot(b)
	b.SetBytes(size)
	for b.Loop() {
		n := counter(0)
		if _, err := sb.Exec(b.Context(), atoll.Cmd{Args: []string{"head", "-c", "67108864", "/dev/zero"}, Stdout: &n}); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkBareOutput is what BenchmarkOutput is measured against.
func BenchmarkBareOutput(b *testing.B) {
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		n := counter(0)
		cmd := exec.Command("head", "-c", "67108864", "/dev/zero")
		cmd.Stdout = &n
		if err := cmd.Run(); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// machines are the kinds of guests that are tested.
func machines() map[string]*machine {
	return map[string]*machine{
		"switch": {config: guest.Config{UID: 1000, GID: 1000, CanSwitchUser: true, Home: "/tmp"}},
		"cgroup": {config: guest.Config{UID: 1000, GID: 1000, CanSwitchUser: true, Home: "/tmp", Cgroup: 3}, groups: true},
		"one":    {user: true},
	}
}

// boot makes a sandbox for the time of a test.
func (m *machine) boot(t testing.TB) *box {
	t.Helper()
	testenv.Real(t, "namespace")
	m.made = make(map[string]*box)
	sb, err := m.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sb.(*box)
}
