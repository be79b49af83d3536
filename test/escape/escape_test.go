//go:build linux

// Package escape attacks the isolation of every driver that runs real programs, and
// checks that each attack succeeds against a weaker isolation.
//
// No attack runs in the host's mount namespace: attacks are started by a sandbox's Exec
// or by runWeaklyIsolated, which creates namespaces first, and the probe refuses to run
// in the host's mount namespace.
package escape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Exit codes of the probe.
const (
	crossed = 0
	held    = 3
)

// secretWord is sent by the test's listeners, and by nothing else.
const secretWord = "atoll-escape-word"

// probePath is the path of the probe, the program with the attacks.
var probePath string

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "namespace, docker, qemu or kubernetes", buildAndRun))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "atoll-escape-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	tempRoot = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	if probePath = os.Getenv(probeVar); probePath != "" {
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

// probeVar is the environment variable with the probe's path for a test binary that
// another one starts.
const probeVar = "ATOLL_ESCAPE_PROBE"

// TestRootless runs TestIsolation for sandboxes of an unprivileged user.
func TestRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this user is unprivileged: TestIsolation covers it")
	}
	const user = 65533
	home := makeTempDir(t)
	if err := os.Chown(home, user, user); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestIsolation$/^namespace$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, probeVar + "=" + probePath, "ATOLL_HELPERS=" + os.Getenv("ATOLL_HELPERS"), "ATOLL_TEST=" + os.Getenv("ATOLL_TEST"), "ATOLL_MUST=" + os.Getenv("ATOLL_MUST")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: TestIsolation/namespace/")); err != nil || n < minCrossed {
		t.Errorf("%d attacks were held, %v:\n%s", n, err, out)
	}
}

// TestCluster runs the attacks in pods of a real cluster.
func TestCluster(t *testing.T) {
	tool := os.Getenv("ATOLL_CLUSTER")
	switch {
	case os.Getenv("ATOLL_CLUSTER_STATE") != "":
		t.Skip("already in the cluster: TestIsolation covers it")
	case tool == "":
		testenv.Skip(t, "kubernetes", `there is no cluster: eval "$(scripts/cluster)" makes the tool that makes one`)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "run", "--", self, "-test.run=^(TestIsolation|TestResourceLimits|TestForkBombsAndOutputFloods)$/^kubernetes$", "-test.v")
	cmd.Env = append(os.Environ(), probeVar+"="+probePath)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the tool then stops the cluster
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: TestIsolation/kubernetes/")); err != nil || n < minCrossed {
		t.Errorf("%d attacks were held, %v:\n%s", n, err, out)
	}
}

// hostNamespace returns the name of a namespace of this process, which is the host's.
func hostNamespace(t *testing.T, kind string) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// weakNamespaces are the namespaces of weak isolation.
const weakNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET

// runWeaklyIsolated runs an attack as root with no isolation but namespaces, without
// a.missingNamespaces. It returns the probe's exit code and output.
func runWeaklyIsolated(t *testing.T, a attack, args []string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, probePath, append([]string{hostNamespace(t, "mnt"), "weak", a.name}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "ATOLL_WORD=" + secretWord}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: weakNamespaces &^ a.missingNamespaces, Pdeathsig: syscall.SIGKILL, Setsid: true}
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
		t.Fatalf("weak isolation: %v", err)
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String())
}

// TestProbeRefusesHost checks that the probe does not run in the host's mount
// namespace.
func TestProbeRefusesHost(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), probePath, hostNamespace(t, "mnt"), "core-pattern").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "host's mount namespace") {
		t.Errorf("on the host the probe prints %q, %v", out, err)
	}
	out, err = exec.CommandContext(t.Context(), probePath, "anything", "core-pattern").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "names no mount namespace") {
		t.Errorf("without a namespace's name the probe prints %q, %v", out, err)
	}
}

// minCrossed is how many attacks must succeed against weak isolation.
const minCrossed = 60

// TestAttacksSucceedWithWeakIsolation checks that the attacks can succeed.
func TestAttacksSucceedWithWeakIsolation(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "escape", "weak isolation needs root")
	}
	f := newHostTargets(t)
	shown := 0
	for _, a := range listAttacks() {
		t.Run(a.name, func(t *testing.T) {
			code, out := runWeaklyIsolated(t, a, a.buildArgs(f))
			switch {
			case code == crossed, a.name == "init-signals" && code != held:
				shown++
			case isMissingFeature(out):
				t.Skipf("not supported by this kernel or machine: %s", out)
			default:
				t.Errorf("exit code %d with weak isolation: %s", code, out)
			}
		})
	}
	t.Logf("%d attacks succeed with weak isolation", shown)
	if shown < minCrossed {
		t.Errorf("only %d attacks succeed with weak isolation, want at least %d", shown, minCrossed)
	}
}

// isMissingFeature reports whether the probe's output shows that the kernel or machine
// does not have what was attacked.
func isMissingFeature(out string) bool {
	for _, s := range []syscall.Errno{syscall.EAFNOSUPPORT, syscall.ESOCKTNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.ENOSYS, syscall.ENOENT, syscall.ENODEV, syscall.ENXIO} {
		if strings.Contains(out, s.Error()) {
			return true
		}
	}
	return strings.Contains(out, "nothing matches") || strings.Contains(out, "no disk")
}

// TestIsolation runs every attack in a sandbox of every driver.
func TestIsolation(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) { testAttacks(t, p) })
}

// TestIsolationOfRoot runs every attack as root in a container, the user that most images have.
func TestIsolationOfRoot(t *testing.T) {
	d := &docker.Driver{Host: enginetest.Host(t), Dir: makeTempDir(t)}
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "docker", "%v", err)
	}
	exceptions := dockerExceptions()
	maps.Copy(exceptions, map[string]string{
		"become-root":        "the Spec asks for root",
		"host-usr-write":     "root owns the image's files; the container has its own copies",
		"hardlink-host-file": "likewise",
		"oom-score-of-init":  "root owns the entry of process 1, and can let the kernel choose its own guest agent first",
		"init-fds":           "root can count the descriptors of process 1; it can't open them, nor read its memory",
	})
	testAttacks(t, testDriver{driver: d, user: "root", exceptions: exceptions})
}

// testAttacks runs every attack in one sandbox of a driver.
func testAttacks(t *testing.T, p testDriver) {
	t.Helper()
	sb := p.createSandbox(t, atoll.Spec{User: p.user})
	f := newHostTargets(t)
	f.ownKernel = p.ownKernel
	all, open := 0, 0
	for _, a := range listAttacks() {
		t.Run(a.name, func(t *testing.T) {
			all++
			if runAttack(t, sb, a, f, p.exceptions[a.name]) {
				open++
			}
		})
	}
	t.Logf("%d of %d attacks are open", open, all)
}

// runAttack runs an attack in a sandbox. It fails the test if the attack succeeds,
// unless exception, the reason why it may, is not empty; if the sandbox does not answer
// afterwards; and if the host was changed. It reports whether the attack succeeded.
func runAttack(t *testing.T, sb atoll.Sandbox, a attack, f *hostTargets, exception string) (open bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := atoll.Cmd{Args: append([]string{"/workspace/probe", f.namespaceName("mnt"), a.name}, a.buildArgs(f)...), Env: []string{"ATOLL_WORD=" + secretWord}, Timeout: time.Minute}
	cmd.Stdout, cmd.Stderr = &out, &out
	if a.tty {
		cmd.TTY = &atoll.TTY{}
	}
	exit, err := sb.Exec(ctx, cmd)
	if err != nil {
		t.Errorf("Exec: %v, output %q", err, &out)
	}
	ours := a.name == "init-signals" // sending signals is harmless if process 1 ignores them
	switch {
	case exception != "":
		t.Logf("exit code %d, which this isolation allows: %s", exit.Code, exception)
	case exit.Code != held && !ours:
		t.Errorf("exit code %d: %s", exit.Code, &out)
	}
	if exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"/workspace/probe", f.namespaceName("mnt"), "list"}}); err != nil || exit.Code != crossed {
		t.Errorf("the sandbox does not answer afterwards: %v, %+v", err, exit)
	}
	f.checkUntouched(t)
	return exit.Code == crossed && !ours
}

// testDriver is a driver with what its isolation does not cover.
type testDriver struct {
	driver            atoll.Driver
	user              string            // of its sandboxes in TestIsolation; empty: the driver's default
	missingLimits     []string          // bombs for which it has no limit
	exceptions        map[string]string // attacks that succeed by design, and why; docs/threats.md lists them
	ownKernel         bool              // its sandboxes have their own kernel, whose namespaces are not the host's even if their numbers are equal
	diesOfMemoryLimit bool              // a sandbox that exceeds its memory limit may end
}

// hostMountNamespace returns the name of the host's mount namespace, as
// hostTargets.namespaceName does.
func (p testDriver) hostMountNamespace(t *testing.T) string {
	t.Helper()
	if p.ownKernel {
		return "mnt:[1]"
	}
	return hostNamespace(t, "mnt")
}

// createSandbox creates a sandbox with the probe in it.
func (p testDriver) createSandbox(t *testing.T, spec atoll.Spec) atoll.Sandbox {
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
