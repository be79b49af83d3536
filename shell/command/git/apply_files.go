package git

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// applier applies patches, as the options of git apply say.
type applier struct {
	*call
	x         index
	done      map[string]*appliedFile // results by the name of the file, for later patches of it; without text: removed
	reverse   bool
	reject    bool // hunks that do not apply are written to files, and the others applied
	threeWay  bool
	unified   bool // hunks may have no context
	cached    bool
	indexed   bool
	ignore    bool // differences in white space do not matter
	context   int  // lines of context that must match
	fix       bool // white space at the ends of added lines is removed
	rejected  bool
	conflicts map[string]conflict
}

// appliedFile is the result of a patch for a file.
type appliedFile struct {
	patch   *filePatch
	text    []byte
	mode    uint32
	removed bool
}

// applyPatches is git apply.
func (c *call) applyPatches() error {
	options := patchOptions{strip: 1, dir: strings.TrimSuffix(c.flags["--directory"], "/"), recount: c.has("--recount")}
	if text := c.flags["-p"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return newFatal("option -p expects a non-negative integer, got '%s'", text)
		}
		options.strip = n
	}
	var files []*filePatch
	names := append(slices.Clone(c.args), c.paths...)
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		var b []byte
		var err error
		if name == "-" {
			b, err = c.p.ReadAll(c.p.Stdin)
		} else if b, err = c.p.ReadFile(name); err != nil {
			return &failure{128, "error: can't open patch '" + name + "': No such file or directory"}
		}
		if err != nil {
			return err
		}
		part, err := c.parsePatch(string(b), options)
		if err != nil {
			return err
		}
		if len(part) == 0 && !c.has("--allow-empty") {
			return &failure{128, "error: No valid patches in input (allow with \"--allow-empty\")"}
		}
		files = append(files, part...)
	}
	files, err := c.selectPatches(files)
	if err != nil {
		return err
	}
	if c.has("--stat", "--numstat", "--summary") {
		if err := c.printPatchStat(files); err != nil || !c.has("--apply", "--check") {
			return err
		}
	}
	return c.applyFiles(files)
}

// selectPatches returns the patches that --include, --exclude and the working directory select.
func (c *call) selectPatches(files []*filePatch) ([]*filePatch, error) {
	dir, err := c.relativePath(".")
	if err != nil {
		dir = ""
	}
	var kept []*filePatch
	for _, f := range files {
		c.p.Tick(1)
		if dir != "" && !f.git {
			for _, name := range []*string{&f.old, &f.new} {
				if *name != "" {
					*name = path.Join(dir, *name)
				}
			}
		}
		name := orDefault(f.new, f.old)
		if dir != "" && !strings.HasPrefix(name, dir+"/") {
			continue
		}
		if c.isPatchSelected(name) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// isPatchSelected reports whether the first pattern of --include and --exclude that matches a name is one of --include.
func (c *call) isPatchSelected(name string) bool {
	seen := make(map[string]int)
	for _, option := range c.order {
		if option != "--include" && option != "--exclude" {
			continue
		}
		pattern := c.values[option][seen[option]]
		seen[option]++
		flat := strings.NewReplacer("/", "\x01") // * matches slashes
		if matchGlob(c.p, flat.Replace(pattern), flat.Replace(name)) {
			return option == "--include"
		}
	}
	return !c.has("--include")
}

// printPatchStat prints the statistics of a patch.
func (c *call) printPatchStat(files []*filePatch) error {
	f := &patch{r: c.repository, stat: c.has("--stat"), numStat: c.has("--numstat"), width: 80, digits: 4}
	var list []change
	for _, file := range files {
		c.p.Tick(1)
		ch := change{name: orDefault(file.new, file.old), old: treeEntry{mode: file.oldMode}, new: treeEntry{mode: file.newMode}}
		if file.old != "" {
			ch.old.mode = orMode(file.oldMode, 0o100644)
		}
		if file.new != "" {
			ch.new.mode = orMode(file.newMode, orMode(file.oldMode, 0o100644))
		}
		if file.rename {
			ch.from = file.old
		}
		list = append(list, ch)
		row := statRow{name: orDefault(file.new, file.old), binary: file.binary}
		for _, h := range file.hunks {
			for _, l := range h.lines {
				switch l.sign {
				case '+':
					row.added++
				case '-':
					row.removed++
				}
			}
		}
		f.added, f.removed = f.added+row.added, f.removed+row.removed
		f.statRows = append(f.statRows, row)
		if f.numStat {
			f.printf("%d\t%d\t%s\n", row.added, row.removed, row.name)
		}
	}
	if f.stat {
		f.printStat()
		f.printTotal()
	}
	if c.has("--summary") {
		f.printModes(list)
	}
	return nil
}

// applyFiles applies patches to all files or, if one does not apply, to none.
func (c *call) applyFiles(files []*filePatch) error {
	a := &applier{
		call: c, x: make(index), done: make(map[string]*appliedFile), conflicts: make(map[string]conflict), reverse: c.has("-R", "--reverse"), reject: c.has("--reject"),
		threeWay: c.has("-3", "--3way"), unified: c.has("--unidiff-zero"), cached: c.has("--cached"), ignore: c.has("--ignore-whitespace", "--ignore-space-change"), context: 1 << 30,
	}
	switch text := c.flags["--whitespace"]; text {
	case "", "nowarn", "warn":
	case "fix", "strip":
		a.fix = true
	default:
		return &failure{129, "error: git apply --whitespace=" + text + " is not supported here: use git apply and git diff --check"}
	}
	a.indexed = (c.has("--index") || a.threeWay) && !a.cached
	if n, err := strconv.Atoi(c.flags["-C"]); err == nil {
		a.context = n
	}
	if c.dir != "" {
		var err error
		if a.x, err = c.readIndex(); err != nil {
			return err
		}
	}
	var list []*appliedFile
	for _, f := range files {
		c.p.Tick(1)
		if a.reverse {
			f.old, f.new, f.oldMode, f.newMode = f.new, f.old, f.newMode, f.oldMode
		}
		if f.binary && !f.literal {
			return newError("cannot apply binary patch to '%s' without full index line", orDefault(f.new, f.old))
		}
		result, err := a.applyFile(f)
		if err != nil {
			if !a.reject {
				return err
			}
			a.rejected = true
			continue
		}
		if f.old != "" && f.old != f.new && !f.copied {
			a.done[f.old] = &appliedFile{removed: true}
		}
		if f.new != "" {
			a.done[f.new] = result
		}
		list = append(list, result)
	}
	if c.has("--check") {
		return a.status()
	}
	for _, result := range list {
		if err := a.store(result); err != nil {
			return err
		}
	}
	if a.cached || a.indexed {
		for name, k := range a.conflicts {
			delete(a.x, name)
			c.repository.conflicts[name] = k
		}
		if err := c.writeIndex(a.x); err != nil {
			return err
		}
	}
	return a.status()
}

// status returns the exit code after rejected hunks and conflicts.
func (a *applier) status() error {
	if a.rejected || len(a.conflicts) > 0 {
		return &failure{1, ""}
	}
	return nil
}

// readOld returns the file that a patch changes.
func (a *applier) readOld(f *filePatch) (text []byte, mode uint32, err error) {
	if d, ok := a.done[f.old]; ok {
		if d.removed {
			return nil, 0, newError("%s: No such file or directory", f.old)
		}
		return d.text, d.mode, nil
	}
	if a.cached {
		e, ok := a.x[f.old]
		if !ok {
			return nil, 0, newError("%s: does not exist in index", f.old)
		}
		_, text, err = a.readObject(e.id)
		return text, e.mode, err
	}
	if text, mode, err = a.readWorkFile(f.old); err != nil {
		return nil, 0, newError("%s: No such file or directory", f.old)
	}
	if a.indexed {
		e, ok := a.x[f.old]
		if !ok {
			return nil, 0, newError("%s: does not exist in index", f.old)
		}
		if now, _, err := a.workEntry(f.old); err != nil || now != e.treeEntry {
			return nil, 0, newError("%s: does not match index", f.old)
		}
	}
	return text, mode, nil
}

// checkNew checks that the file that a patch creates does not exist.
func (a *applier) checkNew(name string) error {
	if d, ok := a.done[name]; ok {
		if d.removed {
			return nil
		}
		return newError("%s: already exists in working directory", name)
	}
	if _, ok := a.x[name]; ok && (a.cached || a.indexed) {
		return newError("%s: already exists in index", name)
	}
	if _, err := a.p.Lstat(a.root + "/" + name); err == nil && !a.cached {
		return newError("%s: already exists in working directory", name)
	}
	return nil
}

// applyFile computes the result of a patch for one file.
func (a *applier) applyFile(f *filePatch) (*appliedFile, error) {
	result := &appliedFile{patch: f, mode: orMode(f.newMode, 0o100644), removed: f.new == ""}
	var text []byte
	if f.old != "" {
		var mode uint32
		var err error
		if text, mode, err = a.readOld(f); err != nil {
			return nil, err
		}
		result.mode = orMode(f.newMode, mode)
	} else if err := a.checkNew(f.new); err != nil {
		return a.mergeNew(f, result, err)
	}
	if f.literal {
		want, next := f.versions[1], f.versions[0]
		if a.reverse {
			want, next = next, want
		}
		if !bytes.Equal(text, want) {
			return nil, newError("the patch applies to '%s', which does not match the current contents.", orDefault(f.old, f.new))
		}
		result.text = next
		return result, nil
	}
	if a.threeWay && f.old != "" && f.new != "" {
		ok, err := a.mergePatch(f, text, result)
		if err != nil || ok {
			return result, err
		}
	}
	var err error
	result.text, err = a.applyHunks(f, text)
	if err == nil && f.new == "" && len(result.text) > 0 && len(f.hunks) > 0 {
		err = newError("removal patch leaves file contents")
	}
	return result, err
}

// mergeNew merges the file that a patch creates with the one that exists, if --3way was given; else it returns the error.
func (a *applier) mergeNew(f *filePatch, result *appliedFile, exists error) (*appliedFile, error) {
	if !a.threeWay || f.literal {
		return nil, exists
	}
	present := *f
	present.old = f.new
	ours, mode, err := a.readOld(&present)
	if err != nil {
		return nil, err
	}
	result.mode = mode
	ok, err := a.mergePatch(f, ours, result)
	if err == nil && !ok {
		err = exists
	}
	return result, err
}

// mergePatch applies a patch to the version that it was made from, and merges the result with the present one.
func (a *applier) mergePatch(f *filePatch, ours []byte, result *appliedFile) (bool, error) {
	var base id
	var before []byte
	if f.old != "" {
		var kind string
		var err error
		if base, err = a.resolveObject(f.oldID); err != nil || a.reverse {
			return false, nil // the patch is applied without a merge
		}
		if kind, before, err = a.readObject(base); err != nil || kind != "blob" {
			return false, nil // likewise
		}
	}
	strict := *a
	strict.reject = false
	after, err := strict.applyHunks(f, before)
	if err != nil {
		return false, nil
	}
	style := a.conf.get("merge.conflictstyle")
	m := textMerge{p: a.p, labels: [3]string{"ours", "base", "theirs"}, favor: mergeConflict, showBase: style == "diff3" || style == "zdiff3"}
	text, conflicts := m.mergeTexts(before, ours, after)
	if result.text = text; bytes.Equal(ours, after) {
		result.text, conflicts = ours, false
	}
	if !conflicts {
		return true, nil
	}
	ourID, err := a.writeObject("blob", ours)
	if err != nil {
		return false, err
	}
	theirID, err := a.writeObject("blob", after)
	a.conflicts[f.new] = conflict{{}, {result.mode, ourID}, {result.mode, theirID}}
	if base != "" {
		k := a.conflicts[f.new]
		k[0] = treeEntry{result.mode, base}
		a.conflicts[f.new] = k
	}
	return true, err
}

func orMode(mode, other uint32) uint32 {
	if mode == 0 {
		return other
	}
	return mode
}

// store writes the result of a patch to the working tree, to the index, or to both.
func (a *applier) store(result *appliedFile) error {
	f := result.patch
	if a.reject {
		if err := a.writeRejected(f); err != nil {
			return err
		}
	}
	if f.old != "" && f.old != f.new && !f.copied {
		if !a.cached {
			a.removeWorkFile(f.old)
		}
		delete(a.x, f.old)
	}
	if f.new == "" {
		return nil
	}
	if !a.cached && !a.indexed {
		return a.writeWorkText(f.new, result.mode, result.text)
	}
	i, err := a.writeObject("blob", result.text)
	if err != nil {
		return err
	}
	e := treeEntry{result.mode, i}
	if a.cached {
		a.x[f.new] = indexEntry{treeEntry: e}
		return nil
	}
	if err := a.writeWorkFile(f.new, e); err != nil {
		return err
	}
	return a.putIndex(a.x, f.new, e)
}

// writeRejected writes the hunks of a patch that did not apply to a file.
func (a *applier) writeRejected(f *filePatch) error {
	var b bytes.Buffer
	name := orDefault(f.new, f.old)
	b.WriteString("diff a/" + name + " b/" + name + "\t(rejected hunks)\n")
	found := false
	for _, h := range f.hunks {
		if !h.rejected {
			continue
		}
		found = true
		b.WriteString(h.head + "\n")
		for _, l := range h.lines {
			a.p.Tick(1)
			a.p.Alloc(int64(len(l.text)) + 2)
			b.WriteString(string(l.sign) + l.text + "\n")
			if l.noEnd {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	if !found {
		return nil
	}
	a.rejected = true
	return a.p.WriteFile(a.root+"/"+name+".rej", b.Bytes(), 0o644)
}
