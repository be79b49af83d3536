package git

import (
	"fmt"
	"strings"
)

// describeCommit is git describe: it names a commit by the last tag before it.
func (c *call) describeCommit() error {
	rev := "HEAD"
	if len(c.args) > 0 {
		rev = c.args[0]
	}
	k, err := c.resolveCommit(rev)
	if err != nil {
		return newFatal("Not a valid object name %s", rev)
	}
	text, err := c.describe(k)
	if err != nil {
		return err
	}
	if c.has("--dirty") && len(c.args) == 0 {
		s, err := c.readState()
		if err != nil {
			return err
		}
		if len(s.staged)+len(s.unstaged)+len(s.unmerged) > 0 {
			text += orDefault(c.flags["--dirty"], "-dirty")
		}
	}
	_, _ = fmt.Fprintln(c.p.Out(), text) // Flush reports the error
	return nil
}

// describe returns the description of a commit.
func (c *call) describe(k *commit) (string, error) {
	names := c.namesForDescribe()
	digits := 7
	if text := c.flags["--abbrev"]; text != "" {
		if _, err := fmt.Sscan(text, &digits); err != nil {
			return "", newFatal("option `abbrev' expects a numerical value")
		}
	}
	short := string(k.id[:min(40, max(digits, 4))])
	best, distance := id(""), 0
	err := c.walkHistory([]id{k.id}, func(at *commit) (bool, error) {
		if names[at.id] == "" {
			return true, nil
		}
		best = at.id
		return false, nil
	})
	if err == nil && best != "" {
		distance, _, err = c.countDistance(k.id, best)
	}
	switch {
	case err != nil:
		return "", err
	case best == "" || c.has("--exact-match") && distance > 0:
		if c.has("--always") {
			return short, nil
		}
		return "", c.explainNoTag(k.id, len(names))
	case distance == 0 && !c.has("--long") || digits == 0:
		return names[best], nil
	}
	return fmt.Sprintf("%s-%d-g%s", names[best], distance, short), nil
}

// explainNoTag returns the error for a commit that no tag describes.
func (c *call) explainNoTag(i id, names int) error {
	switch {
	case c.has("--exact-match"):
		return newFatal("no tag exactly matches '%s'", i)
	case names > 0:
		return newFatal("No tags can describe '%s'.\nTry --always, or create some tags.", i)
	case !c.has("--tags") && len(c.listRefs("refs/tags/")) > 0:
		return newFatal("No annotated tags can describe '%s'.\nHowever, there were unannotated tags: try --tags.", i)
	}
	return newFatal("No names found, cannot describe anything.")
}

// namesForDescribe returns the name of each commit that has one: of an annotated tag rather than another.
func (c *call) namesForDescribe() map[id]string {
	names := make(map[id]string)
	annotated := make(map[id]bool)
	for _, prefix := range []string{"refs/heads/", "refs/remotes/", "refs/tags/"} {
		if prefix != "refs/tags/" && !c.has("--all") {
			continue
		}
		for _, name := range c.listRefs(prefix) {
			i := c.readRef(prefix + name)
			at := c.peelTag(i)
			if at == i && !c.has("--tags", "--all") || annotated[at] && at == i || c.flags["--match"] != "" && !matchGlob(c.p, c.flags["--match"], name) || c.flags["--exclude"] != "" && matchGlob(c.p, c.flags["--exclude"], name) {
				continue
			}
			if names[at] != "" && !(at != i && !annotated[at]) {
				continue
			}
			if c.has("--all") {
				name = strings.TrimPrefix(prefix+name, "refs/")
			}
			names[at], annotated[at] = name, at != i
		}
	}
	return names
}
