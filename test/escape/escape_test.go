//go:build linux

// Package escape tries to cross the walls of every driver that runs real
// programs, and shows for each attack that it crosses a weaker wall.
//
// Nothing of it runs in the host's mount namespace: the only ways to start an
// attack are a sandbox's Exec and weak, which makes namespaces first; and the
// program itself refuses the mount namespace that it is told is the host's.
package escape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Exit codes of the probe.
const (
	crossed = 0
	held    = 3
)

// word is what a listener of the test says, and nobody else.
const word = "atoll-escape-word"

// probePath is where the attacks' program was built.
var probePath string

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "namespace, docker, qemu or kubernetes", build)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "atoll-escape-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	kept = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	if probePath = os.Getenv(probeThere); probePath != "" {
		return m.Run()
	}
	probePath = filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", probePath, "./probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic("building the probe: " + string(out))
	}
	return enginetest.Main(m, helpertest.Main)
}

// probeThere names the probe to a test binary that another has started.
const probeThere = "ATOLL_ESCAPE_PROBE"

// TestRootless tries the attacks in sandboxes that an ordinary user has made.
func TestRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this user is an ordinary one: TestWalls has tried them")
	}
	const user = 65533
	home := scratch(t)
	if err := os.Chown(home, user, user); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestWalls$/^namespace$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, probeThere + "=" + probePath, "ATOLL_HELPERS=" + os.Getenv("ATOLL_HELPERS"), "ATOLL_TEST=" + os.Getenv("ATOLL_TEST"), "ATOLL_MUST=" + os.Getenv("ATOLL_MUST")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: TestWalls/namespace/")); err != nil || n < least {
		t.Errorf("%d attacks were held, %v:\n%s", n, err, out)
	}
}

// TestCluster tries the attacks in pods of a real cluster.
func TestCluster(t *testing.T) {
	tool := os.Getenv("ATOLL_CLUSTER")
	switch {
	case os.Getenv("ATOLL_CLUSTER_STATE") != "":
		t.Skip("this is in the cluster: TestWalls has tried them")
	case tool == "":
		testenv.Skip(t, "kubernetes", `there is no cluster: eval "$(scripts/cluster)" makes the tool that makes one`)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "run", "--", self, "-test.run=^(TestWalls|TestBombs|TestForkBomb)$/^kubernetes$", "-test.v")
	cmd.Env = append(os.Environ(), probeThere+"="+probePath)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it takes the cluster down
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: TestWalls/kubernetes/")); err != nil || n < least {
		t.Errorf("%d attacks were held, %v:\n%s", n, err, out)
	}
}

// hostNS names a namespace of this process, which is the host's.
func hostNS(t *testing.T, kind string) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// walls are the namespaces that weak makes.
const walls = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET

// weak runs an attack as root in namespaces of its own, without those of trial
// if it needs them to be gone, and behind no other wall.
func weak(t *testing.T, a trial, args []string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, probePath, append([]string{hostNS(t, "mnt"), "weak", a.name}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "ATOLL_WORD=" + word}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: walls &^ a.open, Pdeathsig: syscall.SIGKILL, Setsid: true}
	var out bytes.Buffer
	var err error
	if a.tty {
		var f *os.File
		if f, err = pty.Start(cmd); err == nil {
			_, _ = io.Copy(&out, f) // ends with the terminal
			err = cmd.Wait()
			_ = f.Close()
		}
	} else {
		cmd.Stdout, cmd.Stderr = &out, &out
		err = cmd.Run()
	}
	if cmd.ProcessState == nil {
		t.Fatalf("weak walls: %v", err)
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String())
}

// TestGuard shows that the program refuses the host's mount namespace.
func TestGuard(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), probePath, hostNS(t, "mnt"), "core-pattern").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "host's mount namespace") {
		t.Errorf("on the host the probe says %q, %v", out, err)
	}
	out, err = exec.CommandContext(t.Context(), probePath, "anything", "core-pattern").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "names no mount namespace") {
		t.Errorf("without the host's name the probe says %q, %v", out, err)
	}
}

// least is how many attacks must cross the weak walls: fewer, and the suite
// shows less than it says.
const least = 60

// TestWeak shows that the attacks can succeed.
func TestWeak(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "escape", "weak walls are made by root")
	}
	f := newFar(t)
	shown := 0
	for _, a := range trials() {
		t.Run(a.name, func(t *testing.T) {
			code, out := weak(t, a, a.with(f))
			switch {
			case code == crossed, a.name == "init-signals" && code != held:
				shown++
			case lacking(out):
				t.Skipf("this kernel or machine has no such thing: %s", out)
			default:
				t.Errorf("exit code %d behind weak walls: %s", code, out)
			}
		})
	}
	t.Logf("%d attacks cross weak walls", shown)
	if shown < least {
		t.Errorf("only %d attacks cross weak walls, want %d at least", shown, least)
	}
}

// lacking reports whether the weak walls' answer is that of a kernel without
// what was attacked.
func lacking(out string) bool {
	for _, s := range []syscall.Errno{syscall.EAFNOSUPPORT, syscall.ESOCKTNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.ENOSYS, syscall.ENOENT, syscall.ENODEV, syscall.ENXIO} {
		if strings.Contains(out, s.Error()) {
			return true
		}
	}
	return strings.Contains(out, "nothing matches") || strings.Contains(out, "no disk")
}

// TestWalls tries every attack in a sandbox of every driver.
func TestWalls(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		sb := p.sandbox(t, atoll.Spec{})
		f := newFar(t)
		f.apart = p.apart
		for _, a := range trials() {
			t.Run(a.name, func(t *testing.T) { try(t, sb, a, f, p.weaker[a.name]) })
		}
	})
}

// try makes one attack in a sandbox, which must hold it and go on.
func try(t *testing.T, sb atoll.Sandbox, a trial, f *far, weaker string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := atoll.Cmd{Args: append([]string{"/workspace/probe", f.namespace("mnt"), a.name}, a.with(f)...), Env: []string{"ATOLL_WORD=" + word}, Timeout: time.Minute}
	cmd.Stdout, cmd.Stderr = &out, &out
	if a.tty {
		cmd.TTY = &atoll.TTY{}
	}
	exit, err := sb.Exec(ctx, cmd)
	if err != nil {
		t.Errorf("Exec: %v, output %q", err, &out)
	}
	ours := a.name == "init-signals" // that they could be sent is nothing if process 1 takes no notice
	switch {
	case weaker != "":
		t.Logf("exit code %d, and by its nature this wall lets it: %s", exit.Code, weaker)
	case exit.Code != held && !ours:
		t.Errorf("exit code %d: %s", exit.Code, &out)
	}
	if exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"/workspace/probe", f.namespace("mnt"), "list"}}); err != nil || exit.Code != crossed {
		t.Errorf("afterwards the sandbox does not answer: %v, %+v", err, exit)
	}
	f.check(t)
}

// place is one kind of wall.
type place struct {
	driver atoll.Driver
	lacks  []string          // bombs against which it has no limit that it would take
	weaker map[string]string // attacks that cross by the nature of the wall, and why; docs/threats.md names them
	apart  bool              // it has a kernel of its own, whose namespaces are none of the host's, be their numbers the same
	mortal bool              // who passes its limit of memory may end with all that runs in it
}

// mountNS names the mount namespace of the host, as far.namespace does.
func (p place) mountNS(t *testing.T) string {
	t.Helper()
	if p.apart {
		return "mnt:[1]"
	}
	return hostNS(t, "mnt")
}

// sandbox creates a sandbox with the probe in it.
func (p place) sandbox(t *testing.T, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	t.Cleanup(cancel)
	sb, err := p.driver.Create(ctx, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("Destroy: %v", err)
		}
	})
	b, err := os.ReadFile(probePath)
	if err != nil {
		t.Fatal(err)
	}
	if err := atoll.WriteFile(ctx, sb, "/workspace/probe", b, 0o755); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	return sb
}
