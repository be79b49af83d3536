package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

const realDir = "testdata/script/real"

// TestRealScripts runs the scripts of testdata/script/real by the namespace driver as
// root, and a share of them as an ordinary user and by Docker.
func TestRealScripts(t *testing.T) {
	testenv.Real(t, "namespace")
	t.Run("namespace", func(t *testing.T) { realScripts(t, realDir, "namespace", "") })
	t.Run("rootless", rootless)
	t.Run("docker", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "real")
		copyShare(t, realDir, dir)
		realScripts(t, dir, "docker", enginetest.Host(t))
	})
}

// TestDocumentedCommandsInNamespaces runs the commands that documents show for real programs,
// projects, agents and servers.
func TestDocumentedCommandsInNamespaces(t *testing.T) {
	testenv.Real(t, "namespace")
	realScripts(t, filepath.Join(documentDir, "namespace"), "namespace", "")
}

// TestMachineScripts runs the scripts of testdata/script/machine on machines, whose
// image they find at $ROOT, and two a day of those of testdata/script/real that say more
// of machines than of any sandbox.
func TestMachineScripts(t *testing.T) {
	testenv.Real(t, "qemu")
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		testenv.Skip(t, "qemu", "busybox (apt-get install busybox-static) is not there")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "etc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox)
	err = errors.Join(err, os.WriteFile(filepath.Join(root, "bin", "busybox"), program, 0o755), os.Chmod(filepath.Join(root, "tmp"), 0o1777|os.ModeSticky),
		os.WriteFile(filepath.Join(root, "etc", "passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644), os.WriteFile(filepath.Join(root, "etc", "group"), []byte("root:x:0:\n"), 0o644))
	list, lerr := exec.CommandContext(t.Context(), busybox, "--list").Output()
	err = errors.Join(err, lerr)
	for name := range strings.FieldsSeq(string(list)) {
		if name != "busybox" {
			err = errors.Join(err, os.Symlink("busybox", filepath.Join(root, "bin", name)))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOT", root)
	t.Setenv("TEMPLATES", t.TempDir()) // of all scripts: to boot a VM takes seconds
	realScripts(t, "testdata/script/machine", "microvm", "")
	realScripts(t, filepath.Join(documentDir, "microvm"), "microvm", "")
	dir := filepath.Join(t.TempDir(), "real")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const head = "env ATOLL_MICROVM_ROOTS=$ROOT\nenv ATOLL_DEFAULTS_IMAGE=$ROOT\nenv ATOLL_DEFAULTS_MEMORY=1024m\nenv ATOLL_DEFAULTS_CPUS=1\n"
	for _, name := range testenv.Sample(t, []string{"copy.txtar", "detach.txtar", "life.txtar", "time.txtar"}, 2, "ATOLL_SCRIPTS") {
		text, err := os.ReadFile(filepath.Join(realDir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), append([]byte(head), text...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	realScripts(t, dir, "microvm", "")
}

// realScripts runs the scripts of a directory by a driver. Conditions are its
// features: [pause], [gate]…
func realScripts(t *testing.T, dir, driver, engine string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ft atoll.Features
	if engine != "" {
		t.Setenv("ATOLL_DOCKER_HOST", engine)
	}
	c, err := config.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, d := range program.Drivers(c, home) {
		if d.Name() != driver {
			continue
		}
		var err error
		if ft, err = d.Probe(ctx); err != nil {
			testenv.Skip(t, driver, "%v", err)
		}
		if c, ok := d.(io.Closer); ok {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	can := map[string]bool{
		"detach": ft.Detach, "pause": ft.Pause, "snapshot": ft.Snapshot, "fork": ft.Fork, "gate": ft.Egress, "notices": ft.Notices,
		"stats": ft.Stats, "users": ft.Users, "images": ft.Images, "terminal": ft.Terminal,
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "me")
			e.Setenv("HOME", home)
			e.Setenv("ATOLL_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("ATOLL_SYSTEM_CONFIG", filepath.Join(e.WorkDir, "etc", "atoll.yaml")) // not this machine's
			e.Setenv("ATOLL_HELPERS", os.Getenv("ATOLL_HELPERS"))
			e.Setenv("ATOLL_DRIVER", driver)
			for _, name := range []string{"ROOT", "ATOLL_MACHINE_KERNEL", "ATOLL_MACHINE_MODULES"} {
				e.Setenv(name, os.Getenv(name))
			}
			e.Setenv("ATOLL_DOCKER_HOST", engine)
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			if dir := os.Getenv("TEMPLATES"); dir != "" {
				mine := filepath.Join(e.WorkDir, "home", "microvm", "templates")
				if err := errors.Join(os.MkdirAll(filepath.Dir(mine), 0o700), os.Symlink(dir, mine)); err != nil {
					return err
				}
			}
			return sweepAfter(e)
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Getuid() == 0, nil
			}
			if yes, ok := can[name]; ok {
				return yes, nil
			}
			return name == driver, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus,
			"ready":  awaitLine,
			"until":  untilOutput,
			"get":    getURL,

			"registry": startRegistry,
			"packages": startPackages,

			"certificate": writeCertificate,
			"document":    writeDocument(filepath.Base(dir)),
		},
	})
}

// sweepAfter destroys what sandboxes a script leaves, before its home goes.
func sweepAfter(e *testscript.Env) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Args[0] = "sweep"
	cmd.Env = e.Vars
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is for the tests
	end, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t := e.T()
	e.Defer(func() {
		if err := errors.Join(end.Close(), cmd.Wait()); err != nil {
			t.Fatal("sandboxes are left: ", err)
		}
	})
	return nil
}

// rootless runs a share of the scripts as an ordinary user.
func rootless(t *testing.T) {
	const nobody = 65534
	if os.Getuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "atoll-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	copyShare(t, realDir, filepath.Join(dir, realDir))
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "atoll.test"), program, 0o755)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "tmp"), 0o700)
	}
	if err == nil {
		err = os.Chown(filepath.Join(dir, "tmp"), nobody, nobody)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "atoll.test"), "-test.run=^TestRealScripts$/^namespace$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "tmp"), "TMPDIR="+filepath.Join(dir, "tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: TestRealScripts/namespace (") {
		testenv.Skip(t, "rootless", "%v", string(out))
	}
}

// likeBrowser leads names below localhost to this machine, as browsers do.
// It keeps no cookies.
var likeBrowser = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(host, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	},
}}

// getURL writes what a web server answers into the file got: get URL.
func getURL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: get URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	ts.Check(err)
	resp, err := likeBrowser.Do(r)
	if neg {
		if err == nil {
			_ = resp.Body.Close() // it was not to be there
			ts.Fatalf("it answered %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	b, err := io.ReadAll(resp.Body)
	ts.Check(output.CloseAfter(err, resp.Body))
	ts.Check(os.WriteFile(ts.MkAbs("got"), b, 0o600))
}
