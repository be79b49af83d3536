package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
)

// town is a server with two owners who don't know of each other.
type town struct {
	*testing.T
	url   string
	admin *fleet.Account
	alice *client.Client

	box, file, snapshot, process, space, token, pool, turn, hook string // what alice has
	mallory, expired, revoked                                    string // tokens
}

func newTown(t *testing.T) *town {
	t.Helper()
	ctx := t.Context()
	home := t.TempDir()
	now := time.Now()
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	desk, has := newDesk(t, home)
	names := &preview.Registry{Fleet: f, Address: preview.Address{Scheme: "http", Port: 7080}, Access: preview.LinkAccess(f)}
	s := api.New(api.Options{Fleet: f, Limits: api.Limits{Rate: -1, Concurrent: -1, WrongTokens: -1}, Agents: has, Routes: names})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	begun, err := desk.Start(agent.Record{Owner: atoll.Owner{App: "app", User: "alice"}, Agent: "secretagent", Chat: "secretchat"}, func(ctx context.Context, t *turn.Turn) (agent.Result, error) {
		t.Emit(agent.Event{Type: agent.TextDone, Text: "the treasure"})
		_, err := t.Decide(ctx, agent.Permission{ID: "p1"})
		<-ctx.Done()
		return agent.Result{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &town{T: t, url: web.URL, admin: f.Account(fleet.LocalCaller()), turn: begun.ID()}
	both := []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}
	mint := func(owner string, expires time.Time) atoll.Token {
		tok, err := w.admin.CreateToken(ctx, atoll.Token{Owner: atoll.Owner{App: "app", User: owner}, Scopes: both, Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	hers := mint("alice", time.Time{})
	w.mallory = mint("mallory", time.Time{}).Secret
	w.expired = mint("alice", now.Add(time.Minute)).Secret
	gone := mint("alice", time.Time{})
	w.revoked = gone.Secret
	if err := w.admin.RevokeToken(ctx, gone.ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	w.alice, err = client.New(client.Options{Host: web.URL, Token: hers.Secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.alice.Close() }) // only its idle connections
	w.settle(ctx, hers)
	return w
}

// newDesk returns a desk, and the agents of a server that has it.
func newDesk(t *testing.T, home string) (*turn.Registry, func() (*api.Agents, error)) {
	t.Helper()
	desk, err := turn.Open(turn.Options{Dir: filepath.Join(home, "turns")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := desk.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	p, err := assistant.New(assistant.Options{Dir: filepath.Join(home, "chats"), App: func(context.Context) (*assistant.App, error) { return &assistant.App{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return desk, func() (*api.Agents, error) { return &api.Agents{Pipeline: p, Turns: desk}, nil }
}

// settle gives alice one of everything.
func (w *town) settle(ctx context.Context, hers atoll.Token) {
	w.Helper()
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
	cfg.Name = "secretbox"
	cfg.Workspaces = []atoll.WorkspaceMount{{Workspace: "vault"}}
	sb, err := w.alice.CreateSandbox(ctx, cfg)
	must(err)
	hook, err := w.alice.CreateWebhook(ctx, atoll.Webhook{URL: "https://hooks.secret.test/", Name: "vaulthook"})
	must(err)
	w.hook = hook.ID
	w.box, w.space, w.token, w.file, w.pool = sb.ID(), "vault", hers.ID, "/secret.txt", "stock"
	must(atoll.WriteFile(ctx, sb, w.file, []byte("the treasure"), 0o600))
	must(w.alice.Files(w.space).WriteFile(ctx, w.file, strings.NewReader("the treasure"), 0o600))
	point, err := sb.Snapshot(ctx, "secretpoint")
	must(err)
	w.snapshot = point.ID
	p, err := sb.StartProcess(ctx, "", atoll.Cmd{Shell: "while :; do sleep 1; done", Timeout: -1})
	must(err)
	w.process = p.ID
	_, err = w.admin.SetPool(ctx, atoll.Pool{Name: w.pool})
	must(err)
}

// operation is one route of the server's own document.
type operation struct{ method, path string }

func (o operation) String() string { return o.method + " " + o.path }

// operations returns every route that the server says it has.
func (w *town) operations() []operation {
	w.Helper()
	resp := w.send("GET", "/openapi.json", w.mallory, nil)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(resp.body), &doc); err != nil {
		w.Fatal(err)
	}
	var list []operation
	for path, methods := range doc.Paths {
		for method := range methods {
			if m := strings.ToUpper(method); slices.Contains([]string{"GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"}, m) {
				list = append(list, operation{m, path})
			}
		}
	}
	if len(list) < 40 {
		w.Fatalf("the document has only %d routes", len(list))
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// body returns one that the route takes.
func (o operation) body() string {
	switch last := o.path[strings.LastIndexByte(o.path, '/')+1:]; {
	case o.method == "GET" || o.method == "DELETE" || o.method == "HEAD":
		return ""
	case last == "exec" || last == "processes":
		return `{"args":["true"]}`
	case last == "project":
		return `{"act":"sync"}`
	case last == "restore":
		return `{"snapshot":"secretpoint"}`
	case last == "decisions":
		return `{"permission":"p1","allow":true}`
	case last == "signal":
		return `{"signal":"KILL"}`
	case last == "files":
		return "overwritten"
	case last == "archive":
		return string(make([]byte, 1024))
	}
	return `{}`
}

// query returns what the route needs besides its path.
func (o operation) query() string {
	switch {
	case strings.HasSuffix(o.path, "/dial"), strings.HasSuffix(o.path, "/listen"):
		return "?network=tcp&address=localhost:80"
	case strings.Contains(o.path, "/files") || o.method != http.MethodPost && strings.HasSuffix(o.path, "/archive"):
		return "?path=/secret.txt"
	}
	return ""
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *town) send(method, target, token string, body []byte) answer {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url+target, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	switch {
	case strings.Contains(target, "/files") && method == "PUT":
		req.Header.Set("Content-Type", "application/octet-stream")
	case strings.Contains(target, "/archive"):
		req.Header.Set("Content-Type", "application/x-tar")
	case len(body) > 0:
		req.Header.Set("Content-Type", "application/json")
	}
	if method == "GET" && sseStream.MatchString(target) {
		for k, v := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
			"Sec-WebSocket-Protocol": "exec.v1.atoll, dial.v1.atoll, listen.v1.atoll",
		} {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatalf("%s %s: %v", method, target, err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// sseStream are the routes that are WebSockets.
var sseStream = regexp.MustCompile(`/(exec|attach|dial|listen)(\?|$)`)

var changing = regexp.MustCompile(`"request":"[^"]*"`)

// plain returns an answer without what differs from request to request, and with
// the words that the request held replaced.
func (a answer) plain(words map[string]string) string {
	text := fmt.Sprintf("%d %s\n%s", a.status, a.header.Get("Content-Type"), changing.ReplaceAllString(a.body, ""))
	for word, by := range words {
		text = strings.ReplaceAll(text, word, by)
	}
	return text
}

// fill puts values into the variables of a route's path.
func (o operation) fill(values map[string]string) string {
	target := o.path
	for name, v := range values {
		target = strings.ReplaceAll(target, "{"+name+"}", v)
	}
	return target + o.query()
}

// TestOwners sends every route of the server what another owner has, what could
// be guessed, and what does not exist: the answers must not differ.
func TestOwners(t *testing.T) {
	w := newTown(t)
	tested := 0
	for _, o := range w.operations() {
		if !strings.Contains(o.path, "{") {
			continue
		}
		if strings.HasPrefix(o.path, "/v1/quotas/") || strings.HasPrefix(o.path, "/v1/pools/") {
			if a := w.send(o.method, o.fill(map[string]string{"app": "app", "user": "alice", "name": w.pool}), w.mallory, []byte(o.body())); a.status != http.StatusForbidden {
				t.Errorf("%s without admin scope: %d %s", o, a.status, a.body)
			}
			continue
		}
		tested++
		t.Run(strings.ReplaceAll(o.String(), "/", "."), func(t *testing.T) {
			w.differ(t, o)
		})
	}
	if tested < 30 {
		t.Errorf("only %d routes have something that could be another's", tested)
	}
	w.unharmed()
}

// differ fails when an answer tells whether something of another owner exists.
func (w *town) differ(t *testing.T, o operation) {
	const nobody = "s000000000000"
	hers := map[string]string{"id": w.box, "snapshot": w.snapshot, "process": w.process, "name": w.space}
	if strings.HasPrefix(o.path, "/v1/tokens/") {
		hers["id"] = w.token
	}
	if strings.HasPrefix(o.path, "/v1/webhooks/") {
		hers["id"], hers["delivery"] = w.hook, "all"
	}
	if strings.HasPrefix(o.path, "/v1/turns/") {
		hers["id"] = w.turn
	}
	ask := func(values map[string]string) string {
		words := map[string]string{}
		for k, v := range values {
			words[v] = "<" + k + ">"
		}
		return w.send(o.method, o.fill(values), w.mallory, []byte(o.body())).plain(words)
	}
	none := ask(map[string]string{"id": nobody, "snapshot": "s111111111111", "process": "s222222222222", "name": "nowhere"})
	if !strings.HasPrefix(none, "404 ") {
		t.Errorf("what does not exist: %s", none)
	}
	if strings.Contains(none, "treasure") {
		t.Fatalf("the answer holds what is another's: %s", none)
	}
	for what, values := range map[string]map[string]string{
		"another owner's":        hers,
		"another owner's name":   {"id": "secretbox", "snapshot": "secretpoint", "process": w.process, "name": w.space},
		"a guessed id":           {"id": w.box[:12] + "z", "snapshot": w.snapshot, "process": w.process, "name": "vaul"},
		"malformed, upper case":  {"id": "NOT-AN-ID", "snapshot": "NOT-AN-ID2", "process": "NOT-AN-ID3", "name": "NOT-A-NAME"},
		"malformed, path tricks": {"id": "..%2f" + w.box, "snapshot": "..%2fx", "process": "..%2fy", "name": "..%2falice%2fvault"},
	} {
		got, want := ask(values), none
		if strings.HasPrefix(what, "malformed") { // the words come back in another form
			got, want = got[:4], want[:4]
		}
		if got != want {
			t.Errorf("%s answers\n%s\nwhat does not exist answers\n%s", what, got, want)
		}
	}
}

// TestStrangers sends every route bad tokens, and none.
func TestStrangers(t *testing.T) {
	w := newTown(t)
	want := ""
	routes := append(w.operations(), operation{"GET", "/v1/nothing"}, operation{"GET", "/"}, operation{"POST", "/mcp"}, operation{"GET", "/metrics"}, operation{"BREW", "/v1/sandboxes"})
	for _, o := range routes {
		if o.path == "/healthz" || o.path == "/readyz" {
			continue
		}
		target := o.fill(map[string]string{"id": w.box, "snapshot": w.snapshot, "process": w.process, "name": w.space, "app": "app", "user": "alice"})
		for what, token := range map[string]string{
			"no token": "", "a wrong token": "atoll_" + strings.Repeat("a", 32), "an expired token": w.expired, "a revoked token": w.revoked,
			"a token's id": w.token, "nonsense": "\x01\xff", "a giant": strings.Repeat("x", 8000),
		} {
			if what == "nonsense" {
				token = "%00'\" or 1=1 --"
			}
			a := w.send(o.method, target, token, []byte(o.body()))
			got := a.plain(nil)
			if want == "" {
				want = got
			}
			if got != want || a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") == "" {
				t.Errorf("%s with %s answers\n%s %q\nothers\n%s", o, what, got, a.header.Get("Www-Authenticate"), want)
			}
		}
	}
	w.unharmed()
}

// TestOthersAreNotListed looks for what alice has in all that mallory can list.
func TestOthersAreNotListed(t *testing.T) {
	w := newTown(t)
	for _, o := range w.operations() {
		if o.method != "GET" || strings.Contains(o.path, "{") || strings.HasPrefix(o.path, "/openapi") {
			continue
		}
		target := o.path
		if strings.HasSuffix(target, "/events") {
			target += "?follow=false"
		}
		a := w.send(o.method, target, w.mallory, nil)
		for _, word := range []string{w.box, "secretbox", w.snapshot, "secretpoint", w.process, "vault", w.token, "treasure", "alice", w.turn, w.hook, "hooks.secret", "secretagent", "secretchat"} {
			if strings.Contains(a.body, word) {
				t.Errorf("%s shows %q: %.300s", o, word, a.body)
			}
		}
		if a.status >= 500 {
			t.Errorf("%s: %d %s", o, a.status, a.body)
		}
	}
}

// unharmed fails unless alice still has all that she had.
func (w *town) unharmed() {
	w.Helper()
	ctx := w.Context()
	sb, err := w.alice.Sandbox(ctx, w.box)
	if err != nil {
		w.Fatal(err)
	}
	info, err := sb.Info(ctx)
	if err != nil || info.State != atoll.Running || info.Name != "secretbox" {
		w.Errorf("her sandbox is %+v, %v", info, err)
	}
	if b, err := atoll.ReadFile(ctx, sb, w.file); err != nil || string(b) != "the treasure" {
		w.Errorf("her file holds %q, %v", b, err)
	}
	rc, err := w.alice.Files(w.space).OpenFile(ctx, w.file)
	if err != nil {
		w.Fatal(err)
	}
	if b, err := io.ReadAll(rc); err != nil || string(b) != "the treasure" {
		w.Errorf("the file of her workspace holds %q, %v", b, err)
	}
	_ = rc.Close() // all was read
	if r, err := w.alice.Turn(ctx, w.turn); err != nil || r.State != "waiting" || len(r.Permissions) != 1 {
		w.Errorf("her turn is %+v, %v", r, err)
	}
	if p, err := sb.Process(ctx, w.process); err != nil || !p.Running {
		w.Errorf("her process is %+v, %v", p, err)
	}
	if all, err := sb.Snapshots(ctx); err != nil || len(all) != 1 {
		w.Errorf("her snapshots are %+v, %v", all, err)
	}
	if hook, err := w.alice.Webhook(ctx, w.hook); err != nil || hook.Disabled || hook.Name != "vaulthook" {
		w.Errorf("the webhook of alice is %+v, %v", hook, err)
	}
	if all, err := w.alice.Tokens(ctx); err != nil || !slices.ContainsFunc(all, func(t atoll.Token) bool { return t.ID == w.token }) {
		w.Errorf("her tokens are %+v, %v", all, err)
	}
}
