package project

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// agentKey is the key of a model API, which must not get into sandboxes.
const agentKey = "sk-real-0c2d7be1f9a84"

// agentCase describes a coding agent for testUpAgent.
type agentCase struct {
	name     string
	variable string // environment variable of the host with the key
	host     string // of its model's API
	header   string // in which the API expects the key
	ready    string // on the screen when the agent is ready for a task
	aside    string // in its side requests with tools; empty: those have no tools
	aux      string // answer to its side requests; empty: a title
	file     string // .atoll.yaml
	write    modeltest.Use
	onBranch bool              // it is also started on the terminal of a branch
	settings map[string]string // files of the repository that it asks about without a sandbox
}

// newToolUse returns a call of a tool.
func newToolUse(name string, input map[string]any) modeltest.Use {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return modeltest.Use{Name: name, Input: b}
}

const title = "A title"

// commits is the command that the model has the agent run.
const commits = "printf 'written by an agent\\n' >agent.txt && git add agent.txt && git commit -qm 'by an agent'"

func TestUpClaude(t *testing.T) {
	testUpAgent(t, agentCase{
		onBranch: true, name: "claude", variable: "ANTHROPIC_API_KEY", host: "api.anthropic.com", header: "X-Api-Key", ready: "bypass permissions on",
		settings: map[string]string{
			".mcp.json":             `{"mcpServers":{"own":{"command":"true"}}}`,
			".claude/settings.json": `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"true"}]}]}}`,
		},
		write: newToolUse("Bash", map[string]any{"command": commits, "description": "write it"}),
	})
}

func TestUpCodex(t *testing.T) {
	testUpAgent(t, agentCase{
		// For the API's own models it uses JavaScript, which modeltest can't write.
		file: "prepare: ['mkdir ~/.codex && echo model=\\\"scripted\\\" >~/.codex/config.toml']\n",
		settings: map[string]string{
			".codex/config.toml": "[mcp_servers.own]\ncommand = \"true\"\n",
			".codex/hooks.json":  `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"true"}]}]}}`,
		},
		aside: "single-line task title", onBranch: true,
		name: "codex", variable: "OPENAI_API_KEY", host: "api.openai.com", header: "Authorization", ready: "permissions: YOLO mode",
		write: newToolUse("exec_command", map[string]any{"cmd": commits}),
	})
}

func TestUpGemini(t *testing.T) {
	testUpAgent(t, agentCase{
		name: "gemini", variable: "GEMINI_API_KEY", host: "generativelanguage.googleapis.com", header: "X-Goog-Api-Key", ready: "YOLO",
		settings: map[string]string{
			".gemini/settings.json": `{"mcpServers":{"own":{"command":"true"}},"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"true"}]}]}}`,
		},
		aux:   `{"complexity_reasoning":"none","complexity_score":90}`, // the answer to its question which model to use
		write: newToolUse("run_shell_command", map[string]any{"command": commits, "description": "write it"}),
	})
}

func TestUpOpencode(t *testing.T) {
	testUpAgent(t, agentCase{
		name: "opencode", variable: "ANTHROPIC_API_KEY", host: "api.anthropic.com", header: "X-Api-Key", ready: "Ask anything",
		settings: map[string]string{"opencode.json": `{"mcp":{"own":{"type":"local","command":["true"]}},"permission":{"bash":"ask"}}`},
		write:    newToolUse("bash", map[string]any{"command": commits, "description": "write it"}),
	})
}

// testUpAgent starts an agent with 'atoll up', types a task, and syncs its work to the
// host. The agent must not ask any question.
func testUpAgent(t *testing.T, r agentCase) {
	if testing.Short() {
		t.Skip("a real agent: left out by -short")
	}
	programs := testenv.Program(t, r.name, "ATOLL_AGENTS")
	w := newNamespaceFixture(t)
	o := newFakeInternet(t, r)
	o.model.Play(modeltest.Script{Aux: cmp.Or(r.aux, title), Turns: []modeltest.Turn{
		{Text: "I write it.", Tools: []modeltest.Use{r.write}}, {Text: "All is done."},
	}})
	w.env = append(w.env, r.variable+"="+agentKey)
	w.must(os.Symlink(programs, w.joinPath("h/agents")))
	w.createRepository("web")
	w.writeFile("web/.atoll.yaml", r.file)
	for name, text := range r.settings {
		w.writeFile("web/"+name, text)
	}
	w.commitAll("web", "how it is worked on")
	w.runAtoll(0, "web", "up", r.name, "--no-attach", "--name", "web")
	screen := ""
	shows := func(what, text string) {
		t.Helper()
		w.waitFor(what, func() bool {
			screen = w.runAtoll(0, "/", "terminal", "read", "web", "web").stdout
			return strings.Contains(screen, text)
		})
	}
	defer func() {
		if t.Failed() {
			t.Logf("the screen:\n%s\nrequests:\n%s", screen, o.requestText())
		}
	}()
	shows("it waits for a task", r.ready)
	retype := time.NewTicker(again)
	defer retype.Stop()
	w.runAtoll(0, "/", "terminal", "send", "web", "web", "make agent.txt")
	w.waitFor("what is typed shows", func() bool {
		select {
		case <-retype.C: // one that is still starting drops it: gemini
			w.runAtoll(0, "/", "terminal", "send", "web", "web", "make agent.txt")
		default:
		}
		screen = w.runAtoll(0, "/", "terminal", "read", "web", "web").stdout
		return strings.Contains(screen, "make agent.txt")
	})
	retype.Reset(again)
	w.runAtoll(0, "/", "terminal", "send", "web", "web", "Enter")
	w.waitFor("it says that it is done", func() bool {
		select {
		case <-retype.C: // likewise
			if !o.taskRequested() {
				w.runAtoll(0, "/", "terminal", "send", "web", "web", "Enter")
			}
		default:
		}
		screen = w.runAtoll(0, "/", "terminal", "read", "web", "web").stdout
		return strings.Contains(screen, "All is done.")
	})
	o.checkRealKey()
	w.checkNoKey("web")
	w.runAtoll(0, "web", "sync")
	checkEqual(t, "what came home", w.readFile("web/agent.txt"), "written by an agent")

	if !r.onBranch {
		return
	}
	// On a branch of its own it asks no question either.
	w.runAtoll(0, "web", "up", r.name, "--branch", "side", "--no-attach")
	w.waitFor("it waits for a task on its branch", func() bool {
		screen = w.runAtoll(0, "/", "terminal", "read", "web", "web-side").stdout
		return strings.Contains(screen, r.ready)
	})
}

// again is the interval at which testUpAgent types the task or presses Enter again
// while the agent does nothing.
const again = 10 * time.Second

// checkNoKey checks that the key is not in anything that the programs of a sandbox can
// read: files, arguments, environments, memory.
func (w *fixture) checkNoKey(name string) {
	w.t.Helper()
	half := len(agentKey) / 2
	for text, found := range map[string]bool{agentKey: false, placeholder: true} { // the placeholder must be found
		got := w.runInSandbox(name, "/", fmt.Sprintf(`key=$(printf %%s%%s '%s' '%s')
			grep -lsaF "$key" /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true
			grep -rlsaF "$key" /etc /home /opt/atoll/run /root /run /srv /tmp /var /workspace || true`, text[:half], text[half:]))
		if (got != "") != found {
			w.t.Errorf("%s is in %q", text, strings.Fields(got))
		}
	}
	space := w.runInSandbox(name, "/", "readlink /proc/self/ns/pid")
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	w.must(err)
	held := 0
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != space { // it has exited, or is in another sandbox
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		in := searchMemory(dir, agentKey, placeholder)
		if in[0] {
			exe, _ := os.Readlink(dir + "/exe")
			w.t.Errorf("the key is in the memory of %s", exe)
		}
		if in[1] {
			held++
		}
	}
	if held == 0 {
		w.t.Error("the search does not find a variable of every environment")
	}
}

// placeholder is in the sandbox instead of the key.
const placeholder = "added-on-the-way-out"

// searchMemory reports which texts are in the writable memory of a process. dir is its
// directory in /proc.
func searchMemory(dir string, texts ...string) []bool {
	found := make([]bool, len(texts))
	maps, err := os.ReadFile(dir + "/maps")
	mem, err1 := os.Open(dir + "/mem")
	pages, err2 := os.Open(dir + "/pagemap")
	defer mem.Close() // harmless if mem is nil
	defer pages.Close()
	if errors.Join(err, err1, err2) != nil {
		return found // it has exited
	}
	size := int64(os.Getpagesize())
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var may string
		if n, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may); n != 3 || err != nil || !strings.HasPrefix(may, "rw") {
			continue
		}
		entry := make([]byte, 8*((to-from)/size))
		if _, err := pages.ReadAt(entry, 8*(from/size)); err != nil {
			continue
		}
		var before []byte // the end of the previous page, if it was read
		page := make([]byte, size)
		for i := from; i < to; i += size {
			if entry[8*((i-from)/size)+7]&0xc0 == 0 { // neither present nor swapped
				before = nil
				continue
			}
			if _, err := mem.ReadAt(page, i); err != nil {
				before = nil
				continue
			}
			both := append(before, page...)
			for j, text := range texts {
				found[j] = found[j] || bytes.Contains(both, []byte(text))
			}
			before = bytes.Clone(page[size-64:])
		}
	}
	return found
}

// fakeInternet is a private network with one server, which answers like the API of an
// agent's model.
type fakeInternet struct {
	t           testing.TB
	r           agentCase
	model, side *modeltest.Server // side answers side requests

	mu    sync.Mutex
	asked []*http.Request // guarded by mu
}

// publicAddress is the address of the server in the fake internet.
const publicAddress = "93.184.216.34"

// newFakeInternet moves this test's thread, and so all processes that it starts, into a
// private network with a fake internet. They can reach no other host.
func newFakeInternet(t *testing.T, r agentCase) *fakeInternet {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes networks")
	}
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	trusted, err := os.ReadFile(bundle)
	if err != nil {
		testenv.Skip(t, "root", "ca-certificates: %v", err)
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		testenv.Skip(t, "namespace", "no network of its own: %v", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr(publicAddress + "/32")
	if err != nil {
		t.Fatal(err)
	}
	ca, cert := newCertificates(t, r.host)
	err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), netlink.LinkSetUp(lo), netlink.AddrAdd(lo, addr))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		bundle: string(trusted) + "\n" + string(ca), "/etc/resolv.conf": "nameserver 127.0.0.1\n",
		"/etc/hosts": "127.0.0.1 localhost\n" + publicAddress + " " + r.host + "\n",
	} {
		file := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), unix.Mount(file, name, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
	}
	o := &fakeInternet{
		t: t, r: r, model: modeltest.New(t, modeltest.Script{}),
		side: modeltest.New(t, modeltest.Script{Turns: []modeltest.Turn{{Text: title}}}),
	}
	l, err := net.Listen("tcp", publicAddress+":443")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(o.serveRequest))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the egress proxy may exit in the middle
	s.Listener.Close()
	s.Listener, s.TLS = l, &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return o
}

func (o *fakeInternet) serveRequest(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked = append(o.asked, r)
	o.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	model := o.model
	if o.r.aside != "" && strings.Contains(string(body), o.r.aside) {
		model = o.side
	}
	model.Config.Handler.ServeHTTP(w, r)
}

// requestText returns the requests as text.
func (o *fakeInternet) requestText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, r := range o.asked {
		fmt.Fprintf(&b, "%s %s%s\n", r.Method, r.Host, r.URL.Path)
	}
	return b.String()
}

// taskRequested reports whether the model got a request with the task.
func (o *fakeInternet) taskRequested() bool {
	return slices.ContainsFunc(o.model.Requests(), func(r modeltest.Request) bool { return r.Turn >= 0 })
}

// checkRealKey checks that all requests had the real key.
func (o *fakeInternet) checkRealKey() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asked) == 0 {
		o.t.Errorf("no request to %s", o.r.host)
	}
	for _, q := range o.asked {
		if got := strings.TrimPrefix(q.Header.Get(o.r.header), "Bearer "); got != agentKey || q.Host != o.r.host {
			o.t.Errorf("%s%s got the key %q", q.Host, q.URL.Path, got)
		}
	}
}

// newCertificates creates a certificate authority and a certificate for a host.
func newCertificates(t testing.TB, host string) (ca []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world of a test"}, DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
