package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// hostile is a server that sends what it likes: messages, each behind its length
// in two bytes, and then breaks off.
type hostile struct {
	mu   sync.Mutex
	rest []byte // guarded by mu
	sent int    // guarded by mu; bytes that the client sent
}

func (h *hostile) Read(ctx context.Context, b *bytes.Buffer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || len(h.rest) < 2 {
		return errors.Join(io.ErrUnexpectedEOF, ctx.Err())
	}
	n := min(int(h.rest[0])<<8|int(h.rest[1]), len(h.rest)-2)
	b.Reset()
	b.Write(h.rest[2 : 2+n])
	h.rest = h.rest[2+n:]
	return nil
}

func (h *hostile) Write(ctx context.Context, m []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent += len(m)
	return ctx.Err()
}

func (h *hostile) Ping(ctx context.Context) error { return ctx.Err() }
func (h *hostile) Close()                         {}

// script writes messages as a hostile sends them.
func script(messages ...string) []byte {
	var b []byte
	for _, m := range messages {
		b = append(b, byte(len(m)>>8), byte(len(m)))
		b = append(b, m...)
	}
	return b
}

// FuzzHostileServer: whatever a server sends, a command ends, nothing panics, and
// no more is held than the windows allow.
func FuzzHostileServer(f *testing.F) {
	for _, s := range [][]byte{
		script("\x03{\"process\":{\"id\":\"p\"}}", "\x01out", "\x02err", "\x03{\"exit\":{\"code\":3}}"),
		script("\x03{\"exit\":{\"code\":0,\"error\":{\"title\":\"timed out\",\"kind\":\"timeout\"}}}"),
		script("\x03{\"ack\":1}"), script("\x03{\"ack\":-1}"), script("\x03{\"lost\":9}", "\x03{\"exit\":{}}"), script("\x03{\"exit\":null}"),
		script(""), script("\x00x"), script("\xff"), script("\x03{"), script("\x03[]"), script("\x01" + strings.Repeat("x", 40_000)),
		{0xff},
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, messages []byte, own bool) {
		h := &hostile{rest: messages}
		cmd := atoll.Cmd{Shell: "x", Stdin: strings.NewReader("input"), MaxOutput: 1000}
		var out, errs bytes.Buffer
		if own {
			cmd.Stdout, cmd.Stderr = &out, &errs
		}
		st := newStream(&Client{host: "test"}, call{op: "exec", id: "s"}, h, cmd)
		st.lost = func(int64) {}
		exit, err := st.runCommand(context.Background(), &wire.ClientControl{Start: wire.CommandOf(&cmd)})
		if err == nil && !bytes.Contains(messages, []byte{byte(wire.Control)}) {
			t.Error("a command ended well that the server never said to have ended")
		}
		var fault *atoll.Error
		if err != nil && !errors.As(err, &fault) {
			t.Errorf("the error %#v names neither operation nor object", err)
		}
		if len(exit.Stdout) > 1000 || len(exit.Stderr) > 1000 || out.Len()+errs.Len() > len(messages) {
			t.Errorf("%d, %d, %d, %d bytes of output", len(exit.Stdout), len(exit.Stderr), out.Len(), errs.Len())
		}
	})
}

// TestServerExceedsWindow sends more output than may be under way to a client
// whose writer takes none.
func TestServerExceedsWindow(t *testing.T) {
	var flood []string
	for range 2 * wire.OutputWindow / wire.MaxPayload {
		flood = append(flood, "\x01"+strings.Repeat("x", wire.MaxPayload))
	}
	r, w := io.Pipe()
	defer r.Close()
	st := newStream(&Client{host: "test"}, call{op: "exec"}, &hostile{rest: script(flood...)}, atoll.Cmd{Stdout: w})
	if _, err := st.runCommand(t.Context(), nil); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("run: %v", err)
	}
	if held := st.bytes.Len(); held > wire.OutputWindow {
		t.Errorf("%d bytes are held", held)
	}
}

// FuzzEvents: whatever a stream of events holds, reading it ends, and no event is
// longer than the bound.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"", "id: 1\nevent: x\ndata: {}\n\n", ": comment\n\ndata: a\ndata: b\n\n", "data\n\n", "data: cut", "\r\n\r\n", "data:x\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := readEvents(bytes.NewReader(b), func(e serverEvent) error {
			if len(e.data) > maxEvent {
				t.Errorf("an event of %d bytes", len(e.data))
			}
			return nil
		})
		if err == nil {
			t.Error("a stream without an end")
		}
	})
}

func TestReadEvents(t *testing.T) {
	var got []string
	err := readEvents(strings.NewReader(": hi\n\nid: 7\nevent: a\ndata: one\ndata:two\n\ndata\n\nevent: none\n\ndata: cut"), func(e serverEvent) error {
		got = append(got, e.id+"|"+e.kind+"|"+string(e.data))
		return nil
	})
	if !errors.Is(err, io.EOF) || strings.Join(got, ";") != "7|a|one\ntwo;||" {
		t.Errorf("%q, %v", got, err)
	}
	err = readEvents(io.MultiReader(strings.NewReader("data: "), endless{}), func(serverEvent) error { return nil })
	if !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a line without an end: %v", err)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
