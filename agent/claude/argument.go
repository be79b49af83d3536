package claude

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

var (
	modes   = []string{"acceptEdits", "bypassPermissions", "default", "dontAsk", "manual", "plan"}
	efforts = []string{"low", "medium", "high", "xhigh", "max"}
)

// arguments are those that a turn may have.
func arguments() map[string]string {
	return map[string]string{
		"permission_mode":     "what needs no permission: " + strings.Join(modes, ", "),
		"tools":               "the built-in tools it has, as a list",
		"allowed_tools":       "tools that need no permission, as a list: Edit, Bash(git *)",
		"disallowed_tools":    "tools it may not use, as a list",
		"max_turns":           "requests to the model, at most",
		"max_budget_usd":      "US dollars to spend by its own count, at most; looked at after each request",
		"effort":              "how hard the model tries: " + strings.Join(efforts, ", "),
		"fallback_model":      "the model to ask when the first is overloaded",
		"max_output_tokens":   "tokens of an answer, at most",
		"max_thinking_tokens": "tokens to think, at most; 0: none",
		"system_prompt":       "in place of its own system prompt",
		"background":          "false: it starts no commands and subagents that go on after its answer",
		"commands":            "true: a prompt that begins with / is a command of its own, not text for the model",
	}
}

// options are a turn's arguments.
type options struct {
	Mode        string
	Tools       []string
	Allowed     []string
	Disallowed  []string
	MaxTurns    int
	MaxCost     float64
	Effort      string
	Fallback    string
	MaxOutput   int
	MaxThinking *int
	System      string
	Background  *bool
	Commands    bool
}

// read reads a turn's arguments, and tells everything that is wrong with them.
func read(t *agent.Turn) (*options, error) {
	o := &options{}
	errs := []error{
		t.Argument("permission_mode", &o.Mode),
		words(t, "tools", &o.Tools),
		words(t, "allowed_tools", &o.Allowed),
		words(t, "disallowed_tools", &o.Disallowed),
		t.Argument("max_turns", &o.MaxTurns),
		t.Argument("max_budget_usd", &o.MaxCost),
		t.Argument("effort", &o.Effort),
		t.Argument("fallback_model", &o.Fallback),
		t.Argument("max_output_tokens", &o.MaxOutput),
		t.Argument("max_thinking_tokens", &o.MaxThinking),
		t.Argument("system_prompt", &o.System),
		t.Argument("background", &o.Background),
		t.Argument("commands", &o.Commands),
		one("permission_mode", o.Mode, modes),
		one("effort", o.Effort, efforts),
		bound("max_turns", float64(o.MaxTurns), math.MaxInt32),
		bound("max_budget_usd", o.MaxCost, 1e9),
		bound("max_output_tokens", float64(o.MaxOutput), math.MaxInt32),
	}
	if o.MaxThinking != nil {
		errs = append(errs, bound("max_thinking_tokens", float64(*o.MaxThinking), math.MaxInt32))
	}
	if t.Ask && o.Mode == "bypassPermissions" {
		errs = append(errs, fmt.Errorf("%w: argument permission_mode: with bypassPermissions nobody is asked, and the turn wants to be", atoll.ErrInvalid))
	}
	for _, w := range []struct{ name, value string }{{"model", t.Model}, {"fallback_model", o.Fallback}, {"session", t.Session}} {
		if strings.ContainsFunc(w.value, func(r rune) bool { return r < ' ' }) || len(w.value) > 1000 {
			errs = append(errs, fmt.Errorf("%w: %s %.50q", atoll.ErrInvalid, w.name, w.value))
		}
	}
	return o, errors.Join(errs...)
}

// words reads a list, which may be written as a text with commas.
func words(t *agent.Turn, name string, to *[]string) error {
	if s, ok := t.Arguments[name].(string); ok {
		*to = split(s)
	} else if err := t.Argument(name, to); err != nil {
		return err
	}
	for _, w := range *to {
		if w == "" || len(w) > 1000 || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' }) || len(split(w)) != 1 {
			return fmt.Errorf("%w: argument %s: %.50q is not a tool", atoll.ErrInvalid, name, w)
		}
	}
	if len(*to) > 200 {
		return fmt.Errorf("%w: argument %s: %d tools", atoll.ErrInvalid, name, len(*to))
	}
	return nil
}

// split splits at commas that are not within parentheses.
func split(s string) []string {
	var list []string
	depth, start := 0, 0
	for i, r := range s + "," {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && (depth <= 0 || i == len(s)):
			if w := strings.TrimSpace(s[start:i]); w != "" {
				list = append(list, w)
			}
			start = i + 1
		}
	}
	return list
}

// one checks a word.
func one(name, v string, of []string) error {
	if v == "" || slices.Contains(of, v) {
		return nil
	}
	return fmt.Errorf("%w: argument %s: %.50q; there are %s", atoll.ErrInvalid, name, v, strings.Join(of, ", "))
}

// bound checks a number.
func bound(name string, v, most float64) error {
	if v >= 0 && v <= most {
		return nil
	}
	return fmt.Errorf("%w: argument %s: %s is not between 0 and %g", atoll.ErrInvalid, name, strconv.FormatFloat(v, 'g', -1, 64), most)
}
