package api

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// underWay begins what goes on for long with a token, and returns what waits
// for the end of each.
func (s *site) underWay(secret string) map[string]func() error {
	s.t.Helper()
	mine := *s
	mine.token = secret
	var box atoll.Info
	mine.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{}`)
	ends := make(map[string]func() error)
	next, hangUp := mine.follow("/v1/events")
	s.t.Cleanup(hangUp)
	await(s.t.(*testing.T), next, "sandbox.running")
	ends["events"] = func() error {
		for {
			if _, err := next(); err != nil {
				return err
			}
		}
	}
	ws, resp, err := websocket.Dial(s.t.Context(), s.url+"/v1/sandboxes/"+box.ID+"/exec", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}, Subprotocols: []string{wire.ExecProtocol},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	start, _ := json.Marshal(wire.ClientControl{Start: &wire.Command{Shell: "echo on; cat"}})
	if err := ws.Write(s.t.Context(), websocket.MessageBinary, append([]byte{byte(wire.Control)}, start...)); err != nil {
		s.t.Fatal(err)
	}
	for m := []byte(nil); len(m) == 0 || m[0] != byte(wire.Stdout); {
		if _, m, err = ws.Read(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	ends["exec"] = func() error {
		for {
			if _, _, err := ws.Read(s.t.Context()); err != nil {
				return err
			}
		}
	}
	body, rest := io.Pipe()
	s.t.Cleanup(func() { rest.Close() })
	uploaded := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(s.t.Context(), "PUT", s.url+"/v1/sandboxes/"+box.ID+"/files?path=/tmp/f", body)
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+secret)
			r.Header.Set("Content-Type", "application/octet-stream")
			resp, err = s.client.Do(r)
		}
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode < 400 {
				s.t.Errorf("half a file was taken: %s", resp.Status)
			}
		}
		uploaded <- err
	}()
	if _, err := rest.Write([]byte("some")); err != nil { // it is under way
		s.t.Fatal(err)
	}
	ends["upload"] = func() error { return <-uploaded }
	for s.busy("a/b") < len(ends) {
		if s.t.Context().Err() != nil || len(uploaded) > 0 {
			s.t.Fatal("not all is under way")
		}
		runtime.Gosched()
	}
	return ends
}

// busy counts the calls of an owner that a token let in.
func (s *site) busy(owner string) (n int) {
	s.server.tokenCalls.mu.Lock()
	defer s.server.tokenCalls.mu.Unlock()
	for c := range s.server.tokenCalls.calls {
		if c.caller.Owner.String() == owner {
			n++
		}
	}
	return n
}

// over waits until all that was under way has ended, and refuses new calls.
func (s *site) over(secret string, ends map[string]func() error) {
	s.t.Helper()
	late := time.AfterFunc(time.Minute, func() { panic("what a token let in goes on without it") })
	defer late.Stop()
	for what, end := range ends {
		s.t.Logf("%s: %v", what, end())
	}
	mine := *s
	mine.token = secret
	mine.want(http.StatusUnauthorized, nil, "GET", "/v1/quota", "")
}

// What a token let in ends when the token, or the one that it was made with, is
// revoked; what others let in goes on.
func TestRevokedTokenEndsItsStreams(t *testing.T) {
	for _, law := range []string{"Itself", "ItsMaker"} {
		t.Run(law, func(t *testing.T) {
			s := newSite(t, Options{})
			o := atoll.Owner{App: "a", User: "b"}
			made, err := s.fleet.Account(fleet.LocalCaller()).CreateToken(t.Context(), atoll.Token{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
			if err != nil {
				t.Fatal(err)
			}
			secret := made.Secret
			if law == "ItsMaker" {
				mine := *s
				mine.token = secret
				var child atoll.Token
				mine.want(http.StatusCreated, &child, "POST", "/v1/tokens", `{"scopes":["run","read"]}`)
				secret = child.Secret
			}
			next, hangUp := s.follow("/v1/events?all_owners=true")
			defer hangUp()
			ends := s.underWay(secret)
			s.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/"+made.ID, "")
			s.over(secret, ends)
			await(t, next, "token.revoked")
		})
	}
}

// Tokens that another process revokes, and those that expire, are found by the
// look that calls under way bring about.
func TestSpentTokenEndsItsStreams(t *testing.T) {
	for _, law := range []string{"RevokedElsewhere", "Expired"} {
		t.Run(law, func(t *testing.T) {
			s := newSite(t, Options{})
			made, err := s.fleet.Account(fleet.LocalCaller()).CreateToken(t.Context(), atoll.Token{
				Owner: atoll.Owner{App: "a", User: "b"}, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}, Expires: time.Now().Add(time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			ends := s.underWay(made.Secret)
			if left := s.server.tokenCalls.checkTokens(t.Context()); left < 50*time.Minute || left > time.Hour {
				t.Errorf("%v until the token expires", left)
			}
			if law == "Expired" {
				s.clock.Add(int64(2 * time.Hour))
			} else {
				home := t.TempDir()
				other, err := fleet.Open(t.Context(), fleet.Options{Home: s.home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close(t.Context())
				if err := other.Account(fleet.LocalCaller()).RevokeToken(t.Context(), made.ID); err != nil {
					t.Fatal(err)
				}
			}
			s.server.tokenCalls.mu.Lock()
			armed := s.server.tokenCalls.timerSet
			s.server.tokenCalls.mu.Unlock()
			if !armed {
				t.Fatal("nobody looks")
			}
			s.server.tokenCalls.checkAll() // as the timer does
			s.over(made.Secret, ends)
		})
	}
}

// A token that is revoked between its look-up and the call's begin lets nothing in.
func TestTokenRevokedOnItsWayIn(t *testing.T) {
	s := newSite(t, Options{})
	local := s.fleet.Account(fleet.LocalCaller())
	made, err := local.CreateToken(t.Context(), atoll.Token{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	b := s.server.tokenCalls
	before := b.generation()
	c := new(call)
	if c.caller, err = s.fleet.Authenticate(t.Context(), made.Secret); err != nil {
		t.Fatal(err)
	}
	if err := local.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	var stopped bool
	b.addCall(t.Context(), c, before, func() { stopped = true })()
	if !stopped {
		t.Error("it came in")
	}
}
