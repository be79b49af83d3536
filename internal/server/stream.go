package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

const eventStream = "text/event-stream"

// stream is an answer of server-sent events. Its methods may be called at once
// from many goroutines.
type stream struct {
	ctl *http.ResponseController

	mu   sync.Mutex
	w    http.ResponseWriter // guarded by mu
	last time.Time           // something was sent; guarded by mu
	err  error               // guarded by mu; the first of writing
}

// stream answers with events that f sends, until f returns, the client is gone,
// or the server shuts down: ctx is done then, and what f returns is no error. A
// comment is sent whenever nothing else was for a while, so that both ends
// notice when the other is gone. An error of f before its first event is
// answered as a problem.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, kind string, f func(ctx context.Context, out *stream) error) error {
	if r.Method == http.MethodHead { // nothing is sent, so nobody would be missed
		w.Header().Set("Content-Type", eventStream)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	leave, err := s.callers.follow(callOf(r.Context()), kind)
	if err != nil {
		return err
	}
	defer leave()
	defer s.metrics.stream(kind)()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)() //nolint:contextcheck // the end of the server ends it too
	out := &stream{ctl: http.NewResponseController(w), w: w}
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		out.beat(ctx, s.limits.Heartbeat, cancel)
	}()
	err = f(ctx, out)
	quiet := ctx.Err() != nil
	cancel()
	<-beat
	switch {
	case s.ending.Err() != nil:
		_ = out.comment("the server is shutting down; come again") // who is gone reads no comments
	case quiet:
	case err != nil && !out.begun():
		return err
	case err != nil:
		p := s.problemOf(r.Context(), err)
		_ = out.send("", "problem", p.Problem) // who is gone reads no problems
	default:
		_ = out.comment("end") // likewise
	}
	return nil
}

// beat begins the stream if f has nothing to say at once, and keeps it alive.
func (o *stream) beat(ctx context.Context, every time.Duration, cancel context.CancelFunc) {
	timer := time.NewTimer(min(every, 100*time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if quiet := o.quiet(); quiet >= every {
			if o.comment("") != nil {
				cancel()
				return
			}
		}
		timer.Reset(max(every-o.quiet(), time.Millisecond))
	}
}

// quiet returns how long nothing was sent; before the first that is for ever.
func (o *stream) quiet() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.IsZero() {
		return time.Hour
	}
	return time.Since(o.last)
}

func (o *stream) begun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.last.IsZero()
}

// send sends an event. id and event may be empty; they hold no newlines.
func (o *stream) send(id, event string, v any) error {
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

// comment sends what clients ignore.
func (o *stream) comment(text string) error { return o.write([]byte(": " + text + "\n\n")) }

func (o *stream) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.last.IsZero() {
		o.w.Header().Set("Content-Type", eventStream)
		o.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	}
	o.last = time.Now()
	_, o.err = o.w.Write(b)
	if o.err == nil {
		o.err = o.ctl.Flush()
	}
	return o.err
}
