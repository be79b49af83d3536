package turns

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestEventStreamResumes checks that a client that reconnects with the id of its last
// event gets the later ones, whichever way it sends the id.
func TestEventStreamResumes(t *testing.T) {
	s := newTestServer(t, serverOptions{})
	rec, events := s.runTurn(shellRequest("echo one; echo two"))
	get := func(query string, headers ...string) []string {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/turns/"+rec.ID+"/events"+query, nil)
		s.must(err)
		r.Header.Set("Authorization", "Bearer "+s.token)
		for _, h := range headers {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		s.must(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.must(err)
		var ids []string
		for line := range strings.Lines(string(b)) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: "); ok {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for name, ids := range map[string][]string{
		"whole": get(""), "after": append([]string{"1"}, get("?after=1")...), "again": append([]string{"1"}, get("", "Last-Event-ID: 1")...),
		"both": append([]string{"1"}, get("?after=0", "Last-Event-ID: 1")...),
	} {
		if len(ids) != len(events) || ids[len(ids)-1] == ids[0] || strings.Join(ids[:2], " ") != "1 2" {
			t.Errorf("%s: %q of %d events", name, ids, len(events))
		}
	}
}
