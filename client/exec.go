package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxInline limits the bytes of a command that is sent in one request instead of a stream;
// endGrace is how long the server may take to report the exit of a cancelled command.
const (
	maxInline = 64 << 10
	endGrace  = 30 * time.Second
)

// Exec runs a command until it exits. A command without streams is one
// request; others use a WebSocket.
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	k := s.newCall("exec", "", "/exec")
	if err := cmd.Check(); err != nil {
		return atoll.Exit{}, k.wrapError(err)
	}
	if ctx.Err() != nil {
		return atoll.Exit{}, k.wrapError(contextError(ctx))
	}
	w := wire.CommandOf(&cmd)
	if w.Process = cmd.ID; w.Process == "" {
		w.Process = newProcessID()
	}
	w.Keep = s.Has((*atoll.CommandResumer)(nil))
	stdin, ok := inlineInput(cmd, w)
	if !ok {
		return s.execStream(ctx, k, cmd, w)
	}
	w.Stdin = stdin
	if cmd.ID != "" && w.Keep {
		return s.execStream(ctx, k, cmd, w) // its caller may leave it
	}
	exit, err := s.execOnce(ctx, k, w)
	var lost *lostError
	if !errors.As(err, &lost) || ctx.Err() != nil {
		return exit, err
	}
	if len(stdin) > 0 {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	w.Stdin = nil
	return s.resumeExec(ctx, k, cmd, w, err)
}

func newProcessID() string { return "p" + atoll.NewID()[1:] }

// inlineInput returns a command's standard input and reports whether the command can
// be run by one request and answered by one response.
func inlineInput(cmd atoll.Cmd, w *wire.Command) ([]byte, bool) {
	if cmd.Stdout != nil || cmd.Stderr != nil || cmd.TTY != nil || cmd.Signals != nil || cmd.MaxOutput > wire.MaxInlineOutput || commandSize(w) > maxInline {
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

// commandSize estimates the size of a command in bytes.
func commandSize(w *wire.Command) int {
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

// buffers pools the buffers of responses and messages.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// releaseBuffer returns a buffer to the pool, unless it has grown large.
func releaseBuffer(b *bytes.Buffer) {
	if b.Cap() <= 256<<10 {
		b.Reset()
		buffers.Put(b)
	}
}

// execOnce runs a command as one request. When ctx is done it kills the command and waits for
// the response, which holds the output so far.
func (s *Sandbox) execOnce(ctx context.Context, k call, w *wire.Command) (atoll.Exit, error) {
	body, err := json.Marshal(w) // not pooled: the transport may use it after the call
	if err != nil {
		return atoll.Exit{}, k.wrapError(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	k.method, k.body, k.length = http.MethodPost, bytes.NewReader(body), int64(len(body))
	k.header = jsonContent
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	answered := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer wg.Done()
		s.killAbandoned(held, w.Process, answered)
		cancel(contextError(ctx))
	})
	exit, err := s.execRequest(held, k)
	close(answered)
	if !stop() {
		wg.Wait()
		return exit, k.wrapError(contextError(ctx))
	}
	return exit, err
}

// jsonContent is the header of a request with a JSON body. It must not be changed.
var jsonContent = http.Header{"Content-Type": {"application/json"}}

// execRequest sends a command and reads its exit.
func (s *Sandbox) execRequest(ctx context.Context, k call) (atoll.Exit, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { sent.Store(i.Err == nil) }})
	resp, err := s.c.sendCall(traced, k)
	if err != nil {
		if sent.Load() && errors.Is(err, atoll.ErrUnavailable) {
			err = &lostError{err}
		}
		return atoll.Exit{}, err
	}
	defer resp.Body.Close()
	b := buffers.Get().(*bytes.Buffer)
	defer releaseBuffer(b)
	if _, err := b.ReadFrom(io.LimitReader(resp.Body, maxResponse)); err != nil {
		return atoll.Exit{}, &lostError{k.wrapError(s.c.transportError(ctx, err))}
	}
	var e wire.Exit
	if err := json.Unmarshal(b.Bytes(), &e); err != nil {
		return atoll.Exit{}, k.wrapError(fmt.Errorf("%w: %s does not answer like an atoll server: %w", atoll.ErrUnavailable, s.c.host, err))
	}
	return toExit(&e), k.wrapServerError(e.Error.Err())
}

// lostError is the error of a connection that was lost while a command may run.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// toExit converts an exit of the wire protocol.
func toExit(e *wire.Exit) atoll.Exit {
	return atoll.Exit{Code: e.Code, Signal: e.Signal, Stdout: e.Stdout, Stderr: e.Stderr, Truncated: e.Truncated, Duration: e.Duration}
}

// killAbandoned kills a command whose caller has given up, and waits
// until its request is answered. It retries while the command has not started yet.
func (s *Sandbox) killAbandoned(ctx context.Context, process string, answered <-chan struct{}) {
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
