package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkIgnored is git check-ignore.
func (c *call) checkIgnored() error {
	names := append(slices.Clone(c.args), c.paths...)
	if c.has("--stdin") {
		var err error
		if names, err = c.readNames(); err != nil {
			return err
		}
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
		var rule *ignoreRule
		if _, known := x[full]; !known || c.has("--no-index") {
			rule = c.findIgnoreRule(full)
		}
		verbose := c.has("-v", "--verbose")
		if rule != nil && rule.negated && !verbose {
			rule = nil
		}
		found = found || rule != nil
		if c.has("-q", "--quiet") || rule == nil && !(verbose && c.has("-n", "--non-matching")) {
			continue
		}
		c.printIgnored(rule, name, verbose)
	}
	if !found {
		return &failure{1, ""}
	}
	return nil
}

// printIgnored prints a file and, if asked for, the rule that decides about it; nil: there is none.
func (c *call) printIgnored(rule *ignoreRule, name string, verbose bool) {
	out := c.p.Out()
	if verbose {
		file, line, text := "", "", ""
		if rule != nil {
			file, line, text = strings.TrimPrefix(rule.file, c.root+"/"), strconv.Itoa(rule.line), rule.text
		}
		separators := [2]string{":", "\t"}
		if c.has("-z") {
			separators = [2]string{"\x00", "\x00"}
		} else {
			file = c.quotePath(file)
		}
		_, _ = fmt.Fprint(out, file, separators[0], line, separators[0], text, separators[1]) // Flush reports the error, as of all writes
	}
	if !c.has("-z") {
		name = c.quotePath(name)
	}
	_, _ = fmt.Fprint(out, name, c.lineEnd())
}
