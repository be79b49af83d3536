package git

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// sparseCone is the directories of a sparse working tree; nil has all files. The files of the directories above them, and of
// the root, are included.
type sparseCone []string

// includes reports whether a file is in the working tree.
func (s sparseCone) includes(p *kernel.Proc, name string) bool {
	dir := path.Dir(name)
	if s == nil || dir == "." {
		return true
	}
	for _, d := range s {
		p.Tick(1)
		if isBelow(dir, d) || d != "" && isBelow(d, dir) {
			return true
		}
	}
	return false
}

// readSparse returns the directories of the working tree if it is sparse, or nil.
func (r *repository) readSparse() sparseCone {
	if !r.conf.isTrue("core.sparsecheckout") || r.conf.isFalse("core.sparsecheckoutcone") {
		return nil
	}
	b, err := r.p.ReadFile(r.dir + "/info/sparse-checkout")
	if err != nil {
		return nil
	}
	defer r.p.Free(int64(cap(b)))
	cone := sparseCone{}
	for line := range strings.Lines(string(b)) {
		r.p.Tick(1)
		line = strings.TrimSpace(line)
		if dir, ok := strings.CutPrefix(line, "!/"); ok {
			if n := len(cone) - 1; n >= 0 && cone[n]+"/*/" == dir {
				cone = cone[:n] // only above others
			}
		} else if dir := strings.Trim(line, "/"); dir != "" && dir != "*" {
			r.p.Alloc(int64(len(dir)) + 32)
			cone = append(cone, dir)
		}
	}
	return cone
}

// writeSparse stores the directories of a sparse working tree.
func (c *call) writeSparse(cone sparseCone) error {
	slices.Sort(cone)
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	seen, last := make(map[string]bool), ""
	for _, dir := range cone {
		if last != "" && isBelow(dir, last) {
			continue
		}
		last = dir
		for n := range dir {
			c.p.Tick(1)
			if above := dir[:n]; dir[n] == '/' && !seen[above] {
				seen[above] = true
				fmt.Fprintf(&b, "/%s/\n!/%s/*/\n", above, above)
			}
		}
		fmt.Fprintf(&b, "/%s/\n", dir)
	}
	if err := c.p.MkdirAll(c.dir+"/info", 0o777); err != nil {
		return err
	}
	if err := c.p.WriteFile(c.dir+"/info/sparse-checkout", []byte(b.String()), 0o644); err != nil {
		return err
	}
	return c.enableSparse("true")
}

// enableSparse stores whether the working tree is sparse, in a configuration of its own.
func (c *call) enableSparse(value string) error {
	if !c.conf.isTrue("extensions.worktreeconfig") {
		if err := setConfig(c.p, c.common+"/config", "extensions.worktreeConfig", "true"); err != nil {
			return err
		}
	}
	for _, name := range []string{"core.sparseCheckout", "core.sparseCheckoutCone"} {
		if err := setConfig(c.p, c.dir+"/config.worktree", name, value); err != nil {
			return err
		}
		c.conf = append(c.conf, configEntry{name: strings.ToLower(name), value: value})
	}
	return nil
}

// manageSparse is git sparse-checkout: it limits the working tree to directories.
func (c *call) manageSparse() error {
	if len(c.args) == 0 {
		return &failure{129, "usage: git sparse-checkout (init | list | set | add | reapply | disable) [<options>]"}
	}
	act := c.args[0]
	c.args = c.args[1:]
	cone := c.readSparse()
	switch {
	case act == "disable":
		if err := c.enableSparse("false"); err != nil {
			return err
		}
		return c.applySparse(nil)
	case act == "init" && cone != nil:
	case act == "init":
		cone = sparseCone{}
	case act == "list" && cone == nil:
		return newFatal("this worktree is not sparse")
	case act == "list":
		slices.Sort(cone)
		for _, dir := range cone {
			_, _ = fmt.Fprintln(c.p.Out(), c.quotePath(dir)) // Flush reports the error
		}
		return nil
	case act == "add" && cone == nil:
		return newFatal("no sparse-checkout to add to")
	case act == "reapply" && cone == nil:
		return newFatal("must be in a sparse-checkout to reapply sparsity patterns")
	case act == "reapply":
		return c.applySparse(cone)
	case act == "set" || act == "add":
		dirs, err := c.sparseOperands()
		if err != nil {
			return err
		}
		if act == "set" {
			cone = sparseCone{}
		}
		cone = append(cone, dirs...)
	default:
		return &failure{129, "error: unknown subcommand: `" + act + "'"}
	}
	if err := c.writeSparse(cone); err != nil {
		return err
	}
	return c.applySparse(c.readSparse())
}

// sparseOperands returns the directories that the operands or the lines of standard input name.
func (c *call) sparseOperands() ([]string, error) {
	operands := append(slices.Clone(c.args), c.paths...)
	if c.has("--stdin") {
		list, err := c.readNames()
		if err != nil {
			return nil, err
		}
		operands = append(operands, list...)
	}
	x, err := c.readIndex()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, operand := range operands {
		dir, err := c.relativePath(strings.TrimPrefix(operand, "/"))
		if err != nil {
			return nil, err
		}
		if _, ok := x[dir]; ok && !c.has("--skip-checks") {
			return nil, newFatal("'%s' is not a directory; to treat it as a directory anyway, rerun with --skip-checks", operand)
		}
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// applySparse writes the files of the index that the working tree is to have, and removes the others unless they were changed.
func (c *call) applySparse(cone sparseCone) error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	var kept []string
	for _, name := range sortedKeys(x) {
		e := x[name]
		wanted := cone.includes(c.p, name)
		if wanted != e.skipped || e.mode == modeRepo {
			continue
		}
		now, exists, err := c.workEntry(name)
		switch {
		case err != nil:
			return err
		case wanted && !exists:
			if err := c.writeWorkFile(name, e.treeEntry); err != nil {
				return err
			}
		case !wanted && exists && now != e.treeEntry:
			kept = append(kept, name)
			continue
		case !wanted:
			c.removeWorkFile(name)
		}
		e.skipped = !wanted
		x[name] = e
	}
	if len(kept) > 0 {
		_, _ = fmt.Fprintf(c.p.Stderr, "warning: The following paths are not up to date and were left despite sparse patterns:\n\t%s\n\nAfter fixing the above paths, you may want to run `git sparse-checkout reapply`.\n", strings.Join(kept, "\n\t")) // best effort
	}
	return c.writeIndex(x)
}
