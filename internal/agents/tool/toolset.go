package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

// Toolset is the list of tools that one request may call. Its fields must not change
// after the first use; its methods are safe for concurrent use.
type Toolset struct {
	Caller Caller
	Tools  []Tool
	Log    func(Event) // receives every call, concurrently; nil: none
	Name   string      // of the server in the agents' configuration, at most 20 letters; empty: "atoll"

	once     sync.Once
	entries  []*entry // set by once, as all below
	byName   map[string]*entry
	server   *mcp.Server
	slots    chan struct{} // running calls
	sessions chan struct{} // connections
	backlog  backlog
}

// entry is an offered tool.
type entry struct {
	ListedTool
	tool   Tool
	schema *schema
}

// ListedTool is a tool as agents see it.
type ListedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"`
	Server      string          `json:"-"` // the tool's server
	Tool        string          `json:"-"` // the tool's name on that server
}

const (
	maxConcurrent = 64              // concurrent calls; others wait
	stopGrace     = 2 * time.Second // for a tool to end after it was cancelled
	maxInput      = 2 << 20         // bytes

	maxSessions    = 32               // concurrent connections: an agent needs one, atoll-tool one for each call
	maxDepth       = 64               // nesting of the input
	maxDescription = 8 << 10          // bytes
	heartbeat      = 10 * time.Second // between notifications of a silent call
)

// prepareOnce builds the list of tools, once.
func (o *Toolset) prepareOnce() {
	o.once.Do(func() {
		o.slots, o.sessions = make(chan struct{}, maxConcurrent), make(chan struct{}, maxSessions)
		o.byName = make(map[string]*entry)
		for i, name := range uniqueNames(o.name(), o.Tools) {
			t := o.Tools[i]
			if o.byName[name] != nil { // the same tool twice
				o.logEvent(Event{Caller: o.Caller, Server: t.Server, Tool: t.Name, Err: "it is not offered: there are two of that name"})
				continue
			}
			check, err := readSchema(t.Schema, t.ServerValidates)
			if err != nil {
				o.logEvent(Event{Caller: o.Caller, Server: t.Server, Tool: t.Name, Err: "it is not offered: " + err.Error()})
				continue
			}
			if t.ServerValidates {
				t.Description = clipText(t.Description, maxDescription)
			}
			e := &entry{ListedTool{name, strings.ToValidUTF8(t.Description, "\uFFFD"), check.raw, t.Server, t.Name}, t, check}
			o.entries = append(o.entries, e)
			o.byName[name] = e
		}
		slices.SortFunc(o.entries, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
		o.server = o.newServer()
	})
}

func (o *Toolset) name() string {
	if o.Name == "" {
		return "atoll"
	}
	n := plainName(o.Name)
	return n[:min(len(n), 20)]
}

func (o *Toolset) logEvent(e Event) {
	if o.Log != nil {
		o.Log(e)
	}
}

// List returns the tools as agents see them, sorted by name.
func (o *Toolset) List() []ListedTool {
	o.prepareOnce()
	list := make([]ListedTool, len(o.entries))
	for i, e := range o.entries {
		list[i] = e.ListedTool
	}
	return list
}

// Call calls a tool by its listed name. A failure of the tool is in the Result; the
// error is ErrNotFound for a tool that is not offered, or that of ctx. progress may
// be nil.
func (o *Toolset) Call(ctx context.Context, name string, input json.RawMessage, progress func(done, total float64, message string)) (Result, error) {
	o.prepareOnce()
	e, ok := o.byName[name]
	if !ok {
		return Result{}, fmt.Errorf("%w: no tool %q is offered", atoll.ErrNotFound, clipText(name, maxName))
	}
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	begun := time.Now()
	if progress == nil {
		progress = func(float64, float64, string) {}
	}
	r, err := o.runTool(ctx, e, input, progress)
	event := Event{Caller: o.Caller, Server: e.tool.Server, Tool: e.tool.Name, Millis: time.Since(begun).Milliseconds()}
	if err != nil {
		event.Err = err.Error()
	}
	o.logEvent(event)
	if err != nil && ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	var told *Error
	switch {
	case errors.As(err, &told):
		r = Result{Text: told.Text, Failed: true}
	case errors.Is(err, context.DeadlineExceeded):
		r = Result{Text: "The tool took too long and was ended.", Failed: true}
	case err != nil:
		r = Result{Text: "The tool failed. The reason is in the log of the host.", Failed: true}
	}
	return limitResult(r), nil
}

// runTool checks the input and calls the tool; a panic becomes an error.
func (o *Toolset) runTool(ctx context.Context, e *entry, input json.RawMessage, progress func(float64, float64, string)) (Result, error) {
	input, err := e.schema.checkInput(input)
	if err != nil {
		return Result{}, err
	}
	type answer struct {
		r   Result
		err error
	}
	done := make(chan answer, 1) // buffered, since nothing may receive any more
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil {
				stack := make([]byte, 4<<10)
				stack = stack[:runtime.Stack(stack, false)]
				a = answer{err: fmt.Errorf("panic: %v\n%s", v, stack)}
			}
			done <- a
		}()
		a.r, a.err = e.tool.Call(ctx, Call{Caller: o.Caller, Input: input, Progress: progress})
	}()
	select {
	case a := <-done:
		return a.r, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.r, a.err
	case <-timer.C:
		return Result{}, fmt.Errorf("it did not end after it was cancelled: %w", context.Cause(ctx))
	}
}
