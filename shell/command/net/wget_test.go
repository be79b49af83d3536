package net_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/net"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// newWgetSandbox returns a sandbox with wget and the host's network, and a server.
func newWgetSandbox(t *testing.T) (*commandtest.Sandbox, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/to":
			http.Redirect(w, r, "/file.txt", http.StatusFound)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		default:
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Test")+" "+string(b)+"\n") // the client notices
		}
	}))
	t.Cleanup(server.Close)
	s := commandtest.New(t, "/w", net.Commands()...)
	s.Kernel = kernel.New(kernel.Config{FS: s.FS, Programs: program.ByName(append(command.All(), net.Commands()...)), Network: &http.Transport{DisableKeepAlives: true, DisableCompression: true}})
	return s, server.URL
}

// TestWget checks what wget saves and prints.
func TestWget(t *testing.T) {
	s, site := newWgetSandbox(t)
	for _, c := range []struct {
		line, stdout, file, content string
		code                        int
	}{
		{"wget -q SITE/file.txt", "", "file.txt", "GET /file.txt  \n", 0},
		{"wget -q SITE/file.txt", "", "file.txt.1", "GET /file.txt  \n", 0},
		{"wget -qO- SITE/a", "GET /a  \n", "", "", 0},
		{"wget -q -O out SITE/to", "", "out", "GET /file.txt  \n", 0},
		{"wget -q -P dir/sub SITE/x?y=1", "", "dir/sub/x?y=1", "GET /x  \n", 0},
		{"wget -q SITE", "", "index.html", "GET /  \n", 0},
		{"wget -q --header 'X-Test: 1' --post-data a=b -O - SITE/p", "POST /p 1 a=b\n", "", "", 0},
		{"wget -q SITE/missing", "", "", "", 8},
		{"wget --spider -q SITE/missing", "", "", "", 8},
		{"wget --spider -q SITE/there", "", "", "", 0},
		{"wget -nc -q SITE/file.txt", "", "file.txt", "GET /file.txt  \n", 0},
		{"wget", "", "", "", 1},
		{"wget -r SITE/", "", "", "", 2},
		{"wget -q http://127.0.0.1:1/", "", "", "", 4},
	} {
		o := s.Exec("", commandtest.SplitWords(strings.ReplaceAll(c.line, "SITE", site))...)
		if o.Stdout != c.stdout || o.Code != c.code {
			t.Errorf("%s: %+v", c.line, o)
		}
		if c.file != "" && s.ReadFile(c.file) != c.content {
			t.Errorf("%s: %s has %q", c.line, c.file, s.ReadFile(c.file))
		}
	}
	if o := commandtest.New(t, "/w", net.Commands()...).Exec("", "wget", "http://example.com/"); o.Code != 4 || !strings.Contains(o.Stderr, "--allow HOST") {
		t.Errorf("without a network: %+v", o)
	}
	if o, err := s.RunBounded(300*time.Millisecond, strings.NewReader(""), io.Discard, "wget", "-q", "-O", "-", site+"/endless"); err == nil {
		t.Errorf("an endless download did not stop at the deadline: %+v", o)
	}
}
