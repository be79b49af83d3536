package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// book is a log that a test reads.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// linked is a server with two sandboxes, the first of which has two terminals.
type linked struct {
	*site
	log       *book
	box, next string // ids
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	log := new(book)
	l := &linked{log: log, site: newSite(t, Options{Limits: Limits{Rate: -1, WrongTokens: -1}, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})}
	for _, id := range []*string{&l.box, &l.next} {
		var info atoll.Info
		l.want(http.StatusCreated, &info, "POST", "/v1/sandboxes", `{}`)
		*id = info.ID
	}
	for _, at := range []string{l.box + "/main", l.box + "/other", l.next + "/main"} {
		id, name, _ := strings.Cut(at, "/")
		l.want(http.StatusCreated, nil, "POST", "/v1/sandboxes/"+id+"/terminals", `{"name":"`+name+`","args":["cat"]}`)
	}
	return l
}

// as returns the server as the bearer of a link sees it, and the link.
func (l *linked) as(terminal string, scopes ...atoll.Scope) (*site, atoll.Token) {
	l.t.Helper()
	b, err := json.Marshal(atoll.Token{Scopes: scopes, Expires: time.Now().Add(time.Hour), Link: &atoll.Link{Sandbox: l.box, Terminal: terminal}})
	if err != nil {
		l.t.Fatal(err)
	}
	var tok atoll.Token
	l.want(http.StatusCreated, &tok, "POST", "/v1/tokens", string(b))
	mine := *l.site
	mine.token = tok.Secret
	return &mine, tok
}

// dial attaches to a terminal as a page does.
func (s *site) dial(id, terminal, query, origin string) (*websocket.Conn, int) {
	s.t.Helper()
	h := http.Header{}
	if origin != "" {
		h.Set("Origin", origin)
	}
	ws, resp, err := websocket.Dial(s.t.Context(), s.url+"/v1/sandboxes/"+id+"/terminals/"+terminal+"/attach?rows=5&cols=30"+query,
		&websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{wire.ExecProtocol, bearerProtocol + s.token}})
	if resp == nil {
		s.t.Fatal(err)
	}
	if err != nil {
		return nil, resp.StatusCode
	}
	if got := ws.Subprotocol(); got != wire.ExecProtocol {
		s.t.Errorf("the server chose the subprotocol %q", got)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws, resp.StatusCode
}

// TestLinkReachesNothingElse calls every route there is with a link.
func TestLinkReachesNothingElse(t *testing.T) {
	l := newLinked(t)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody json.RawMessage
		}
	}
	l.want(http.StatusOK, &doc, "GET", "/openapi.json", "")
	calls := []string{"GET /openapi.json", "GET /openapi.yaml", "GET /metrics", "POST /mcp", "GET /nope"}
	for path, methods := range doc.Paths {
		for method := range methods {
			calls = append(calls, strings.ToUpper(method)+" "+path)
		}
	}
	if len(calls) < 60 {
		t.Fatalf("only %d routes", len(calls))
	}
	param := regexp.MustCompile(`\{[^}]*\}`)
	for _, scopes := range [][]atoll.Scope{{atoll.ScopeRead}, {atoll.ScopeRead, atoll.ScopeRun}} {
		link, _ := l.as("", scopes...)
		for _, call := range calls {
			if slices.Contains(linkRoutes, call) || strings.HasSuffix(call, "/healthz") || strings.HasSuffix(call, "/readyz") {
				continue
			}
			method, path, _ := strings.Cut(call, " ")
			body := ""
			if method == "POST" || method == "PUT" || method == "PATCH" {
				body = "{}"
			}
			a := link.do(method, param.ReplaceAllString(strings.Replace(path, "{id}", l.box, 1), "x"), body)
			if a.status != http.StatusForbidden && a.status != http.StatusNotFound || strings.Contains(path, "{") && a.status != http.StatusForbidden {
				t.Errorf("%s by a link of %v: %d %s", call, scopes, a.status, a.body)
			}
		}
	}
}

// TestLinkStaysWhereItLeads tries other terminals and other sandboxes.
func TestLinkStaysWhereItLeads(t *testing.T) {
	l := newLinked(t)
	one, tok := l.as("main", atoll.ScopeRead, atoll.ScopeRun)
	var who atoll.Server
	one.want(http.StatusOK, &who, "GET", "/v1/info", "")
	if who.Link == nil || who.Link.Sandbox != l.box || who.Link.Terminal != "main" || len(who.Drivers)+len(who.Addresses) > 0 {
		t.Errorf("who the bearer is: %+v", who)
	}
	var list wire.List[atoll.Terminal]
	one.want(http.StatusOK, &list, "GET", "/v1/sandboxes/"+l.box+"/terminals", "")
	if len(list.Items) != 1 || list.Items[0].Name != "main" {
		t.Errorf("terminals: %+v", list.Items)
	}
	for _, c := range []struct {
		status             int
		method, path, body string
	}{
		{http.StatusNotFound, "GET", l.next + "/terminals", ""},
		{http.StatusNotFound, "GET", l.box + "/terminals/other/screen", ""},
		{http.StatusNotFound, "POST", l.box + "/terminals/other/input", `{"input":"eA=="}`},
		{http.StatusForbidden, "POST", l.box + "/terminals", `{}`},
		{http.StatusForbidden, "DELETE", l.box + "/terminals/main", ""},
		{http.StatusForbidden, "DELETE", l.box + "/terminals/other", ""},
	} {
		if a := one.do(c.method, "/v1/sandboxes/"+c.path, c.body); a.status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, a.status, a.body, c.status)
		}
	}
	for _, at := range [][2]string{{l.box, "other"}, {l.next, "main"}} {
		if _, status := one.dial(at[0], at[1], "", ""); status != http.StatusNotFound {
			t.Errorf("attach to %v: %d", at, status)
		}
	}
	if _, status := one.dial(l.box, "main", "", ""); status != http.StatusSwitchingProtocols {
		t.Errorf("attach where it leads: %d", status)
	}
	// A link of the whole sandbox may choose.
	all, _ := l.as("", atoll.ScopeRead, atoll.ScopeRun)
	all.want(http.StatusCreated, nil, "POST", "/v1/sandboxes/"+l.box+"/terminals", `{"name":"mine","args":["cat"]}`)
	all.want(http.StatusNoContent, nil, "DELETE", "/v1/sandboxes/"+l.box+"/terminals/mine", "")
	if tok.Link == nil || tok.Link.Sandbox != l.box {
		t.Errorf("the answer says of the link: %+v", tok.Link)
	}
}

// TestReadOnlyLink tries to type and to resize.
func TestReadOnlyLink(t *testing.T) {
	l := newLinked(t)
	look, _ := l.as("main", atoll.ScopeRead)
	if a := look.do("POST", "/v1/sandboxes/"+l.box+"/terminals/main/input", `{"input":"eA=="}`); a.status != http.StatusForbidden {
		t.Errorf("typed: %d %s", a.status, a.body)
	}
	// One who does not say that he only looks is refused, on the stream.
	ws, _ := look.dial(l.box, "main", "", "")
	if ws == nil {
		t.Fatal("not attached")
	}
	if c := lastWords(t, ws); c.Error == nil || c.Error.Kind != "denied" {
		t.Errorf("attached to type: %+v", c)
	}
	ws, _ = look.dial(l.box, "main", "&read_only=true&sized=true", "")
	if ws == nil {
		t.Fatal("not attached")
	}
	resize, _ := json.Marshal(wire.ClientControl{Resize: &atoll.Size{Rows: 3, Cols: 9}})
	for _, m := range [][]byte{append([]byte{byte(wire.Stdin)}, "typed\n"...), append([]byte{byte(wire.Control)}, resize...)} {
		if err := ws.Write(t.Context(), websocket.MessageBinary, m); err != nil {
			t.Fatal(err)
		}
	}
	// Both are taken in order before what is shown next.
	l.want(http.StatusNoContent, nil, "POST", "/v1/sandboxes/"+l.box+"/terminals/main/input", `{"input":"bmV4dAo="}`)
	for shown := ""; !strings.Contains(shown, "next"); {
		_, m, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shown += string(m[1:])
	}
	var screen atoll.Screen
	l.want(http.StatusOK, &screen, "GET", "/v1/sandboxes/"+l.box+"/terminals/main/screen", "")
	if screen.Rows != 24 || strings.Contains(strings.Join(screen.Lines, "\n"), "typed") {
		t.Errorf("the screen of who only looked: %+v", screen)
	}
}

// lastWords returns how a stream ended.
func lastWords(t *testing.T, ws *websocket.Conn) wire.Exit {
	t.Helper()
	for {
		_, m, err := ws.Read(t.Context())
		if err != nil {
			t.Fatalf("the stream broke: %v", err)
		}
		var c wire.ServerControl
		if m[0] == byte(wire.Control) && json.Unmarshal(m[1:], &c) == nil && c.Exit != nil {
			return *c.Exit
		}
	}
}

// TestLinkEnds looks at links that have ended: while attached, and after.
func TestLinkEnds(t *testing.T) {
	l := newLinked(t)
	link, tok := l.as("main", atoll.ScopeRead, atoll.ScopeRun)
	ws, _ := link.dial(l.box, "main", "", "")
	if ws == nil {
		t.Fatal("not attached")
	}
	l.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/"+tok.ID, "")
	if c := lastWords(t, ws); c.Error == nil || c.Error.Kind != "denied" {
		t.Errorf("revoked while attached: %+v", c)
	}
	brief, _ := l.as("main", atoll.ScopeRead)
	l.clock.Add(int64(2 * time.Hour))
	for _, s := range []*site{link, brief} {
		if _, status := s.dial(l.box, "main", "&read_only=true", ""); status != http.StatusUnauthorized {
			t.Errorf("attach by a link that has ended: %d", status)
		}
		s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
	}
}

// TestLinkFromElsewhere opens a stream from somebody else's page, and looks for
// tokens in the log.
func TestLinkFromElsewhere(t *testing.T) {
	l := newLinked(t)
	link, _ := l.as("main", atoll.ScopeRead, atoll.ScopeRun)
	for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1:1", "http://3000-web.localhost:7080"} {
		if _, status := link.dial(l.box, "main", "", origin); status != http.StatusForbidden {
			t.Errorf("from %s: %d", origin, status)
		}
	}
	if _, status := link.dial(l.box, "main", "", link.url); status != http.StatusSwitchingProtocols {
		t.Errorf("from its own page: %d", status)
	}
	// Only a WebSocket shows its token so.
	bare := *link
	bare.token = ""
	bare.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "", "Sec-WebSocket-Protocol: "+bearerProtocol+link.token)
	log := l.log.String()
	if strings.Contains(log, "atoll_") {
		t.Errorf("a token is in the log:\n%s", log)
	}
	if !strings.Contains(log, "/v1/tokens") {
		t.Error("the log has no calls")
	}
}

// TestBadLinks asks for links that are none.
func TestBadLinks(t *testing.T) {
	l := newLinked(t)
	link, _ := l.as("", atoll.ScopeRead, atoll.ScopeRun)
	if a := link.do("POST", "/v1/tokens", `{"scopes":["read"]}`); a.status != http.StatusForbidden {
		t.Errorf("a link made a token: %d %s", a.status, a.body)
	}
	stranger := *l.site
	stranger.token = l.newToken(atoll.Owner{App: "app", User: "mallory"}, atoll.ScopeRead, atoll.ScopeRun)
	in := time.Now().Add(time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		s      *site
		status int
		body   string
	}{
		{l.site, http.StatusNotFound, `{"scopes":["read"],"expires":"` + in + `","link":{"sandbox":"nope"}}`},
		{l.site, http.StatusUnprocessableEntity, `{"scopes":["read"],"link":{"sandbox":"` + l.box + `"}}`},
		{l.site, http.StatusUnprocessableEntity, `{"scopes":["read","admin"],"expires":"` + in + `","link":{"sandbox":"` + l.box + `"}}`},
		{l.site, http.StatusUnprocessableEntity, `{"scopes":["read"],"expires":"` + in + `","link":{"sandbox":"` + l.box + `","terminal":"a b"}}`},
		{&stranger, http.StatusNotFound, `{"scopes":["read"],"expires":"` + in + `","link":{"sandbox":"` + l.box + `"}}`},
	} {
		if a := c.s.do("POST", "/v1/tokens", c.body); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.body, a.status, a.body, c.status)
		}
	}
	// The fleet refuses by itself what no route would have let in.
	a := l.fleet.Account(fleet.Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}, Link: &atoll.Link{Sandbox: l.box}})
	if _, err := a.List(t.Context(), fleet.Filter{}); err == nil {
		t.Error("a link listed sandboxes")
	}
	if _, err := a.Open(t.Context(), l.next); err == nil {
		t.Error("a link opened another sandbox")
	}
}
