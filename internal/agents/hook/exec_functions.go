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

func (r *execution) sandboxInfo(arguments) (any, error) {
	if r.scope.Sandbox == nil {
		return nil, fmt.Errorf("%w: there is no sandbox", atoll.ErrState)
	}
	s, err := r.scope.Sandbox.Status(r.ctx)
	if err != nil {
		return nil, err
	}
	return encodeJSON(s)
}

// parseCommand parses a command, a list or a text for a shell, and its options.
func (r *execution) parseCommand(a arguments) (*atoll.Cmd, error) {
	text, err := a.stringAt(0)
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
	options, err := a.stringAt(1)
	if err != nil {
		return nil, err
	}
	return cmd, r.parseOptions(cmd, options)
}

// parseOptions parses the options of a command.
func (r *execution) parseOptions(cmd *atoll.Cmd, text string) error {
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
	cmd.Timeout, err = parseTimeout(o.Timeout)
	return err
}

func parseTimeout(v json.RawMessage) (time.Duration, error) {
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
	return 0, fmt.Errorf("%w: timeout %s: must be milliseconds, or like \"10s\"", atoll.ErrInvalid, clipText(string(v), 40))
}

// exec is ctx.sandbox.Exec: it returns the standard output, or an error.
func (r *execution) exec(a arguments) (any, error) {
	cmd, err := r.parseCommand(a)
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
			text += ": " + clipText(string(s), 2000)
		}
		return nil, &scriptError{"exit", text, map[string]any{
			"exit_code": exit.Code, "stdout": clipText(string(exit.Stdout), maxChunk), "stderr": clipText(string(exit.Stderr), maxChunk),
		}}
	case exit.Truncated:
		return nil, fmt.Errorf("%w: %s wrote more than %d bytes; ctx.computer.Exec gives the first of them", atoll.ErrQuota, what, maxExec)
	}
	return string(exit.Stdout), nil
}

// execResult is the result of a command for a script.
type execResult struct {
	ExitCode  int    `json:"exit_code"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Millis    int64  `json:"duration_ms"`
	Error     string `json:"error"`
	Truncated bool   `json:"truncated"`
}

func newExecResult(e atoll.Exit, err error) execResult {
	x := execResult{e.Code, string(e.Stdout), string(e.Stderr), e.Duration.Milliseconds(), "", e.Truncated}
	if err != nil {
		x.Error = clipText(err.Error(), maxLogLine)
		if x.ExitCode == 0 {
			x.ExitCode = -1
		}
	}
	return x
}

// runCommand is ctx.computer.Exec: it returns the whole result of a command.
func (r *execution) runCommand(a arguments) (any, error) {
	cmd, err := r.parseCommand(a)
	if err != nil {
		return nil, err
	}
	return encodeJSON(newExecResult(r.scope.Sandbox.Exec(r.ctx, *cmd)))
}

// stream is a command whose output is passed to a callback.
type stream struct {
	chunks chan chunk    // never closed, since a writer may be late
	ended  chan struct{} // closed when the command has ended
	cancel context.CancelCauseFunc
	last   string // data of the last chunk
	exit   atoll.Exit
	err    error // valid, as exit, after ended is closed
}

type chunk struct{ kind, data string }

// errStopped cancels a command whose stream was stopped.
var errStopped = errors.New("stopped")

func (r *execution) startStream(a arguments) (any, error) {
	cmd, err := r.parseCommand(a)
	if err != nil {
		return nil, err
	}
	if len(r.streams) >= maxStreams {
		return nil, fmt.Errorf("%w: at most %d streams at once", atoll.ErrQuota, maxStreams)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	s := &stream{chunks: make(chan chunk), ended: make(chan struct{}), cancel: cancel}
	stdout, stderr := &chunkWriter{ctx: ctx, kind: "stdout", to: s.chunks}, &chunkWriter{ctx: ctx, kind: "stderr", to: s.chunks}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	go func() {
		defer close(s.ended)
		s.exit, s.err = r.scope.Sandbox.Exec(ctx, *cmd)
		stdout.flushRest()
		stderr.flushRest()
	}()
	if r.streams == nil {
		r.streams = make(map[int]*stream)
	}
	r.lastStream++
	r.streams[r.lastStream] = s
	return r.lastStream, nil
}

func (r *execution) findStream(a arguments) (*stream, error) {
	s := r.streams[int(a.numberAt(0))]
	if s == nil {
		return nil, fmt.Errorf("%w: stream %v", atoll.ErrNotFound, a.numberAt(0))
	}
	return s, nil
}

func (r *execution) streamNext(a arguments) (any, error) {
	s, err := r.findStream(a)
	if err != nil {
		return nil, err
	}
	select {
	case c := <-s.chunks:
		s.last = c.data
		return c.kind, nil
	case <-s.ended: // r.ctx ends it, too
		return "end", nil
	}
}

func (r *execution) streamData(a arguments) (any, error) {
	s, err := r.findStream(a)
	if err != nil {
		return nil, err
	}
	return s.last, nil
}

func (r *execution) streamStop(a arguments) (any, error) {
	s, err := r.findStream(a)
	if err == nil {
		s.stop()
	}
	return nil, err
}

// stop cancels the command, if it still runs, and waits for its end.
func (s *stream) stop() {
	s.cancel(errStopped)
	<-s.ended
}

func (r *execution) streamExit(a arguments) (any, error) {
	s, err := r.findStream(a)
	if err != nil {
		return nil, err
	}
	s.stop()
	delete(r.streams, int(a.numberAt(0)))
	return encodeJSON(newExecResult(s.exit, s.err))
}

// endStreams stops the commands that still run.
func (r *execution) endStreams() {
	for _, s := range r.streams {
		s.stop()
	}
	r.streams = nil
}

// chunkWriter splits a command's output into chunks of whole characters.
type chunkWriter struct {
	ctx  context.Context //nolint:containedctx // io.Writer has no parameter for it
	kind string
	to   chan<- chunk

	mu sync.Mutex

	rest []byte // the beginning of a character; guarded by mu
}

var _ io.Writer = (*chunkWriter)(nil)

func (f *chunkWriter) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(b)
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
		f.rest = nil
	}
	for len(b) > 0 {
		part := b[:min(len(b), maxChunk)]
		part = part[:len(part)-incompleteSuffix(part)]
		if len(part) == 0 {
			f.rest = bytes.Clone(b)
			break
		}
		if err := f.sendChunk(part); err != nil {
			return 0, err
		}
		b = b[len(part):]
	}
	return n, nil
}

func (f *chunkWriter) sendChunk(b []byte) error {
	select {
	case f.to <- chunk{f.kind, string(b)}:
		return nil
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}

// flushRest sends the last, incomplete character.
func (f *chunkWriter) flushRest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rest) > 0 {
		_ = f.sendChunk(f.rest) // the stream may be stopped
	}
}

// incompleteSuffix returns the number of bytes of an incomplete character at the end.
func incompleteSuffix(b []byte) int {
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
