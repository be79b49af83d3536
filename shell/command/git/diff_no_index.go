package git

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// diffOutside is git diff --no-index: it compares two files or directories that need not be in a repository.
func (c *call) diffOutside() error {
	names := append(slices.Clone(c.args), c.paths...)
	if len(names) != 2 {
		return &failure{129, "usage: git diff --no-index [<options>] <path> <path>"}
	}
	c.flags["--no-index"] = ""
	f, err := c.newPatch("patch")
	if err != nil {
		return err
	}
	f.noRenames = true
	finish := c.openOutput(f)
	texts := make(map[string][]byte)
	f.read = func(name string, _ treeEntry) ([]byte, error) { return texts[name], nil }
	list, err := c.compareOutside(names, texts)
	if err != nil {
		return err
	}
	if c.has("-R") {
		for n, ch := range list {
			list[n].old, list[n].new = ch.new, ch.old
			if ch.from != "" {
				list[n].name, list[n].from = ch.from, ch.name
			}
		}
	}
	if list, err = f.filter(list); err != nil {
		return err
	}
	if f.ignore != 0 {
		if list, err = f.dropIgnored(list); err != nil {
			return err
		}
	}
	if !c.has("--quiet") {
		if err := f.printAll(list); err != nil {
			return err
		}
	}
	if err := finish(); err != nil {
		return err
	}
	return c.diffStatus(f, len(list) > 0)
}

// compareOutside returns the differences of two files or directories, and fills texts with the contents of their files.
func (c *call) compareOutside(names []string, texts map[string][]byte) ([]change, error) {
	var dirs [2]bool
	for n, name := range names {
		if name == "-" || name == "/dev/null" {
			continue
		}
		info, err := c.p.Stat(name)
		if err != nil {
			return nil, &failure{1, "error: Could not access '" + name + "'"}
		}
		dirs[n] = info.IsDir()
	}
	if dirs[0] != dirs[1] {
		file, dir := 0, 1
		if dirs[0] {
			file, dir = 1, 0
		}
		if names[file] != "/dev/null" {
			names[dir] = path.Join(names[dir], path.Base(names[file]))
		}
		dirs[dir] = false
	}
	var sides [2]map[string]treeEntry
	for n, name := range names {
		sides[n] = make(map[string]treeEntry)
		if err := c.readOutside(sides[n], texts, name, ""); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(sides[0])
	maps.Copy(all, sides[1])
	var list []change
	for _, rest := range sortedKeys(all) {
		c.p.Tick(1)
		old, new := sides[0][rest], sides[1][rest]
		if old == new {
			continue
		}
		c.p.Alloc(200)
		from, to := outsideName(names[0], rest), outsideName(names[1], rest)
		ch := change{name: to, old: old, new: new}
		switch {
		case new.mode == 0:
			ch.name = from
		case old.mode != 0 && from != to:
			ch.from, ch.paired = from, true
		}
		list = append(list, ch)
	}
	return list, nil
}

// outsideName returns the name of a file in the output.
func outsideName(name, rest string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name, "/")+rest, "/")
}

// readOutside reads a file, or the files below a directory, by the part of their names after that of the operand.
func (c *call) readOutside(side map[string]treeEntry, texts map[string][]byte, name, rest string) error {
	full := strings.TrimSuffix(name, "/") + rest
	var b []byte
	mode := uint32(0o100644)
	switch {
	case name == "/dev/null":
		return nil
	case name == "-":
		var err error
		if b, err = c.p.ReadAll(c.p.Stdin); err != nil {
			return err
		}
	default:
		info, err := c.p.Lstat(full)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			return c.readOutsideDir(side, texts, name, rest)
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := c.p.Readlink(full)
			if err != nil {
				return err
			}
			b, mode = []byte(text), 0o120000
		case !info.Mode().IsRegular():
			return nil
		default:
			if b, err = c.p.ReadFile(full); err != nil {
				return err
			}
			if info.Mode()&0o100 != 0 {
				mode = 0o100755
			}
		}
	}
	c.p.Alloc(int64(len(b)) + 200)
	texts[outsideName(name, rest)] = b
	side[rest] = treeEntry{mode, hashObject(c.p, "blob", b)}
	return nil
}

func (c *call) readOutsideDir(side map[string]treeEntry, texts map[string][]byte, name, rest string) error {
	entries, err := c.p.ReadDir(strings.TrimSuffix(name, "/") + rest)
	if err != nil {
		return err
	}
	for _, e := range entries {
		c.p.Tick(2)
		if err := c.readOutside(side, texts, name, rest+"/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}
