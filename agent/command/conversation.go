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

// maxKept limits how much of the beginning of the output is kept for the result;
// all of the output is emitted.
const maxKept = 16 << 20

// NewConversation returns a conversation that reads the command's output.
func (Agent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	o, _ := readOptions(t) // Plan has returned the error
	return &conversation{opts: o}
}

type conversation struct {
	opts      options
	out       bytes.Buffer
	truncated bool // out is not the whole output
	hasLine   bool // a line has come
}

var _ agent.TextConversation = (*conversation)(nil)

// PlainText marks the output as text: empty lines count.
func (*conversation) PlainText() {}

// Begin closes the input after the plan's.
func (*conversation) Begin(x agent.Exchange) { x.Close() }

// HandleLine emits a line of the output as text.
func (k *conversation) HandleLine(x agent.Exchange, line []byte) {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if k.hasLine {
		text = "\n" + text
	}
	k.hasLine = true
	if k.out.Len()+len(text) <= maxKept && !k.truncated {
		k.out.WriteString(text)
	} else if !k.truncated {
		k.truncated = true
		x.Emit(agent.Event{Type: agent.Warning, Text: fmt.Sprintf("the output is too long: the result is taken from its first %d bytes", k.out.Len())})
	}
	if text != "" {
		x.Emit(agent.Event{Type: agent.TextDelta, Text: text})
	}
}

// Prompt returns ErrUnsupported.
func (*conversation) Prompt(agent.Exchange, []agent.Content) error {
	return fmt.Errorf("%w: a command has one prompt", atoll.ErrUnsupported)
}

// Decide returns ErrNotFound: a command requests no permissions.
func (*conversation) Decide(agent.Exchange, string, agent.Decision) error {
	return fmt.Errorf("%w: a command asks for nothing", atoll.ErrNotFound)
}

// Interrupt returns false: a command can't be asked to stop.
func (*conversation) Interrupt(agent.Exchange) bool { return false }

// IsFinished returns false: only the exit of the command ends the prompt.
func (*conversation) IsFinished() bool { return false }

// Result returns the output, or the part of it that the arguments select.
func (k *conversation) Result(exit *agent.Exit) agent.Result {
	r := agent.Result{Text: k.out.String()}
	if exit == nil {
		return r // the process was stopped; the session knows the outcome
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
	part, raw, err := k.opts.extractResult(k.out.Bytes())
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

// extractResult finds the result in the output; raw is the result as JSON, if it is JSON.
func (o *options) extractResult(out []byte) (text string, raw json.RawMessage, err error) {
	switch {
	case o.pattern != nil:
		all := o.pattern.FindAllSubmatch(out, -1)
		if len(all) == 0 {
			return "", nil, fmt.Errorf("the output has nothing that matches %s", o.pattern)
		}
		m := all[len(all)-1]
		return string(m[min(1, len(m)-1)]), nil, nil
	case o.pointer != nil:
		return o.extractByPointer(out)
	}
	return strings.TrimRight(string(out), "\n"), nil, nil
}

// extractByPointer resolves the pointer in the output, or in its last line that is
// JSON.
func (o *options) extractByPointer(out []byte) (string, json.RawMessage, error) {
	raw, err := resolvePointer(out, o.pointer)
	for rest := out; errors.Is(err, errNoJSON) && len(rest) > 0; {
		i := bytes.LastIndexByte(rest, '\n')
		raw, err = resolvePointer(rest[i+1:], o.pointer)
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

// parsePointer parses a JSON pointer (RFC 6901).
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

// resolvePointer returns the value at a JSON pointer.
func resolvePointer(doc []byte, pointer []string) (json.RawMessage, error) {
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
