package git

import (
	"bytes"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// printDiff prints the differences between two of: commits, the index and the working tree.
func (c *call) printDiff() error {
	if c.has("--no-index") || c.dir == "" {
		return c.diffOutside()
	}
	return c.printDifference("patch")
}

// printDifference is printDiff with the format that is used without an option for one.
func (c *call) printDifference(fallback string) error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	f, err := c.newPatch(fallback)
	if err != nil {
		return err
	}
	finish := c.openOutput(f)
	revs, operands, err := c.readSides()
	if err != nil {
		return err
	}
	paths, err := c.relativePaths(append(operands, c.paths...))
	if err != nil {
		return err
	}
	if c.has("--relative") {
		dir, err := c.relativePath(".")
		if err != nil {
			return err
		}
		if dir != "" {
			paths = append(paths, dir)
			f.shown = func(name string) string { return strings.TrimPrefix(name, dir+"/") }
		}
	}
	list, err := c.compareSides(f, x, revs)
	if err != nil {
		return err
	}
	if c.has("-R") {
		for n := range list {
			list[n].old, list[n].new = list[n].new, list[n].old
		}
	}
	list, err = f.filter(slices.DeleteFunc(list, func(ch change) bool { return !selects(c.p, paths, ch.name) }))
	if err != nil {
		return err
	}
	if f.ignore != 0 {
		if list, err = f.dropIgnored(list); err != nil {
			return err
		}
	}
	if !c.has("--quiet") {
		if err := c.printDiffs(f, list, len(revs) == 0 && !c.has("--cached", "--staged")); err != nil {
			return err
		}
	}
	if err := finish(); err != nil {
		return err
	}
	return c.diffStatus(f, len(list) > 0)
}

// diffStatus returns the exit code: 1 for changes if it was asked for, and 2 for what --check finds.
func (c *call) diffStatus(f *patch, changed bool) error {
	code := 0
	if changed && c.has("--quiet", "--exit-code", "--no-index") {
		code = 1
	}
	if f.badSpace {
		code |= 2
	}
	if code == 0 {
		return nil
	}
	return &failure{code, ""}
}

// openOutput makes a printer write to the file of --output; the function that it returns writes the file.
func (c *call) openOutput(f *patch) func() error {
	name := c.flags["--output"]
	if name == "" {
		return func() error { return nil }
	}
	b := &chargedBuffer{p: c.p}
	f.to = b
	return func() error { return c.p.WriteFile(name, b.Bytes(), 0o644) }
}

// chargedBuffer is a buffer whose memory is charged.
type chargedBuffer struct {
	bytes.Buffer
	p *kernel.Proc
}

func (b *chargedBuffer) Write(text []byte) (int, error) {
	b.p.Alloc(int64(len(text)))
	return b.Buffer.Write(text)
}

// dropIgnored removes changes that are only in ignored white space.
func (f *patch) dropIgnored(list []change) ([]change, error) {
	var kept []change
	for _, ch := range list {
		if ch.unmerged || ch.old.mode != ch.new.mode {
			kept = append(kept, ch)
			continue
		}
		_, _, _, _, edits, binary, err := f.readBoth(ch)
		if err != nil {
			return nil, err
		}
		if binary || len(edits) > 0 {
			kept = append(kept, ch)
		}
	}
	return kept, nil
}

// printDiffs prints changes; those of unmerged files in the form that compares with both sides, if combined is set.
func (c *call) printDiffs(f *patch, list []change, combined bool) error {
	if !combined || !f.text || len(c.conflicts) == 0 {
		return f.printAll(list)
	}
	for _, ch := range list {
		var err error
		if ch.unmerged {
			err = f.printUnmerged(ch.name, c.conflicts[ch.name])
		} else {
			err = f.printChange(ch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readSides reads the revisions among the operands.
func (c *call) readSides() (revs []id, operands []string, err error) {
	operands = slices.Clone(c.args)
	for len(operands) > 0 && len(revs) < 2 {
		a := operands[0]
		from, to, both := strings.Cut(a, "...")
		ranged := both
		if !both {
			from, to, ranged = strings.Cut(a, "..")
		}
		_, serr := c.p.Lstat(a)
		if ranged && len(revs) == 0 && serr != nil {
			one, err := c.resolveRevision(orHead(from))
			if err != nil {
				return nil, nil, errUnknownRevision(a)
			}
			two, err := c.resolveRevision(orHead(to))
			if err != nil {
				return nil, nil, errUnknownRevision(a)
			}
			if both {
				bases, err := c.findMergeBases(one, two)
				if err != nil {
					return nil, nil, err
				}
				if len(bases) == 0 {
					return nil, nil, newFatal("%s: no merge base", a)
				}
				one = bases[0]
			}
			return []id{one, two}, operands[1:], nil
		}
		at, err := c.resolveRevision(a)
		if err != nil {
			if (serr == nil || strings.ContainsAny(a, "*?[") || strings.HasPrefix(a, ":")) && !c.split {
				break
			}
			return nil, nil, err
		}
		revs, operands = append(revs, at), operands[1:]
	}
	return revs, operands, nil
}

func orHead(rev string) string { return orDefault(rev, "HEAD") }

// compareSides returns the changes between the sides that the revisions and --cached name.
func (c *call) compareSides(f *patch, x index, revs []id) ([]change, error) {
	if c.has("--merge-base") && len(revs) > 0 {
		other := id("")
		if _, other = c.readHead(); len(revs) == 2 {
			other = revs[1]
		}
		bases, err := c.findMergeBases(revs[0], other)
		if err != nil {
			return nil, err
		}
		if len(bases) == 0 {
			return nil, newFatal("no merge base found")
		}
		revs[0] = bases[0]
	}
	if len(revs) == 2 {
		return c.compareBlobsOrTrees(revs)
	}
	old, new := x.entries(), x.entries()
	if len(revs) > 0 {
		old = make(map[string]treeEntry)
		if err := c.readTree(revs[0], "", old); err != nil {
			return nil, err
		}
	}
	if c.has("--cached", "--staged") {
		if len(revs) == 0 {
			var err error
			if old, err = c.readHeadTree(); err != nil {
				return nil, err
			}
		}
		return c.markUnmerged(compareTrees(c.p, old, new)), nil
	}
	f.work = true
	for name, staged := range x {
		e, ok, err := c.workState(name, staged)
		if err != nil {
			return nil, err
		}
		if new[name] = e; !ok {
			delete(new, name)
		}
	}
	return c.markUnmerged(compareTrees(c.p, old, new)), nil
}

// markUnmerged adds the unmerged files to changes.
func (c *call) markUnmerged(list []change) []change {
	if len(c.conflicts) == 0 {
		return list
	}
	list = slices.DeleteFunc(list, func(ch change) bool { _, ok := c.conflicts[ch.name]; return ok })
	for name := range c.conflicts {
		list = append(list, change{name: name, unmerged: true})
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.name, b.name) })
	return list
}

// compareBlobsOrTrees compares two revisions, which may be files.
func (c *call) compareBlobsOrTrees(revs []id) ([]change, error) {
	kind, err := c.readKind(revs[0])
	if err != nil {
		return nil, err
	}
	if kind == "blob" {
		return []change{{name: c.args[1], from: "", old: treeEntry{0o100644, revs[0]}, new: treeEntry{0o100644, revs[1]}}}, nil
	}
	return c.compareRevisions(revs[0], revs[1])
}
