package api

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
)

// TestE2BForksKeepEnvironment: a fork, and a sandbox of a snapshot, have the environment of their origin.
func TestE2BForksKeepEnvironment(t *testing.T) {
	s := newE2BSite(t)
	run := func(sandbox, access string) string {
		t.Helper()
		s.sandbox, s.access = sandbox, access
		return output(t, s.stream("process.Process/Start", `{"process":{"cmd":"/bin/bash","args":["-l","-c","echo $FOO $MORE $HOME"]}}`), "stdout")
	}
	origin := s.sandbox
	type reply struct{ SandboxID, EnvdAccessToken string }
	var forks []struct{ Sandbox reply }
	s.control("POST", "/sandboxes/"+origin+"/fork", `{"count":1}`, 201, &forks)
	if got := run(forks[0].Sandbox.SandboxID, forks[0].Sandbox.EnvdAccessToken); got != "bar /home/user\n" {
		t.Errorf("a fork: %q", got)
	}
	var snapshot struct{ SnapshotID string }
	s.control("POST", "/sandboxes/"+origin+"/snapshots", `{"name":"kept"}`, 201, &snapshot)
	for body, want := range map[string]string{
		`{"templateID":"` + snapshot.SnapshotID + `"}`:                                "bar /home/user\n",
		`{"templateID":"kept","envVars":{"MORE":"m"}}`:                                "bar m /home/user\n",
		`{"templateID":"kept","envVars":{"FOO":"other","MORE":"m"},"autoPause":true}`: "other m /home/user\n",
	} {
		var made reply
		s.control("POST", "/v2/sandboxes", body, 201, &made)
		if got := run(made.SandboxID, made.EnvdAccessToken); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// TestDaytonaForksKeepEnvironment is the same for Daytona.
func TestDaytonaForksKeepEnvironment(t *testing.T) {
	s := newDaytonaSite(t)
	create := func(path, body string) string {
		t.Helper()
		status, text := s.request("POST", path, s.key, body)
		id := regexp.MustCompile(`^\{"id":"(\w+)"`).FindStringSubmatch(text)
		if status != 200 || id == nil {
			t.Fatalf("%s %s: %d %s", path, body, status, text)
		}
		return id[1]
	}
	origin := create("/api/sandbox", `{"env":{"FOO":"bar"}}`)
	create("/api/sandbox/"+origin+"/snapshot", `{"name":"kept"}`)
	for id, want := range map[string]string{
		create("/api/sandbox/"+origin+"/fork", `{}`):                                 "bar",
		create("/api/sandbox", `{"snapshot":"kept"}`):                                "bar",
		create("/api/sandbox", `{"snapshot":"kept","env":{"FOO":"new","MORE":"m"}}`): "new m",
	} {
		status, text := s.request("POST", "/toolbox/"+id+"/process/execute", s.key, `{"command":"echo $FOO $MORE"}`)
		if status != 200 || !strings.Contains(text, `"result":"`+want+`\n"`) {
			t.Errorf("%s: %d %s, want %s", id, status, text, want)
		}
	}
}

// routeTable says for each route which object it names: a key of the objects of a test, or "" for routes that
// name none, which only have to refuse wrong keys.
type routeTable map[string][]string

// check reports routes that are in no entry of the table.
func (table routeTable) check(t *testing.T, routes []string) map[string]string {
	t.Helper()
	of := make(map[string]string)
	for object, list := range table {
		for _, r := range list {
			of[r] = object
		}
	}
	for _, r := range routes {
		if _, ok := of[r]; !ok {
			t.Errorf("route %q is not in the table: which object of an owner does it name?", r)
		}
	}
	for r := range of {
		if !slices.Contains(routes, r) {
			t.Errorf("the table has %q, which is no route", r)
		}
	}
	return of
}

// TestE2BObjectsOfOthers calls every route that names an object with the key of another owner, with objects that
// exist: the answer is that for what does not exist, and the objects are still there.
func TestE2BObjectsOfOthers(t *testing.T) {
	s := newE2BSite(t)
	var snapshot struct{ SnapshotID string }
	s.control("POST", "/sandboxes/"+s.sandbox+"/snapshots", `{"name":"kept"}`, 201, &snapshot)
	s.control("POST", "/volumes", `{"name":"treasure"}`, 201, nil)
	var build struct{ TemplateID, BuildID string }
	s.control("POST", "/v3/templates", `{"name":"building"}`, 202, &build)
	objects := map[string][]string{"sandbox": {s.sandbox}, "template": {snapshot.SnapshotID, "kept", build.TemplateID}, "volume": {"treasure"}}
	of := e2bRoutes.check(t, s.server.e2b.Routes(e2b.Control))
	other := map[string]string{"X-Api-Key": s.e2bKey(atoll.Owner{App: "app", User: "mallory"}), "Content-Type": "application/json"}
	for _, pattern := range s.server.e2b.Routes(e2b.Control) {
		method, path, _ := strings.Cut(pattern, " ")
		for _, id := range objects[of[pattern]] {
			fill := func(id, build string) string {
				return strings.NewReplacer("{id}", id, "{build}", build, "{hash}", "h", "{what}", "tags").Replace(path)
			}
			status, _, text := s.call(method, fill(id, build.BuildID), other, `{}`)
			gone, _, want := s.call(method, fill("s0123456789ab", build.BuildID), other, `{}`)
			if status != gone || status < 400 || strings.ReplaceAll(text, id, "ID") != strings.ReplaceAll(want, "s0123456789ab", "ID") {
				t.Errorf("%s of %s of another owner: %d %s; of what does not exist: %d %s", pattern, id, status, text, gone, want)
			}
		}
	}
	// Objects that are named in the body or the query.
	if status, _, text := s.call("POST", "/templates/tags", other, `{"target":"kept","tags":["x"]}`); status != 404 {
		t.Errorf("tags of another owner: %d %s", status, text)
	}
	if status, _, text := s.call("GET", "/sandboxes/metrics?sandbox_ids="+s.sandbox, other, ""); status != 404 || !strings.Contains(text, "not found") {
		t.Errorf("metrics of another owner: %d %s", status, text)
	}
	for _, path := range []string{"/sandboxes/" + s.sandbox, "/templates/kept", "/volumes/treasure"} {
		s.control("GET", path, "", 200, nil)
	}
	s.control("GET", "/templates/"+build.TemplateID+"/builds/"+build.BuildID+"/status", "", 200, nil)
}

// e2bRoutes are the routes of E2B's control API by the kind of the object that they name.
var e2bRoutes = routeTable{
	"": {
		"POST /sandboxes",
		"GET /sandboxes",
		"POST /v2/sandboxes",
		"GET /v2/sandboxes",
		"GET /sandboxes/metrics",
		"GET /snapshots",
		"POST /v3/templates",
		"GET /templates",
		"GET /v2/templates",
		"POST /templates/tags",
		"DELETE /templates/tags",
		"POST /volumes",
		"GET /volumes",
		"POST /secrets",
		"GET /secrets",
		"GET /secrets/{id}",
		"POST /secrets/{id}",
		"DELETE /secrets/{id}",
	},
	"sandbox": {
		"POST /sandboxes/{id}/connect",
		"GET /sandboxes/{id}/logs",
		"POST /v2/sandboxes/{id}/connect",
		"GET /v2/sandboxes/{id}/logs",
		"GET /sandboxes/{id}",
		"DELETE /sandboxes/{id}",
		"POST /sandboxes/{id}/resume",
		"POST /sandboxes/{id}/pause",
		"POST /sandboxes/{id}/timeout",
		"POST /sandboxes/{id}/refreshes",
		"PUT /sandboxes/{id}/network",
		"GET /sandboxes/{id}/metrics",
		"POST /sandboxes/{id}/snapshots",
		"POST /sandboxes/{id}/fork",
	},
	"template": {
		"POST /v2/templates/{id}/builds/{build}",
		"GET /templates/{id}/builds/{build}/status",
		"GET /templates/{id}/builds/{build}/logs",
		"GET /templates/{id}/files/{hash}",
		"GET /templates/{id}",
		"DELETE /templates/{id}",
		"GET /templates/{id}/{what}",
	},
	"volume": {
		"GET /volumes/{id}",
		"DELETE /volumes/{id}",
		"DELETE /volumecontent/{id}/path",
		"GET /volumecontent/{id}/file",
		"PUT /volumecontent/{id}/file",
		"GET /volumecontent/{id}/dir",
		"POST /volumecontent/{id}/dir",
		"GET /volumecontent/{id}/path",
		"PATCH /volumecontent/{id}/path",
	},
}

// TestDaytonaObjectsOfOthers is the same for Daytona.
func TestDaytonaObjectsOfOthers(t *testing.T) {
	s := newDaytonaSite(t)
	if status, body := s.request("POST", "/api/sandbox/"+s.sandbox+"/snapshot", s.key, `{"name":"kept"}`); status != 200 {
		t.Fatalf("snapshot: %d %s", status, body)
	}
	if status, body := s.request("POST", "/api/volumes", s.key, `{"name":"treasure"}`); status != 200 {
		t.Fatalf("volume: %d %s", status, body)
	}
	_, body := s.request("GET", "/api/snapshots/kept", s.key, "")
	var snapshot struct{ ID, OrganizationID string }
	if err := json.Unmarshal([]byte(body), &snapshot); err != nil {
		t.Fatal(err)
	}
	objects := map[string][]string{"sandbox": {s.sandbox, "web"}, "snapshot": {snapshot.ID, "kept"}, "volume": {"treasure"}, "organization": {snapshot.OrganizationID}}
	routes := slices.Concat(s.server.daytona.Routes(daytona.API), s.server.daytona.Routes(daytona.Toolbox))
	of := daytonaRoutes.check(t, routes)
	other := s.daytonaKey(atoll.Owner{App: "app", User: "mallory"})
	times := regexp.MustCompile(`"timestamp":"[^"]*"`)
	for _, pattern := range routes {
		method, path, _ := strings.Cut(pattern, " ")
		for _, id := range objects[of[pattern]] {
			fill := func(id string) string {
				path := strings.NewReplacer("{id}", id, "{name}", id).Replace(path)
				return regexp.MustCompile(`\{[a-z.]+\}`).ReplaceAllString(path, "1")
			}
			clean := func(text, id string) string { return strings.ReplaceAll(times.ReplaceAllString(text, ""), id, "ID") }
			status, text := s.request(method, fill(id), other, `{}`)
			gone, want := s.request(method, fill("s0123456789ab"), other, `{}`)
			if status != gone || clean(text, id) != clean(want, "s0123456789ab") || status < 400 && !strings.HasSuffix(path, "build-logs-url") {
				t.Errorf("%s of %s of another owner: %d %s; of what does not exist: %d %s", pattern, id, status, text, gone, want)
			}
		}
	}
	for _, path := range []string{"/api/sandbox/web", "/api/snapshots/kept", "/api/volumes/treasure"} {
		if status, body := s.request("GET", path, s.key, ""); status != 200 {
			t.Errorf("%s is gone: %d %s", path, status, body)
		}
	}
}

// daytonaRoutes are the routes of Daytona's API by the kind of the object that they name.
var daytonaRoutes = routeTable{
	"": {
		"POST /api/sandbox",
		"GET /api/sandbox",
		"GET /api/sandbox/paginated",
		"POST /api/snapshots",
		"GET /api/snapshots",
		"POST /api/volumes",
		"GET /api/volumes",
		"GET /api/config",
		"GET /api/health",
		"GET /api/organizations",
		"GET /api/users/me",
		"GET /api/api-keys/current",
		"GET /api/regions",
		"GET /api/shared-regions",
		"GET /api/socket.io/",
		"GET /api/secret",
		"POST /api/secret",
		"GET /api/secret/paginated",
		"GET /api/secret/{secret}",
		"PATCH /api/secret/{secret}",
		"DELETE /api/secret/{secret}",
		"GET /api/warm-pools",
		"POST /api/warm-pools",
		"PATCH /api/warm-pools/{pool}",
		"DELETE /api/warm-pools/{pool}",
		"GET /api/object-storage/push-access",
		"GET /api/sandbox/ssh-access/validate",
	},
	"organization": {
		"GET /api/organizations/{id}",
	},
	"sandbox": {
		"GET /api/sandbox/{id}",
		"DELETE /api/sandbox/{id}",
		"GET /api/sandbox/{id}/toolbox-proxy-url",
		"PUT /api/sandbox/{id}/labels",
		"POST /api/sandbox/{id}/public/{public}",
		"GET /api/sandbox/{id}/parent",
		"GET /api/sandbox/{id}/ancestors",
		"GET /api/sandbox/{id}/forks",
		"POST /api/sandbox/{id}/start",
		"POST /api/sandbox/{id}/recover",
		"POST /api/sandbox/{id}/stop",
		"POST /api/sandbox/{id}/pause",
		"POST /api/sandbox/{id}/archive",
		"POST /api/sandbox/{id}/backup",
		"POST /api/sandbox/{id}/fork",
		"POST /api/sandbox/{id}/resize",
		"POST /api/sandbox/{id}/last-activity",
		"POST /api/sandbox/{id}/network-settings",
		"POST /api/sandbox/{id}/autostop/{minutes}",
		"POST /api/sandbox/{id}/autopause/{minutes}",
		"POST /api/sandbox/{id}/autoarchive/{minutes}",
		"POST /api/sandbox/{id}/autodelete/{minutes}",
		"POST /api/sandbox/{id}/ttl/{minutes}",
		"GET /api/sandbox/{id}/ports/{port}/preview-url",
		"GET /api/sandbox/{id}/ports/{port}/signed-preview-url",
		"POST /api/sandbox/{id}/ports/{port}/signed-preview-url/{token}/expire",
		"GET /api/sandbox/{id}/signing-key",
		"POST /api/sandbox/{id}/signing-key/rotate",
		"POST /api/sandbox/{id}/snapshot",
		"GET /api/sandbox/{id}/build-logs-url",
		"GET /api/sandbox/{id}/build-logs",
		"PUT /api/sandbox/{id}/secrets",
		"GET /api/sandbox/{id}/secrets",
		"POST /api/sandbox/{id}/ssh-access",
		"DELETE /api/sandbox/{id}/ssh-access",
		"GET /api/sandbox/{id}/telemetry/metrics",
		"GET /api/sandbox/{id}/telemetry/logs",
		"GET /api/sandbox/{id}/telemetry/traces",
		"GET /api/sandbox/{id}/telemetry/traces/{trace}",
		"GET /toolbox/{id}/user-home-dir",
		"GET /toolbox/{id}/work-dir",
		"GET /toolbox/{id}/project-dir",
		"GET /toolbox/{id}/version",
		"GET /toolbox/{id}/system/metrics",
		"GET /toolbox/{id}/port",
		"GET /toolbox/{id}/port/{port}/in-use",
		"POST /toolbox/{id}/process/execute",
		"POST /toolbox/{id}/process/code-run",
		"POST /toolbox/{id}/process/session",
		"GET /toolbox/{id}/process/session",
		"GET /toolbox/{id}/process/session/entrypoint",
		"GET /toolbox/{id}/process/session/entrypoint/logs",
		"GET /toolbox/{id}/process/session/{session}",
		"DELETE /toolbox/{id}/process/session/{session}",
		"POST /toolbox/{id}/process/session/{session}/exec",
		"GET /toolbox/{id}/process/session/{session}/command/{command}",
		"GET /toolbox/{id}/process/session/{session}/command/{command}/logs",
		"POST /toolbox/{id}/process/session/{session}/command/{command}/input",
		"POST /toolbox/{id}/process/pty",
		"GET /toolbox/{id}/process/pty",
		"GET /toolbox/{id}/process/pty/create-connect",
		"GET /toolbox/{id}/process/pty/{pty}",
		"GET /toolbox/{id}/process/pty/{pty}/connect",
		"POST /toolbox/{id}/process/pty/{pty}/resize",
		"DELETE /toolbox/{id}/process/pty/{pty}",
		"POST /toolbox/{id}/process/interpreter/context",
		"GET /toolbox/{id}/process/interpreter/context",
		"DELETE /toolbox/{id}/process/interpreter/context/{context}",
		"GET /toolbox/{id}/process/interpreter/execute",
		"GET /toolbox/{id}/files",
		"DELETE /toolbox/{id}/files",
		"GET /toolbox/{id}/files/info",
		"POST /toolbox/{id}/files/folder",
		"POST /toolbox/{id}/files/move",
		"POST /toolbox/{id}/files/permissions",
		"POST /toolbox/{id}/files/bulk-upload",
		"POST /toolbox/{id}/files/bulk-download",
		"POST /toolbox/{id}/files/upload",
		"POST /toolbox/{id}/files/upload-v2",
		"GET /toolbox/{id}/files/download",
		"GET /toolbox/{id}/files/find",
		"GET /toolbox/{id}/files/search",
		"POST /toolbox/{id}/files/replace",
		"DELETE /toolbox/{id}/git/branches",
		"GET /toolbox/{id}/git/status",
		"GET /toolbox/{id}/git/config",
		"POST /toolbox/{id}/git/config",
		"POST /toolbox/{id}/git/branches",
		"POST /toolbox/{id}/git/add",
		"POST /toolbox/{id}/git/commit",
		"POST /toolbox/{id}/git/restore",
		"POST /toolbox/{id}/git/config/user",
		"GET /toolbox/{id}/git/history",
		"GET /toolbox/{id}/git/remotes",
		"POST /toolbox/{id}/git/clone",
		"POST /toolbox/{id}/git/push",
		"POST /toolbox/{id}/git/checkout",
		"POST /toolbox/{id}/git/reset",
		"POST /toolbox/{id}/git/remotes",
		"GET /toolbox/{id}/git/branches",
		"POST /toolbox/{id}/git/init",
		"POST /toolbox/{id}/git/pull",
		"POST /toolbox/{id}/git/credentials",
		"POST /toolbox/{id}/env",
		"POST /toolbox/{id}/lsp/start",
		"POST /toolbox/{id}/lsp/stop",
		"POST /toolbox/{id}/lsp/did-open",
		"POST /toolbox/{id}/lsp/did-close",
		"POST /toolbox/{id}/lsp/completions",
		"GET /toolbox/{id}/lsp/document-symbols",
		"GET /toolbox/{id}/lsp/workspacesymbols",
		"GET /toolbox/{id}/computeruse/{rest...}",
		"POST /toolbox/{id}/computeruse/{rest...}",
		"DELETE /toolbox/{id}/computeruse/{rest...}",
		"PUT /toolbox/{id}/computeruse/{rest...}",
	},
	"snapshot": {
		"GET /api/snapshots/{id}",
		"DELETE /api/snapshots/{id}",
		"POST /api/snapshots/{id}/activate",
		"GET /api/snapshots/{id}/build-logs-url",
		"GET /api/snapshots/{id}/build-logs",
	},
	"volume": {
		"GET /api/volumes/by-name/{id}",
		"GET /api/volumes/{id}",
		"DELETE /api/volumes/{id}",
	},
}
