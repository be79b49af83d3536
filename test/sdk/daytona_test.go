package sdk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestDaytona calls every public method of the SDKs of Daytona, unchanged from npm, against the server, with
// sandboxes of the driver namespace. What the server refuses is counted and named.
func TestDaytona(t *testing.T) {
	skipUnless(t, os.Geteuid() == 0, "namespace", "no root: sandboxes of the driver namespace with pauses need it")
	w := newE2BFixture(t)
	w.env = append(os.Environ(), "DAYTONA_API_KEY="+w.daytonaKey(t), "DAYTONA_API_URL="+w.base+"/api")
	for _, k := range []struct {
		pkg     string
		calls   int // that must have been made
		refused int // of them
	}{
		{"@daytona/sdk", 106, 25},
		{"@daytonaio/sdk", 106, 25},
		{"daytona167", 77, 13}, // 0.167
		{"daytona128", 73, 12}, // 0.128
	} {
		t.Run(k.pkg, func(t *testing.T) {
			r := w.runE2B(t, "daytona.mjs", k.pkg)
			if r.OK < k.calls || r.Failed > 0 || len(r.Refused) != k.refused {
				t.Errorf("%d calls were right, %d failed, %d refused (%s); want %d and %d refused", r.OK, r.Failed, len(r.Refused), strings.Join(r.Refused, ", "), k.calls, k.refused)
			}
		})
	}
	if stored, err := filepath.Glob(filepath.Join(w.dir, "objects", "fleet-*")); err != nil || len(stored) != 1 {
		t.Errorf("no sandbox was archived in the storage: %v %v", stored, err)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "objects", "fleet-*", "*")); err != nil || len(left) != 0 {
		t.Errorf("objects are left: %v %v", left, err)
	}
	w.checkNothingLeft(t)
}

// daytonaKey returns a new API key of Daytona's form.
func (w *e2bFixture) daytonaKey(t *testing.T) string {
	t.Helper()
	key := exec.Command(testenv.Atoll(t), "token", "create", "--quiet", "--daytona")
	key.Env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(w.dir, "home"), "ATOLL_CONFIG="+filepath.Join(w.dir, "none.yaml"))
	out, err := key.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	return strings.TrimSpace(string(out))
}
