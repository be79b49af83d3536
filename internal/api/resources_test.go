package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// A sandbox's life over HTTP, as a client without a library lives it.
func TestSandboxes(t *testing.T) {
	s := newSite(t, Options{})
	var box atoll.Info
	a := s.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{"name":"web","labels":{"team":"a"},"secrets":{"KEY":"hunter2"}}`)
	if a.header.Get("Location") != "/v1/sandboxes/"+box.ID || box.State != atoll.Running || box.Name != "web" {
		t.Fatalf("created %s at %q", a.body, a.header.Get("Location"))
	}
	if strings.Contains(a.body, "hunter2") {
		t.Errorf("the secret came back: %s", a.body)
	}
	if p := s.do("POST", "/v1/sandboxes", `{"name":"web"}`).problem(t); p.Status != http.StatusConflict || p.Kind != "exists" {
		t.Errorf("a second of the name: %+v", p)
	}
	var all wire.List[atoll.Info]
	s.want(http.StatusOK, &all, "GET", "/v1/sandboxes?label=team=a&state=running&state=stopped", "")
	if len(all.Items) != 1 || all.Items[0].ID != box.ID {
		t.Errorf("listed %+v", all)
	}
	s.want(http.StatusOK, &all, "GET", "/v1/sandboxes?label=team=b", "")
	if len(all.Items) != 0 {
		t.Errorf("listed %+v", all)
	}
	s.want(http.StatusOK, &box, "PATCH", "/v1/sandboxes/web", `{"name":"shop","lifecycle":{"policy":"persistent"}}`)
	if box.Name != "shop" || box.Config.Lifecycle.Policy != atoll.PolicyPersistent {
		t.Errorf("changed to %+v", box)
	}
	for _, step := range []struct {
		path  string
		state atoll.State
	}{{"stop", atoll.Stopped}, {"start", atoll.Running}, {"pause", atoll.Paused}, {"resume", atoll.Running}} {
		s.want(http.StatusNoContent, nil, "POST", "/v1/sandboxes/shop/"+step.path, "")
		s.want(http.StatusOK, &box, "GET", "/v1/sandboxes/shop", "")
		if box.State != step.state {
			t.Errorf("after %s: %s", step.path, box.State)
		}
	}
	s.want(http.StatusNoContent, nil, "POST", "/v1/sandboxes/shop/stop", "")
	if p := s.do("POST", "/v1/sandboxes/shop/pause", "").problem(t); p.Status != http.StatusConflict || p.Kind != "state" {
		t.Errorf("pause of a stopped one: %+v", p)
	}
	s.want(http.StatusNoContent, nil, "POST", "/v1/sandboxes/shop/start", "")
	var st atoll.Stats
	s.want(http.StatusOK, &st, "GET", "/v1/sandboxes/shop/stats", "")
	if st.ID != box.ID {
		t.Errorf("stats %+v", st)
	}
	s.want(http.StatusOK, nil, "GET", "/v1/sandboxes/shop/history", "")
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/"+box.ID, "")
	s.want(http.StatusNotFound, nil, "DELETE", "/v1/sandboxes/"+box.ID, "")
	if p := s.do("GET", "/v1/sandboxes/shop", "").problem(t); p.Status != http.StatusNotFound || p.Kind != "not_found" {
		t.Errorf("after its end: %+v", p)
	}
}

func TestSnapshots(t *testing.T) {
	s := newSite(t, Options{})
	var box, twin atoll.Info
	s.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{"name":"web"}`)
	var snap atoll.SnapshotInfo
	s.want(http.StatusCreated, &snap, "POST", "/v1/sandboxes/web/snapshots", `{"name":"before"}`)
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes/web/snapshots", "")
	if p := s.do("POST", "/v1/sandboxes/web/snapshots", `{"name":"before"}`).problem(t); p.Kind != "exists" {
		t.Errorf("a second of the name: %+v", p)
	}
	for _, path := range []string{"/v1/snapshots", "/v1/sandboxes/web/snapshots"} {
		var all wire.List[atoll.SnapshotInfo]
		s.want(http.StatusOK, &all, "GET", path, "")
		if len(all.Items) != 2 || all.Items[0].Name != "before" || all.Items[0].Sandbox != box.ID {
			t.Errorf("%s: %+v", path, all)
		}
	}
	s.want(http.StatusNoContent, nil, "POST", "/v1/sandboxes/web/restore", `{"snapshot":"before"}`)
	s.want(http.StatusCreated, &twin, "POST", "/v1/sandboxes/web/fork", `{"snapshot":"before","spec":{"name":"twin"}}`)
	if twin.Name != "twin" || twin.ID == box.ID || twin.State != atoll.Running {
		t.Errorf("forked %+v", twin)
	}
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/web/snapshots/before", "")
	if p := s.do("POST", "/v1/sandboxes/web/restore", `{"snapshot":"before"}`).problem(t); p.Kind != "not_found" {
		t.Errorf("restore of a forgotten one: %+v", p)
	}
}

func TestWorkspaces(t *testing.T) {
	testenv.Logic(t)
	s := newSite(t, Options{})
	var w atoll.Workspace
	s.want(http.StatusCreated, &w, "POST", "/v1/workspaces", `{"name":"src","labels":{"a":"b"}}`)
	if w.Name != "src" || w.Owner != atoll.Local || w.Labels["a"] != "b" {
		t.Errorf("made %+v", w)
	}
	var all wire.List[atoll.Workspace]
	s.want(http.StatusOK, &all, "GET", "/v1/workspaces", "")
	if len(all.Items) != 1 {
		t.Errorf("listed %+v", all)
	}
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"web","workspaces":[{"workspace":"src"}]}`)
	if p := s.do("DELETE", "/v1/workspaces/src", "").problem(t); p.Kind != "state" {
		t.Errorf("removed while in use: %+v", p)
	}
	var pruned atoll.PruneResult
	s.want(http.StatusOK, &pruned, "POST", "/v1/workspaces/prune", `{"dry_run":true,"all":true}`)
	if len(pruned.Workspaces) != 0 || !pruned.DryRun {
		t.Errorf("pruned %+v", pruned)
	}
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/web", "")
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/workspaces/src", "")
	s.want(http.StatusNotFound, nil, "GET", "/v1/workspaces/src", "")
}

func TestPoolsAndQuotas(t *testing.T) {
	s := newSite(t, Options{})
	var p atoll.Pool
	s.want(http.StatusOK, &p, "PUT", "/v1/pools/warm", `{"config":{"limits":{"memory":1048576}},"size":2}`)
	if p.Name != "warm" || p.Size != 2 {
		t.Errorf("set %+v", p)
	}
	var all wire.List[atoll.Pool]
	s.want(http.StatusOK, &all, "GET", "/v1/pools", "")
	if len(all.Items) != 1 {
		t.Errorf("listed %+v", all)
	}
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/pools/warm", "")
	s.want(http.StatusNotFound, nil, "DELETE", "/v1/pools/warm", "")
	s.want(http.StatusNoContent, nil, "PUT", "/v1/quotas/local/local", `{"sandboxes":1}`)
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{}`)
	if p := s.do("POST", "/v1/sandboxes", `{}`).problem(t); p.Kind != "quota" || p.Status != http.StatusInsufficientStorage {
		t.Errorf("past the quota: %+v", p)
	}
	var have atoll.Allowance
	s.want(http.StatusOK, &have, "GET", "/v1/quota", "")
	if have.Limit.Sandboxes != 1 || have.Used.Sandboxes != 1 {
		t.Errorf("allowance %+v", have)
	}
}

func TestAudit(t *testing.T) {
	s := newSite(t, Options{})
	s.want(http.StatusCreated, nil, "POST", "/v1/sandboxes", `{"name":"web"}`)
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/web", "")
	var all wire.List[atoll.Audit]
	s.want(http.StatusOK, &all, "GET", "/v1/audit?limit=10&action=create", "")
	if len(all.Items) != 1 || all.Items[0].Action != "create" || all.Items[0].Outcome != "ok" || all.Items[0].Token == "" {
		t.Errorf("audit %+v", all)
	}
}
