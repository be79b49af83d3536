package git

import (
	"fmt"
	"slices"
	"sort"
)

// printShortlog is git shortlog: it groups commits by author.
func (c *call) printShortlog() error {
	if !c.p.Stdin.IsTerminal() && len(c.args) == 0 && !c.has("--all") {
		b, err := c.p.ReadAll(c.p.Stdin)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			return newFatal("git shortlog of a log on standard input is not supported here: name a revision, as in git shortlog HEAD")
		}
		return nil
	}
	l, err := c.newLog()
	if err != nil {
		return err
	}
	if l.selection, err = c.readSelection(c.args, c.paths, true); err != nil {
		return err
	}
	list, err := l.collect()
	if err != nil {
		return err
	}
	groups := make(map[string][]string)
	for _, k := range list {
		line := k.author
		if c.has("-c", "--committer") {
			line = k.committer
		}
		name, mail, _ := splitIdentity(line)
		if c.has("-e", "--email") {
			name += " <" + mail + ">"
		}
		c.p.Alloc(int64(len(k.message)) + 64)
		groups[name] = append(groups[name], k.subject())
	}
	names := sortedKeys(groups)
	if c.has("-n", "--numbered") {
		sort.SliceStable(names, func(a, b int) bool { return len(groups[names[a]]) > len(groups[names[b]]) })
	}
	for _, name := range names {
		if c.has("-s", "--summary") {
			_, _ = fmt.Fprintf(c.p.Out(), "%6d\t%s\n", len(groups[name]), name) // Flush reports the error, as of all writes
			continue
		}
		_, _ = fmt.Fprintf(c.p.Out(), "%s (%d):\n", name, len(groups[name]))
		for _, subject := range slices.Backward(groups[name]) {
			_, _ = fmt.Fprintf(c.p.Out(), "      %s\n", subject)
		}
		_, _ = fmt.Fprintln(c.p.Out())
	}
	return nil
}
