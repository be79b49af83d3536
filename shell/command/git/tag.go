package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tag is a parsed annotated tag.
type tag struct {
	object                id
	kind, name            string
	tagger, message, text string
}

func parseTag(text string) *tag {
	head, message, _ := strings.Cut(text, "\n\n")
	t := &tag{message: message, text: text}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "object":
			t.object = id(value)
		case "type":
			t.kind = value
		case "tag":
			t.name = value
		case "tagger":
			t.tagger = value
		}
	}
	return t
}

// manageTags lists, creates and deletes tags.
func (c *call) manageTags() error {
	switch {
	case c.has("-d", "--delete"):
		return c.deleteTags()
	case c.has("-s", "-u", "-v", "--sign"):
		return newFatal("signed tags are not supported here: use git tag -a")
	case len(c.args) == 0 || c.has("-l", "--list", "--contains", "--merged", "--points-at"):
		return c.listTags()
	}
	name, rev := c.args[0], "HEAD"
	if len(c.args) > 1 {
		rev = c.args[1]
	}
	old := c.readRef("refs/tags/" + name)
	switch {
	case !isRefName(name):
		return newFatal("'%s' is not a valid tag name.", name)
	case old != "" && !c.has("-f", "--force"):
		return newFatal("tag '%s' already exists", name)
	}
	i, err := c.resolveObject(rev)
	if err != nil {
		return newFatal("Failed to resolve '%s' as a valid ref.", rev)
	}
	if c.has("-a", "--annotate", "-m", "--message", "-F", "--file") {
		if i, err = c.writeTag(name, i); err != nil {
			return err
		}
	}
	if err := c.writeRef("refs/tags/"+name, i, ""); err != nil || old == "" || old == i {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "Updated tag '%s' (was %s)\n", name, old.short()) // Flush reports the error
	return nil
}

// writeTag stores an annotated tag.
func (c *call) writeTag(name string, i id) (id, error) {
	kind, err := c.readKind(i)
	if err != nil {
		return "", err
	}
	text, ok, err := c.with(c.flags, nil).findMessageText("")
	if err != nil {
		return "", err
	}
	if !ok {
		comment := "\n#\n# Write a message for tag:\n#   " + name + "\n# Lines starting with '#' will be ignored.\n"
		if text, err = c.editMessage("TAG_EDITMSG", "", comment); err != nil {
			return "", err
		}
	}
	if text = cleanMessage(text); text == "" {
		return "", newFatal("no tag message?")
	}
	tagger, err := c.buildIdentity("COMMITTER")
	if err != nil {
		return "", err
	}
	return c.writeObject("tag", fmt.Appendf(nil, "object %s\ntype %s\ntag %s\ntagger %s\n\n%s", i, kind, name, tagger, text))
}

func (c *call) deleteTags() error {
	var failed error
	for _, name := range c.args {
		old := c.readRef("refs/tags/" + name)
		if old == "" {
			failed = newError("tag '%s' not found.", name)
			_, _ = fmt.Fprintln(c.p.Stderr, failed) // best effort
			continue
		}
		if err := c.deleteRef("refs/tags/" + name); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(c.p.Out(), "Deleted tag '%s' (was %s)\n", name, old.short()) // Flush reports the error
	}
	if failed != nil {
		return &failure{1, ""}
	}
	return nil
}

func (c *call) listTags() error {
	names := c.listRefs("refs/tags/")
	if strings.TrimPrefix(c.flags["--sort"], "-") != "" {
		if err := c.sortRefs("refs/tags/", names); err != nil {
			return err
		}
	}
	patterns := c.args
	for _, option := range []string{"--contains", "--merged", "--points-at"} {
		rev, given := c.flags[option]
		if !given {
			continue
		}
		if rev == "" && len(patterns) > 0 {
			rev, patterns = patterns[0], patterns[1:]
		}
		at, err := c.resolveRevision(orHead(rev))
		if err != nil {
			return newError("malformed object name %s", rev)
		}
		var kept []string
		for _, name := range names {
			i := c.peelTag(c.readRef("refs/tags/" + name))
			ok := i == at
			if option == "--contains" {
				ok, err = c.isAncestor(at, i)
			} else if option == "--merged" {
				ok, err = c.isAncestor(i, at)
			}
			if err != nil {
				return err
			}
			if ok {
				kept = append(kept, name)
			}
		}
		names = kept
	}
	for _, name := range names {
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(c.p, p, name) }) {
			continue
		}
		line := name
		if format, ok := c.flags["--format"]; ok {
			var err error
			if line, err = c.expandRefFormat(format, "refs/tags/"+name); err != nil {
				return err
			}
		} else if count, ok := c.flags["-n"]; ok {
			text, err := c.refLines("refs/tags/"+name, count)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("%-15s %s", name, text)
		}
		_, _ = fmt.Fprintln(c.p.Out(), line) // Flush reports the error
	}
	return nil
}

// refLines returns the first lines of the message of a tag or commit, those after the first one with four spaces.
func (r *repository) refLines(ref, count string) (string, error) {
	n, err := strconv.Atoi(orDefault(count, "1"))
	if err != nil {
		return "", &failure{129, "error: option `n' expects a number, not '" + count + "'"}
	}
	if n == 1 {
		return r.refSubject(ref)
	}
	_, b, err := r.readObject(r.readRef(ref))
	if err != nil {
		return "", err
	}
	defer r.release(b)
	_, message, _ := strings.Cut(string(b), "\n\n")
	lines := strings.SplitN(strings.TrimRight(message, "\n"), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n    "), nil
}

// refSubject returns the first line of the message of a tag or commit.
func (r *repository) refSubject(ref string) (string, error) {
	kind, b, err := r.readObject(r.readRef(ref))
	if err != nil {
		return "", err
	}
	defer r.release(b)
	if kind != "tag" && kind != "commit" {
		return "", nil
	}
	_, message, _ := strings.Cut(string(b), "\n\n")
	return (&commit{message: message}).subject(), nil
}
