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

// patience is the deadline of one command, on a loaded machine and inside of an
// emulated one.
const patience = 5 * time.Minute

// clusterVar lets the tests run beside a cluster of their own.
const clusterVar = "ATOLL_PROJECT_CLUSTER"

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "git and namespace", within)) }

func within(m *testing.M) int {
	if os.Getenv(clusterVar) != "" {
		return clustertest.Main(m)
	}
	return enginetest.Main(m, helpertest.Main)
}

// world is a user of this machine, who has a home, repositories and atoll.
type world struct {
	t    testing.TB
	dir  string // everything is in it
	bin  string
	wall string // the driver
	env  []string
	up   []string // further arguments of each up, such as the image
}

// ran is what a command did.
type ran struct {
	stdout, stderr string
	code           int
}

// newWorld makes a user whose sandboxes a driver builds.
func newWorld(t testing.TB, wall string) *world {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "no git: %v", err)
	}
	bin := testenv.Atoll(t)
	dir, err := os.MkdirTemp("", "ap") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, bin: bin, wall: wall}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "me"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "ATOLL_HOME=" + filepath.Join(dir, "h"), "ATOLL_SYSTEM_CONFIG=" + filepath.Join(dir, "none"),
		"ATOLL_DRIVER=" + wall, "ATOLL_HELPERS=" + os.Getenv("ATOLL_HELPERS"),
		"ATOLL_SERVE_LISTEN=127.0.0.1:0", "ATOLL_PROXY_LISTEN=127.0.0.1:0",
	}
	w.write("me/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n")
	t.Cleanup(w.end)
	return w
}

// end removes all sandboxes, ends the server and looks for what is left.
func (w *world) end() {
	var list []struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}
	if r := w.try("/", w.bin, "ls", "--json"); r.code == 0 {
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
			w.t.Error(err)
		}
	}
	for _, sb := range list {
		if r := w.try("/", w.bin, "rm", "--force", "--discard", sb.ID); r.code != 0 {
			w.t.Errorf("rm %s: %d %s", sb.Name, r.code, r.stderr)
		}
	}
	w.endServer()
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

// endServer ends the server in the background, if there is one.
func (w *world) endServer() {
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
	p, err := os.FindProcess(s.PID) // a pidfd
	if err != nil {
		return
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.t.Error(err)
	}
	w.until("the server has ended", func() bool {
		return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
	})
}

// until waits for something that happens by itself.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience / 2)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			w.t.Fatalf("not after %v: %s", patience/2, what)
		}
	}
}

// path returns a place in the world; what is absolute stays.
func (w *world) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.dir, name)
}

func (w *world) write(name, text string) {
	w.t.Helper()
	file := w.path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// try runs a program of the host.
func (w *world) try(dir string, args ...string) ran {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // at the end, the test's own is done
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.path(dir), w.env
	cmd.WaitDelay = 10 * time.Second // a server that it has started has none of its pipes
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := ran{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		w.t.Fatalf("%q: %v %v\n%s%s", args, err, ctx.Err(), r.stdout, r.stderr)
	}
	return r
}

// git runs git on the host and returns what it says.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	r := w.try(dir, append([]string{"git"}, args...)...)
	if r.code != 0 {
		w.t.Fatalf("git %q in %s: %d\n%s%s", args, dir, r.code, r.stdout, r.stderr)
	}
	return strings.TrimSuffix(r.stdout, "\n")
}

func (w *world) commit(dir, message string) {
	w.t.Helper()
	w.git(dir, "add", "-A")
	w.git(dir, "commit", "-q", "-m", message)
}

// atoll runs atoll, which must exit with a status.
func (w *world) atoll(code int, dir string, args ...string) ran {
	w.t.Helper()
	r := w.try(dir, append([]string{w.bin}, args...)...)
	if r.code != code {
		w.t.Fatalf("atoll %q in %s: exit status %d, want %d\n%s%s", args, dir, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// start does up in a repository, with a name.
func (w *world) start(dir, name string, args ...string) {
	w.t.Helper()
	args = append([]string{"up", "--no-attach", "--name", name}, args...)
	w.atoll(0, dir, append(args, w.up...)...)
}

// inside runs shell text in a sandbox's working tree.
func (w *world) inside(name, dir, text string) string {
	w.t.Helper()
	r := w.atoll(0, "/", "exec", name, "--", "sh", "-ec", "cd "+dir+"; "+text)
	return strings.TrimSuffix(r.stdout, "\n")
}
