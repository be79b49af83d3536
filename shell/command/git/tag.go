package git

import (
	"fmt"
	"slices"
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
		return "", newError("there is no editor in a virtual sandbox: give the message of the tag with -m or -F")
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
		} else if c.has("-n") {
			subject, err := c.refSubject("refs/tags/" + name)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("%-15s %s", name, subject)
		}
		_, _ = fmt.Fprintln(c.p.Out(), line) // Flush reports the error
	}
	return nil
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

// printRefs is git for-each-ref.
func (c *call) printRefs() error {
	format := orDefault(c.flags["--format"], "%(objectname) %(objecttype)\t%(refname)")
	names := c.listRefs("refs/")
	if c.flags["--sort"] != "" {
		if err := c.sortRefs("refs/", names); err != nil {
			return err
		}
	}
	most := -1
	if _, err := fmt.Sscanf(c.flags["--count"], "%d", &most); err != nil && c.has("--count") {
		return newFatal("invalid --count argument: '%s'", c.flags["--count"])
	}
	for _, name := range names {
		name = "refs/" + name
		selected := len(c.args) == 0 || slices.ContainsFunc(c.args, func(p string) bool {
			return isBelow(name, strings.TrimSuffix(p, "/")) || matchGlob(c.p, p, name)
		})
		if !selected || most == 0 {
			continue
		}
		most--
		text, err := c.expandRefFormat(format, name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(c.p.Out(), text) // Flush reports the error
	}
	return nil
}

// sortRefs sorts refs by the fields of --sort; the name decides between equal ones.
func (c *call) sortRefs(prefix string, names []string) error {
	field, reverse := strings.CutPrefix(c.flags["--sort"], "-")
	version := field == "version:refname" || field == "v:refname"
	keys := make(map[string]string)
	for _, name := range names {
		key := name
		switch {
		case version:
			key = versionKey(name)
		case strings.HasSuffix(field, "date"):
			text, err := c.expandRefFormat("%("+field+":unix)", prefix+name)
			if err != nil {
				return err
			}
			key = fmt.Sprintf("%020s", text)
		case field != "refname":
			text, err := c.expandRefFormat("%("+field+")", prefix+name)
			if err != nil {
				return err
			}
			key = text
		}
		keys[name] = key
	}
	slices.SortStableFunc(names, func(a, b string) int {
		order := strings.Compare(keys[a], keys[b])
		if reverse {
			order = -order
		}
		return order
	})
	return nil
}

// versionKey returns a name with its numbers padded, so that they compare by value.
func versionKey(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		n := 0
		for n < len(name) && name[n] >= '0' && name[n] <= '9' {
			n++
		}
		if n > 0 {
			fmt.Fprintf(&b, "%020s", name[:n])
			name = name[n:]
			continue
		}
		b.WriteByte(name[0])
		name = name[1:]
	}
	return b.String()
}

// expandRefFormat expands a format of for-each-ref, such as "%(refname:short)".
func (c *call) expandRefFormat(format, ref string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(format, "%(")
		b.WriteString(strings.ReplaceAll(before, "%%", "%"))
		if !ok {
			return b.String(), nil
		}
		field, after, ok := strings.Cut(rest, ")")
		if !ok {
			return "", newFatal("malformed format string %s", format)
		}
		text, err := c.expandRefField(field, ref)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		format = after
	}
}

func (c *call) expandRefField(field, ref string) (string, error) {
	name, modifier, _ := strings.Cut(field, ":")
	i := c.readRef(ref)
	switch name {
	case "refname":
		return modifyRef(ref, modifier), nil
	case "HEAD":
		if c.readSymbolic("HEAD") == ref {
			return "*", nil
		}
		return " ", nil
	case "upstream":
		to := c.findUpstream(strings.TrimPrefix(ref, "refs/heads/"))
		if strings.HasPrefix(modifier, "track") && to != "" {
			ahead, behind, err := c.countDistance(i, c.readRef(to))
			if text := formatDistance(ahead, behind); text != "" {
				return "[" + text + "]", err
			}
			return "", err
		}
		return modifyRef(to, modifier), nil
	case "symref":
		return modifyRef(c.readSymbolic(ref), modifier), nil
	}
	if strings.HasPrefix(name, "*") {
		name, i = name[1:], c.peelTag(i)
	}
	return c.expandObjectField(name, modifier, i)
}

// expandObjectField expands a field about the object of a ref.
func (c *call) expandObjectField(name, modifier string, i id) (string, error) {
	kind, body, err := c.readObject(i)
	if err != nil {
		return "", err
	}
	defer c.release(body)
	head, message, _ := strings.Cut(string(body), "\n\n")
	line := func(key string) string {
		for l := range strings.SplitSeq(head, "\n") {
			if rest, ok := strings.CutPrefix(l, key+" "); ok {
				return rest
			}
		}
		return ""
	}
	switch name {
	case "objectname":
		if strings.HasPrefix(modifier, "short") {
			return i.short(), nil
		}
		return string(i), nil
	case "objecttype":
		return kind, nil
	case "objectsize":
		return fmt.Sprint(len(body)), nil
	case "tree", "parent", "tag", "object", "type":
		return line(name), nil
	case "subject":
		return (&commit{message: message}).subject(), nil
	case "contents":
		if modifier == "subject" {
			return (&commit{message: message}).subject(), nil
		}
		return message, nil
	}
	return c.expandPerson(name, modifier, kind, line)
}

// expandPerson expands a field such as authorname or committerdate; line returns a line of the object.
func (c *call) expandPerson(name, modifier, kind string, line func(string) string) (string, error) {
	who := strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "date"), "name"), "email"), "")
	if who == "creator" {
		if who = "committer"; kind == "tag" {
			who = "tagger"
		}
	}
	if who != "author" && who != "committer" && who != "tagger" {
		return "", newFatal("unknown field name: %s", name)
	}
	text := line(who)
	if text == "" {
		return "", nil
	}
	person, mail, _ := splitIdentity(text)
	switch {
	case strings.HasSuffix(name, "name"):
		return person, nil
	case strings.HasSuffix(name, "email"):
		return "<" + mail + ">", nil
	case strings.HasSuffix(name, "date"):
		return c.formatDate(text, modifier), nil
	}
	return text, nil
}

// modifyRef applies the modifiers short, lstrip=N and strip=N to the name of a ref.
func modifyRef(ref, modifier string) string {
	if modifier == "short" {
		return shortenRef(ref)
	}
	_, number, ok := strings.Cut(modifier, "strip=")
	n := 0
	if _, err := fmt.Sscan(number, &n); ok && err == nil {
		for ; n > 0; n-- {
			if _, rest, deeper := strings.Cut(ref, "/"); deeper {
				ref = rest
			}
		}
	}
	return ref
}
