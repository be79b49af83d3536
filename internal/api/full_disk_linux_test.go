package api

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/smalldisk"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestFullDiskIsReported: a server without space on its disk is not ready and says why, answers 507
// where space is needed, and still lists, reads, stops and removes.
func TestFullDiskIsReported(t *testing.T) {
	if !smalldisk.Enter(t) {
		return
	}
	d := smalldisk.Mount(t, 96<<20)
	s := newSiteIn(t, filepath.Join(d.Dir, "home"), Options{})
	var one, two atoll.Info
	s.want(http.StatusCreated, &one, "POST", "/v1/sandboxes", `{"lifecycle":{"policy":"persistent"}}`)
	s.want(http.StatusCreated, &two, "POST", "/v1/sandboxes", `{"lifecycle":{"policy":"persistent"}}`)
	s.want(http.StatusOK, nil, "POST", "/v1/sandboxes/"+one.ID+"/exec", `{"shell":"echo kept > /kept"}`)
	d.Fill(0)
	if a := s.do("GET", "/readyz", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "no space left") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	s.want(http.StatusOK, nil, "GET", "/readyz?exclude=space", "")
	s.want(http.StatusOK, nil, "GET", "/healthz", "")
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/sandboxes", `{}`},
		{"POST", "/v1/sandboxes/" + one.ID + "/exec", `{"shell":"head -c 3000000 /dev/urandom > /big"}`},
	} {
		a := s.do(c.method, c.path, c.body)
		if p := a.problem(t); a.status != http.StatusInsufficientStorage || p.Kind != "quota" || !strings.Contains(p.Detail, "no space left") {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if a := s.do("GET", "/v1/sandboxes/"+one.ID+"/files?path=/kept", ""); a.status != http.StatusOK || a.body != "kept\n" {
		t.Errorf("read: %d %s", a.status, a.body)
	}
	s.want(http.StatusOK, nil, "GET", "/v1/sandboxes", "")
	for _, c := range [][2]string{{"POST", "/v1/sandboxes/" + two.ID + "/stop"}, {"DELETE", "/v1/sandboxes/" + two.ID}, {"DELETE", "/v1/sandboxes/" + one.ID}} {
		if a := s.do(c[0], c[1], ""); a.status >= 300 {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
	d.Free()
	testenv.WaitFor(t, "the server is ready", func() bool { return s.do("GET", "/readyz", "").status == http.StatusOK })
}
