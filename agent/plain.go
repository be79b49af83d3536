package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Plain returns a prompt as text: that of its texts, and for each file a line
// that says where it was placed.
func Plain(prompt []Content) string {
	var parts []string
	for _, p := range prompt {
		switch {
		case p.Path != "":
			parts = append(parts, p.note())
		case len(p.Data) > 0:
			parts = append(parts, fmt.Sprintf("[File that could not be attached: %s]", p.Name))
		case p.Text != "":
			parts = append(parts, p.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// note says where a file is.
func (c Content) note() string {
	about := fmt.Sprintf("%d bytes", len(c.Data))
	if c.Type != "" {
		about = c.Type + ", " + about
	}
	return fmt.Sprintf("[Attached file: %s (%s)]", c.Path, about)
}

// Check returns an error that names every argument of the turn that an agent
// with such features does not have, and everything else that it can't do.
func (t *Turn) Check(f Features) error {
	var errs []error
	if len(t.Prompt) == 0 {
		errs = append(errs, fmt.Errorf("%w: no prompt", atoll.ErrInvalid))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Arguments)) {
		if _, ok := f.Arguments[name]; !ok {
			errs = append(errs, fmt.Errorf("%w: there is no argument %q; there are: %s", atoll.ErrInvalid, name, known(f.Arguments)))
		}
	}
	if t.Ask && !f.Approvals {
		errs = append(errs, fmt.Errorf("%w: it does not ask before it uses tools", atoll.ErrUnsupported))
	}
	if t.Session != "" && !f.Resume {
		errs = append(errs, fmt.Errorf("%w: it does not go on with sessions", atoll.ErrUnsupported))
	}
	if t.System != "" && !f.System {
		errs = append(errs, fmt.Errorf("%w: it takes no system prompt", atoll.ErrUnsupported))
	}
	if t.MaxTurns > 0 && !f.MaxTurns {
		errs = append(errs, fmt.Errorf("%w: it counts no turns: bound the requests of its budget", atoll.ErrUnsupported))
	}
	if len(t.Skills) > 0 && !f.Skills {
		errs = append(errs, fmt.Errorf("%w: it has no skills", atoll.ErrUnsupported))
	}
	return errors.Join(errs...)
}

// known lists the arguments that there are.
func known(all map[string]string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// Argument reads an argument of the turn into what v points to, which stays
// as it is without one.
func (t *Turn) Argument(name string, v any) error {
	value, ok := t.Arguments[name]
	if !ok {
		return nil
	}
	b, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%w: argument %s: %w", atoll.ErrInvalid, name, err)
	}
	return nil
}
