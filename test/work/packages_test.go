//go:build linux

package work

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/atoll-sandbox/atoll"
)

// insideVar is the environment variable that is set when the test runs in its own
// network namespace.
const insideVar = "ATOLL_WORK_NETNS"

// serverAddress is the address of the servers in the test's own network namespace.
const serverAddress = "10.66.0.1"

// TestPackages installs packages through the egress proxy with unmodified programs, and
// checks that other connections are denied. The servers and the egress proxy run in the
// test's own network namespace.
func TestPackages(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		rerunInNetworkNamespace(t)
		return
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err == nil {
		err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(serverAddress), Mask: net.CIDRMask(32, 32)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	allowed, other := serveRepositories(t), serveRepositories(t)
	sb := createSandbox(t, allowed)
	for _, c := range []struct {
		what, text, want string
		fails            bool
	}{
		{"curl", "curl -sS " + allowed + "/hello", "hello", false},
		{"git clone", "git clone -q " + allowed + "/repo.git r1 && cat r1/file", "content", false},
		{"npm install", "mkdir n1 && cd n1 && npm init -y >/dev/null && npm install --no-audit --no-fund --registry " + allowed + "/npm/ tiny >&2 && node -p \"require('tiny')\"", "tiny works", false},
		{"curl elsewhere", "curl -sS --fail-with-body " + other + "/hello", "not on this sandbox's list", true},
		{"git clone elsewhere", "git clone -q " + other + "/repo.git r2", "", true},
		{"npm install elsewhere", "mkdir n2 && cd n2 && npm init -y >/dev/null && npm install --fetch-retries=0 --no-audit --no-fund --registry " + other + "/npm/ tiny", "403", true},
		{"without proxy variables", "env -u http_proxy -u HTTP_PROXY curl -sS " + allowed + "/hello", "hello", false},
		{"elsewhere without proxy variables", "env -u http_proxy -u HTTP_PROXY curl -sS --fail-with-body --max-time 10 " + other + "/hello", "atoll", true},
	} {
		t.Run(c.what, func(t *testing.T) {
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "cd /workspace && " + c.text, Timeout: 2 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			all := string(exit.Stdout) + string(exit.Stderr)
			if (exit.Code != 0) != c.fails || !strings.Contains(all, c.want) {
				t.Errorf("exit status %d, want failure %v and %q:\n%s", exit.Code, c.fails, c.want, all)
			}
		})
	}
	checkDenials(t, sb, strings.TrimPrefix(other, "http://"))
}

// checkDenials checks the denied connections that the egress proxy reports.
func checkDenials(t *testing.T, sb atoll.Sandbox, target string) {
	t.Helper()
	list, err := atoll.Connections(t.Context(), sb)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if !c.Allowed && c.Reason != "" && (c.Address == target || net.JoinHostPort(c.Host, fmt.Sprint(c.Port)) == target) {
			n++
		}
	}
	if n < 4 {
		t.Errorf("the egress proxy reports %d denied connections to %s with a reason, want at least 4: %+v", n, target, list)
	}
}

// rerunInNetworkNamespace runs this test again in a new network namespace.
func rerunInNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace with an address is made by root")
	}
	newDriver(t) // skips or fails where there is none
	for _, tool := range []string{"git", "npm", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing", tool)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestPackages$", "-test.v")
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// createSandbox creates a sandbox that may connect to one server.
func createSandbox(t *testing.T, server string) atoll.Sandbox {
	t.Helper()
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Network: atoll.Network{Allow: []string{strings.TrimPrefix(server, "http://")}}, Limits: atoll.Resources{Memory: 2 << 30}})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := sb.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

// serveRepositories serves a git repository and an npm registry, and returns the URL.
func serveRepositories(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	createRepository(t, filepath.Join(dir, "repo.git"))
	l, err := net.Listen("tcp", serverAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	pkg := buildPackage(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) })
	mux.HandleFunc("/npm/tiny.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pkg) })
	mux.HandleFunc("/npm/tiny", func(w http.ResponseWriter, _ *http.Request) {
		sum := sha1.Sum(pkg)
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "tiny", "dist-tags": map[string]any{"latest": "1.0.0"}, "versions": map[string]any{
			"1.0.0": map[string]any{"name": "tiny", "version": "1.0.0", "main": "index.js", "dist": map[string]any{"tarball": base + "/npm/tiny.tgz", "shasum": hex.EncodeToString(sum[:])}},
		}})
	})
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }() // ends with the test
	t.Cleanup(func() { _ = srv.Close() })
	return base
}

// createRepository creates a bare repository that can be served as plain files.
func createRepository(t *testing.T, dir string) {
	t.Helper()
	work := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work},
		{"-C", work, "add", "file"},
		{"-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"},
		{"clone", "-q", "--bare", work, dir},
		{"-C", dir, "update-server-info"},
	} {
		if args[0] == "-C" && args[2] == "add" {
			if err := os.WriteFile(filepath.Join(work, "file"), []byte("content\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// buildPackage returns the archive of an npm package.
func buildPackage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{
		"package/package.json": `{"name":"tiny","version":"1.0.0","main":"index.js"}`, "package/index.js": "module.exports = 'tiny works'\n",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
