package git

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// addPaths adds contents of files to the index.
func (c *call) addPaths() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	operands := append(slices.Clone(c.args), c.paths...)
	if len(operands) == 0 && !c.has("-A", "--all", "-u", "--update") {
		return &failure{0, "Nothing specified, nothing added.\nhint: Maybe you wanted to say 'git add .'?\nhint: Turn this message off by running\nhint: \"git config advice.addEmptyPathspec false\""}
	}
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	work, err := c.listWork(x, listOptions{all: c.has("-f", "--force")})
	if err != nil {
		return err
	}
	found := make([]bool, len(paths))
	if err := c.addFiles(x, work, paths, found); err != nil {
		return err
	}
	for i, ok := range found {
		if ok || paths[i] == "" || strings.HasPrefix(paths[i], ":!") {
			continue
		}
		info, err := c.p.Lstat(operands[i])
		if err != nil {
			return newFatal("pathspec '%s' did not match any files", operands[i])
		}
		if !info.IsDir() || c.isIgnoredPath(paths[i]) {
			return &failure{1, "The following paths are ignored by one of your .gitignore files:\n" + paths[i] + "\nhint: Use -f if you really want to add them.\nhint: Turn this message off by running\nhint: \"git config advice.addIgnoredFile false\""}
		}
	}
	if c.has("-n", "--dry-run") {
		return nil
	}
	if err := c.dropReplaced(x); err != nil {
		return err
	}
	return c.writeIndex(x)
}

// addFiles adds the files of the working tree that the paths select, and removes those that are missing.
func (c *call) addFiles(x index, work, paths []string, found []bool) error {
	print := func(verb, name string) {
		if c.has("-v", "--verbose", "-n", "--dry-run") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s '%s'\n", verb, name) // Flush reports the error
		}
	}
	for _, name := range work {
		old, known := x[name]
		_, conflicting := c.conflicts[name]
		if !c.markMatches(paths, found, name) || !known && !conflicting && c.has("-u", "--update") {
			continue
		}
		if c.has("-N", "--intent-to-add") && !known {
			continue
		}
		if known && (old.mode == modeRepo || old.assumed || old.skipped) {
			continue
		}
		mark := c.p.Charged()
		if now, ok, err := c.workEntry(name); err != nil || known && ok && now == old.treeEntry {
			if err != nil {
				return err
			}
			continue
		}
		c.p.Free(c.p.Charged() - mark)
		print("add", name)
		if err := c.addFile(x, name); err != nil {
			return err
		}
	}
	for _, name := range append(sortedKeys(x), sortedKeys(c.conflicts)...) {
		if _, present := slices.BinarySearch(work, name); !present && c.markMatches(paths, found, name) {
			if _, ok, err := c.workState(name, x[name]); err != nil || ok {
				continue
			}
			print("remove", name)
			delete(x, name)
			delete(c.conflicts, name)
		}
	}
	return nil
}

// markMatches reports whether one of the paths has the file, and marks those.
func (c *call) markMatches(paths []string, found []bool, name string) bool {
	any := false
	included := false
	for i, dir := range paths {
		c.p.Tick(1)
		if dir, ok := strings.CutPrefix(dir, ":!"); ok {
			if matchPath(c.p, dir, name) {
				return false
			}
			continue
		}
		included = true
		if matchPath(c.p, dir, name) {
			found[i], any = true, true
		}
	}
	return any || !included
}

// removeFiles removes files from the index and the working tree.
func (c *call) removeFiles() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	var list []string
	for _, operand := range append(slices.Clone(c.args), c.paths...) {
		dir, err := c.relativePath(operand)
		if err != nil {
			return err
		}
		n := len(list)
		for _, name := range append(sortedKeys(x), sortedKeys(c.conflicts)...) {
			if !matchPath(c.p, dir, name) {
				continue
			}
			if name != dir && isBelow(name, dir) && !c.has("-r") {
				return newFatal("not removing '%s' recursively without -r", operand)
			}
			list = append(list, name)
		}
		if len(list) == n && !c.has("--ignore-unmatch") {
			return newFatal("pathspec '%s' did not match any files", operand)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if !c.has("-f", "--force") {
		if err := c.checkRemoval(x, head, list); err != nil {
			return err
		}
	}
	for _, name := range list {
		delete(x, name)
		delete(c.conflicts, name)
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintf(c.p.Out(), "rm '%s'\n", name) // Flush reports the error
		}
		if !c.has("--cached", "-n", "--dry-run") {
			c.removeWorkFile(name)
		}
	}
	if c.has("-n", "--dry-run") {
		return nil
	}
	return c.writeIndex(x)
}

// checkRemoval returns an error if removing files would lose changes.
func (c *call) checkRemoval(x index, head map[string]treeEntry, list []string) error {
	var both, staged, local []string
	for _, name := range list {
		e, merged := x[name]
		if !merged {
			continue
		}
		now, ok, err := c.workEntry(name)
		if err != nil {
			return err
		}
		isStaged, isLocal := head[name] != e.treeEntry, ok && now != e.treeEntry
		switch {
		case isStaged && isLocal:
			both = append(both, name)
		case isStaged && ok && !c.has("--cached"):
			staged = append(staged, name)
		case isLocal && !c.has("--cached"):
			local = append(local, name)
		}
	}
	var messages []string
	add := func(names []string, one, many, hint string) {
		if len(names) == 0 {
			return
		}
		text := one
		if len(names) > 1 {
			text = many
		}
		messages = append(messages, "error: "+text+":\n    "+strings.Join(names, "\n    ")+"\n"+hint)
	}
	add(both, "the following file has staged content different from both the\nfile and the HEAD", "the following files have staged content different from both the\nfile and the HEAD", "(use -f to force removal)")
	add(staged, "the following file has changes staged in the index", "the following files have changes staged in the index", "(use --cached to keep the file, or -f to force removal)")
	add(local, "the following file has local modifications", "the following files have local modifications", "(use --cached to keep the file, or -f to force removal)")
	if len(messages) == 0 {
		return nil
	}
	return &failure{1, strings.Join(messages, "\n")}
}

// renameFile renames a file or directory.
func (c *call) renameFile() error {
	operands := append(slices.Clone(c.args), c.paths...)
	if len(operands) < 2 {
		return &failure{129, "usage: git mv [<options>] <source>... <destination>"}
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	to := operands[len(operands)-1]
	info, err := c.p.Stat(to)
	inside := err == nil && info.IsDir()
	if len(operands) > 2 && !inside {
		return newFatal("destination '%s' is not a directory", to)
	}
	for _, from := range operands[:len(operands)-1] {
		target := to
		if inside {
			target = path.Join(to, path.Base(from))
		}
		if err := c.moveFile(x, from, target); err != nil {
			return err
		}
	}
	return c.writeIndex(x)
}

// moveFile renames one file or directory, also in the index.
func (c *call) moveFile(x index, from, to string) error {
	paths, err := c.relativePaths([]string{from, to})
	if err != nil {
		return err
	}
	if _, err := c.p.Lstat(from); err != nil {
		return newFatal("bad source, source=%s, destination=%s", paths[0], paths[1])
	}
	if _, err := c.p.Lstat(to); err == nil && !c.has("-f") {
		return newFatal("destination exists, source=%s, destination=%s", paths[0], paths[1])
	}
	moved := make(index)
	for name, e := range x {
		if isBelow(name, paths[0]) {
			moved[paths[1]+name[len(paths[0]):]] = e
			delete(x, name)
		}
	}
	if len(moved) == 0 {
		return newFatal("not under version control, source=%s, destination=%s", paths[0], paths[1])
	}
	if err := c.p.Rename(from, to); err != nil {
		return err
	}
	maps.Copy(x, moved)
	return nil
}

// displayPath returns a path of the repository relative to the working directory, for output to people.
func (c *call) displayPath(name string) string {
	dir, err := c.relativePath(".")
	if err != nil || dir == "" {
		return name
	}
	up := ""
	for !strings.HasPrefix(name, dir+"/") {
		up += "../"
		if dir = path.Dir(dir); dir == "." {
			return up + name
		}
	}
	if rest := name[len(dir)+1:]; up+rest != "" {
		return up + rest
	}
	return "./"
}
