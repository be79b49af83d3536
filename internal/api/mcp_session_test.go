package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// speak sends a message of an MCP client with a token, and returns the answer
// when it begins; the test's end closes it.
func (s *site) speak(method, token, session, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() }) // nothing more of it is read
	return resp
}

// meet begins a session and returns its id, or the status that refused it.
func (s *site) meet(token string) (session string, status int) {
	s.t.Helper()
	resp := s.speak("POST", token, "", hello)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.t.Error(err)
	}
	return resp.Header.Get("Mcp-Session-Id"), resp.StatusCode
}

// TestMCPSessionsAreBounded has one owner, with two tokens, begin sessions at
// once without end: others are not harmed, what has ended makes room, and all
// sessions of a token have one server.
func TestMCPSessionsAreBounded(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Rate: -1}})
	mallory := atoll.Owner{App: "app", User: "mallory"}
	tokens := []string{s.newToken(mallory, atoll.ScopeRead), s.newToken(mallory, atoll.ScopeRead, atoll.ScopeRun)}
	var mu sync.Mutex
	begun := make(map[string]string) // session to token
	var wg sync.WaitGroup
	for i := range maxMCPSessionsPerOwner {
		wg.Go(func() {
			id, status := s.meet(tokens[i%2])
			if status != http.StatusOK || id == "" {
				t.Errorf("session %d: %d", i, status)
			}
			mu.Lock()
			defer mu.Unlock()
			begun[id] = tokens[i%2]
		})
	}
	wg.Wait()
	refused := s.speak("POST", tokens[0], "", hello)
	body, err := io.ReadAll(refused.Body)
	if err != nil || refused.StatusCode != http.StatusTooManyRequests || refused.Header.Get("Retry-After") == "" || !strings.Contains(string(body), strconv.Itoa(maxMCPSessionsPerOwner)+" MCP sessions") {
		t.Errorf("one more: %d %v %s %v", refused.StatusCode, refused.Header, body, err)
	}
	if n := len(s.server.mcpSessions.all); n != 2 {
		t.Errorf("%d servers for two tokens", n)
	}
	if _, status := s.meet(s.newToken(atoll.Owner{App: "app", User: "alice"}, atoll.ScopeRead)); status != http.StatusOK {
		t.Errorf("another owner: %d", status)
	}
	for id, token := range begun {
		if resp := s.speak("DELETE", token, id, ""); resp.StatusCode != http.StatusNoContent {
			t.Errorf("end of a session: %d", resp.StatusCode)
		}
	}
	for range 2 * maxMCPSessionsPerOwner { // neither what has ended nor what never began counts
		if resp := s.speak("POST", tokens[0], "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); resp.StatusCode == http.StatusTooManyRequests {
			t.Fatal("room is lost to sessions that never began")
		}
	}
	for i := range maxMCPSessionsPerOwner {
		testenv.WaitFor(t, fmt.Sprintf("session %d after others have ended", i), func() bool { // they end after their last answer
			_, status := s.meet(tokens[1])
			if status != http.StatusOK && status != http.StatusTooManyRequests {
				t.Fatalf("session %d after others have ended: %d", i, status)
			}
			return status == http.StatusOK
		})
	}
}

// TestMCPSessionsOfAllAreBounded has many owners begin one session each.
func TestMCPSessionsOfAllAreBounded(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Rate: -1}})
	for i := 0; i < maxMCPSessions; i += maxMCPSessionsPerOwner {
		token := s.newToken(atoll.Owner{App: "app", User: "u" + strconv.Itoa(i)}, atoll.ScopeRead)
		for j := range min(maxMCPSessionsPerOwner, maxMCPSessions-i) {
			if _, status := s.meet(token); status != http.StatusOK {
				t.Fatalf("session %d: %d", i+j, status)
			}
		}
	}
	if _, status := s.meet(s.token); status != http.StatusTooManyRequests {
		t.Errorf("one more than all: %d", status)
	}
}

// TestShutdownWithMCPStream has a client hold the stream of a session, in which
// nothing happens: the server ends at once, and its sessions with it.
func TestShutdownWithMCPStream(t *testing.T) {
	s := newSite(t, Options{})
	id, _ := s.meet(s.token)
	stream := s.speak("GET", s.token, id, "")
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", stream.StatusCode)
	}
	_, _ = s.meet(s.token)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream was broken off: %v", err)
	}
	s.server.mcpSessions.mu.Lock()
	defer s.server.mcpSessions.mu.Unlock()
	for _, c := range s.server.mcpSessions.all {
		if n := c.countSessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
}

// TestShutdownEndsAbandonedTools has a client go away while its tool works, which
// goes on then; the end of the server is its end.
func TestShutdownEndsAbandonedTools(t *testing.T) {
	s := newSite(t, Options{})
	id, _ := s.meet(s.token)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"echo on; sleep 600"},"_meta":{"progressToken":"p"}}}`
	resp := s.speak("POST", s.token, id, call)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil { // of its progress: it works
		t.Fatal(err)
	}
	_ = resp.Body.Close() // the client is gone
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}
