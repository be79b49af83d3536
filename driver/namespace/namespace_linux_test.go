package namespace_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "namespace", helpertest.Main)) }

func newDriver(t testing.TB) *namespace.Driver {
	t.Helper()
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDriver(t *testing.T) { atolltest.Run(t, newDriver(t)) }

func TestHello(t *testing.T) {
	d := newDriver(t)
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "id; pwd; ls -la / /dev /etc/shadow; cat /proc/self/status /proc/self/mountinfo; cat /etc/passwd; hostname"})
	t.Logf("%s%s %v", exit.Stdout, exit.Stderr, err)
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
}
