package sdk

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestRounds creates, uses and removes many sandboxes with the SDKs, unchanged from npm. No round fails, no promise
// is rejected unhandled, and no sandbox and no process is left.
func TestRounds(t *testing.T) {
	skipUnless(t, os.Geteuid() == 0, "namespace", "no root: sandboxes of the driver namespace with pauses need it")
	rounds := strconv.Itoa(testenv.Rounds(t, 20, 50, "ATOLL_SDK_ROUNDS"))
	for _, driver := range []string{"virtual", "namespace"} {
		t.Run(driver, func(t *testing.T) {
			w := newE2BFixture(t, "--driver", driver)
			before := w.processes(t)
			for _, vendor := range []string{"e2b", "daytona"} {
				r := w.runScript(t, "rounds.mjs", vendor, rounds, "4")
				var report struct {
					OK, Failed, Unhandled int
					Create, Run, Kill     float64 // medians in ms
				}
				if err := json.Unmarshal(r, &report); err != nil || strconv.Itoa(report.OK) != rounds || report.Failed+report.Unhandled > 0 {
					t.Errorf("%s: %s, %v", vendor, r, err)
				}
				t.Logf("%s on %s, medians of %s rounds, 4 at once: create %.1f ms, run %.1f ms, kill %.1f ms", vendor, driver, rounds, report.Create, report.Run, report.Kill)
			}
			w.checkNothingLeft(t)
			for deadline := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) {
				left := slices.DeleteFunc(w.processes(t), func(p string) bool { return slices.Contains(before, p) })
				if len(left) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("processes are left: %v", left)
				}
			}
		})
	}
}

// processes returns the ids of the processes that were started with the home of the server.
func (w *e2bFixture) processes(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		line, lerr := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || lerr != nil {
			continue // it has exited
		}
		if home := filepath.Join(w.dir, "home"); strings.Contains(string(env), home) || strings.Contains(string(line), home) {
			list = append(list, filepath.Base(dir))
		}
	}
	return list
}

// runScript runs a script with Node and returns the last line of its output.
func (w *e2bFixture) runScript(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--unhandled-rejections=strict", filepath.Join(w.dir, script)}, args...)...)
	cmd.Env = append(w.env, "DAYTONA_API_KEY="+w.daytonaKey(t), "DAYTONA_API_URL="+w.base+"/api")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return []byte(lines[len(lines)-1])
}
