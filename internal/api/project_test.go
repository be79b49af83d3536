package api

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// quoteJSON returns a text as a JSON string.
func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // never fails
	return string(b)
}

// TestProjectIsGuarded refuses callers without the scope host, and repositories of other hosts.
func TestProjectIsGuarded(t *testing.T) {
	s := newSite(t, Options{HostID: "home-1"})
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	web, err := s.fleet.Account(fleet.LocalCaller()).Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web", Labels: map[string]string{
		project.LabelPath: repo, project.LabelHost: "home-1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const at = "/v1/sandboxes/web/project"
	admin := s.token
	s.token = s.newToken(atoll.Local, atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeAdmin)
	for _, method := range []string{"GET", "POST"} {
		if a := s.do(method, at, map[string]string{"POST": `{"act":"sync"}`}[method]); a.status != http.StatusForbidden {
			t.Errorf("%s without the scope host: %d %s", method, a.status, a.body)
		}
	}
	// Without the scope host nobody makes a sandbox one of a repository of this host, or of another one.
	s.token = s.newToken(atoll.Local, atoll.ScopeRead, atoll.ScopeRun)
	s.want(http.StatusForbidden, nil, "POST", "/v1/sandboxes", `{"name":"forged","labels":{"atoll.project.path":"/","atoll.project.host":"home-1"}}`)
	s.want(http.StatusForbidden, nil, "PATCH", "/v1/sandboxes/web", `{"labels":{"atoll.project.path":"/","atoll.project.host":"home-1"}}`)
	s.want(http.StatusForbidden, nil, "PATCH", "/v1/sandboxes/web", `{"labels":{"atoll.project.host":"home-1"}}`)
	s.want(http.StatusOK, nil, "PATCH", "/v1/sandboxes/web", `{"labels":{"color":"red","atoll.project.path":`+quoteJSON(repo)+`,"atoll.project.host":"home-1"}}`)
	// Nor does an administrator bring the work of another owner's sandbox home.
	s.token = s.newToken(atoll.Owner{App: "app", User: "admin"}, atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeAdmin)
	for _, method := range []string{"GET", "POST"} {
		if a := s.do(method, "/v1/sandboxes/"+web.ID()+"/project", map[string]string{"POST": `{"act":"sync"}`}[method]); a.status != http.StatusForbidden {
			t.Errorf("%s by another owner: %d %s", method, a.status, a.body)
		}
	}
	s.token = admin
	if a := s.do("POST", at, `{"act":"sync"}`); a.status == http.StatusForbidden || !strings.Contains(string(a.body), "git") {
		t.Errorf("with the scope host it must reach the repository: %d %s", a.status, a.body)
	}
	s.want(http.StatusUnprocessableEntity, nil, "POST", at, `{"act":"destroy"}`)
	s.want(http.StatusUnprocessableEntity, nil, "POST", at, `{"act":"sync","tip":"0123456789012345678901234567890123456789"}`)
	for name, labels := range map[string]string{
		"other home":     `{"atoll.project.path":` + quoteJSON(repo) + `,"atoll.project.host":"home-2"}`,
		"no path":        `{"atoll.project.host":"home-1"}`,
		"relative path":  `{"atoll.project.path":"repo","atoll.project.host":"home-1"}`,
		"subdirectory":   `{"atoll.project.path":` + quoteJSON(repo+"/.git") + `,"atoll.project.host":"home-1"}`,
		"missing":        `{"atoll.project.path":` + quoteJSON(repo+"/missing") + `,"atoll.project.host":"home-1"}`,
		"no labels":      `{}`,
		"no label value": `{"atoll.project.path":"","atoll.project.host":""}`,
	} {
		s.want(http.StatusOK, nil, "PATCH", "/v1/sandboxes/web", `{"labels":`+labels+`}`)
		if a := s.do("POST", at, `{"act":"sync"}`); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
