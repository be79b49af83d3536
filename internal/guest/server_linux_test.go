package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// harmless is a guest that starts nothing: for hosts that send anything.
func harmless() *Server {
	s := &Server{}
	s.init()
	s.ops = map[Op]handler{
		OpReady: func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { sendAnswer(st, nil) },
		OpExec: func(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
			_, err := q.parseCommand()
			sendAnswer(st, err)
			x := &execution{command: &command{process: &process{s: s, done: true}}, st: st, onHostGone: func() {}}
			x.stdin = wire.NewPipe(stdinWindow, nil)
			x.handleFrames()
		},
		OpListen: func(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
			var b listenBody
			if err := q.DecodeBody(&b); err == nil && b.Network == "unix" {
				sendAnswer(st, atoll.ErrUnsupported) // it would be anywhere
				return
			}
			s.listen(ctx, h, st, q)
		},
	}
	return s
}

// FuzzGuest gives a guest what a host may send: on a channel, and below.
func FuzzGuest(f *testing.F) {
	for _, q := range []*Request{
		{Op: OpReady},
		{Op: OpExec, Command: wire.CommandOf(&atoll.Cmd{Args: []string{"a", "\xff"}, TTY: &atoll.TTY{}})},
		{Op: "other", Body: json.RawMessage("1")},
		{Op: OpListen, Body: json.RawMessage(`{"id":1,"network":"tcp","address":"localhost:0"}`)},
		{Op: OpListen, Body: json.RawMessage(`{"id":-1,"network":"tcp","address":"0.0.0.0:0"}`)},
	} {
		b, _ := json.Marshal(q)
		b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
		f.Add(append(b, frames(FrameStdin, "in", FrameSignal, "TERM", FrameResize, `{"rows":1}`, FrameKill, "", FrameStdin, "")...), false)
	}
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, below bool) {
		s := harmless()
		defer s.Close()
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.ServeConn(theirs)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if below {
			if _, err := readFirstLine(ours, 64); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, ours) }()
			_, _ = ours.Write(b)
			_ = ours.Close()
		} else {
			c, err := Connect(ctx, ours, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if st, err := c.mux.OpenStream(ctx); err == nil {
				_, _ = st.Write(b)
				_ = st.CloseWrite()
				_ = st.SetReadDeadline(time.Now().Add(5 * time.Second))
				_, _ = io.Copy(io.Discard, st)
			}
			if err := c.Call(ctx, OpReady, nil, nil); err != nil {
				t.Errorf("afterwards the guest does not answer: %v", err)
			}
			_ = c.Close()
		}
		select {
		case <-served:
		case <-ctx.Done():
			t.Error("the guest still serves a connection that is closed")
		}
	})
}

// TestNothingIsLeftBehind counts goroutines and descriptors of both ends after
// commands of every kind.
func TestNothingIsLeftBehind(t *testing.T) {
	s := &Server{}
	defer s.Close()
	round := func() {
		a, b, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.ServeConn(b) })
		c, err := Connect(t.Context(), a, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, cmd := range []atoll.Cmd{
			{Args: []string{"true"}},
			{Args: []string{"no-such-program"}},
			{Shell: "cat", Stdin: strings.NewReader("in")},
			{Shell: "sleep 60 & echo x", Stdin: bytes.NewReader(make([]byte, 1<<20)), Stdout: io.Discard},
			{Shell: "stty size", TTY: &atoll.TTY{}, Signals: make(chan string)},
			{Shell: "sleep 60", Timeout: 20 * time.Millisecond},
			{Shell: "sleep 60", Timeout: 20 * time.Millisecond, TTY: &atoll.TTY{}},
			{Args: []string{"true"}, Dir: "/no/such"},
			{Args: []string{"true"}, User: "no-such-user"},
			{Shell: "true #" + strings.Repeat("x", maxArgBytes)},
		} {
			_, _ = c.Exec(t.Context(), cmd) // how they end is of other tests
		}
		_ = c.Close()
		wg.Wait()
	}
	round()
	settled(t, "goroutines", runtime.NumGoroutine, round)
	settled(t, "descriptors", func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}, round)
}

// settled fails when a number grows with each round.
func settled(t *testing.T, what string, count func() int, round func()) {
	t.Helper()
	before := count()
	for range 5 {
		round()
	}
	deadline := time.Now().Add(time.Minute)
	for count() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d %s became %d\n%s", before, what, count(), buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched() // what is ending
	}
}

func TestGuardLetsOneThrough(t *testing.T) {
	allow := []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f} // return ALLOW
	if _, err := prependCloneRule(allow[:7], 1); err == nil {
		t.Error("half an instruction is taken")
	}
	prog, err := prependCloneRule(allow, 0x1122334455667788)
	if err != nil || len(prog) != 10 {
		t.Fatalf("got %d instructions, %v", len(prog), err)
	}
	for i, ins := range prog[:9] {
		if ins.Jf != 0 && i+1+int(ins.Jf) != 9 {
			t.Errorf("instruction %d jumps to %d, not to the filter", i, i+1+int(ins.Jf))
		}
	}
}
