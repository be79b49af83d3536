package proxy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newReal makes a sandbox of Linux namespaces that has this test's site in it.
func newReal(t testing.TB) atoll.Sandbox {
	t.Helper()
	testenv.Real(t, "namespace")
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Name: "site", Mode: 0o755, Size: int64(len(program))}), second(tw.Write(program)), tw.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sb.Import(t.Context(), "/workspace", &b); err != nil {
		t.Fatal(err)
	}
	return sb
}

func second(_ int, err error) error { return err }

// startSite starts the site inside and waits until it listens.
func startSite(t testing.TB, sb atoll.Sandbox, port string) {
	t.Helper()
	opened := make(chan struct{})
	go func() {
		_ = atoll.Notices(t.Context(), sb, func(n atoll.Notice) error {
			switch {
			case n.Kind == atoll.NoticeReady:
				d, _ := atoll.As[atoll.Detacher](sb)
				if _, err := d.Detach(t.Context(), atoll.Cmd{Args: []string{"/workspace/site"}, Env: []string{"ATOLL_PROXY_SITE=" + port}, Timeout: -1}); err != nil {
					t.Error(err)
					close(opened)
					return err
				}
			case n.Kind == atoll.NoticePortOpened:
				close(opened)
				return errors.New("enough")
			}
			return nil
		})
	}()
	select {
	case <-opened:
	case <-t.Context().Done():
	}
}

func TestRealSandbox(t *testing.T) {
	sb := newReal(t)
	p := &proxy.Proxy{Finder: sea{"web": proxy.NewTarget(sb, 0)}}
	t.Cleanup(func() { p.Close() })
	at := serve(t, p)
	c := browser(t, at)

	if res, body := get(t, c, "GET", "http://web.localhost/"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Atoll-Reason") != "no_port" {
		t.Fatalf("before anything listens: %s: %s", res.Status, body)
	}
	startSite(t, sb, "3000")
	for _, host := range []string{"web.localhost", "3000-web.localhost"} {
		res, body := get(t, c, "GET", "http://"+host+"/a%2Fb?x=1;y=2&z")
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s: %s", host, res.Status, body)
		}
		if h := ears(t, body); h.Host != host || h.URI != "/a%2Fb?x=1;y=2&z" || h.Header.Get("X-Forwarded-Host") != host {
			t.Errorf("%s: inside was heard %+v", host, h)
		}
	}
	out, err := exec.CommandContext(t.Context(), "curl", "-sS", "-i", "-H", "Host: web.localhost", "http://"+at+"/hello").CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("curl: %v", err)
	}
	t.Logf("%s", out)

	ws, _, err := websocket.Dial(t.Context(), "ws://web.localhost/ws", &websocket.DialOptions{HTTPClient: c})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 24)
	long := strings.Repeat("atoll ", 1<<18)
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(long)); err != nil {
		t.Fatal(err)
	}
	if _, b, err := ws.Read(t.Context()); err != nil || string(b) != long {
		t.Fatalf("echo of %d bytes: %v", len(b), err)
	}

	if res, body := get(t, c, "GET", "http://4000-web.localhost/", "Accept: text/html"); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `href="//3000-web.localhost"`) {
		t.Errorf("a closed port: %s: %s", res.Status, body)
	}
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(t.Context()); err == nil {
		t.Error("the stream continues without its sandbox")
	}
	if res, body := get(t, c, "GET", "http://web.localhost/"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Atoll-Reason") != "not_running" {
		t.Errorf("stopped: %s: %s", res.Status, body)
	}
}
