package git

import "fmt"

// mergeTrees is git merge-tree: it merges two commits without an index or a working tree, prints the tree of the
// result, the files with conflicts and, if there are any, the messages.
func (c *call) mergeTrees() error {
	if len(c.args) != 2 {
		return &failure{129, "usage: git merge-tree [--write-tree] [<options>] <branch1> <branch2>\nThe form with three trees is not supported here."}
	}
	var sides [2]id
	for n, rev := range c.args {
		k, err := c.resolveCommit(rev)
		if err != nil {
			return &failure{1, "merge-tree: " + rev + " - not something we can merge"}
		}
		sides[n] = k.id
	}
	bases, err := c.findMergeBases(sides[0], sides[1])
	if err != nil {
		return err
	}
	if len(bases) == 0 && !c.has("--allow-unrelated-histories") {
		return newFatal("refusing to merge unrelated histories")
	}
	m, err := c.mergeWithBases(sides[0], c.args[0], mergeTarget{id: sides[1], label: c.args[1]}, bases)
	if err != nil {
		return err
	}
	tree, err := m.writeResult()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), tree) // Flush reports the error, as of all writes
	c.printConflicts(m)
	if c.has("--messages") || len(m.conflicts) > 0 && !c.has("--no-messages") {
		_, _ = fmt.Fprintln(c.p.Out())
		m.printMessages()
	}
	if len(m.conflicts) > 0 {
		return &failure{1, ""}
	}
	return nil
}

// printConflicts lists the versions of files with conflicts, or only their names.
func (c *call) printConflicts(m *treeMerge) {
	for _, name := range sortedKeys(m.conflicts) {
		if c.has("--name-only") {
			_, _ = fmt.Fprintln(c.p.Out(), c.quotePath(name))
			continue
		}
		for stage, e := range m.conflicts[name] {
			if e.mode != 0 {
				_, _ = fmt.Fprintf(c.p.Out(), "%06o %s %d\t%s\n", e.mode, e.id, stage+1, c.quotePath(name))
			}
		}
	}
}
