package git

import (
	"fmt"
	"slices"
	"strings"
)

// checkIgnored is git check-ignore.
func (c *call) checkIgnored() error {
	names := append(slices.Clone(c.args), c.paths...)
	if c.has("--stdin") {
		b, err := c.p.ReadAll(c.p.Stdin)
		if err != nil {
			return err
		}
		names = strings.Fields(string(b))
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	found := false
	for _, name := range names {
		full, err := c.relativePath(name)
		if err != nil {
			return err
		}
		if _, known := x[full]; known && !c.has("--no-index") || !c.isIgnoredPath(full) {
			continue
		}
		found = true
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintln(c.p.Out(), name) // Flush reports the error
		}
	}
	if !found {
		return &failure{1, ""}
	}
	return nil
}
