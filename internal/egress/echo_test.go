package egress

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// echoing puts a server that answers with what it was asked at an address.
func echoing(w *world, at string) {
	w.listen(at, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		body := fmt.Sprintf("%s %v", req.Method, req.Header)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
}

// TestNoEcho asks servers to say what they were asked, as TRACE does.
func TestNoEcho(t *testing.T) {
	const secret = "TOPSECRET123"
	w := newWorld(t, atoll.Network{Allow: []string{"api.test"}, Headers: []atoll.Header{{Host: "http://api.test", Name: "Authorization", Value: "Bearer " + secret}}})
	w.names["api.test"] = []string{public}
	echoing(w, public+":80")
	echoing(w, public+":12345")
	for _, c := range []struct {
		method, port string
		answer       string
		set          bool
	}{
		{"GET", "80", "HTTP/1.1 200", true}, // there are headers at all
		{"TRACE", "80", "HTTP/1.1 405", false},
		{"TRACK", "80", "HTTP/1.1 405", false},
		{"trace", "80", "HTTP/1.1 405", false},
		{"GET", "12345", "HTTP/1.1 200", false}, // who else listens there
	} {
		conn, err := w.dialName("api.test", c.port)
		if err != nil {
			t.Fatal(err)
		}
		got := say(t, conn, c.method+" / HTTP/1.1\r\nHost: api.test:"+c.port+"\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, c.answer) || strings.Contains(got, secret) != c.set {
			t.Errorf("%s to port %s: %q", c.method, c.port, got)
		}
	}
}

// TestJournalGoesOn opens a file that another gate has filled.
func TestJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), logName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := func() int64 {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	j := &journal{redact: func(s string) string { return s }}
	j.setFile(f)
	j.addEntry(atoll.Connection{Host: "a", Time: time.Now()}, nil)
	b, err := os.ReadFile(path)
	if err != nil || !json.Valid(b) || size() == 0 {
		t.Fatalf("%q, %v", b, err)
	}
	if err := f.Truncate(maxLogFile + 1); err != nil {
		t.Fatal(err)
	}
	again := &journal{redact: j.redact}
	again.setFile(f)
	again.addEntry(atoll.Connection{Host: "b", Time: time.Now()}, nil)
	if n := size(); n != maxLogFile+1 {
		t.Errorf("the file grew to %d bytes", n)
	}
}
