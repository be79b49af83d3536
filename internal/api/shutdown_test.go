package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// holding adds a route whose requests say that they have begun, and end when they
// are let go or their context is done.
func (s *site) holding() (begun chan struct{}, release chan struct{}) {
	begun, release = make(chan struct{}, 1), make(chan struct{})
	s.server.registerRaw(s.server.api, huma.Operation{OperationID: "hold", Method: "POST", Path: "/v1/hold"},
		func(w http.ResponseWriter, r *http.Request, _ *fleet.Account) error {
			begun <- struct{}{}
			select {
			case <-release:
				return writeJSON(w, http.StatusOK, "done")
			case <-r.Context().Done():
				return r.Context().Err()
			}
		})
	return begun, release
}

// Shutdown takes no more connections, is not ready, tells streams good-bye, and
// waits for the requests under way, whose answers arrive whole.
func TestShutdown(t *testing.T) {
	s := newSite(t, Options{})
	begun, release := s.holding()
	next, hangUp := s.follow("/v1/events")
	defer hangUp()
	answered := make(chan answer, 1)
	go func() { answered <- s.do("POST", "/v1/hold", "") }()
	<-begun

	over := make(chan error, 1)
	go func() { over <- s.server.Shutdown(context.Background()) }()
	var last sse
	for {
		m, err := next()
		if err != nil {
			break
		}
		last = m
	}
	if !strings.Contains(last[""], "shutting down") {
		t.Errorf("the stream's last message: %v", last)
	}
	if s.server.Ready(t.Context()) == nil {
		t.Error("ready while shutting down")
	}
	select {
	case err := <-over:
		t.Fatalf("shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if a := <-answered; a.status != http.StatusOK || a.body != "\"done\"\n" {
		t.Errorf("the last answer: %d %q", a.status, a.body)
	}
	if err := <-over; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
		c.Close()
		t.Error("it still takes connections")
	}
}

// Requests that don't end in time are broken off: Shutdown says so and returns.
func TestShutdownHurried(t *testing.T) {
	s := newFleet(t, Options{})
	l, dial := Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(l) }()
	s.url, s.client = "http://atoll", &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	begun, _ := s.holding()
	failed := make(chan error, 1)
	go func() {
		resp, err := s.client.Post("http://atoll/v1/hold", "application/json", nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		failed <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.server.Shutdown(ctx) }()
	<-s.server.stopping.Done()
	cancel()
	if err := <-over; !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("shutdown: %v", err)
	}
	<-failed
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// A panic is a 500 that says nothing of the inside, and the server goes on.
func TestPanic(t *testing.T) {
	s := newLocal(t, Options{})
	s.server.registerRaw(s.server.api, huma.Operation{OperationID: "panic", Method: "GET", Path: "/v1/panic"},
		func(http.ResponseWriter, *http.Request, *fleet.Account) error { panic("the secret is 42") })
	s.server.registerRaw(s.server.api, huma.Operation{OperationID: "late-panic", Method: "GET", Path: "/v1/late-panic"},
		func(w http.ResponseWriter, _ *http.Request, _ *fleet.Account) error {
			_, _ = w.Write(make([]byte, 1<<20))
			panic("late")
		})
	a := s.do("GET", "/v1/panic", "", "X-Request-Id: my-id.1")
	if p := a.problem(t); a.status != 500 || p.Call != "my-id.1" || strings.Contains(a.body, "42") {
		t.Errorf("%d %s", a.status, a.body)
	}
	resp, err := s.client.Get("http://atoll/v1/late-panic")
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("half an answer was taken for a whole one")
	}
	s.want(http.StatusOK, nil, "GET", "/v1/info", "")
}

// A request that goes on longer than its body may stall is not ended by the
// deadlines that its body had.
func TestLongRequest(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Stall: 50 * time.Millisecond, BodyTime: 50 * time.Millisecond}})
	type in struct{ Body atoll.Quota }
	registerJSON(s.server, s.server.api, huma.Operation{OperationID: "slow", Method: "POST", Path: "/v1/slow"},
		func(ctx context.Context, _ *fleet.Account, _ *in) (*reply[string], error) {
			timer := time.NewTimer(400 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
				return &reply[string]{"done"}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	for range 2 { // on the same connection
		s.want(http.StatusOK, nil, "POST", "/v1/slow", `{}`)
	}
}

// TestShutdownAnswersWhoHasConnected: a client that has connected before the server stops gets its answer, although it
// sends its request only then.
func TestShutdownAnswersWhoHasConnected(t *testing.T) {
	s := newSite(t, Options{})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testenv.WaitFor(t, "the connection", func() bool {
		known := false
		s.server.fresh.Range(func(any, any) bool { known = true; return false })
		return known
	})
	over := make(chan error, 1)
	go func() { over <- s.server.Shutdown(context.Background()) }()
	<-s.server.stopping.Done()
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}
