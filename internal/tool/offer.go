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

// Offer is what one request may call. Its fields are not changed once it is
// used; its methods may be called at once from many goroutines.
type Offer struct {
	Who   Who
	Tools []Tool
	Log   func(Event) // is told of every call, from many goroutines; nil: nobody
	Name  string      // of the server, as agents see it, at most 20 letters; empty: "atoll"

	once     sync.Once
	entries  []*entry // by once, as all below
	byName   map[string]*entry
	server   *mcp.Server
	slots    chan struct{} // of calls that run
	sessions chan struct{} // of connections
	backlog  backlog
}

// entry is a tool as it is offered.
type entry struct {
	Listed
	tool  Tool
	check *schema
}

// Listed is a tool as agents see it.
type Listed struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"`
	Server      string          `json:"-"` // that the tool is of
	Tool        string          `json:"-"` // its name there
}

const (
	atOnce   = 64              // calls that run at the same time; others wait
	patience = 2 * time.Second // with a tool that does not end when it is told to
	maxInput = 2 << 20         // bytes

	maxSessions = 32               // connections at once: an agent needs one, atoll-tool one for each call
	maxDepth    = 64               // of the input
	maxDetail   = 8 << 10          // bytes of a description
	beat        = 10 * time.Second // of telling that a call is still at work
)

// prepare makes the list of what is offered, once.
func (o *Offer) prepare() {
	o.once.Do(func() {
		o.slots, o.sessions = make(chan struct{}, atOnce), make(chan struct{}, maxSessions)
		o.byName = make(map[string]*entry)
		for i, name := range names(o.name(), o.Tools) {
			t := o.Tools[i]
			if o.byName[name] != nil { // the very same, again
				o.log(Event{Who: o.Who, Server: t.Server, Tool: t.Name, Err: "it is not offered: there are two of that name"})
				continue
			}
			check, err := readSchema(t.Schema, t.Foreign)
			if err != nil {
				o.log(Event{Who: o.Who, Server: t.Server, Tool: t.Name, Err: "it is not offered: " + err.Error()})
				continue
			}
			if t.Foreign {
				t.Description = clip(t.Description, maxDetail)
			}
			e := &entry{Listed{name, strings.ToValidUTF8(t.Description, "\uFFFD"), check.raw, t.Server, t.Name}, t, check}
			o.entries = append(o.entries, e)
			o.byName[name] = e
		}
		slices.SortFunc(o.entries, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
		o.server = o.newServer()
	})
}

func (o *Offer) name() string {
	if o.Name == "" {
		return "atoll"
	}
	n := plainName(o.Name)
	return n[:min(len(n), 20)]
}

func (o *Offer) log(e Event) {
	if o.Log != nil {
		o.Log(e)
	}
}

// List returns the tools as agents see them, by name.
func (o *Offer) List() []Listed {
	o.prepare()
	list := make([]Listed, len(o.entries))
	for i, e := range o.entries {
		list[i] = e.Listed
	}
	return list
}

// Call calls a tool by the name that agents know it by. What goes wrong with it
// is in the Result; the error is ErrNotFound if it is not offered, or that of
// ctx. progress may be nil.
func (o *Offer) Call(ctx context.Context, name string, input json.RawMessage, progress func(done, total float64, message string)) (Result, error) {
	o.prepare()
	e, ok := o.byName[name]
	if !ok {
		return Result{}, fmt.Errorf("%w: no tool %q is offered", atoll.ErrNotFound, clip(name, maxName))
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
	r, err := o.run(ctx, e, input, progress)
	event := Event{Who: o.Who, Server: e.tool.Server, Tool: e.tool.Name, Millis: time.Since(begun).Milliseconds()}
	if err != nil {
		event.Err = err.Error()
	}
	o.log(event)
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
	return bound(r), nil
}

// run checks the input and calls the tool, whose panic is an error.
func (o *Offer) run(ctx context.Context, e *entry, input json.RawMessage, progress func(float64, float64, string)) (Result, error) {
	input, err := e.check.accept(input)
	if err != nil {
		return Result{}, err
	}
	type answer struct {
		r   Result
		err error
	}
	done := make(chan answer, 1) // nobody may be there any more
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
		a.r, a.err = e.tool.Call(ctx, Call{Who: o.Who, Input: input, Progress: progress})
	}()
	select {
	case a := <-done:
		return a.r, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.r, a.err
	case <-timer.C:
		return Result{}, fmt.Errorf("it goes on although it was told to end: %w", context.Cause(ctx))
	}
}
