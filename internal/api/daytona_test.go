package api

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// daytonaSite is a server with Daytona's API and a sandbox that was created with it.
type daytonaSite struct {
	*e2bSite

	key, sandbox string
}

func newDaytonaSite(t testing.TB) *daytonaSite {
	s := &daytonaSite{e2bSite: &e2bSite{site: newSite(t, Options{Daytona: &daytona.Options{}, Limits: Limits{Rate: -1, WrongTokens: -1}})}}
	t.Cleanup(s.server.daytona.Close)
	s.key = s.daytonaKey(atoll.Owner{App: "app", User: "alice"})
	status, body := s.request("POST", "/api/sandbox", s.key, `{"name":"web","labels":{"a":"b"},"later":{"unknown":true}}`)
	id := regexp.MustCompile(`^\{"id":"(\w+)"`).FindStringSubmatch(body)
	if status != 200 || id == nil {
		t.Fatalf("create: %d %s", status, body)
	}
	s.sandbox = id[1]
	return s
}

// daytonaKey returns a new API key of an owner.
func (s *daytonaSite) daytonaKey(o atoll.Owner) string {
	s.t.Helper()
	key, err := fleet.DaytonaKey(s.newToken(o, atoll.ScopeRead, atoll.ScopeRun))
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// request sends a request with a key and returns the answer.
func (s *daytonaSite) request(method, path, key, body string) (int, string) {
	s.t.Helper()
	status, _, text := s.call(method, path, map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"}, body)
	return status, text
}

// TestDaytonaRequests sends requests as the SDKs of Daytona do, and compares the answers with those that they
// read.
func TestDaytonaRequests(t *testing.T) {
	s := newDaytonaSite(t)
	at, box := "/api/sandbox/"+s.sandbox, "/toolbox/"+s.sandbox
	for _, k := range []struct {
		method, path, body string
		status             int
		want               string // regular expression
	}{
		{"GET", at, "", 200, `"labels":\{"a":"b"\}.*"state":"started".*"toolboxProxyUrl":"http://[^"]+/toolbox"`},
		{"GET", "/api/sandbox/web", "", 200, s.sandbox},
		{"GET", "/api/sandbox?labels=%7B%22a%22%3A%22b%22%7D", "", 200, `"items":\[\{.*"nextCursor":null`},
		{"GET", "/api/sandbox?labels=%7B%22a%22%3A%22c%22%7D", "", 200, `"items":\[\]`},
		{"GET", "/api/sandbox?labels=nonsense", "", 400, `labels`},
		{"GET", "/api/sandbox/paginated?page=1&limit=10", "", 200, `"total":1,"totalPages":1`},
		{"PUT", at + "/labels", `{"labels":{"z":"1"}}`, 200, `"labels":\{"z":"1"\}`},
		{"PUT", at + "/labels", `{"labels":{"daytona.sandbox":""}}`, 400, `reserved`},
		{"POST", at + "/autostop/30", ``, 200, `"autoStopInterval":30`},
		{"POST", at + "/autostop/-5", ``, 400, `autostop`},
		{"POST", at + "/autopause/5", ``, 501, `not support`},
		{"POST", "/api/sandbox", `{"gpu":1}`, 501, `gpu`},
		{"POST", "/api/sandbox", `{"secrets":[{"A":"b"}]}`, 501, `secrets`},
		{"POST", "/api/sandbox", `{"public":true}`, 501, `public`},
		{"POST", "/api/sandbox", `{"snapshot":"none"}`, 404, `Snapshot with ID or name none not found`},
		{"POST", "/api/sandbox", `{"buildInfo":{"dockerfileContent":"RUN true"}}`, 400, `FROM`},
		{"POST", box + "/process/execute", `{"command":"echo hi"}`, 200, `\{"exitCode":0,"result":"hi\\n"\}`},
		{"POST", box + "/process/execute", `{"command":""}`, 400, `command`},
		{"GET", box + "/files/info?path=/nope", "", 404, `FILE_NOT_FOUND`},
		{"GET", box + "/user-home-dir", "", 200, `/home/daytona`},
		{"POST", box + "/lsp/start", `{}`, 501, `language servers`},
		{"GET", "/api/unheard-of", "", 404, `GET /api/unheard-of`},
		{"GET", box + "/unheard-of", "", 404, `GET /toolbox/\w+/unheard-of`},
	} {
		status, body := s.request(k.method, k.path, s.key, k.body)
		if status != k.status || !regexp.MustCompile(k.want).MatchString(body) {
			t.Errorf("%s %s %s: %d %s, want %d %s", k.method, k.path, k.body, status, body, k.status, k.want)
		}
	}
}

// TestDaytonaOwners calls every route with the key of another owner, and without one: the answers are those
// for what does not exist.
func TestDaytonaOwners(t *testing.T) {
	s := newDaytonaSite(t)
	other := s.daytonaKey(atoll.Owner{App: "app", User: "mallory"})
	const missing = "s0123456789ab"
	times := regexp.MustCompile(`"timestamp":"[^"]*"`)
	for _, kind := range []daytona.Kind{daytona.API, daytona.Toolbox} {
		for _, pattern := range s.server.daytona.Routes(kind) {
			method, path, _ := strings.Cut(pattern, " ")
			for _, id := range []string{s.sandbox, "web"} {
				fill := func(id string) string {
					return regexp.MustCompile(`\{[a-z.]+\}`).ReplaceAllString(strings.ReplaceAll(path, "{id}", id), "1")
				}
				if status, body := s.request(method, fill(id), "dtn_"+strings.Repeat("0", 40), `{}`); status != http.StatusUnauthorized && !strings.Contains(path, "socket.io") {
					t.Errorf("%s without a key: %d %s", pattern, status, body)
				}
				if !strings.Contains(path, "{id}") || strings.Contains(path, "/organizations/") {
					continue
				}
				status, body := s.request(method, fill(id), other, `{}`)
				gone, want := s.request(method, fill(missing), other, `{}`)
				clean := func(text, id string) string { return strings.ReplaceAll(times.ReplaceAllString(text, ""), id, "ID") }
				if status != gone || clean(body, id) != clean(want, missing) && !strings.HasSuffix(path, "build-logs-url") {
					t.Errorf("%s of another owner: %d %s; of what does not exist: %d %s", pattern, status, body, gone, want)
				}
			}
		}
	}
	if status, body := s.request("GET", "/api/sandbox", other, ""); status != 200 || strings.Contains(body, s.sandbox) {
		t.Errorf("the list of another owner: %d %s", status, body)
	}
}

// FuzzDaytona sends requests of any form: none may be answered with an internal error.
func FuzzDaytona(f *testing.F) {
	f.Add("POST", "/process/execute", `{"command":"true"}`)
	f.Add("GET", "/files?path=/&depth=2", "")
	f.Add("POST", "/files/replace", `{"files":["a"],"pattern":"b","newValue":"c"}`)
	f.Add("POST", "/files/permissions?path=/tmp&mode=999", "")
	s := newDaytonaSite(f)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if !regexp.MustCompile(`^[A-Z]+$`).MatchString(method) || !regexp.MustCompile(`^/[!-~]*$`).MatchString(path) || strings.ContainsAny(path, "%#\\") {
			t.Skip("no request of HTTP")
		}
		for _, at := range []string{"/toolbox/" + s.sandbox, "/api/sandbox/" + s.sandbox} {
			if strings.HasPrefix(at, "/api") && (method == "DELETE" || method == "POST") {
				continue // it would remove or stop the sandbox
			}
			r, err := http.NewRequestWithContext(t.Context(), method, s.url+at+path, strings.NewReader(body))
			if err != nil {
				return
			}
			r.Header.Set("Authorization", "Bearer "+s.key)
			res, err := s.client.Do(r)
			if err != nil {
				return // such as an answer that the server broke off
			}
			_ = res.Body.Close() // only the status counts
			if res.StatusCode == http.StatusInternalServerError {
				t.Errorf("%s %s %q: %d", method, at+path, body, res.StatusCode)
			}
		}
	})
}
