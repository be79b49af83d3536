package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// commandTimeout is the time limit of one command, on a busy machine or in an emulated
// one.
const commandTimeout = 5 * time.Minute

// clusterVar is the environment variable that enables TestOnKubernetes.
const clusterVar = "ATOLL_PROJECT_CLUSTER"

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "git and namespace", setUpAndRun)) }

func setUpAndRun(m *testing.M) int {
	if os.Getenv(clusterVar) != "" {
		return clustertest.Main(m)
	}
	return enginetest.Main(m, helpertest.Main)
}

// fixture is a user of atoll with a home directory and repositories.
type fixture struct {
	t      testing.TB
	dir    string // holds all files of the fixture
	bin    string
	driver string
	env    []string
	up     []string // additional arguments of up, such as the image
}

// result is the result of a command.
type result struct {
	stdout, stderr string
	code           int
}

// newFixture returns a fixture whose sandboxes use a driver.
func newFixture(t testing.TB, driver string) *fixture {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "no git: %v", err)
	}
	bin := testenv.Atoll(t)
	dir, err := os.MkdirTemp("", "ap") // short, because socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, dir: dir, bin: bin, driver: driver}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "me"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "ATOLL_HOME=" + filepath.Join(dir, "h"), "ATOLL_SYSTEM_CONFIG=" + filepath.Join(dir, "none"),
		"ATOLL_DRIVER=" + driver, "ATOLL_HELPERS=" + os.Getenv("ATOLL_HELPERS"),
		"ATOLL_SERVE_LISTEN=127.0.0.1:0", "ATOLL_PROXY_LISTEN=127.0.0.1:0",
	}
	w.writeFile("me/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n")
	t.Cleanup(w.cleanUp)
	return w
}

// cleanUp removes all sandboxes, stops the server and checks that nothing is left.
func (w *fixture) cleanUp() {
	var list []struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}
	if r := w.runProgram("/", w.bin, "ls", "--json"); r.code == 0 {
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			w.t.Error(err)
		}
	}
	for _, sb := range list {
		if r := w.runProgram("/", w.bin, "rm", "--force", "--discard", sb.ID); r.code != 0 {
			w.t.Errorf("rm %s: %d %s", sb.Name, r.code, r.stderr)
		}
	}
	w.stopServer()
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

// stopServer stops the background server, if there is one.
func (w *fixture) stopServer() {
	b, err := os.ReadFile(filepath.Join(w.dir, "h", "server.json"))
	if err != nil {
		return
	}
	var s struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(b, &s); err != nil || s.PID <= 1 {
		w.t.Errorf("server.json: %s", b)
		return
	}
	p, err := os.FindProcess(s.PID) // uses a pidfd
	if err != nil {
		return
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Error(err)
	}
	w.waitFor("the server has ended", func() bool {
		return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
	})
}

// waitFor waits until done returns true.
func (w *fixture) waitFor(what string, done func() bool) {
	w.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(commandTimeout / 2)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			w.t.Fatalf("timeout after %v: %s", commandTimeout/2, what)
		}
	}
}

// joinPath returns a path below the fixture's directory; absolute paths are unchanged.
func (w *fixture) joinPath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.dir, name)
}

func (w *fixture) writeFile(name, text string) {
	w.t.Helper()
	file := w.joinPath(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) readFile(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.joinPath(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// runProgram runs a program of the host in a directory of the fixture.
func (w *fixture) runProgram(dir string, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout) // t.Context is done during cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.joinPath(dir), w.env
	cmd.WaitDelay = 10 * time.Second // a server that it starts does not inherit its pipes
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		w.t.Fatalf("%q: %v %v\n%s%s", args, err, ctx.Err(), r.stdout, r.stderr)
	}
	return r
}

// runGit runs git on the host and returns its output.
func (w *fixture) runGit(dir string, args ...string) string {
	w.t.Helper()
	r := w.runProgram(dir, append([]string{"git"}, args...)...)
	if r.code != 0 {
		w.t.Fatalf("git %q in %s: %d\n%s%s", args, dir, r.code, r.stdout, r.stderr)
	}
	return strings.TrimSuffix(r.stdout, "\n")
}

func (w *fixture) commitAll(dir, message string) {
	w.t.Helper()
	w.runGit(dir, "add", "-A")
	w.runGit(dir, "commit", "-q", "-m", message)
}

// runAtoll runs atoll, which must exit with the status code.
func (w *fixture) runAtoll(code int, dir string, args ...string) result {
	w.t.Helper()
	r := w.runProgram(dir, append([]string{w.bin}, args...)...)
	if r.code != code {
		w.t.Fatalf("atoll %q in %s: exit status %d, want %d\n%s%s", args, dir, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// upSandbox runs up in a repository with a name for the sandbox.
func (w *fixture) upSandbox(dir, name string, args ...string) {
	w.t.Helper()
	args = append([]string{"up", "--no-attach", "--name", name}, args...)
	w.runAtoll(0, dir, append(args, w.up...)...)
}

// runInSandbox runs shell text in a directory of a sandbox and returns its output.
func (w *fixture) runInSandbox(name, dir, text string) string {
	w.t.Helper()
	r := w.runAtoll(0, "/", "exec", name, "--", "sh", "-ec", "cd "+dir+"; "+text)
	return strings.TrimSuffix(r.stdout, "\n")
}
