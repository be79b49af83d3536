package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestServeBehindCaddy has a server lead names through the machine's Caddy: they
// are there when sandboxes are, and go with the server.
func TestServeBehindCaddy(t *testing.T) {
	testenv.Real(t, "caddy")
	bin, err := exec.LookPath("caddy")
	if err != nil {
		testenv.Skip(t, "caddy", "no caddy here (apt-get install caddy): %v", err)
	}
	dir, err := os.MkdirTemp("", "atoll-") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	web := freePort(t)
	config := fmt.Sprintf(`{"admin":{"listen":"unix/%s/admin"},"apps":{"http":{"servers":{"srv0":{"listen":["127.0.0.1:%d"],"automatic_https":{"disable":true},
		"routes":[{"handle":[{"handler":"static_response","body":"the owner's"}]}]}}}}}`, dir, web)
	if err := os.WriteFile(filepath.Join(dir, "caddy.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(t, exec.Command(bin, "run", "--config", filepath.Join(dir, "caddy.json")), dir)
	get := func(host string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", web), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error() // it is not up yet
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	await := func(host, want string) {
		t.Helper()
		got := ""
		if !poll(func() bool { got = get(host); return strings.Contains(got, want) }) {
			t.Fatalf("%s: %q, want %q", host, got, want)
		}
	}
	await("box.sandbox.test", "the owner's")
	env := []string{"ATOLL_HOME=" + filepath.Join(dir, "home"), "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	program := filepath.Join(dir, "atoll") // tests run as it by this name
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(program, "serve", "--proxy", "127.0.0.1:0", "--domain", "sandbox.test", "--caddy", dir+"/admin", "--proxy-public", fmt.Sprintf("http:%d", web))
	serve.Env = env
	end := begin(t, serve, dir)
	create := exec.CommandContext(t.Context(), program, "create", "--name", "box")
	create.Env = env
	testenv.WaitFor(t, "the server runs", func() bool { _, err := os.Stat(filepath.Join(dir, "home", "server.json")); return err == nil })
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await("box.sandbox.test", "You need a link") // behind a web server others may come
	await("other.sandbox.test", "the owner's")
	end()
	await("box.sandbox.test", "the owner's")
}

// begin starts a process that ends with the test; end asks it to, and waits.
func begin(t *testing.T, cmd *exec.Cmd, dir string) (end func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(cmd.Path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Env == nil {
		cmd.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	}
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", b)
		}
		_ = log.Close()
	}
	t.Cleanup(end)
	return end
}

// freePort returns a port of loopback that nobody has now, and that the system
// gives nobody who asks for any.
func freePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		l, err := lc.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close() // nothing came
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
