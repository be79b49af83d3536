package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// mostKept is how much of the output is kept, from its beginning, for the
// result; all of it is told as it comes.
const mostKept = 16 << 20

// Talk listens to the command.
func (Agent) Talk(t *agent.Turn, _ agent.Site) agent.Talk {
	o, _ := read(t) // Plan has said what is wrong
	return &talk{opts: o}
}

type talk struct {
	opts options
	out  bytes.Buffer
	cut  bool // out is not all
	any  bool // a line has come
}

var _ agent.Prose = (*talk)(nil)

// Prose says that empty lines count.
func (*talk) Prose() {}

// Begin says nothing more than the plan did.
func (*talk) Begin(x agent.Exchange) { x.Close() }

// Line is text.
func (k *talk) Line(x agent.Exchange, line []byte) {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if k.any {
		text = "\n" + text
	}
	k.any = true
	if k.out.Len()+len(text) <= mostKept && !k.cut {
		k.out.WriteString(text)
	} else if !k.cut {
		k.cut = true
		x.Emit(agent.Event{Type: agent.Warning, Text: fmt.Sprintf("the output is long: the result is taken from its first %d bytes", k.out.Len())})
	}
	if text != "" {
		x.Emit(agent.Event{Type: agent.TextDelta, Text: text})
	}
}

// Prompt can't be said twice.
func (*talk) Prompt(agent.Exchange, []agent.Content) error {
	return fmt.Errorf("%w: a command has one prompt", atoll.ErrUnsupported)
}

// Decide has nothing to decide.
func (*talk) Decide(agent.Exchange, string, agent.Decision) error {
	return fmt.Errorf("%w: a command asks for nothing", atoll.ErrNotFound)
}

// Interrupt is not to be asked of a command.
func (*talk) Interrupt(agent.Exchange) bool { return false }

// Settled is known only when the command has ended.
func (*talk) Settled() bool { return false }

// Result is what was written, or the part of it that was asked for.
func (k *talk) Result(exit *agent.Exit) agent.Result {
	r := agent.Result{Text: k.out.String()}
	if exit == nil {
		return r // it was ended: whoever did knows how that is called
	}
	if exit.Code != 0 {
		r.Outcome, r.Code = agent.Failed, "exit"
		r.Message = "exit status " + strconv.Itoa(exit.Code)
		if last := lastLine(exit.Stderr); last != "" {
			r.Message += ": " + last
		}
		return r
	}
	r.Outcome = agent.OK
	part, raw, err := k.opts.part(k.out.Bytes())
	switch {
	case err != nil:
		r.Outcome, r.Code, r.Message = agent.Failed, "result", err.Error()
	case raw != nil:
		r.Text, r.Structured = part, raw
	default:
		r.Text = part
	}
	return r
}

func lastLine(b []byte) string {
	const most = 500
	b = bytes.TrimSpace(b)
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	return strings.ToValidUTF8(string(b[:min(len(b), most)]), "")
}

// part finds the result in the output; raw is it as JSON, where it is that.
func (o *options) part(out []byte) (text string, raw json.RawMessage, err error) {
	switch {
	case o.pattern != nil:
		all := o.pattern.FindAllSubmatch(out, -1)
		if len(all) == 0 {
			return "", nil, fmt.Errorf("the output has nothing that matches %s", o.pattern)
		}
		m := all[len(all)-1]
		return string(m[min(1, len(m)-1)]), nil, nil
	case o.pointer != nil:
		return o.pointed(out)
	}
	return strings.TrimRight(string(out), "\n"), nil, nil
}

// pointed follows the pointer in the output, or in its last line that is JSON.
func (o *options) pointed(out []byte) (string, json.RawMessage, error) {
	raw, err := follow(out, o.pointer)
	for rest := out; errors.Is(err, errNoJSON) && len(rest) > 0; {
		i := bytes.LastIndexByte(rest, '\n')
		raw, err = follow(rest[i+1:], o.pointer)
		rest = rest[:max(i, 0)]
	}
	if err != nil {
		return "", nil, err
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, raw, nil
	}
	return string(raw), raw, nil
}

var errNoJSON = errors.New("the output is not JSON")

// parsePointer reads a pointer as RFC 6901 has it.
func parsePointer(s string) ([]string, error) {
	if s == "" {
		return []string{}, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%q: a JSON pointer starts with /", s)
	}
	parts := strings.Split(s[1:], "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

// follow returns what a pointer leads to.
func follow(doc []byte, pointer []string) (json.RawMessage, error) {
	if doc = bytes.TrimSpace(doc); !json.Valid(doc) {
		return nil, errNoJSON
	}
	raw := json.RawMessage(doc)
	for i, p := range pointer {
		var object map[string]json.RawMessage
		var array []json.RawMessage
		next, ok := json.RawMessage(nil), false
		switch {
		case json.Unmarshal(raw, &object) == nil:
			next, ok = object[p]
		case json.Unmarshal(raw, &array) == nil:
			if n, err := strconv.Atoi(p); err == nil && n >= 0 && n < len(array) {
				next, ok = array[n], true
			}
		}
		if !ok {
			return nil, fmt.Errorf("the output has nothing at /%s", strings.Join(pointer[:i+1], "/"))
		}
		raw = next
	}
	return raw, nil
}
