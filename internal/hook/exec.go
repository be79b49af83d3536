package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

func (r *run) info(operands) (any, error) {
	if r.scope.Sandbox == nil {
		return nil, fmt.Errorf("%w: there is no sandbox", atoll.ErrState)
	}
	s, err := r.scope.Sandbox.Status(r.ctx)
	if err != nil {
		return nil, err
	}
	return encoded(s)
}

// command reads a command, as a list or as text for a shell, and its options.
func (r *run) command(a operands) (*atoll.Cmd, error) {
	text, err := a.text(0)
	if err != nil {
		return nil, err
	}
	if r.scope.Sandbox == nil {
		return nil, fmt.Errorf("%w: there is no sandbox", atoll.ErrState)
	}
	cmd := &atoll.Cmd{Dir: r.scope.Dir, MaxOutput: maxExec}
	if json.Unmarshal([]byte(text), &cmd.Args) != nil {
		cmd.Args = nil
		if err := json.Unmarshal([]byte(text), &cmd.Shell); err != nil {
			return nil, fmt.Errorf("%w: a command is a list of strings", atoll.ErrInvalid)
		}
	}
	if len(a) < 2 {
		return cmd, nil
	}
	options, err := a.text(1)
	if err != nil {
		return nil, err
	}
	return cmd, r.options(cmd, options)
}

// options reads what a command may be given besides.
func (r *run) options(cmd *atoll.Cmd, text string) error {
	var o struct {
		Dir       string            `json:"dir"`
		Workdir   string            `json:"workdir"`
		Env       map[string]string `json:"env"`
		Stdin     string            `json:"stdin"`
		Timeout   json.RawMessage   `json:"timeout"` // milliseconds, or "10s"
		MaxOutput int64             `json:"max_output"`
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("%w: the options of a command: %w", atoll.ErrInvalid, err)
	}
	if o.Dir == "" {
		o.Dir = o.Workdir
	}
	if o.Dir != "" && !strings.HasPrefix(o.Dir, "/") {
		o.Dir = path.Join(r.scope.Dir, o.Dir)
	}
	if o.Dir != "" {
		cmd.Dir = path.Clean(o.Dir)
	}
	for _, k := range slices.Sorted(maps.Keys(o.Env)) {
		cmd.Env = append(cmd.Env, k+"="+o.Env[k])
	}
	if o.Stdin != "" {
		cmd.Stdin = strings.NewReader(o.Stdin)
	}
	if o.MaxOutput > 0 {
		cmd.MaxOutput = min(o.MaxOutput, maxExec)
	}
	var err error
	cmd.Timeout, err = milliseconds(o.Timeout)
	return err
}

func milliseconds(v json.RawMessage) (time.Duration, error) {
	if len(v) == 0 || string(v) == "null" {
		return 0, nil
	}
	var ms float64
	var text string
	if json.Unmarshal(v, &ms) == nil && ms >= 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	if json.Unmarshal(v, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%w: timeout %s: must be milliseconds, or like \"10s\"", atoll.ErrInvalid, clip(string(v), 40))
}

// exec is ctx.sandbox.Exec: standard output, or an error.
func (r *run) exec(a operands) (any, error) {
	cmd, err := r.command(a)
	if err != nil {
		return nil, err
	}
	what := "command"
	if len(cmd.Args) > 0 {
		what = path.Base(cmd.Args[0])
	}
	exit, err := r.scope.Sandbox.Exec(r.ctx, *cmd)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case !exit.Success():
		text := fmt.Sprintf("%s: exit status %d", what, exit.Code)
		if s := bytes.TrimSpace(exit.Stderr); len(s) > 0 {
			text += ": " + clip(string(s), 2000)
		}
		return nil, &failure{"exit", text, map[string]any{
			"exit_code": exit.Code, "stdout": clip(string(exit.Stdout), maxChunk), "stderr": clip(string(exit.Stderr), maxChunk),
		}}
	case exit.Truncated:
		return nil, fmt.Errorf("%w: %s wrote more than %d bytes; ctx.computer.Exec gives the first of them", atoll.ErrQuota, what, maxExec)
	}
	return string(exit.Stdout), nil
}

// exited is what a script is told of a command that has ended.
type exited struct {
	ExitCode  int    `json:"exit_code"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Millis    int64  `json:"duration_ms"`
	Error     string `json:"error"`
	Truncated bool   `json:"truncated"`
}

func exitedOf(e atoll.Exit, err error) exited {
	x := exited{e.Code, string(e.Stdout), string(e.Stderr), e.Duration.Milliseconds(), "", e.Truncated}
	if err != nil {
		x.Error = clip(err.Error(), maxLogLine)
		if x.ExitCode == 0 {
			x.ExitCode = -1
		}
	}
	return x
}

// runCommand is ctx.computer.Exec: all that there is to say of a command.
func (r *run) runCommand(a operands) (any, error) {
	cmd, err := r.command(a)
	if err != nil {
		return nil, err
	}
	return encoded(exitedOf(r.scope.Sandbox.Exec(r.ctx, *cmd)))
}

// stream is a command whose output flows to a callback.
type stream struct {
	chunks chan chunk    // never closed: a writer may come too late
	ended  chan struct{} // closed when the command has ended
	cancel context.CancelCauseFunc
	last   string // data of the chunk that was told of
	exit   atoll.Exit
	err    error // as exit, to be read when it has ended
}

type chunk struct{ kind, data string }

// errStopped ends a command whose output nobody wants any more.
var errStopped = errors.New("stopped")

func (r *run) streamBegin(a operands) (any, error) {
	cmd, err := r.command(a)
	if err != nil {
		return nil, err
	}
	if len(r.streams) >= maxStreams {
		return nil, fmt.Errorf("%w: at most %d streams at once", atoll.ErrQuota, maxStreams)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	s := &stream{chunks: make(chan chunk), ended: make(chan struct{}), cancel: cancel}
	stdout, stderr := &flow{ctx: ctx, kind: "stdout", to: s.chunks}, &flow{ctx: ctx, kind: "stderr", to: s.chunks}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	go func() {
		defer close(s.ended)
		s.exit, s.err = r.scope.Sandbox.Exec(ctx, *cmd)
		stdout.end()
		stderr.end()
	}()
	if r.streams == nil {
		r.streams = make(map[int]*stream)
	}
	r.lastStream++
	r.streams[r.lastStream] = s
	return r.lastStream, nil
}

func (r *run) stream(a operands) (*stream, error) {
	s := r.streams[int(a.number(0))]
	if s == nil {
		return nil, fmt.Errorf("%w: stream %v", atoll.ErrNotFound, a.number(0))
	}
	return s, nil
}

func (r *run) streamNext(a operands) (any, error) {
	s, err := r.stream(a)
	if err != nil {
		return nil, err
	}
	select {
	case c := <-s.chunks:
		s.last = c.data
		return c.kind, nil
	case <-s.ended: // at the latest with r.ctx
		return "end", nil
	}
}

func (r *run) streamData(a operands) (any, error) {
	s, err := r.stream(a)
	if err != nil {
		return nil, err
	}
	return s.last, nil
}

func (r *run) streamStop(a operands) (any, error) {
	s, err := r.stream(a)
	if err == nil {
		s.stop()
	}
	return nil, err
}

// stop ends the command, if it still runs, and waits for its end.
func (s *stream) stop() {
	s.cancel(errStopped)
	<-s.ended
}

func (r *run) streamExit(a operands) (any, error) {
	s, err := r.stream(a)
	if err != nil {
		return nil, err
	}
	s.stop()
	delete(r.streams, int(a.number(0)))
	return encoded(exitedOf(s.exit, s.err))
}

// endStreams ends what the script left behind.
func (r *run) endStreams() {
	for _, s := range r.streams {
		s.stop()
	}
	r.streams = nil
}

// flow cuts what a command writes into chunks of whole characters.
type flow struct {
	ctx  context.Context //nolint:containedctx // a writer has no other
	kind string
	to   chan<- chunk

	mu sync.Mutex

	rest []byte // the beginning of a character; guarded by mu
}

var _ io.Writer = (*flow)(nil)

func (f *flow) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(b)
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
		f.rest = nil
	}
	for len(b) > 0 {
		part := b[:min(len(b), maxChunk)]
		part = part[:len(part)-unfinished(part)]
		if len(part) == 0 {
			f.rest = bytes.Clone(b)
			break
		}
		if err := f.send(part); err != nil {
			return 0, err
		}
		b = b[len(part):]
	}
	return n, nil
}

func (f *flow) send(b []byte) error {
	select {
	case f.to <- chunk{f.kind, string(b)}:
		return nil
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}

// end sends what is left.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rest) > 0 {
		_ = f.send(f.rest) // nobody listens: nobody misses it
	}
}

// unfinished returns how many bytes at the end begin a character without
// ending it.
func unfinished(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}
