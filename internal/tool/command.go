package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// passed are the variables of the environment that every program gets.
var passed = []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}

const (
	usualTime = 30 * time.Second
	maxTime   = 24 * time.Hour
	maxArg    = 128<<10 - 1 // bytes of an argument: Linux takes no more
)

// program is a command line with places.
type program struct {
	args  []template
	stdin *template // nil: the input as JSON
	dir   string
	env   map[string]template
	pass  []string
	limit time.Duration
	json  bool // what it writes is JSON
}

// commands reads a server whose tools are programs of the host:
//
//	"tools": {"lint": {"command": ["eslint", "--format", "json", "--", "{{path}}"], "timeout": "30s"}}
//
// A place is filled as it is: an argument stays one argument, there is no shell.
// One that is nothing but a place is left out if the field is not there, and
// becomes several if it is a list.
func (f *file) commands(r *reader, server string) []Tool {
	dir, pass, limit := r.text("dir"), r.texts("pass"), r.duration("timeout", usualTime, time.Millisecond, maxTime)
	env := f.templates(r, "env")
	return f.each(r, server, nil, func(t *reader) *Tool {
		p := program{dir: f.expand(t.n, t.path("dir"), dir), pass: slices.Concat(passed, pass, t.texts("pass")), limit: t.duration("timeout", limit, time.Millisecond, maxTime)}
		if own := t.text("dir"); own != "" {
			p.dir = f.expand(t.n, t.path("dir"), own)
		}
		p.env = maps.Clone(env)
		maps.Copy(p.env, f.templates(t, "env"))
		for i, s := range t.texts("command") {
			p.args = append(p.args, f.template(t.o.of["command"], fmt.Sprintf("%s[%d]", t.path("command"), i), s))
		}
		if len(p.args) == 0 {
			t.bad("command", "it is missing: it is the program and its arguments, as a list")
			return nil
		}
		if name, fixed := p.args[0].fixed(); !fixed || name == "" {
			t.bad("command", "its first is the program, and can't come from the input")
		}
		fields := p.fields()
		if n := t.get("stdin"); n != nil {
			in := f.template(n, t.path("stdin"), t.text("stdin"))
			p.stdin = &in
			fields = append(fields, in.fields()...)
		}
		switch out := t.text("output"); out {
		case "", "text":
		case "json":
			p.json = true
		default:
			t.bad("output", "it must be text or json, not %q", out)
		}
		return &Tool{Schema: f.schemaFor(t, fields), Call: p.call}
	})
}

// templates reads an object of templates.
func (f *file) templates(r *reader, name string) map[string]template {
	m := make(map[string]template)
	n := r.get(name)
	if n == nil {
		return m
	}
	o := f.object(n, r.path(name))
	if o == nil {
		return m
	}
	for _, key := range o.o.names {
		m[key] = f.template(o.o.of[key], o.path(key), o.text(key))
	}
	return m
}

func (p *program) fields() []string {
	var list []string
	for _, a := range p.args {
		list = append(list, a.fields()...)
	}
	for _, v := range p.env {
		list = append(list, v.fields()...)
	}
	return list
}

// argv fills the places of the command line. What comes from the input never
// becomes an option: a value that begins with a hyphen is refused where a
// program would take it for one.
func (p *program) argv(s scope) ([]string, error) {
	var args []string
	operands := false // "--" was there
	for _, t := range p.args {
		values, err := words(s, t)
		if err != nil {
			return nil, err
		}
		free := len(t) > 0 && t[0].path != nil // it begins with a value
		for _, v := range values {
			switch {
			case strings.IndexByte(v, 0) >= 0:
				return nil, &Error{"Invalid input: a value has a zero byte."}
			case len(v) > maxArg:
				return nil, &Error{fmt.Sprintf("Invalid input: a value has %d bytes: a program takes at most %d.", len(v), maxArg)}
			case free && !operands && strings.HasPrefix(v, "-"):
				return nil, &Error{fmt.Sprintf("Invalid input: field %q must not begin with a hyphen.", strings.Join(t[0].path, "."))}
			}
			args = append(args, v)
		}
		if text, fixed := t.fixed(); fixed && text == "--" {
			operands = true
		}
	}
	return args, nil
}

// words fills one argument, which may be none, or several.
func words(s scope, t template) ([]string, error) {
	if v, only, there := s.whole(t); only {
		list, many := v.([]any)
		switch {
		case !there:
			return nil, nil
		case !many:
			return []string{word(v)}, nil
		}
		var all []string
		for _, e := range list {
			all = append(all, word(e))
		}
		return all, nil
	}
	text, there, err := s.text(t, asIs)
	if err != nil || !there {
		return nil, err
	}
	return []string{text}, nil
}

// environ returns what the program sees of the environment: what is passed, what
// is set, and who calls.
func (p *program) environ(s scope, mark string) ([]string, error) {
	env := map[string]string{
		"ATOLL_APP": s.who.Owner.App, "ATOLL_USER": s.who.Owner.User, "ATOLL_CHAT": s.who.Chat, "ATOLL_ASSISTANT": s.who.Assistant, "ATOLL_TURN": s.who.Turn,
	}
	for _, name := range p.pass {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	for name, t := range p.env {
		v, there, err := s.text(t, asIs)
		switch {
		case err != nil:
			return nil, err
		case strings.IndexByte(v, 0) >= 0:
			return nil, &Error{"Invalid input: a value has a zero byte."}
		case there:
			env[name] = v
		}
	}
	list := []string{mark}
	for name, v := range env {
		list = append(list, name+"="+v)
	}
	return list, nil
}

// call runs the program. At its end nothing that it started is left.
func (p *program) call(ctx context.Context, c Call) (Result, error) {
	s, err := newScope(c)
	if err != nil {
		return Result{}, err
	}
	args, err := p.argv(s)
	if err != nil {
		return Result{}, err
	}
	input := c.Input
	if p.stdin != nil {
		text, _, err := s.text(*p.stdin, asIs) // what is not there is empty
		if err != nil {
			return Result{}, err
		}
		input = []byte(text)
	}
	mark := "ATOLL_CALL=" + atoll.NewID()
	env, err := p.environ(s, mark)
	if err != nil {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	out, errs := &head{limit: 2 * maxText}, &head{limit: maxText / 4}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, env, bytes.NewReader(input), out, errs
	lead(cmd)
	cmd.Cancel = func() error {
		endTree(cmd.Process.Pid, mark)
		return nil
	}
	cmd.WaitDelay = patience / 2
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("starting %s: %w", args[0], err)
	}
	err = cmd.Wait()
	endRest(cmd.Process.Pid, mark)
	if limited.Err() != nil && ctx.Err() == nil {
		return Result{Text: outcome(out, errs, fmt.Sprintf("ended after %v; what it wrote until then is above", p.limit)), Failed: true}, nil
	}
	return p.result(ctx, out, errs, err)
}

func (p *program) result(ctx context.Context, out, errs *head, err error) (Result, error) {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.As(err, &exit):
		return Result{Text: outcome(out, errs, exit.String()), Failed: true}, nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return Result{}, err
	}
	if p.json {
		var v any
		if err := json.Unmarshal(out.b, &v); err != nil {
			return Result{}, fmt.Errorf("what the program wrote is no JSON: %w", err)
		}
		return Result{Text: out.String(), Structured: v}, nil
	}
	return Result{Text: out.String()}, nil
}

// outcome is what a program that failed wrote, and how it ended.
func outcome(out, errs *head, end string) string {
	text := out.String()
	if e := errs.String(); e != "" {
		text = strings.TrimPrefix(strings.TrimRight(text, "\n")+"\n[stderr]\n"+strings.TrimRight(e, "\n"), "\n")
	}
	return note(strings.TrimRight(text, "\n"), end)
}

// head keeps the beginning of what is written to it, and counts the rest.
type head struct {
	limit int
	b     []byte
	lost  int64
}

func (h *head) Write(b []byte) (int, error) {
	n := min(len(b), h.limit-len(h.b))
	h.b = append(h.b, b[:n]...)
	h.lost += int64(len(b) - n)
	return len(b), nil
}

func (h *head) String() string {
	s := strings.ToValidUTF8(string(h.b), "\uFFFD")
	if h.lost > 0 {
		s = note(s, fmt.Sprintf("%d more bytes left out", h.lost))
	}
	return s
}
