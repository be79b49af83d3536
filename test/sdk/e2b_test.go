package sdk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestE2B calls every public method of the packages of E2B, unchanged from npm, against the server, with
// sandboxes of the driver namespace. What the server refuses is counted and named.
func TestE2B(t *testing.T) {
	skipUnless(t, os.Geteuid() == 0, "namespace", "no root: sandboxes of the driver namespace with pauses need it")
	w := newE2BFixture(t)
	for _, k := range []struct {
		script, pkg string
		calls       int // that must have been made
		refused     int // of them
	}{
		{"e2b.mjs", "e2b", 75, 10},
		{"e2b.mjs", "e2b225", 64, 2}, // 2.25
		{"e2b.mjs", "e2b28", 54, 1},  // 2.8
		{"e2b-code-interpreter.mjs", "", 16, 0},
	} {
		t.Run(strings.TrimSuffix(k.script, ".mjs")+"/"+k.pkg, func(t *testing.T) {
			r := w.runE2B(t, k.script, k.pkg)
			if r.OK < k.calls || r.Failed > 0 || len(r.Refused) != k.refused {
				t.Errorf("%d calls were right, %d failed, %d refused (%s); want %d and %d refused", r.OK, r.Failed, len(r.Refused), strings.Join(r.Refused, ", "), k.calls, k.refused)
			}
		})
	}
	w.checkNothingLeft(t)
}

// e2bFixture is a server with E2B's API.
type e2bFixture struct {
	fixture
	env []string // of clients
}

// e2bReport is the last line of a script.
type e2bReport struct {
	OK, Failed int
	Refused    []string
}

// newE2BFixture starts a server.
func newE2BFixture(t *testing.T) *e2bFixture {
	sdks := os.Getenv("ATOLL_SDKS")
	skipUnless(t, sdks != "", "sdks", "no ATOLL_SDKS: scripts/agents installs them")
	_, err := exec.LookPath("node")
	skipUnless(t, err == nil, "sdks", "no node")
	_, err = exec.LookPath("python3")
	skipUnless(t, err == nil, "python", "no python3")
	w := &e2bFixture{fixture: fixture{dir: t.TempDir()}}
	for _, name := range []string{"e2b.mjs", "e2b-code-interpreter.mjs", "daytona.mjs"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(w.dir, name), string(b))
	}
	if err := os.Symlink(filepath.Join(sdks, "node_modules"), filepath.Join(w.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	// A proxy behind another one demands links, even on loopback.
	w.startServer(t, filepath.Join(w.dir, "app"), "--e2b", "--daytona", "--proxy", "127.0.0.1:"+port, "--proxy-behind", "--proxy-public", "http:"+port)
	key := exec.Command(testenv.Atoll(t), "token", "create", "--quiet", "--e2b")
	key.Env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(w.dir, "home"), "ATOLL_CONFIG="+filepath.Join(w.dir, "none.yaml"))
	out, err := key.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	w.env = append(os.Environ(), "E2B_API_KEY="+strings.TrimSpace(string(out)), "E2B_API_URL="+w.base, "E2B_SANDBOX_URL="+w.base, "E2B_VOLUME_API_URL="+w.base)
	return w
}

// freePort returns a port of this host that no program has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// runE2B runs a script and returns its report.
func (w *e2bFixture) runE2B(t *testing.T, script, pkg string) e2bReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--unhandled-rejections=strict", filepath.Join(w.dir, script), pkg)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var last []byte
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		last = bytes.Clone(lines.Bytes())
	}
	var r e2bReport
	if err := json.Unmarshal(last, &r); err != nil {
		t.Errorf("no report: %v\n%s", err, out)
	}
	return r
}

// checkNothingLeft reports sandboxes that the scripts have left besides templates.
func (w *e2bFixture) checkNothingLeft(t *testing.T) {
	t.Helper()
	ls := exec.Command(testenv.Atoll(t), "ls", "--json")
	ls.Env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(w.dir, "home"), "ATOLL_CONFIG="+filepath.Join(w.dir, "none.yaml"))
	out, err := ls.Output()
	if err != nil {
		t.Fatalf("ls: %v", err)
	}
	var list []struct {
		ID     string
		Labels map[string]string
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, i := range list {
		if i.Labels["e2b.built"] == "" {
			t.Errorf("sandbox %s was left: %v", i.ID, i.Labels)
		}
		rm := exec.Command(testenv.Atoll(t), "rm", "--force", i.ID)
		rm.Env = ls.Env
		if out, err := rm.CombinedOutput(); err != nil {
			t.Errorf("rm %s: %v %s", i.ID, err, out)
		}
	}
}
