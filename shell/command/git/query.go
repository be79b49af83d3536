package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// printRevisions prints the names of revisions and places of the repository.
func (c *call) printRevisions() error {
	out := c.p.Out()
	switch {
	case c.has("--show-toplevel"):
		_, _ = fmt.Fprintln(out, c.root) // Flush reports the error, as of all writes
	case c.has("--git-dir", "--absolute-git-dir"):
		if dir, err := c.p.Resolve("."); err == nil && dir == c.root && c.has("--git-dir") {
			_, _ = fmt.Fprintln(out, ".git")
		} else {
			_, _ = fmt.Fprintln(out, c.dir)
		}
	case c.has("--is-inside-work-tree"):
		_, _ = fmt.Fprintln(out, "true")
	case c.has("--show-prefix"):
		dir, err := c.relativePath(".")
		if err != nil {
			return err
		}
		if dir != "" {
			dir += "/"
		}
		_, _ = fmt.Fprintln(out, dir)
	}
	for _, rev := range c.args {
		i, err := c.resolveRevision(rev)
		branch, _ := c.readHead()
		switch {
		case err != nil && c.has("-q"):
			return &failure{1, ""}
		case err != nil:
			return err
		case c.has("--abbrev-ref") && rev == "HEAD":
			if branch == "" {
				branch = "HEAD"
			}
			_, _ = fmt.Fprintln(out, branch)
		case c.has("--abbrev-ref"):
			_, _ = fmt.Fprintln(out, rev)
		case c.has("--short"):
			_, _ = fmt.Fprintln(out, i.short())
		default:
			_, _ = fmt.Fprintln(out, i)
		}
	}
	return nil
}

// listFiles lists files of the index or the working tree.
func (c *call) listFiles() error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	paths, err := c.relativePaths(append(c.args, c.paths...))
	if err != nil {
		return err
	}
	out := c.p.Out()
	names := slices.Sorted(maps.Keys(s.x))
	switch {
	case c.has("-o", "--others"):
		work, err := c.listWork(s.x, false)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(work, func(name string) bool { _, known := s.x[name]; return known })
	case c.has("-m", "--modified"):
		names = nil
		for _, ch := range s.unstaged {
			names = append(names, ch.name)
		}
	}
	for _, name := range names {
		if !selects(paths, name) {
			continue
		}
		if e := s.x[name]; c.has("-s", "--stage") {
			_, _ = fmt.Fprintf(out, "%06o %s 0\t%s\n", e.mode, e.id, name) // Flush reports the error
			continue
		}
		_, _ = fmt.Fprintln(out, c.displayPath(name))
	}
	return nil
}

// printObject prints an object, its kind or its size.
func (c *call) printObject() error {
	if len(c.args) == 0 {
		return newFatal("git cat-file takes -p, -t, -s or -e and an object here")
	}
	rev, name, file := strings.Cut(c.args[len(c.args)-1], ":")
	i := id(rev)
	if _, err := c.p.Lstat(c.dir + "/objects/" + rev[:min(2, len(rev))]); err != nil || len(rev) != 40 {
		at, err := c.resolveRevision(rev)
		if err != nil {
			return newFatal("Not a valid object name %s", rev)
		}
		i = at
	}
	if file {
		files := make(map[string]treeEntry)
		if err := c.readTree(i, "", files); err != nil {
			return err
		}
		i = files[name].id
	}
	kind, b, err := c.readObject(i)
	switch {
	case err != nil:
		return err
	case c.has("-t"):
		_, _ = fmt.Fprintln(c.p.Out(), kind) // Flush reports the error, as of all writes
	case c.has("-s"):
		_, _ = fmt.Fprintln(c.p.Out(), len(b))
	case c.has("-e"):
	case kind == "tree":
		return newFatal("git cat-file -p of a tree is not supported here")
	default:
		_, _ = c.p.Out().Write(b)
	}
	return nil
}

// manageConfig prints and sets values of the configuration.
func (c *call) manageConfig() error {
	file := c.dir + "/config"
	if c.has("--global") {
		file = c.p.Getenv("HOME") + "/.gitconfig"
	}
	conf := c.conf
	if c.has("--global", "--local") {
		conf = readConfig(c.p, file)
	}
	if c.has("--list", "-l") {
		for _, name := range slices.Sorted(maps.Keys(conf)) {
			_, _ = fmt.Fprintf(c.p.Out(), "%s=%s\n", name, conf[name]) // Flush reports the error
		}
		return nil
	}
	if c.has("--unset", "--add") {
		return newFatal("git config --unset and --add are not supported here: edit %s", file)
	}
	if len(c.args) == 0 || !strings.Contains(strings.Trim(c.args[0], "."), ".") {
		return newError("key does not contain a section: %s", strings.Join(c.args, " "))
	}
	if len(c.args) == 1 || c.has("--get") {
		value, ok := conf[strings.ToLower(c.args[0])]
		if !ok {
			return &failure{1, ""}
		}
		_, _ = fmt.Fprintln(c.p.Out(), value) // Flush reports the error
		return nil
	}
	if strings.ContainsAny(c.args[0]+c.args[1], "\n\x00") {
		return newError("invalid key or value: it has a line end")
	}
	return setConfig(c.p, file, c.args[0], c.args[1])
}
