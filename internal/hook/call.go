package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"modernc.org/quickjs"

	"github.com/atoll-sandbox/atoll"
)

// Call calls a function of the script with ctx and args, and returns what it
// returns, as JSON; undefined is nil. What the function throws is a *Thrown;
// one that passes a limit of time is ErrTimeout; one that the script does not
// have is ErrNotFound. When Call returns, nothing of it runs any more, unless
// the engine itself can't be interrupted: it then goes on by itself, without a
// way to the host, and takes one of the places for calls until it ends.
func (s *Script) Call(ctx context.Context, function string, sc *Scope, args ...any) (json.RawMessage, error) {
	if !s.Has(function) {
		return nil, fmt.Errorf("%w: %s has no function %s", atoll.ErrNotFound, s.name, function)
	}
	if sc == nil {
		sc = &Scope{}
	}
	if sc.Sandbox != nil && sc.Dir == "" {
		sc = sc.placed(ctx)
	}
	world, list, err := given(sc, args)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", function, err)
	}
	r := &run{script: s, function: function, scope: sc, limits: sc.Limits.effective()}
	out, err := r.guard(ctx, func() (string, error) { return r.begin(world, list) })
	if err != nil || out == "" {
		return nil, err
	}
	if len(out) > maxResult || !json.Valid([]byte(out)) {
		return nil, fmt.Errorf("%w: hook %s returns %d bytes: at most %d of JSON", atoll.ErrInvalid, function, len(out), maxResult)
	}
	return json.RawMessage(out), nil
}

// given writes down what a hook gets.
func given(sc *Scope, args []any) (world, list string, err error) {
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

// placed returns the scope with the sandbox's own directory.
func (sc *Scope) placed(ctx context.Context) *Scope {
	at := *sc
	at.Dir = atoll.DefaultDir
	exit, err := sc.Sandbox.Exec(ctx, atoll.Cmd{Args: []string{"pwd"}, MaxOutput: maxKey})
	if dir := strings.TrimSpace(string(exit.Stdout)); err == nil && strings.HasPrefix(dir, "/") {
		at.Dir = dir
	}
	return &at
}

// run is one call. It belongs to one goroutine.
type run struct {
	script   *Script
	function string
	scope    *Scope
	limits   Limits

	ctx     context.Context //nolint:containedctx // of this call: the engine calls back without one
	vm      *quickjs.VM
	drive   quickjs.Value
	clock   clock
	begun   time.Time
	memory  Memory
	streams map[int]*stream

	lastStream, lastMessage, logLines int
}

// errTotal ends a call that passed Limits.Total.
var errTotal = errors.New("passed its time")

// grace is how long the engine may take to notice that it is to end. It looks
// when a loop begins again and when a function is called, not within one of its
// own functions, such as a search in an endless array.
const grace = 2 * time.Second

// guard runs f in an engine of its own, when there is a place for it.
func (r *run) guard(ctx context.Context, f func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Total, errTotal)
	defer cancel()
	r.ctx, r.begun = ctx, time.Now()
	select {
	case r.script.slots <- struct{}{}:
	case <-ctx.Done():
		return "", r.failed(ctx.Err())
	}
	type outcome struct {
		text string
		err  error
	}
	done := make(chan outcome, 1)
	r.clock.stuck = make(chan struct{})
	go func() {
		defer func() { <-r.script.slots }()
		text, err := r.open(f)
		done <- outcome{text, err}
	}()
	select {
	case o := <-done:
		return o.text, o.err
	case <-r.clock.stuck:
		return "", r.failed(errStuck)
	}
}

var errStuck = errors.New("the engine can't be interrupted")

// open makes the engine and runs the script's outermost level, then f. A failure
// of the engine itself is an error like others.
func (r *run) open(f func() (string, error)) (out string, err error) {
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
	if err := r.vm.RegisterHostFunc("__host", r.host); err != nil {
		return "", err
	}
	r.clock.start(r.limits.Time, r.vm.Interrupt)
	defer r.clock.end()
	defer context.AfterFunc(r.ctx, r.clock.stop)()
	defer r.endLog()
	if r.drive, err = r.vm.EvalValue(r.script.code, quickjs.EvalGlobal); err != nil {
		return "", r.failed(err)
	}
	defer r.drive.Free()
	if err := r.failed(nil); err != nil {
		return "", err
	}
	return f()
}

// names returns the names of the script's functions, as JSON.
func (r *run) names(ctx context.Context) (string, error) {
	return r.guard(ctx, func() (string, error) { return r.ask("names") })
}

// begin calls the function and waits for its end.
func (r *run) begin(world, args string) (string, error) {
	if _, err := r.ask("begin", r.function, world, args); err != nil {
		return "", err
	}
	state, err := r.settle()
	switch {
	case err != nil:
		return "", err
	case state == "thrown":
		return "", r.thrown()
	}
	return r.ask("result")
}

// settle runs jobs and timers until the function has returned or thrown.
func (r *run) settle() (string, error) {
	for {
		n, err := r.vm.ExecutePendingJobs()
		if err := r.failed(err); err != nil {
			return "", err
		}
		state, err := r.ask("state")
		if err != nil || state != "pending" {
			return state, err
		}
		if n > 0 {
			continue
		}
		due, err := r.askNumber("due")
		if err != nil {
			return "", err
		}
		if due < 0 {
			return "", &Thrown{Message: "hook " + r.function + " waits for a promise that nobody keeps"}
		}
		if err := r.sleep(time.Duration(due*1e6) - time.Since(r.begun)); err != nil {
			return "", err
		}
		if _, err := r.ask("fire"); err != nil {
			return "", err
		}
	}
}

// sleep waits, which is not the script's time.
func (r *run) sleep(d time.Duration) error {
	r.clock.pause()
	defer r.clock.resume()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return r.failed(r.ctx.Err())
	}
}

// ask drives the script; the answer is a text, or undefined.
func (r *run) ask(op string, args ...any) (string, error) {
	v, err := r.drive.Call(quickjs.UndefinedValue, append([]any{op}, args...)...)
	if err := r.failed(err); err != nil {
		return "", err
	}
	s, _ := v.(string) // undefined: nothing
	return s, nil
}

func (r *run) askNumber(op string) (float64, error) {
	v, err := r.drive.Call(quickjs.UndefinedValue, op)
	if err := r.failed(err); err != nil {
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

// failed says why a call of the engine ended: limits first, for which the
// engine's own error is only "interrupted".
func (r *run) failed(err error) error {
	switch {
	case r.clock.expired():
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
	return &Thrown{Message: clip(spoken(text), maxLogLine), Stack: r.script.lines.stack(e.Stack)}
}

// thrown reads what the function threw.
func (r *run) thrown() error {
	text, err := r.ask("failure")
	if err != nil {
		return err
	}
	var t struct {
		Message string          `json:"message"`
		Stack   string          `json:"stack"`
		Value   json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return &Thrown{Message: "what the hook threw can't be read"}
	}
	if len(t.Value) > maxLogLine {
		t.Value = nil
	}
	return &Thrown{Message: clip(spoken(t.Message), maxLogLine), Stack: r.script.lines.stack(t.Stack), Value: t.Value}
}

// spoken says what the engine throws when there is not even memory for an error.
func spoken(text string) string {
	switch text {
	case "thrown: null", "null", "thrown: a value that can't be shown":
		return text + ", as when there is no memory left"
	}
	return text
}

// placed is a line of a stack as sourceMap.stack writes it.
var placed = regexp.MustCompile(`\((.*):(\d+):(\d+)\)\n`)

func number(s string) int {
	n, _ := strconv.Atoi(s) // digits that we wrote
	return n
}

// clip shortens a text to n bytes, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// clock interrupts a script that has used up its time. It stands still while
// the host works for the script.
type clock struct {
	interrupt func()
	stuck     chan struct{} // closed when an interrupt has no effect

	mu sync.Mutex

	left    time.Duration
	since   time.Time
	running bool
	timer   *time.Timer // until time is over, or grace is
	over    bool        // time is over
	stopped bool        // there was an interrupt
	given   bool        // stuck is closed
}

func (c *clock) start(d time.Duration, interrupt func()) {
	c.left, c.interrupt = d, interrupt
	c.resume()
}

// end is the last call.
func (c *clock) end() {
	c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt = func() {}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.running = time.Now(), true
	c.arm()
}

// arm sets the timer. It is called with mu held.
func (c *clock) arm() {
	if c.stopped {
		c.timer = time.AfterFunc(grace, c.giveUp)
		return
	}
	c.timer = time.AfterFunc(max(0, c.left), c.expire)
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.running = false
}

// expire is called when the time is over.
func (c *clock) expire() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.stop()
}

// stop interrupts the script; if it is at work, it has to end soon.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.interrupt()
	if c.running {
		c.timer.Stop()
		c.arm()
	}
}

func (c *clock) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running && !c.given {
		c.given = true
		close(c.stuck)
	}
}

func (c *clock) expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}
