package shell_test

import (
	"bytes"
	"context"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// image is the files that the tests' sandboxes begin with.
var image = sync.OnceValue(func() *vfs.Snapshot {
	f := vfs.New(vfs.Options{})
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for _, d := range []string{"/bin", "/usr/bin", "/dev", "/etc", "/root", "/proc", "/work"} {
		check(f.MkdirAll(d, 0o755))
	}
	check(f.Mkdir("/tmp", 0o777))
	for name := range programs() {
		check(f.WriteFile("/bin/"+name, kernel.StubFile(name), 0o755))
	}
	check(f.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\n"), 0o644))
	for name, dev := range map[string]uint32{
		"null": kernel.DevNull, "zero": kernel.DevZero, "full": kernel.DevFull, "urandom": kernel.DevURandom,
	} {
		check(f.Mknod("/dev/"+name, fs.ModeDevice|fs.ModeCharDevice|0o666, dev))
	}
	return f.Snapshot()
})

// programs are the shell's own and the few that its tests need.
var programs = sync.OnceValue(func() map[string]kernel.Program {
	m := shell.Programs()
	m["cat"] = func(p *kernel.Proc) int {
		if len(p.Args) == 1 {
			return pump(p, p.Stdin)
		}
		status := 0
		for _, name := range p.Args[1:] {
			if name == "-" {
				pump(p, p.Stdin)
				continue
			}
			h, err := p.Open(name)
			if err != nil {
				p.Errorf("%s: %v", name, kernel.Reason(err))
				status = 1
				continue
			}
			pump(p, h)
			h.Close()
		}
		return status
	}
	m["sleep"] = func(p *kernel.Proc) int {
		d, err := time.ParseDuration(p.Args[1] + "s")
		if err != nil {
			return 1
		}
		p.Sleep(d, false)
		return 0
	}
	m["yes"] = func(p *kernel.Proc) int {
		line := []byte("y\n")
		if len(p.Args) > 1 {
			line = []byte(p.Args[1] + "\n")
		}
		line = bytes.Repeat(line, 512)
		for {
			if _, err := p.Stdout.Write(line); err != nil {
				return 1
			}
		}
	}
	m["head"] = func(p *kernel.Proc) int {
		b := make([]byte, 1)
		for {
			n, err := p.Stdin.Read(b)
			if n > 0 {
				p.Out().Write(b)
			}
			if err != nil || b[0] == '\n' {
				return 0
			}
		}
	}
	m["env"] = func(p *kernel.Proc) int {
		if len(p.Args) > 1 {
			return p.Run(p.Args[1:]...)
		}
		for _, e := range p.Env {
			p.Out().WriteString(e + "\n")
		}
		return 0
	}
	m["rm"] = func(p *kernel.Proc) int {
		for _, a := range p.Args[1:] {
			if a[0] != '-' {
				_ = p.RemoveAll(a)
			}
		}
		return 0
	}
	m["mkdir"] = func(p *kernel.Proc) int {
		for _, a := range p.Args[1:] {
			if a[0] != '-' {
				_ = p.MkdirAll(a, 0o777)
			}
		}
		return 0
	}
	m["chmod"] = func(p *kernel.Proc) int {
		for _, a := range p.Args[2:] {
			_ = p.Chmod(a, 0o755)
		}
		return 0
	}
	m["mkfifo"] = func(p *kernel.Proc) int {
		_ = p.Mkfifo(p.Args[1], 0o666)
		return 0
	}
	m["boom"] = func(*kernel.Proc) int { panic("boom") }
	return m
})

func pump(p *kernel.Proc, r interface{ Read([]byte) (int, error) }) int {
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		if n > 0 {
			if _, err := p.Stdout.Write(b[:n]); err != nil {
				return 1
			}
		}
		if err != nil {
			return 0
		}
	}
}

type options struct {
	limits kernel.Limits
	policy kernel.Policy
}

func newShell(o options) *shell.Shell {
	f := vfs.New(vfs.Options{Base: image()})
	k := kernel.New(kernel.Config{FS: f, Programs: programs(), Limits: o.limits, Policy: o.policy})
	return shell.New(shell.Config{Kernel: k, Dir: "/tmp", Unknown: func(string) string { return "" }, Env: []string{"PATH=/bin:/usr/bin", "HOME=/tmp", "PWD=/tmp", "LANG=C.UTF-8"}})
}

// mustFinish fails if f has not returned after a minute.
func mustFinish(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// runInAtoll runs a script in a new session.
func runInAtoll(t testing.TB, script, stdin string) (stdout, stderr string, code int) {
	t.Helper()
	s := newShell(options{})
	defer s.Close()
	res, err := s.Execute(t.Context(), script, shell.IO{Stdin: strings.NewReader(stdin), Timeout: 10 * time.Second})
	if err != nil {
		t.Logf("error: %v", err)
	}
	return string(res.Stdout), string(res.Stderr), res.ExitCode
}

// runInBash runs a script in the real bash, in a directory of its own.
func runInBash(t testing.TB, script, stdin string) (stdout, stderr string, code int) {
	t.Helper()
	testenv.Real(t, "bash")
	if _, err := exec.LookPath("bash"); err != nil {
		testenv.Skip(t, "bash", "bash is missing: %v", err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "env", "--default-signal", "bash", "-c", script) // the test's parent may ignore some
	c.WaitDelay = 2 * time.Second                                                  // a child that it left may keep the pipe open
	c.Dir, c.Stdin = dir, strings.NewReader(stdin)
	c.Env = []string{"PATH=/bin:/usr/bin", "HOME=" + dir, "LANG=C.UTF-8"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it left, if anything
	}
	if err != nil && c.ProcessState == nil {
		t.Fatalf("bash: %v", err)
	}
	code = c.ProcessState.ExitCode()
	if code < 0 {
		code = 128 + int(c.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return strings.ReplaceAll(out.String(), dir, "/tmp"), strings.ReplaceAll(errs.String(), dir, "/tmp"), code
}
