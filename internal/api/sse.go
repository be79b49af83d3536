package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

const sseContentType = "text/event-stream"

// sseStream is a response of server-sent events. Its methods may be called concurrently.
type sseStream struct {
	ctl *http.ResponseController

	mu   sync.Mutex
	w    http.ResponseWriter // guarded by mu
	last time.Time           // when something was sent; guarded by mu
	err  error               // first write error; guarded by mu
}

// streamEvents answers with the events that f sends, until f returns, the client disconnects, or
// the server shuts down: then ctx is done, and f's error is ignored. Heartbeat comments are sent
// while nothing else is, so that both ends detect a lost connection. An error of f before its
// first event is answered as a problem.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, kind string, f func(ctx context.Context, out *sseStream) error) error {
	if r.Method == http.MethodHead { // the response has no body
		w.Header().Set("Content-Type", sseContentType)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	leave, err := s.callers.admitStream(callOf(r.Context()), kind)
	if err != nil {
		return err
	}
	defer leave()
	defer s.metrics.countStream(kind)()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // the shutdown ends it too
	out := &sseStream{ctl: http.NewResponseController(w), w: w}
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		out.sendHeartbeats(ctx, s.limits.Heartbeat, cancel)
	}()
	err = f(ctx, out)
	quiet := ctx.Err() != nil
	cancel()
	<-beat
	switch {
	case s.stopping.Err() != nil:
		_ = out.sendComment("the server is shutting down; reconnect") // write errors mean that the client is gone
	case quiet:
	case err != nil && !out.hasBegun():
		return err
	case err != nil:
		p := s.problemOf(r.Context(), err)
		_ = out.send("", "problem", p.Problem) // write errors mean that the client is gone
	default:
		_ = out.sendComment("end") // write errors mean that the client is gone
	}
	return nil
}

// sendHeartbeats begins the stream if f sends nothing at once, and keeps it alive.
func (o *sseStream) sendHeartbeats(ctx context.Context, every time.Duration, cancel context.CancelFunc) {
	timer := time.NewTimer(min(every, 100*time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if quiet := o.sinceLast(); quiet >= every {
			if o.sendComment("") != nil {
				cancel()
				return
			}
		}
		timer.Reset(max(every-o.sinceLast(), time.Millisecond))
	}
}

// sinceLast returns the time since something was sent; an hour, if nothing was.
func (o *sseStream) sinceLast() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.IsZero() {
		return time.Hour
	}
	return time.Since(o.last)
}

func (o *sseStream) hasBegun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.last.IsZero()
}

// send sends an event. The strings id and event may be empty and must not hold newlines.
func (o *sseStream) send(id, event string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, f := range []struct{ name, value string }{{"id", id}, {"event", event}} {
		if f.value != "" && !strings.ContainsAny(f.value, "\r\n\x00") {
			b.WriteString(f.name + ": " + f.value + "\n")
		}
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return o.write(b.Bytes())
}

// sendComment sends a comment, which clients ignore.
func (o *sseStream) sendComment(text string) error { return o.write([]byte(": " + text + "\n\n")) }

func (o *sseStream) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.last.IsZero() {
		o.w.Header().Set("Content-Type", sseContentType)
		o.w.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer
	}
	o.last = time.Now()
	_, o.err = o.w.Write(b)
	if o.err == nil {
		o.err = o.ctl.Flush()
	}
	return o.err
}
