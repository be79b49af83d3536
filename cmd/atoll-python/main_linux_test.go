package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "Python", func(m *testing.M) int {
		if err := fdpass.SealInherited(); err != nil { // as programs do that start an interpreter
			panic(err)
		}
		return helpertest.Main(m)
	}))
}

// process is an interpreter, as the process of a sandbox sees it.
type process struct {
	net.Conn
	in  *bufio.Reader
	pid int
}

// start starts an interpreter.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	testenv.Real(t, "sealed")
	program, err := helper.Finder{}.Find(helper.PythonProgram)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{dir}, args...)...)
	cmd.ExtraFiles, cmd.SysProcAttr, cmd.Env, cmd.Dir = []*os.File{theirs}, seal.Attr(), []string{}, "/"
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = cmd.Wait() // it ends with its connection
	})
	return &process{conn, bufio.NewReader(conn), cmd.Process.Pid}
}

// receive returns the next call.
func (p *process) receive(t *testing.T) wasi.Call {
	t.Helper()
	c, err := wasi.ReadCall(p.in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *process) reply(t *testing.T, a wasi.Reply) {
	t.Helper()
	if err := wasi.WriteReply(p, a); err != nil {
		t.Fatal(err)
	}
}

// startPython starts the installed interpreter and waits until it asks for its job.
func startPython(t *testing.T) *process {
	t.Helper()
	testenv.Real(t, "sealed")
	dir, err := (helper.Finder{}).FindPython()
	if err != nil {
		testenv.Skip(t, "python", "%v", err)
	}
	p := start(t, dir)
	if c := p.receive(t); c.Op != wasi.OpJob || c.Arg(0) < helper.PythonStackEnd {
		t.Fatalf("the first call: %+v", c)
	}
	return p
}

// runtimeFiles are files that the Go runtime keeps open for reading: the limit of the processors.
const runtimeFiles = "/sys/fs/cgroup/"

// TestInterpreterHasNoRights looks at the process of an interpreter that waits for a job: a script that took it over would
// have a connection, and nothing else. The attacks on a sealed process are in internal/isolation/seal.
func TestInterpreterHasNoRights(t *testing.T) {
	p := startPython(t)
	proc := "/proc/" + strconv.Itoa(p.pid)
	tasks, err := filepath.Glob(proc + "/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads: %v", err)
	}
	for _, file := range tasks {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
	b, err := os.ReadFile(proc + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && strings.Contains(f[1], "w") && strings.Contains(f[1], "x") {
			t.Errorf("memory that can be written and executed: %s", line)
		}
	}
	files, err := filepath.Glob(proc + "/fd/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("descriptors: %v", err)
	}
	for _, file := range files {
		to, err := os.Readlink(file)
		if err != nil {
			t.Fatal(err)
		}
		if kind, _, _ := strings.Cut(to, ":"); to != "/dev/null" && kind != "socket" && kind != "pipe" && kind != "anon_inode" && !strings.HasPrefix(to, runtimeFiles) {
			t.Errorf("%s is %s", file, to)
		}
	}
}

// TestInterpreterWithoutMemory: an interpreter whose sandbox refuses memory raises MemoryError.
func TestInterpreterWithoutMemory(t *testing.T) {
	p := startPython(t)
	p.reply(t, wasi.Reply{Data: []byte(`{"mode":"c","code":"x = 'a' * 50000000","argv":["-c"],"orig":["python3"],"cwd":"/","env":[]}`)})
	var errs strings.Builder
	grown := false
	for {
		c := p.receive(t)
		switch c.Op {
		case wasi.OpExit:
			if c.Arg(0) != 1 || !grown || !strings.Contains(errs.String(), "MemoryError") {
				t.Errorf("%+v: %s", c, errs.String())
			}
			return
		case wasi.OpGrow:
			grown = true
			p.reply(t, wasi.Reply{Errno: wasi.ENOMEM})
		case wasi.OpWrite:
			errs.Write(c.Data)
			p.reply(t, wasi.Reply{Args: []int64{int64(len(c.Data))}})
		case wasi.OpStat:
			p.reply(t, wasi.Reply{Args: []int64{wasi.TypeDirectory, 1, 1, 0, 0, 0, 0}})
		default:
			p.reply(t, wasi.Reply{Errno: wasi.ENOENT})
		}
	}
}

// TestInterpreterWithAnotherDigest does not run.
func TestInterpreterWithAnotherDigest(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, helper.PythonFile), []byte("\x00asm\x01\x00\x00\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir)
	if c := p.receive(t); c.Op != wasi.OpExit || !strings.Contains(string(c.Data), "another digest") {
		t.Errorf("%+v", c)
	}
}
