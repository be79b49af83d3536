package git

import (
	"fmt"
	"strings"
)

// resetFiles makes the index, and with work also the working tree, equal to a commit.
func (r *repository) resetFiles(i id, work bool) error {
	x, err := r.readIndex()
	if err != nil {
		return err
	}
	target := make(map[string]treeEntry)
	if i != "" {
		if err := r.readTree(i, "", target); err != nil {
			return err
		}
	}
	_, err = r.restoreFiles(x, target, restoreOptions{staged: true, work: work})
	return err
}

// resetHead moves the branch, and with it the index and the working tree; with paths it restores the index.
func (c *call) resetHead() error {
	rev := "HEAD"
	if len(c.args) > 0 {
		if _, err := c.resolveRange(c.args[0]); err == nil {
			rev, c.args = c.args[0], c.args[1:]
		} else if _, serr := c.p.Lstat(c.args[0]); serr != nil && !c.split {
			if x, xerr := c.readIndex(); xerr != nil || x[c.args[0]].mode == 0 {
				return err
			}
		}
	}
	if len(c.args)+len(c.paths) > 0 {
		if c.has("--soft", "--hard") {
			return newFatal("Cannot do %s reset with paths.", strings.TrimPrefix(sortedKeys(c.flags)[0], "--"))
		}
		c.flags["--staged"], c.flags["reset"] = "", ""
		if _, at := c.readHead(); at != "" || rev != "HEAD" {
			c.flags["--source"] = rev
		}
		if err := c.restoreOperands(); err != nil || c.has("-q", "--quiet") {
			return err
		}
		return c.printUnstaged()
	}
	if _, at := c.readHead(); at == "" && rev == "HEAD" {
		return c.resetFiles("", c.has("--hard"))
	}
	return c.resetTo(rev)
}

// resetTo moves the branch, and what the options ask for, to a commit.
func (c *call) resetTo(rev string) error {
	_, at := c.readHead()
	i, err := c.resolveRange(rev)
	if err != nil {
		return err
	}
	switch {
	case c.has("--soft"):
		if c.hasGitFile("MERGE_HEAD") {
			return newFatal("Cannot do a soft reset in the middle of a merge.")
		}
	case c.has("--keep", "--merge"):
		err = c.checkOut(i, "reset", "reset")
	default:
		err = c.resetFiles(i, c.has("--hard"))
	}
	if err != nil {
		return err
	}
	if err := c.writeRef("ORIG_HEAD", at, ""); err != nil {
		return err
	}
	if err := c.setHead(i, "reset: moving to "+rev); err != nil {
		return err
	}
	if !c.has("--soft") {
		if err := c.removeGitFiles("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE"); err != nil {
			return err
		}
	}
	if c.has("-q", "--quiet") {
		return nil
	}
	if c.has("--hard") {
		_, _ = fmt.Fprintf(c.p.Out(), "HEAD is now at %s %s\n", i.short(), c.subjectOf(i)) // Flush reports the error
	}
	if c.has("--soft", "--hard", "--keep", "--merge") {
		return nil
	}
	return c.printUnstaged()
}

// printUnstaged prints the files that differ from the index after a reset.
func (c *call) printUnstaged() error {
	s, err := c.readState()
	if err != nil || len(s.unstaged) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), "Unstaged changes after reset:") // Flush reports the error, as of all writes
	for _, ch := range s.unstaged {
		_, _ = fmt.Fprintf(c.p.Out(), "%s\t%s\n", ch.letter(), ch.name)
	}
	return nil
}
