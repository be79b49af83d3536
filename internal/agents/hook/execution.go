package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/atoll-sandbox/atoll"
)

// Call calls a function of the script with ctx and args, and returns its result as
// JSON; undefined is nil. An exception is a *ThrownError, a passed time limit
// ErrTimeout, an unknown function ErrNotFound. When Call returns, nothing of the
// call runs any more, unless the engine can't be interrupted: it then continues
// without access to the host, and occupies one of the script's slots until it ends.
func (s *Script) Call(ctx context.Context, function string, sc *Scope, args ...any) (json.RawMessage, error) {
	if !s.HasFunction(function) {
		return nil, fmt.Errorf("%w: %s has no function %s", atoll.ErrNotFound, s.name, function)
	}
	if sc == nil {
		sc = &Scope{}
	}
	if sc.Sandbox != nil && sc.Dir == "" {
		sc = sc.withDir(ctx)
	}
	world, list, err := encodeArguments(sc, args)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", function, err)
	}
	r := &execution{script: s, function: function, scope: sc, limits: sc.Limits.withDefaults()}
	out, err := r.runLimited(ctx, func() (string, error) { return r.callFunction(world, list) })
	if err != nil || out == "" {
		return nil, err
	}
	if len(out) > maxResult || !json.Valid([]byte(out)) {
		return nil, fmt.Errorf("%w: hook %s returns %d bytes; it must return at most %d bytes of JSON", atoll.ErrInvalid, function, len(out), maxResult)
	}
	return json.RawMessage(out), nil
}

// encodeArguments encodes ctx and the arguments of a hook.
func encodeArguments(sc *Scope, args []any) (world, list string, err error) {
	type place struct {
		ID      string `json:"id"`
		Workdir string `json:"workdir"`
	}
	w := struct {
		Values  map[string]any `json:"values"`
		Sandbox *place         `json:"sandbox,omitempty"`
	}{Values: sc.Values}
	if w.Values == nil {
		w.Values = map[string]any{}
	}
	if sc.Sandbox != nil {
		w.Sandbox = &place{sc.Sandbox.ID(), sc.Dir}
	}
	if args == nil {
		args = []any{}
	}
	a, err := json.Marshal(w)
	if err != nil {
		return "", "", fmt.Errorf("ctx: %w", err)
	}
	b, err := json.Marshal(args)
	if err != nil {
		return "", "", fmt.Errorf("arguments: %w", err)
	}
	if len(a)+len(b) > maxArgs {
		return "", "", fmt.Errorf("%w: %d bytes of messages and metadata are too many for a hook: at most %d", atoll.ErrInvalid, len(a)+len(b), maxArgs)
	}
	return string(a), string(b), nil
}

// withDir returns the scope with the sandbox's own directory.
func (sc *Scope) withDir(ctx context.Context) *Scope {
	at := *sc
	at.Dir = atoll.DefaultDir
	exit, err := sc.Sandbox.Exec(ctx, atoll.Cmd{Args: []string{"pwd"}, MaxOutput: maxKey})
	if dir := strings.TrimSpace(string(exit.Stdout)); err == nil && strings.HasPrefix(dir, "/") {
		at.Dir = dir
	}
	return &at
}

// execution is one call of a hook. It is used by one goroutine.
type execution struct {
	script   *Script
	function string
	scope    *Scope
	limits   Limits

	ctx       context.Context //nolint:containedctx // the engine's callbacks have no parameter for it
	vm        *quickjs.VM
	driver    quickjs.Value
	timer     scriptTimer
	startedAt time.Time
	memory    Memory
	streams   map[int]*stream

	lastStream, lastMessage, logLines int
}

// errTotal is the cause of the end of a call that passed Limits.Total.
var errTotal = errors.New("passed its time")

// grace is how long the engine may take to notice an interrupt. It checks at loop
// iterations and function calls, not inside its own functions, such as a search in
// an endless array.
const grace = 2 * time.Second

// runLimited runs f in a new engine, when a slot is free.
func (r *execution) runLimited(ctx context.Context, f func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Total, errTotal)
	defer cancel()
	r.ctx, r.startedAt = ctx, time.Now()
	select {
	case r.script.slots <- struct{}{}:
	case <-ctx.Done():
		return "", r.explainError(ctx.Err())
	}
	type outcome struct {
		text string
		err  error
	}
	done := make(chan outcome, 1)
	r.timer.stuck = make(chan struct{})
	go func() {
		defer func() { <-r.script.slots }()
		text, err := r.runInEngine(f)
		done <- outcome{text, err}
	}()
	select {
	case o := <-done:
		return o.text, o.err
	case <-r.timer.stuck:
		return "", r.explainError(errStuck)
	}
}

var errStuck = errors.New("the engine can't be interrupted")

// runInEngine creates the engine and runs the script's top level, then f. A panic of
// the engine is returned as an error.
func (r *execution) runInEngine(f func() (string, error)) (out string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: hook %s of %s: the JavaScript engine failed: %v", atoll.ErrUnavailable, r.function, r.script.name, v)
		}
	}()
	if r.vm, err = quickjs.NewVM(); err != nil {
		return "", fmt.Errorf("%w: a JavaScript engine: %w", atoll.ErrUnavailable, err)
	}
	defer func() {
		if cerr := r.vm.Close(); err == nil {
			err = cerr
		}
	}()
	defer r.endStreams()
	r.vm.SetMemoryLimit(uintptr(r.limits.Memory))
	r.vm.SetCanBlock(false)
	if err := r.vm.RegisterHostFunc("__host", r.callHost); err != nil {
		return "", err
	}
	r.timer.start(r.limits.Time, r.vm.Interrupt)
	defer r.timer.stopCounting()
	defer context.AfterFunc(r.ctx, r.timer.stop)()
	defer r.endLog()
	if r.driver, err = r.vm.EvalValue(r.script.code, quickjs.EvalGlobal); err != nil {
		return "", r.explainError(err)
	}
	defer r.driver.Free()
	if err := r.explainError(nil); err != nil {
		return "", err
	}
	return f()
}

// functionNames returns the names of the script's functions, as JSON.
func (r *execution) functionNames(ctx context.Context) (string, error) {
	return r.runLimited(ctx, func() (string, error) { return r.askScript("names") })
}

// callFunction calls the function and waits for its result.
func (r *execution) callFunction(world, args string) (string, error) {
	if _, err := r.askScript("begin", r.function, world, args); err != nil {
		return "", err
	}
	state, err := r.waitForResult()
	switch {
	case err != nil:
		return "", err
	case state == "thrown":
		return "", r.readThrown()
	}
	return r.askScript("result")
}

// waitForResult runs jobs and timers until the function has returned or thrown.
func (r *execution) waitForResult() (string, error) {
	for {
		n, err := r.vm.ExecutePendingJobs()
		if err := r.explainError(err); err != nil {
			return "", err
		}
		state, err := r.askScript("state")
		if err != nil || state != "pending" {
			return state, err
		}
		if n > 0 {
			continue
		}
		due, err := r.askScriptNumber("due")
		if err != nil {
			return "", err
		}
		if due < 0 {
			return "", &ThrownError{Message: "hook " + r.function + " waits for a promise that is never settled"}
		}
		if err := r.sleepUncounted(time.Duration(due*1e6) - time.Since(r.startedAt)); err != nil {
			return "", err
		}
		if _, err := r.askScript("fire"); err != nil {
			return "", err
		}
	}
}

// sleepUncounted waits without counting the time as the script's.
func (r *execution) sleepUncounted(d time.Duration) error {
	r.timer.pauseTimer()
	defer r.timer.resumeTimer()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return r.explainError(r.ctx.Err())
	}
}

// askScript calls the prelude's driver; the result is a text, or undefined.
func (r *execution) askScript(op string, args ...any) (string, error) {
	v, err := r.driver.Call(quickjs.UndefinedValue, append([]any{op}, args...)...)
	if err := r.explainError(err); err != nil {
		return "", err
	}
	s, _ := v.(string) // undefined: empty
	return s, nil
}

func (r *execution) askScriptNumber(op string) (float64, error) {
	v, err := r.driver.Call(quickjs.UndefinedValue, op)
	if err := r.explainError(err); err != nil {
		return 0, err
	}
	switch n := v.(type) {
	case int:
		return float64(n), nil
	case float64:
		return n, nil
	}
	return -1, nil
}

// explainError returns the cause of a failed call of the engine: a passed limit
// first, for which the engine's own error is only "interrupted".
func (r *execution) explainError(err error) error {
	switch {
	case r.timer.isExpired():
		return fmt.Errorf("%w: hook %s of %s ran for more than %v", atoll.ErrTimeout, r.function, r.script.name, r.limits.Time)
	case r.ctx.Err() != nil && errors.Is(context.Cause(r.ctx), errTotal):
		return fmt.Errorf("%w: hook %s of %s took more than %v", atoll.ErrTimeout, r.function, r.script.name, r.limits.Total)
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case err == nil:
		return nil
	}
	var e *quickjs.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("hook %s: %w", r.function, err)
	}
	text := e.Message
	if text == "" {
		text = e.Error()
	}
	return &ThrownError{Message: clipText(explainThrown(text), maxLogLine), Stack: r.script.lines.rewriteStack(e.Stack)}
}

// readThrown returns the exception of the function.
func (r *execution) readThrown() error {
	text, err := r.askScript("failure")
	if err != nil {
		return err
	}
	var t struct {
		Message string          `json:"message"`
		Stack   string          `json:"stack"`
		Value   json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return &ThrownError{Message: "the hook's exception can't be decoded"}
	}
	if len(t.Value) > maxLogLine {
		t.Value = nil
	}
	return &ThrownError{Message: clipText(explainThrown(t.Message), maxLogLine), Stack: r.script.lines.rewriteStack(t.Stack), Value: t.Value}
}

// explainThrown explains the exceptions that the engine throws without memory.
func explainThrown(text string) string {
	switch text {
	case "thrown: null", "null", "thrown: a value that can't be shown":
		return text + ", as when there is no memory left"
	}
	return text
}

// stackPlace matches a line of a stack that sourceMap.rewriteStack wrote.
var stackPlace = regexp.MustCompile(`\((.*):(\d+):(\d+)\)\n`)

func parseDigits(s string) int {
	n, _ := strconv.Atoi(s) // can't fail for matched digits
	return n
}

// clipText cuts a text to n bytes and marks the cut.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
