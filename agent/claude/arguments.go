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
	permissionModes = []string{"acceptEdits", "bypassPermissions", "default", "dontAsk", "manual", "plan"}
	effortLevels    = []string{"low", "medium", "high", "xhigh", "max"}
)

// describeArguments returns the arguments that a turn may have, with descriptions.
func describeArguments() map[string]string {
	return map[string]string{
		"permission_mode":     "the permission mode: " + strings.Join(permissionModes, ", "),
		"tools":               "the built-in tools to enable, as a list",
		"allowed_tools":       "tools that need no permission, as a list: Edit, Bash(git *)",
		"disallowed_tools":    "tools it may not use, as a list",
		"max_turns":           "requests to the model, at most",
		"max_budget_usd":      "US dollars to spend by its own count, at most; looked at after each request",
		"effort":              "how hard the model tries: " + strings.Join(effortLevels, ", "),
		"fallback_model":      "the model to ask when the first is overloaded",
		"max_output_tokens":   "tokens of an answer, at most",
		"max_thinking_tokens": "tokens to think, at most; 0: none",
		"system_prompt":       "replaces its own system prompt",
		"background":          "false: start no commands and subagents in the background",
		"commands":            "true: a prompt that begins with / is a command of its own, not text for the model",
	}
}

// options are the decoded arguments of a turn.
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

// readOptions decodes the arguments of a turn, and returns all errors in them.
func readOptions(t *agent.Turn) (*options, error) {
	o := &options{}
	errs := []error{
		t.DecodeArgument("permission_mode", &o.Mode),
		readToolList(t, "tools", &o.Tools),
		readToolList(t, "allowed_tools", &o.Allowed),
		readToolList(t, "disallowed_tools", &o.Disallowed),
		t.DecodeArgument("max_turns", &o.MaxTurns),
		t.DecodeArgument("max_budget_usd", &o.MaxCost),
		t.DecodeArgument("effort", &o.Effort),
		t.DecodeArgument("fallback_model", &o.Fallback),
		t.DecodeArgument("max_output_tokens", &o.MaxOutput),
		t.DecodeArgument("max_thinking_tokens", &o.MaxThinking),
		t.DecodeArgument("system_prompt", &o.System),
		t.DecodeArgument("background", &o.Background),
		t.DecodeArgument("commands", &o.Commands),
		checkOneOf("permission_mode", o.Mode, permissionModes),
		checkOneOf("effort", o.Effort, effortLevels),
		checkRange("max_turns", float64(o.MaxTurns), math.MaxInt32),
		checkRange("max_budget_usd", o.MaxCost, 1e9),
		checkRange("max_output_tokens", float64(o.MaxOutput), math.MaxInt32),
	}
	if o.MaxThinking != nil {
		errs = append(errs, checkRange("max_thinking_tokens", float64(*o.MaxThinking), math.MaxInt32))
	}
	if t.Ask && o.Mode == "bypassPermissions" {
		errs = append(errs, fmt.Errorf("%w: argument permission_mode: bypassPermissions conflicts with a turn that requests permissions", atoll.ErrInvalid))
	}
	for _, w := range []struct{ name, value string }{{"model", t.Model}, {"fallback_model", o.Fallback}, {"session", t.Session}} {
		if strings.ContainsFunc(w.value, func(r rune) bool { return r < ' ' }) || len(w.value) > 1000 {
			errs = append(errs, fmt.Errorf("%w: %s %.50q", atoll.ErrInvalid, w.name, w.value))
		}
	}
	return o, errors.Join(errs...)
}

// readToolList decodes a list of tools, which may be one string with commas.
func readToolList(t *agent.Turn, name string, to *[]string) error {
	if s, ok := t.Arguments[name].(string); ok {
		*to = splitToolList(s)
	} else if err := t.DecodeArgument(name, to); err != nil {
		return err
	}
	for _, w := range *to {
		if w == "" || len(w) > 1000 || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' }) || len(splitToolList(w)) != 1 {
			return fmt.Errorf("%w: argument %s: %.50q is not a tool", atoll.ErrInvalid, name, w)
		}
	}
	if len(*to) > 200 {
		return fmt.Errorf("%w: argument %s: %d tools", atoll.ErrInvalid, name, len(*to))
	}
	return nil
}

// splitToolList splits at commas that are not within parentheses.
func splitToolList(s string) []string {
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

// checkOneOf checks that v is empty or one of the allowed values.
func checkOneOf(name, v string, of []string) error {
	if v == "" || slices.Contains(of, v) {
		return nil
	}
	return fmt.Errorf("%w: argument %s: %.50q; there are %s", atoll.ErrInvalid, name, v, strings.Join(of, ", "))
}

// checkRange checks that v is between 0 and most.
func checkRange(name string, v, most float64) error {
	if v >= 0 && v <= most {
		return nil
	}
	return fmt.Errorf("%w: argument %s: %s is not between 0 and %g", atoll.ErrInvalid, name, strconv.FormatFloat(v, 'g', -1, 64), most)
}
