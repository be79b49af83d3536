package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// TestTypeAhead types lines while a turn is under way: each is sent to the agent, is the prompt of a queued turn, or comes after the end
// of the turn and is the next message; what became of it is shown.
func TestTypeAhead(t *testing.T) {
	var mu sync.Mutex
	var got []string
	all := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Prompt []agent.Content }
		_ = json.NewDecoder(r.Body).Decode(&in)
		text := agent.PlainText(in.Prompt)
		mu.Lock()
		got = append(got, r.URL.Path+" "+text)
		n := len(got)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch text {
		case "one":
			_ = json.NewEncoder(w).Encode(agent.Delivery{ID: "1", State: "sent"})
		case "two":
			_ = json.NewEncoder(w).Encode(agent.Delivery{ID: "2", State: "queued", Turn: &agent.Record{ID: "m2"}, Reason: "it reads none now"})
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"title":"Conflict","status":409,"kind":"state","detail":"the turn has ended"}`))
		}
		if n == 3 {
			close(all)
		}
	}))
	defer server.Close()
	c, err := client.New(client.Options{Host: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var shown bytes.Buffer
	a := commands{&app.App{Streams: tty.Streams{Out: io.Discard, Err: &shown}}}
	r, w := io.Pipe()
	p := &typist{a: a, c: c, input: tty.NewInput(r), view: a.newTurnView(false), turn: "t1"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.start(ctx)
	p.pause()
	p.pause() // twice is no error
	p.start(ctx)
	for _, piece := range []string{"on", "e\n\ntwo\nth", "ree\nhalf"} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	<-all
	p.pause()
	if want := []string{"/v1/turns/t1/messages one", "/v1/turns/t1/messages two", "/v1/turns/t1/messages three"}; !slices.Equal(got, want) {
		t.Errorf("sent were %q, want %q", got, want)
	}
	if !slices.Equal(p.next, []string{"three"}) || len(p.queued) != 1 || p.queued[0] != (queuedLine{"m2", "two"}) {
		t.Errorf("the next lines are %q, queued are %+v", p.next, p.queued)
	}
	for _, want := range []string{"sent: the agent reads it", "since the agent does not read it", "queued: it is the next message"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("it shows no %q: %q", want, shown.String())
		}
	}
	f := &turnFlags{}
	for line, want := range map[string]bool{"/model small": true, "/ask": true, "/compact": false, "hello": false} {
		if a.runCommand(line, f) != want {
			t.Errorf("%q is a command: %v, want %v", line, !want, want)
		}
	}
	if f.turn.Model != "small" || !f.turn.Ask {
		t.Errorf("the next turn is %+v", f.turn)
	}
}
