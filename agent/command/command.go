// Package command runs any command as an agent: it gets the prompt, its output is
// the answer, and its exit status reports success.
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

// Agent runs a command, Turn.Command.
type Agent struct{}

var _ agent.Agent = Agent{}

// The arguments, and the ways to pass the prompt.
const (
	argPrompt  = "prompt"
	argPointer = "pointer"
	argPattern = "pattern"

	onStdin  = "stdin"
	inFile   = "file"
	noPrompt = "none"

	placeholder = "{prompt}" // replaced in the command's arguments by the path of the prompt's file
)

// Name returns "command".
func (Agent) Name() string { return "command" }

// Features returns the few things that every command can do.
func (Agent) Features() agent.Features {
	return agent.Features{
		Deltas: true,
		System: true,
		API:    "openai", // the endpoint also answers the other dialects
		Arguments: map[string]string{
			argPrompt:  `how the command gets the prompt: "stdin" (the default), "file" (in place of {prompt} in its arguments, and in $ATOLL_PROMPT), "none"`,
			argPointer: "JSON pointer to the result in its output, or in the last line of it that is JSON",
			argPattern: "regular expression whose last match in the output is the result, or its first group",
		},
	}
}

// options are the decoded arguments of a turn.
type options struct {
	prompt  string
	pointer []string // nil: none
	pattern *regexp.Regexp
}

// readOptions decodes the arguments, and returns all errors in them.
func readOptions(t *agent.Turn) (options, error) {
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
			if o.prompt = s; !slices.Contains([]string{onStdin, inFile, noPrompt}, s) {
				err = fmt.Errorf("%q: there are %q, %q and %q", s, onStdin, inFile, noPrompt)
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
		errs = append(errs, errors.New("set only one of pointer and pattern"))
	}
	if len(t.Command) == 0 {
		errs = append(errs, errors.New("the turn has no command"))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return o, nil
}

// Plan runs the command.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	o, err := readOptions(t)
	if err = errors.Join(t.CheckFeatures(a.Features()), err); err != nil {
		return nil, err
	}
	p := &agent.Plan{Args: slices.Clone(t.Command), Env: slices.Clone(t.Env)}
	if at.Model != "" {
		p.Env = append(p.Env, endpointEnv(at.Model)...)
	}
	if t.Model != "" {
		p.Env = append(p.Env, "ATOLL_MODEL="+t.Model)
	}
	text := promptText(t)
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

// promptText returns the system prompt and the prompt as text.
func promptText(t *agent.Turn) string {
	text := agent.PlainText(t.Prompt)
	if t.System != "" {
		text = t.System + "\n\n" + text
	}
	return text
}

// endpointEnv returns the variables from which common libraries take their model
// endpoint. The keys are placeholders.
func endpointEnv(base string) []string {
	return []string{
		"OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_BASE=" + base + "/v1", "OPENAI_API_KEY=none",
		"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=none",
		"GOOGLE_GEMINI_BASE_URL=" + base, "GEMINI_API_KEY=none",
	}
}
