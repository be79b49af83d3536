package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// How much of a command goes into a request that is not a stream, and how long
// the server may take to say how a command ended that was told to end.
const (
	maxInline = 64 << 10
	endGrace  = 30 * time.Second
)

// Exec runs a command to its end. A command without streams of its own is one
// request; others have a stream.
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	k := s.call("exec", "", "/exec")
	if err := cmd.Check(); err != nil {
		return atoll.Exit{}, k.fail(err)
	}
	if ctx.Err() != nil {
		return atoll.Exit{}, k.fail(ended(ctx))
	}
	w := wire.CommandOf(&cmd)
	w.Process = newProcessID()
	if stdin, ok := inline(cmd, w); ok {
		w.Stdin = stdin
		return s.execOnce(ctx, k, w)
	}
	return s.execStream(ctx, k, cmd, w)
}

func newProcessID() string { return "p" + atoll.NewID()[1:] }

// inline returns a command's standard input, if the command fits into one
// request and is to be answered by one answer.
func inline(cmd atoll.Cmd, w *wire.Command) ([]byte, bool) {
	if cmd.Stdout != nil || cmd.Stderr != nil || cmd.TTY != nil || cmd.Signals != nil || cmd.MaxOutput > wire.MaxKept || size(w) > maxInline {
		return nil, false
	}
	in, ok := cmd.Stdin.(interface {
		io.Reader
		Len() int
	})
	switch cmd.Stdin.(type) {
	case nil:
		return nil, true
	case *bytes.Reader, *strings.Reader, *bytes.Buffer:
	default:
		return nil, false
	}
	if !ok || in.Len() > maxInline {
		return nil, false
	}
	b := make([]byte, in.Len())
	n, err := io.ReadFull(in, b)
	return b[:n], err == nil || errors.Is(err, io.EOF)
}

// size is about how long a command is.
func size(w *wire.Command) int {
	n := len(w.Shell)
	if w.Raw != nil {
		return maxInline + 1
	}
	for _, list := range [][]string{w.Args, w.Env} {
		for _, a := range list {
			n += len(a) + 4
		}
	}
	return n
}

// buffers are reused for what comes in.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// release gives a buffer back, unless it has grown big.
func release(b *bytes.Buffer) {
	if b.Cap() <= 256<<10 {
		b.Reset()
		buffers.Put(b)
	}
}

// execOnce runs a command as one request. The request goes on when ctx is done:
// its answer then has what was written so far.
func (s *Sandbox) execOnce(ctx context.Context, k call, w *wire.Command) (atoll.Exit, error) {
	body, err := json.Marshal(w) // not from a pool: the transport may hold it longer than the call
	if err != nil {
		return atoll.Exit{}, k.fail(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	k.method, k.body, k.length = http.MethodPost, bytes.NewReader(body), int64(len(body))
	k.header = jsonHeader
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	answered := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer wg.Done()
		s.end(held, w.Process, answered)
		cancel(ended(ctx))
	})
	exit, err := s.answer(held, k)
	close(answered)
	if !stop() {
		wg.Wait()
		return exit, k.fail(ended(ctx))
	}
	return exit, err
}

// jsonHeader is that of a request with a body in JSON. Nobody changes it.
var jsonHeader = http.Header{"Content-Type": {"application/json"}}

// answer sends a command and reads how it ended.
func (s *Sandbox) answer(ctx context.Context, k call) (atoll.Exit, error) {
	resp, err := s.c.send(ctx, k)
	if err != nil {
		return atoll.Exit{}, err
	}
	defer resp.Body.Close()
	b := buffers.Get().(*bytes.Buffer)
	defer release(b)
	if _, err := b.ReadFrom(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return atoll.Exit{}, k.fail(s.c.broken(ctx, err))
	}
	var e wire.Exit
	if err := json.Unmarshal(b.Bytes(), &e); err != nil {
		return atoll.Exit{}, k.fail(fmt.Errorf("%w: %s does not answer like a server of sandboxes: %w", atoll.ErrUnavailable, s.c.host, err))
	}
	return exitOf(&e), k.named(e.Error.Err())
}

// exitOf reads an exit.
func exitOf(e *wire.Exit) atoll.Exit {
	return atoll.Exit{Code: e.Code, Signal: e.Signal, Stdout: e.Stdout, Stderr: e.Stderr, Truncated: e.Truncated, Duration: e.Duration}
}

// end ends a command whose caller has gone: it tells the server to, and waits
// for the answer of the request that runs it. The command may not be there yet.
func (s *Sandbox) end(ctx context.Context, process string, answered <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, endGrace)
	defer cancel()
	wait := time.Millisecond
	for {
		err := s.Kill(ctx, process)
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return
		}
		if err == nil {
			wait = endGrace
		}
		t := time.NewTimer(wait)
		select {
		case <-answered:
			t.Stop()
			return
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			wait *= 2
		}
	}
}
