package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// hostile is a client that sends what it likes: messages, each behind its length
// in two bytes, and then is gone.
type hostile struct {
	mu      sync.Mutex
	rest    []byte   // guarded by mu
	limit   int64    // guarded by mu
	answers []string // guarded by mu
}

func (h *hostile) Read(ctx context.Context, b *bytes.Buffer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || len(h.rest) < 2 {
		return errors.Join(io.ErrUnexpectedEOF, ctx.Err())
	}
	n := min(int(h.rest[0])<<8|int(h.rest[1]), len(h.rest)-2)
	if int64(n) > h.limit {
		return io.ErrShortBuffer
	}
	b.Reset()
	b.Write(h.rest[2 : 2+n])
	h.rest = h.rest[2+n:]
	return nil
}

func (h *hostile) Write(ctx context.Context, m []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = append(h.answers, string(m))
	return ctx.Err()
}

func (h *hostile) Limit(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = n
}

func (h *hostile) Ping(ctx context.Context) error { return ctx.Err() }
func (h *hostile) Close()                         {}
func (h *hostile) Break()                         {}

// echo runs commands: it writes its input to its output until it is told to end.
type echo struct{}

func (echo) ID() string { return "s000000000000" }

func (echo) Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error) {
	p := atoll.Process{ID: id}
	if err := cmd.Check(); err != nil {
		return p, atoll.Exit{}, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(cmd.Stdout, cmd.Stdin) // how it ends is the same to us
	}()
	select {
	case <-done:
		return p, atoll.Exit{}, nil
	case <-ctx.Done():
		return p, atoll.Exit{Code: 137}, ctx.Err()
	}
}

func (echo) StartProcess(_ context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	return atoll.Process{ID: id, Running: true}, cmd.Check()
}

func (echo) Attach(ctx context.Context, id string, a fleet.Attachment) (atoll.Exit, error) {
	_, exit, err := echo{}.Run(ctx, id, atoll.Cmd{Shell: "x", Stdin: a.Stdin, Stdout: a.Stdout})
	return exit, err
}

func (echo) Signal(context.Context, string, string) error { return nil }

func (echo) CanResume() bool { return true }

func (e echo) ResumeExec(ctx context.Context, cmd atoll.Cmd, from atoll.Resumption) (atoll.Exit, error) {
	var err error
	if cmd.Stdin, err = from.Stdin(0); err != nil {
		return atoll.Exit{}, err
	}
	_, exit, err := e.Run(ctx, cmd.ID, cmd)
	return exit, err
}

func script(messages ...string) []byte {
	var b []byte
	for _, m := range messages {
		b = append(b, byte(len(m)>>8), byte(len(m)))
		b = append(b, m...)
	}
	return b
}

// FuzzHostileClient: whatever a client sends, its command ends with it, nothing
// panics or hangs, and a broken protocol is told.
func FuzzHostileClient(f *testing.F) {
	start := "\x03{\"start\":{\"args\":[\"cat\"]}}"
	for _, s := range [][]byte{
		script(start, "\x00input", "\x03{\"eof\":true}"), script("\x03{\"start\":{\"args\":[\"x\"]},\"eof\":true}"),
		script(start, "\x03{\"cancel\":true}"), script(start, "\x03{\"signal\":\"INT\"}", "\x03{\"resize\":{\"rows\":3}}"), script(start, "\x03{\"ack\":1}"),
		script(start, start), script("\x03{\"start\":{\"args\":[\"x\"],\"detach\":true}}", "\x03{\"detach\":true}"), script("\x00"), script(""), script("\x03{}"),
		script("\x03{\"start\":{\"args\":[\"x\"],\"process\":\"p\",\"keep\":true}}", "\x00input"), script("\x03{\"start\":{\"args\":[\"x\"],\"process\":\"p\",\"keep\":true},\"resume\":{\"stdout\":-1}}", "\x00input"),
		script("\x03{\"start\":{\"args\":[\"x\"]},\"resume\":{}}"),
		script("\x03{\"start\":{\"args\":[\"x\"],\"stdin\":\"aGk=\",\"tty\":{}}}"), script(start, "\x00"+strings.Repeat("x", 40_000)), script(start, "\x07"),
		{0xff},
	} {
		f.Add(s, int64(0))
		f.Add(s, int64(10))
	}
	s := New(Options{})
	ctx := context.WithValue(context.Background(), callKey{}, &call{})
	f.Fuzz(func(t *testing.T, messages []byte, window int64) {
		h := &hostile{rest: messages, limit: 1 << 20}
		s.newExec(ctx, h, echo{}, max(window, 0)%wire.OutputWindow).serve(func(e *execStream) (*wire.Exit, error) {
			c, err := e.readStart(e.life, checkJSON)
			if err != nil {
				return nil, err
			}
			h.Limit(1 + wire.MaxPayload)
			if c.Detach {
				return e.start(c)
			}
			return e.run(c)
		})
		out := 0
		for _, a := range h.answers {
			if wire.Stream(a[0]) == wire.Stdout {
				out += len(a) - 1
			}
		}
		if out > len(messages) {
			t.Errorf("%d bytes came back of %d", out, len(messages))
		}
	})
}

// TestClientPassesItsWindow: more standard input than may be under way ends the
// command with the reason.
func TestClientPassesItsWindow(t *testing.T) {
	messages := []string{"\x03{\"start\":{\"args\":[\"x\"]}}"}
	for range 2 * wire.Window / wire.MaxPayload {
		messages = append(messages, "\x00"+strings.Repeat("x", wire.MaxPayload))
	}
	h := &hostile{rest: script(messages...), limit: 1 << 20}
	New(Options{}).newExec(context.WithValue(t.Context(), callKey{}, &call{}), h, deaf{}, 0).serve(func(e *execStream) (*wire.Exit, error) {
		c, err := e.readStart(e.life, checkJSON)
		if err != nil {
			return nil, err
		}
		return e.run(c)
	})
	if last := h.answers[len(h.answers)-1]; !strings.Contains(last, "unacknowledged") || !strings.Contains(last, `"kind":"invalid"`) {
		t.Errorf("the last word is %s", last)
	}
}

// deaf runs commands that read nothing.
type deaf struct{ echo }

func (deaf) Run(ctx context.Context, id string, _ atoll.Cmd) (atoll.Process, atoll.Exit, error) {
	<-ctx.Done()
	return atoll.Process{ID: id}, atoll.Exit{}, ctx.Err()
}

// checkJSON refuses a document that readers need not agree on.
func checkJSON(data []byte) error { return new(jsonChecker).check(data, nil) }
