package api

import (
	"net/http"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// TestChanges lists changes over HTTP; a token that may only read runs no git in the sandbox.
func TestChanges(t *testing.T) {
	s := newSite(t, Options{})
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"web","dir":"/workspace"}`)
	if p := s.do("GET", "/v1/sandboxes/web/changes", "").problem(t); p.Kind != "not_found" {
		t.Errorf("no repository: %+v", p)
	}
	s.want(http.StatusOK, nil, "POST", "/v1/sandboxes/web/exec", `{"shell":"git init -q -b main && git config user.name E && git config user.email e@e && echo 1 >a && git add a && git commit -qm 1 && echo 2 >a"}`)
	var l wire.Changes
	s.want(http.StatusOK, &l, "GET", "/v1/sandboxes/web/changes?view=uncommitted", "")
	if l.Branch != "main" || len(l.Files) != 1 || l.Files[0].Path != "a" || l.Files[0].Inserted != 1 {
		t.Fatalf("%+v", l)
	}
	var history wire.List[atoll.Result]
	s.want(http.StatusOK, &history, "GET", "/v1/sandboxes/web/history", "")
	if len(history.Items) != 1 {
		t.Errorf("the commands that list changes are in the history: %+v", history.Items)
	}
	var c wire.FileChange
	s.want(http.StatusOK, &c, "GET", "/v1/sandboxes/web/changes/file?path=a&from="+l.From, "")
	if c.Old.Text != "1\n" || c.New.Text != "2\n" {
		t.Errorf("%+v", c)
	}
	for _, query := range []string{"", "?path=/etc/passwd", "?path=a&from=HEAD"} {
		s.want(http.StatusUnprocessableEntity, nil, "GET", "/v1/sandboxes/web/changes/file"+query, "")
	}
	s.token = s.newToken(atoll.Owner{}, atoll.ScopeRead)
	for _, path := range []string{"/changes", "/changes/file?path=a"} {
		if a := s.do("GET", "/v1/sandboxes/web"+path, ""); a.status != http.StatusForbidden {
			t.Errorf("%s with a token that may only read: %d %s", path, a.status, a.body)
		}
	}
}

// TestUsageOverTime reads an empty series: the server has taken no sample yet.
func TestUsageOverTime(t *testing.T) {
	s := newSite(t, Options{})
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"web"}`)
	var got wire.UsageSeries
	s.want(http.StatusOK, &got, "GET", "/v1/sandboxes/web/usage?since=2026-01-01T00:00:00Z", "")
	if got.Interval != 10 || got.Samples == nil || len(got.Samples) != 0 {
		t.Errorf("%+v", got)
	}
	s.want(http.StatusUnprocessableEntity, nil, "GET", "/v1/sandboxes/web/usage?since=yesterday", "")
	s.want(http.StatusNotFound, nil, "GET", "/v1/sandboxes/other/usage", "")
}
