// Package command makes an agent of any command: it gets the prompt, what it
// writes is the answer, its exit status says whether it went well.
package command

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Agent is a command, Turn.Command.
type Agent struct{}

var _ agent.Agent = Agent{}

// The arguments, and how the prompt is given.
const (
	argPrompt  = "prompt"
	argPointer = "pointer"
	argPattern = "pattern"

	onStdin = "stdin"
	inFile  = "file"
	nowhere = "none"

	placeholder = "{prompt}" // in an argument of the command: the prompt's file
)

// Name returns "command".
func (Agent) Name() string { return "command" }

// Features says how little is known of a command.
func (Agent) Features() agent.Features {
	return agent.Features{
		Deltas: true,
		System: true,
		API:    "openai", // and the others: whatever it asks is answered
		Arguments: map[string]string{
			argPrompt:  `how it gets the prompt: "stdin" (the default), "file" (in place of {prompt} in its arguments, and in $ATOLL_PROMPT), "none"`,
			argPointer: "JSON pointer to the result in its output, or in the last line of it that is JSON",
			argPattern: "regular expression whose last match in the output is the result, or its first group",
		},
	}
}

// options are the arguments of a turn, understood.
type options struct {
	prompt  string
	pointer []string // nil: none
	pattern *regexp.Regexp
}

// read understands arguments, and names all that are wrong.
func read(t *agent.Turn) (options, error) {
	o := options{prompt: onStdin}
	var errs []error
	bad := func(name string, err error) { errs = append(errs, fmt.Errorf("argument %s: %w", name, err)) }
	for _, name := range []string{argPrompt, argPointer, argPattern} {
		v, there := t.Arguments[name]
		if !there {
			continue
		}
		s, ok := v.(string)
		if !ok {
			bad(name, fmt.Errorf("%v is not a text", v))
			continue
		}
		var err error
		switch name {
		case argPrompt:
			if o.prompt = s; !slices.Contains([]string{onStdin, inFile, nowhere}, s) {
				err = fmt.Errorf("%q: there are %q, %q and %q", s, onStdin, inFile, nowhere)
			}
		case argPointer:
			o.pointer, err = parsePointer(s)
		case argPattern:
			o.pattern, err = regexp.Compile(s)
		}
		if err != nil {
			bad(name, err)
		}
	}
	if o.pointer != nil && o.pattern != nil {
		errs = append(errs, errors.New("only one of pointer and pattern can say where the result is"))
	}
	if len(t.Command) == 0 {
		errs = append(errs, errors.New("the turn names no command"))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return o, nil
}

// Plan runs the command.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	o, err := read(t)
	if err = errors.Join(t.Check(a.Features()), err); err != nil {
		return nil, err
	}
	p := &agent.Plan{Args: slices.Clone(t.Command), Env: slices.Clone(t.Env)}
	if at.Model != "" {
		p.Env = append(p.Env, endpoints(at.Model)...)
	}
	if t.Model != "" {
		p.Env = append(p.Env, "ATOLL_MODEL="+t.Model)
	}
	text := prompt(t)
	switch o.prompt {
	case onStdin:
		p.Stdin = []byte(text)
	case inFile:
		file := path.Join(at.State, "prompt.txt")
		p.Files = []agent.File{{Path: file, Data: []byte(text)}}
		p.Env = append(p.Env, "ATOLL_PROMPT="+file)
		for i := range p.Args[1:] {
			p.Args[i+1] = strings.ReplaceAll(p.Args[i+1], placeholder, file)
		}
	}
	return p, nil
}

// prompt returns what the command is told.
func prompt(t *agent.Turn) string {
	text := agent.Plain(t.Prompt)
	if t.System != "" {
		text = t.System + "\n\n" + text
	}
	return text
}

// endpoints are the variables by which the usual libraries find their model.
// The keys are none.
func endpoints(base string) []string {
	return []string{
		"OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_BASE=" + base + "/v1", "OPENAI_API_KEY=none",
		"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=none",
		"GOOGLE_GEMINI_BASE_URL=" + base, "GEMINI_API_KEY=none",
	}
}
