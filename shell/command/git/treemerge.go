package git

import (
	"fmt"
	"strings"
)

// treeMerge merges two trees with their common ancestor.
type treeMerge struct {
	r                  *repository
	base, ours, theirs map[string]treeEntry
	labels             [3]string // of ours, of the ancestor, of theirs
	favor              int       // the side that wins conflicts of lines, or mergeConflict
	result             map[string]treeEntry
	conflicts          map[string]conflict
	messages           map[string][]string
	names              map[string][3]string // names of a renamed file in the three trees
}

// newTreeMerge reads three trees; "" is the empty tree.
func (r *repository) newTreeMerge(base, ours, theirs id, labels [3]string) (*treeMerge, error) {
	m := &treeMerge{r: r, labels: labels, result: make(map[string]treeEntry), conflicts: make(map[string]conflict), messages: make(map[string][]string), names: make(map[string][3]string)}
	for n, to := range []*map[string]treeEntry{&m.base, &m.ours, &m.theirs} {
		*to = make(map[string]treeEntry)
		if i := []id{base, ours, theirs}[n]; i != "" {
			if err := r.readTree(i, "", *to); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func (m *treeMerge) report(name, format string, args ...any) {
	m.messages[name] = append(m.messages[name], fmt.Sprintf(format, args...))
}

// merge fills the result, the conflicts and the messages.
func (m *treeMerge) merge() error {
	if err := m.followRenames(); err != nil {
		return err
	}
	names := make(map[string]bool)
	for _, files := range []map[string]treeEntry{m.base, m.ours, m.theirs} {
		for name := range files {
			names[name] = true
		}
	}
	m.r.p.Alloc(int64(len(names)) * 300)
	for _, name := range sortedKeys(names) {
		m.r.p.Tick(4)
		base, ours, theirs := m.base[name], m.ours[name], m.theirs[name]
		var err error
		switch {
		case ours == theirs || base == theirs:
			m.keep(name, ours)
		case base == ours:
			m.keep(name, theirs)
		default:
			err = m.mergeFile(name, conflict{base, ours, theirs})
		}
		if err != nil {
			return err
		}
	}
	return m.moveBlocked()
}

func (m *treeMerge) keep(name string, e treeEntry) {
	if e.mode != 0 {
		m.result[name] = e
	}
}

// followRenames moves the entries of files that one side renamed to their new names in all three trees.
func (m *treeMerge) followRenames() error {
	ours, err := m.renamesOf(m.ours)
	if err != nil {
		return err
	}
	theirs, err := m.renamesOf(m.theirs)
	if err != nil {
		return err
	}
	olds := make(map[string]bool)
	for from := range ours {
		olds[from] = true
	}
	for from := range theirs {
		olds[from] = true
	}
	for _, from := range sortedKeys(olds) {
		a, b := ours[from], theirs[from]
		switch {
		case a != "" && b != "" && a != b:
			m.splitRename(from, a, b)
		case a != "":
			m.followRename(from, a, b, m.theirs, 2)
		default:
			m.followRename(from, b, a, m.ours, 1)
		}
	}
	return nil
}

// renamesOf returns the new names of files that a side renamed.
func (m *treeMerge) renamesOf(side map[string]treeEntry) (map[string]string, error) {
	list := compareTrees(m.r.p, m.base, side)
	list, err := m.r.findRenames(list, leastSimilar, func(c change) ([]byte, error) { _, b, err := m.r.readObject(c.new.id); return b, err })
	renames := make(map[string]string)
	for _, c := range list {
		if c.from != "" {
			renames[c.from] = c.name
		}
	}
	return renames, err
}

// followRename gives the ancestor and the other side, which is number side of a conflict, the new name of a file.
func (m *treeMerge) followRename(from, to, same string, other map[string]treeEntry, side int) {
	if same == to {
		m.base[to] = m.base[from]
		delete(m.base, from)
		return
	}
	e, ok := other[from]
	if _, taken := other[to]; taken {
		return
	}
	if !ok {
		if old := m.base[from]; old.mode != 0 {
			m.report(to, "CONFLICT (rename/delete): %s renamed to %s in %s, but deleted in %s.", from, to, m.labels[2*(2-side)], m.labels[2*(side-1)])
			m.base[to] = old
			delete(m.base, from)
		}
		return
	}
	m.base[to], other[to] = m.base[from], e
	delete(m.base, from)
	delete(other, from)
	names := [3]string{from, to, to}
	names[side] = from
	m.names[to] = names
}

// splitRename records a file that the sides gave different names.
func (m *treeMerge) splitRename(from, a, b string) {
	m.report(from, "CONFLICT (rename/rename): %s renamed to %s in %s and to %s in %s.", from, a, m.labels[0], b, m.labels[2])
	m.conflicts[from] = conflict{m.base[from]}
	m.conflicts[a] = conflict{1: m.ours[a]}
	m.conflicts[b] = conflict{2: m.theirs[b]}
	m.result[a], m.result[b] = m.ours[a], m.theirs[b]
	for _, name := range []string{from, a, b} {
		delete(m.base, name)
	}
	delete(m.ours, a)
	delete(m.theirs, b)
}

// mergeFile merges a file that both sides changed in different ways.
func (m *treeMerge) mergeFile(name string, k conflict) error {
	ours, theirs := k[1], k[2]
	if ours.mode == 0 || theirs.mode == 0 {
		m.conflicts[name] = k
		deleted, kept, e := m.labels[0], m.labels[2], theirs
		if theirs.mode == 0 {
			deleted, kept, e = m.labels[2], m.labels[0], ours
		}
		if len(m.messages[name]) == 0 || e.id != k[0].id {
			m.report(name, "CONFLICT (modify/delete): %s deleted in %s and modified in %s.  Version %s of %s left in tree.", name, deleted, kept, kept, name)
		}
		m.result[name] = e
		return nil
	}
	mode, modeConflict := ours.mode, false
	if ours.mode == k[0].mode {
		mode = theirs.mode
	} else if theirs.mode != k[0].mode && theirs.mode != ours.mode {
		modeConflict = true
	}
	if ours.id == theirs.id && !modeConflict {
		m.result[name] = treeEntry{mode, ours.id}
		return nil
	}
	if ours.mode&0o170000 != 0o100000 || theirs.mode&0o170000 != 0o100000 {
		m.conflicts[name], m.result[name] = k, ours
		m.report(name, "CONFLICT (content): Merge conflict in %s", name)
		return nil
	}
	switch k[0].id {
	case ours.id:
		m.result[name] = treeEntry{mode, theirs.id}
		return nil
	case theirs.id:
		m.result[name] = treeEntry{mode, ours.id}
		return nil
	}
	i, conflicts, err := m.mergeContent(name, k)
	if err != nil {
		return err
	}
	m.result[name] = treeEntry{mode, i}
	if conflicts || modeConflict {
		m.conflicts[name] = k
		kind := "content"
		if k[0].mode == 0 {
			kind = "add/add"
		}
		m.report(name, "CONFLICT (%s): Merge conflict in %s", kind, name)
	}
	return nil
}

// mergeContent merges the lines of a file, and stores the result with its markers.
func (m *treeMerge) mergeContent(name string, k conflict) (id, bool, error) {
	mark := m.r.p.Charged()
	defer func() { m.r.p.Free(m.r.p.Charged() - mark) }()
	var texts [3][]byte
	binary := false
	for n, e := range k {
		if e.mode == 0 {
			continue
		}
		_, b, err := m.r.readObject(e.id)
		if err != nil {
			return "", false, err
		}
		texts[n], binary = b, binary || isBinary(b)
	}
	labels := m.labels
	if names, ok := m.names[name]; ok && (names[1] != names[2] || names[0] != names[1]) && names[1] != names[2] {
		labels = [3]string{labels[0] + ":" + names[1], labels[1] + ":" + names[0], labels[2] + ":" + names[2]}
	}
	if binary {
		if m.favor == mergeTheirs {
			return k[2].id, false, nil
		}
		if m.favor == mergeConflict {
			m.report(name, "warning: Cannot merge binary files: %s (%s vs. %s)", name, labels[0], labels[2])
		}
		m.report(name, "Auto-merging %s", name)
		return k[1].id, m.favor == mergeConflict, nil
	}
	m.report(name, "Auto-merging %s", name)
	style := m.r.conf.get("merge.conflictstyle")
	merge := textMerge{p: m.r.p, labels: labels, favor: m.favor, showBase: style == "diff3" || style == "zdiff3"}
	text, conflicts := merge.mergeTexts(texts[0], texts[1], texts[2])
	i, err := m.r.writeObject("blob", text)
	return i, conflicts, err
}

// moveBlocked renames files whose name is a directory of other files.
func (m *treeMerge) moveBlocked() error {
	dirs := make(map[string]bool)
	for name := range m.result {
		for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			dirs[name[:at]] = true
		}
	}
	for _, name := range sortedKeys(m.result) {
		if !dirs[name] {
			continue
		}
		label, side := m.labels[0], 1
		if m.ours[name].mode == 0 {
			label, side = m.labels[2], 2
		}
		to := name + "~" + strings.ReplaceAll(label, "/", "_")
		m.result[to] = m.result[name]
		k := conflict{m.base[name]}
		k[side] = m.result[name]
		m.conflicts[to] = k
		delete(m.result, name)
		delete(m.conflicts, name)
		m.report(name, "CONFLICT (file/directory): directory in the way of %s from %s; moving it to %s instead.", name, label, to)
	}
	return nil
}

// printMessages prints the messages by name.
func (m *treeMerge) printMessages() {
	for _, name := range sortedKeys(m.messages) {
		for _, text := range m.messages[name] {
			_, _ = fmt.Fprintln(m.r.p.Out(), text) // Flush reports the error
		}
	}
}

// apply makes the index and the working tree those of the merge. Local changes of other files stay.
func (m *treeMerge) apply(head map[string]treeEntry, verb, act string) error {
	if err := m.r.moveFiles(head, m.result, verb, act); err != nil {
		return err
	}
	if len(m.conflicts) == 0 {
		return nil
	}
	x, err := m.r.readIndex()
	if err != nil {
		return err
	}
	for name, k := range m.conflicts {
		delete(x, name)
		m.r.conflicts[name] = k
	}
	return m.r.writeIndex(x)
}

// writeResult stores the tree of the result.
func (m *treeMerge) writeResult() (id, error) {
	x := make(index)
	for name, e := range m.result {
		x[name] = indexEntry{treeEntry: e}
	}
	return m.r.writeTree(x)
}

// joinBases returns the tree of the common ancestor: of several ones, the merge of them.
func (r *repository) joinBases(bases []id) (id, error) {
	if len(bases) == 0 {
		return "", nil
	}
	tree, err := r.peelTo(bases[0], "tree", errUnknownRevision(string(bases[0])))
	if err != nil {
		return "", err
	}
	for n, other := range bases[1:min(len(bases), 8)] {
		if !r.p.Enter() {
			return "", newFatal("the history has too many criss-cross merges")
		}
		defer r.p.Leave()
		above, err := r.findMergeBases(bases[n], other)
		if err != nil {
			return "", err
		}
		ancestor, err := r.joinBases(above)
		if err != nil {
			return "", err
		}
		m, err := r.newTreeMerge(ancestor, tree, other, [3]string{"Temporary merge branch 1", "", "Temporary merge branch 2"})
		if err == nil {
			err = m.merge()
		}
		if err == nil {
			tree, err = m.writeResult()
		}
		if err != nil {
			return "", err
		}
	}
	return tree, nil
}
