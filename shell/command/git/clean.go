package git

import (
	"fmt"
	"slices"
	"strings"
)

// cleanFiles is git clean: it removes untracked files.
func (c *call) cleanFiles() error {
	if !c.has("-f", "--force", "-n", "--dry-run") && c.conf.get("clean.requireforce") != "false" {
		return newFatal("clean.requireForce defaults to true and neither -i, -n, nor -f given; refusing to clean")
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	paths, err := c.relativePaths(append(slices.Clone(c.args), c.paths...))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		if here, err := c.relativePath("."); err == nil && here != "" {
			paths = []string{here}
		}
	}
	list, err := c.listWork(x, listOptions{collapse: true, all: c.has("-x"), ignored: c.has("-X")})
	if err != nil {
		return err
	}
	for _, name := range list {
		_, known := x[name]
		_, conflicting := c.conflicts[name]
		bare := strings.TrimSuffix(name, "/")
		excluded := slices.ContainsFunc(c.values["-e"], func(p string) bool { return matchGlob(c.p, p, bare) || matchGlob(c.p, "*/"+p, bare) })
		if known || conflicting || excluded || !selects(c.p, paths, bare) || bare != name && !c.has("-d") && !slices.Contains(paths, bare) {
			continue
		}
		if bare != name && openAt(c.p, c.root+"/"+bare) != nil && !c.has("-f", "--force") {
			continue
		}
		verb := "Removing"
		if c.has("-n", "--dry-run") {
			verb = "Would remove"
		} else if err := c.p.RemoveAll(c.root + "/" + bare); err != nil {
			return err
		}
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s %s\n", verb, c.quotePath(c.displayPath(name))) // Flush reports the error
		}
	}
	return nil
}
