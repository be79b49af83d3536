package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (c *Config) ContextNames() []string {
	var names []string
	for name := range c.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Local is the name of the context that means this machine.
const Local = "local"

// UnknownContext reports that there is no such context, and what there is.
func (c *Config) UnknownContext(name string) error {
	if _, ok := c.Contexts[name]; ok || name == Local {
		return nil
	}
	names := append(c.ContextNames(), Local)
	return fmt.Errorf("%w: context %q%s; there is: %s", atoll.ErrNotFound, name, suggest.Hint(name, names), strings.Join(names, ", "))
}
