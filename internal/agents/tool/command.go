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

// passedEnv are the environment variables that every program gets.
var passedEnv = []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}

const (
	defaultTime = 30 * time.Second
	maxTime     = 24 * time.Hour
	maxArg      = 128<<10 - 1 // bytes of an argument: Linux takes no more
)

// program is a command line with templates.
type program struct {
	args  []template
	stdin *template // nil: the input as JSON
	dir   string
	env   map[string]template
	pass  []string
	limit time.Duration
	json  bool // its output is JSON
}

// readCommands decodes a server whose tools are programs of the host:
//
//	"tools": {"lint": {"command": ["eslint", "--format", "json", "--", "{{path}}"], "timeout": "30s"}}
//
// A placeholder is filled without a shell: an argument stays one argument. An argument
// of only one placeholder is left out if the field is missing, and becomes several
// arguments if the field is a list.
func (f *file) readCommands(r *objectReader, server string) []Tool {
	dir, pass, limit := r.readText("dir"), r.readTexts("pass"), r.readDuration("timeout", defaultTime, time.Millisecond, maxTime)
	env := f.readTemplates(r, "env")
	return f.readTools(r, server, nil, func(t *objectReader) *Tool {
		p := program{dir: f.expandEnv(t.n, t.fieldPath("dir"), dir), pass: slices.Concat(passedEnv, pass, t.readTexts("pass")), limit: t.readDuration("timeout", limit, time.Millisecond, maxTime)}
		if own := t.readText("dir"); own != "" {
			p.dir = f.expandEnv(t.n, t.fieldPath("dir"), own)
		}
		p.env = maps.Clone(env)
		maps.Copy(p.env, f.readTemplates(t, "env"))
		for i, s := range t.readTexts("command") {
			p.args = append(p.args, f.parseTemplate(t.o.of["command"], fmt.Sprintf("%s[%d]", t.fieldPath("command"), i), s))
		}
		if len(p.args) == 0 {
			t.addFault("command", "it is missing: it is the program and its arguments, as a list")
			return nil
		}
		if name, fixed := p.args[0].fixedText(); !fixed || name == "" {
			t.addFault("command", "its first is the program, and can't come from the input")
		}
		fields := p.inputFields()
		if n := t.get("stdin"); n != nil {
			in := f.parseTemplate(n, t.fieldPath("stdin"), t.readText("stdin"))
			p.stdin = &in
			fields = append(fields, in.inputFields()...)
		}
		switch out := t.readText("output"); out {
		case "", "text":
		case "json":
			p.json = true
		default:
			t.addFault("output", "it must be text or json, not %q", out)
		}
		return &Tool{Schema: f.schemaFor(t, fields), Call: p.runProgram}
	})
}

// readTemplates decodes an object of templates.
func (f *file) readTemplates(r *objectReader, name string) map[string]template {
	m := make(map[string]template)
	n := r.get(name)
	if n == nil {
		return m
	}
	o := f.openObject(n, r.fieldPath(name))
	if o == nil {
		return m
	}
	for _, key := range o.o.names {
		m[key] = f.parseTemplate(o.o.of[key], o.fieldPath(key), o.readText(key))
	}
	return m
}

func (p *program) inputFields() []string {
	var list []string
	for _, a := range p.args {
		list = append(list, a.inputFields()...)
	}
	for _, v := range p.env {
		list = append(list, v.inputFields()...)
	}
	return list
}

// fillArgs fills the command line. Input never becomes an option: a value that begins
// with a hyphen is refused where a program would parse it as one.
func (p *program) fillArgs(s scope) ([]string, error) {
	var args []string
	operands := false // after "--"
	for _, t := range p.args {
		values, err := fillArg(s, t)
		if err != nil {
			return nil, err
		}
		free := len(t) > 0 && t[0].path != nil // the argument begins with a value
		for _, v := range values {
			switch {
			case strings.IndexByte(v, 0) >= 0:
				return nil, &Error{"Invalid input: a value has a zero byte."}
			case len(v) > maxArg:
				return nil, &Error{fmt.Sprintf("Invalid input: a value has %d bytes: the limit is %d.", len(v), maxArg)}
			case free && !operands && strings.HasPrefix(v, "-"):
				return nil, &Error{fmt.Sprintf("Invalid input: field %q must not begin with a hyphen.", strings.Join(t[0].path, "."))}
			}
			args = append(args, v)
		}
		if text, fixed := t.fixedText(); fixed && text == "--" {
			operands = true
		}
	}
	return args, nil
}

// fillArg fills one argument, which may become none or several.
func fillArg(s scope, t template) ([]string, error) {
	if v, only, there := s.wholeValue(t); only {
		list, many := v.([]any)
		switch {
		case !there:
			return nil, nil
		case !many:
			return []string{valueText(v)}, nil
		}
		var all []string
		for _, e := range list {
			all = append(all, valueText(e))
		}
		return all, nil
	}
	text, there, err := s.fillText(t, keepText)
	if err != nil || !there {
		return nil, err
	}
	return []string{text}, nil
}

// buildEnv returns the program's environment: passed variables, configured ones, and
// those about the caller.
func (p *program) buildEnv(s scope, mark string) ([]string, error) {
	env := map[string]string{
		"ATOLL_APP": s.who.Owner.App, "ATOLL_USER": s.who.Owner.User, "ATOLL_CHAT": s.who.Chat, "ATOLL_ASSISTANT": s.who.Assistant, "ATOLL_TURN": s.who.Turn,
	}
	for _, name := range p.pass {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	for name, t := range p.env {
		v, there, err := s.fillText(t, keepText)
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

// runProgram runs the program. When it returns, all its descendants have ended.
func (p *program) runProgram(ctx context.Context, c Call) (Result, error) {
	s, err := newScope(c)
	if err != nil {
		return Result{}, err
	}
	args, err := p.fillArgs(s)
	if err != nil {
		return Result{}, err
	}
	input := c.Input
	if p.stdin != nil {
		text, _, err := s.fillText(*p.stdin, keepText) // a missing value is empty
		if err != nil {
			return Result{}, err
		}
		input = []byte(text)
	}
	mark := "ATOLL_CALL=" + atoll.NewID()
	env, err := p.buildEnv(s, mark)
	if err != nil {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	out, errs := &headBuffer{limit: 2 * maxText}, &headBuffer{limit: maxText / 4}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, env, bytes.NewReader(input), out, errs
	setProcessGroup(cmd)
	cmd.Cancel = func() error {
		killTree(cmd.Process.Pid, mark)
		return nil
	}
	cmd.WaitDelay = stopGrace / 2
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("starting %s: %w", args[0], err)
	}
	err = cmd.Wait()
	killDescendants(cmd.Process.Pid, mark)
	if limited.Err() != nil && ctx.Err() == nil {
		return Result{Text: failureText(out, errs, fmt.Sprintf("ended after %v; what it wrote until then is above", p.limit)), Failed: true}, nil
	}
	return p.readResult(ctx, out, errs, err)
}

func (p *program) readResult(ctx context.Context, out, errs *headBuffer, err error) (Result, error) {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.As(err, &exit):
		return Result{Text: failureText(out, errs, exit.String()), Failed: true}, nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return Result{}, err
	}
	if p.json {
		var v any
		if err := json.Unmarshal(out.b, &v); err != nil {
			return Result{}, fmt.Errorf("the program's output is not JSON: %w", err)
		}
		return Result{Text: out.String(), Structured: v}, nil
	}
	return Result{Text: out.String()}, nil
}

// failureText returns the output of a failed program and how it ended.
func failureText(out, errs *headBuffer, end string) string {
	text := out.String()
	if e := errs.String(); e != "" {
		text = strings.TrimPrefix(strings.TrimRight(text, "\n")+"\n[stderr]\n"+strings.TrimRight(e, "\n"), "\n")
	}
	return addNote(strings.TrimRight(text, "\n"), end)
}

// headBuffer keeps the beginning of its input, and counts the rest.
type headBuffer struct {
	limit int
	b     []byte
	lost  int64
}

func (h *headBuffer) Write(b []byte) (int, error) {
	n := min(len(b), h.limit-len(h.b))
	h.b = append(h.b, b[:n]...)
	h.lost += int64(len(b) - n)
	return len(b), nil
}

func (h *headBuffer) String() string {
	s := strings.ToValidUTF8(string(h.b), "\uFFFD")
	if h.lost > 0 {
		s = addNote(s, fmt.Sprintf("%d more bytes left out", h.lost))
	}
	return s
}
