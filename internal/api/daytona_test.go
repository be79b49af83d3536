package api

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

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
		{"POST", at + "/autopause/5", ``, 200, `"autoStopInterval":0,"autoPauseInterval":5`},
		{"POST", at + "/autostop/30", ``, 200, `"autoStopInterval":30,"autoPauseInterval":0`},
		{"POST", at + "/autopause/0", ``, 200, `"autoStopInterval":30,"autoPauseInterval":0`},
		{"POST", at + "/autodelete/60", ``, 200, `"autoDeleteInterval":60`},
		{"POST", at + "/autodelete/-1", ``, 200, `"autoDeleteInterval":-1`},
		{"POST", "/api/sandbox", `{"autoStopInterval":1,"autoPauseInterval":1}`, 400, `one must be 0`},
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

// eventClient is a client of the stream of events.
type eventClient struct {
	t  *testing.T
	ws *websocket.Conn
}

// openEvents opens the stream of events and sends a key.
func (s *daytonaSite) openEvents(t *testing.T, key string) *eventClient {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/api/socket.io/?source=sdk-typescript&EIO=4&transport=websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	c := &eventClient{t: t, ws: ws}
	if open := c.read(); !strings.HasPrefix(open, `0{"`) || !strings.Contains(open, `"pingInterval":25000`) {
		t.Fatalf("the first packet is %s", open)
	}
	c.write(`40{"token":"` + key + `"}`)
	return c
}

func (c *eventClient) write(text string) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next packet; "closed" after the last.
func (c *eventClient) read() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	_, b, err := c.ws.Read(ctx)
	if ctx.Err() != nil {
		c.t.Fatal("no packet")
	}
	if err != nil {
		return "closed"
	}
	return string(b)
}

// readState reads events until one of a sandbox has a state, and returns its name.
func (c *eventClient) readState(sandbox, state string) string {
	c.t.Helper()
	for {
		text := c.read()
		var packet []json.RawMessage
		var name string
		var data struct {
			ID, State, NewState string
			Sandbox             struct{ ID, State string }
		}
		if !strings.HasPrefix(text, "42") || json.Unmarshal([]byte(text[2:]), &packet) != nil || len(packet) != 2 || json.Unmarshal(packet[0], &name) != nil || json.Unmarshal(packet[1], &data) != nil {
			c.t.Fatalf("want an event, got %s", text)
		}
		if data.Sandbox.ID+data.ID != sandbox {
			c.t.Fatalf("an event of another sandbox: %s", text)
		}
		if data.Sandbox.State == state && data.NewState == state || data.State == state {
			return name
		}
	}
}

// TestDaytonaEvents follows a sandbox from its creation to its removal, as the SDKs do over socket.io.
func TestDaytonaEvents(t *testing.T) {
	s := newDaytonaSite(t)
	c, other := s.openEvents(t, s.key), s.openEvents(t, s.daytonaKey(atoll.Owner{App: "app", User: "mallory"}))
	for _, x := range []*eventClient{c, other} {
		if connected := x.read(); !strings.HasPrefix(connected, `40{"sid":`) {
			t.Fatalf("the second packet is %s", connected)
		}
	}
	if status, body := s.request("POST", "/api/sandbox/"+s.sandbox+"/stop", s.key, ""); status != 200 {
		t.Fatalf("stop: %d %s", status, body)
	}
	if name := c.readState(s.sandbox, "stopped"); name != "sandbox.state.updated" {
		t.Errorf("a stop is %s", name)
	}
	status, body := s.request("DELETE", "/api/sandbox/"+s.sandbox, s.key, "")
	if status != 200 {
		t.Fatalf("delete: %d %s", status, body)
	}
	c.readState(s.sandbox, "destroyed")
	status, body = s.request("POST", "/api/sandbox", s.key, `{}`)
	id := regexp.MustCompile(`^\{"id":"(\w+)"`).FindStringSubmatch(body)
	if status != 200 || id == nil {
		t.Fatalf("create: %d %s", status, body)
	}
	c.readState(id[1], "started")
	// What another owner's stream gets first is about his own sandbox.
	status, body = s.request("POST", "/api/sandbox", s.daytonaKey(atoll.Owner{App: "app", User: "mallory"}), `{}`)
	if id = regexp.MustCompile(`^\{"id":"(\w+)"`).FindStringSubmatch(body); status != 200 || id == nil {
		t.Fatalf("create: %d %s", status, body)
	}
	other.readState(id[1], "started")
	c.write("41")
	for text := c.read(); text != "closed"; text = c.read() {
		if strings.Contains(text, id[1]) {
			t.Errorf("an event of another owner: %s", text)
		}
	}
}

// TestDaytonaEventsOfStrangers: without a valid key there are no events.
func TestDaytonaEventsOfStrangers(t *testing.T) {
	s := newDaytonaSite(t)
	for _, key := range []string{"dtn_" + strings.Repeat("0", 40), "nonsense"} {
		c := s.openEvents(t, key)
		if text := c.read(); !strings.HasPrefix(text, `44{"message":"Invalid credentials`) {
			t.Errorf("%s: %s", key, text)
		}
		if text := c.read(); text != "closed" {
			t.Errorf("%s: %s", key, text)
		}
	}
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/api/socket.io/?EIO=4&transport=websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	c := &eventClient{t: t, ws: ws}
	c.read()
	c.write(`42["sandbox.created",{}]`)
	if text := c.read(); text != "closed" {
		t.Errorf("a first message without a key: %s", text)
	}
	if status, body := s.request("GET", "/api/socket.io/?EIO=4&transport=polling", s.key, ""); status != 501 {
		t.Errorf("polling: %d %s", status, body)
	}
}
