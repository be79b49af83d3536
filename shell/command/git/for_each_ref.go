package git

import (
	"fmt"
	"slices"
	"strings"
)

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
