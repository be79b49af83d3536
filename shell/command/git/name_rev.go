package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// revName is a name of a commit: of a ref, or by its way from one.
type revName struct {
	ref      string
	steps    int // of first parents after ref
	distance int // from the ref; the way to another parent than the first is long
	tag      bool
}

// mergeDistance is how long the way to another parent than the first is.
const mergeDistance = 65535

func (n revName) String() string {
	if n.steps == 0 {
		return n.ref
	}
	return strings.TrimSuffix(n.ref, "^0") + "~" + strconv.Itoa(n.steps)
}

// nameRevisions is git name-rev: it names commits by their way from branches and tags.
func (c *call) nameRevisions() error {
	if len(c.args) == 0 && !c.has("--all", "--stdin", "--annotate-stdin") {
		return &failure{129, "usage: git name-rev [<options>] <commit>..."}
	}
	names, err := c.collectRevNames()
	if err != nil {
		return err
	}
	if c.has("--stdin", "--annotate-stdin") {
		return c.annotateRevisions(names)
	}
	for _, rev := range c.args {
		i, err := c.resolveObject(rev)
		if err != nil {
			_, _ = fmt.Fprintf(c.p.Stderr, "Could not get sha1 for %s. Skipping.\n", rev) // best effort
			continue
		}
		name, ok := names[c.peelTag(i)]
		text := name.String()
		if !ok {
			text = "undefined"
			if c.has("--always") {
				text = i.short()
			} else if c.has("--no-undefined") {
				return newFatal("cannot describe '%s'", i)
			}
		}
		if c.has("--name-only") {
			_, _ = fmt.Fprintln(c.p.Out(), text) // Flush reports the error, as of all writes
		} else {
			_, _ = fmt.Fprintln(c.p.Out(), rev, text)
		}
	}
	return nil
}

// collectRevNames names every commit that the chosen refs lead to.
func (c *call) collectRevNames() (map[id]revName, error) {
	names := make(map[id]revName)
	type task struct {
		at   id
		name revName
	}
	for _, full := range c.listRefs("refs/") {
		tag := strings.HasPrefix(full, "tags/")
		if c.has("--tags") && !tag || !c.namesRef(full) {
			continue
		}
		shown := strings.TrimPrefix(full, "heads/")
		if c.has("--tags") && c.has("--name-only") {
			shown = strings.TrimPrefix(shown, "tags/")
		}
		tip := c.readRef("refs/" + full)
		at := c.peelTag(tip)
		if at != tip {
			shown += "^0"
		}
		stack := []task{{at, revName{ref: shown, tag: tag}}}
		for len(stack) > 0 {
			next := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			c.p.Tick(8)
			old, known := names[next.at]
			if known && (old.tag && !next.name.tag || old.tag == next.name.tag && old.distance <= next.name.distance) {
				continue
			}
			k, err := c.readCached(next.at)
			if err != nil {
				break // a ref to something else than a commit
			}
			if !known {
				c.p.Alloc(160)
			}
			names[next.at] = next.name
			for n, parent := range slices.Backward(k.parents) {
				name := next.name
				if n == 0 {
					name.steps++
					name.distance++
				} else {
					name.ref, name.steps = fmt.Sprintf("%s^%d", strings.TrimSuffix(name.String(), "^0"), n+1), 0
					name.distance += mergeDistance
					c.p.Alloc(int64(len(name.ref)))
				}
				stack = append(stack, task{parent, name})
			}
		}
	}
	return names, nil
}

// namesRef reports whether --refs and --exclude let a ref name commits.
func (c *call) namesRef(full string) bool {
	matches := func(pattern string) bool {
		return matchGlob(c.p, pattern, "refs/"+full) || matchGlob(c.p, pattern, full) || matchGlob(c.p, pattern, full[strings.LastIndexByte(full, '/')+1:])
	}
	if slices.ContainsFunc(c.values["--exclude"], matches) {
		return false
	}
	return len(c.values["--refs"]) == 0 || slices.ContainsFunc(c.values["--refs"], matches)
}

// annotateRevisions copies standard input with a name after each name of a commit.
func (c *call) annotateRevisions(names map[id]revName) error {
	b, err := c.p.ReadAll(c.p.Stdin)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		c.p.Tick(1 + len(line)>>2)
		for at := 0; at < len(line); {
			n := 0
			for at+n < len(line) && strings.IndexByte("0123456789abcdef", line[at+n]) >= 0 {
				n++
			}
			if n == 0 {
				_, _ = c.p.Out().WriteString(line[at : at+1]) // Flush reports the error, as of all writes
				at++
				continue
			}
			word := line[at : at+n]
			at += n
			name, ok := names[id(word)]
			switch {
			case !ok:
				_, _ = c.p.Out().WriteString(word)
			case c.has("--name-only"):
				_, _ = c.p.Out().WriteString(name.String())
			default:
				_, _ = fmt.Fprintf(c.p.Out(), "%s (%s)", word, name)
			}
		}
	}
	return nil
}
