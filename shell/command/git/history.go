package git

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// splitIdentity returns the name, address and time of an author line.
func splitIdentity(line string) (name, mail string, at time.Time) {
	name, rest, _ := strings.Cut(line, " <")
	mail, when, _ := strings.Cut(rest, "> ")
	sec, zone, _ := strings.Cut(when, " ")
	n, _ := strconv.ParseInt(sec, 10, 64) // 0 in a malformed line
	z, _ := strconv.Atoi(zone)            // likewise
	return name, mail, time.Unix(n, 0).In(time.FixedZone(zone, (z/100*60+z%100)*60))
}

// commitTime returns the time of a commit in seconds.
func (k *commit) commitTime() int64 {
	_, _, at := splitIdentity(k.committer)
	return at.Unix()
}

// queuedCommit is a commit that waits for its visit.
type queuedCommit struct {
	c  *commit
	at int64
}

// commitQueue is commits to visit, the newest first and the first of equal ones first.
type commitQueue []queuedCommit

func (q *commitQueue) push(k *commit) {
	at := k.commitTime()
	n, _ := slices.BinarySearchFunc(*q, at, func(e queuedCommit, at int64) int {
		if e.at >= at {
			return -1
		}
		return 1
	})
	*q = slices.Insert(*q, n, queuedCommit{k, at})
}

func (q *commitQueue) pop() *commit {
	k := (*q)[0].c
	*q = (*q)[1:]
	return k
}

// readCached reads a commit, or returns the one that was read before.
func (r *repository) readCached(i id) (*commit, error) {
	if k := r.commits[i]; k != nil {
		return k, nil
	}
	k, err := r.readCommit(i)
	if err != nil {
		return nil, err
	}
	if r.commits == nil {
		r.commits = make(map[id]*commit)
	}
	r.p.Alloc(int64(len(k.message)+len(k.author)+len(k.committer)) + 300)
	r.commits[i] = k
	return k, nil
}

// walkHistory calls visit for a commit and its ancestors, newest first, until it returns false.
func (r *repository) walkHistory(starts []id, visit func(*commit) (bool, error)) error {
	return r.walkSelected(starts, nil, func(k *commit) ([]id, bool, error) {
		more, err := visit(k)
		return k.parents, more, err
	})
}

// walkRange is walkHistory without the commits that can be reached from others.
func (r *repository) walkRange(starts, without []id, visit func(*commit) (bool, error)) error {
	hidden, err := r.collectAncestors(without)
	if err != nil {
		return err
	}
	return r.walkSelected(starts, hidden, func(k *commit) ([]id, bool, error) {
		more, err := visit(k)
		return k.parents, more, err
	})
}

// collectAncestors returns commits and all their ancestors.
func (r *repository) collectAncestors(starts []id) (map[id]bool, error) {
	found := make(map[id]bool)
	if len(starts) == 0 {
		return found, nil
	}
	err := r.walkHistory(starts, func(k *commit) (bool, error) {
		r.p.Alloc(96)
		found[k.id] = true
		return true, nil
	})
	return found, err
}

// walkSelected calls visit for commits that are not hidden, newest first; it returns the parents to go on with.
func (r *repository) walkSelected(starts []id, hidden map[id]bool, visit func(*commit) ([]id, bool, error)) error {
	seen := make(map[id]bool)
	var queue commitQueue
	push := func(i id) error {
		if i == "" || seen[i] || hidden[i] {
			return nil
		}
		r.p.Alloc(128)
		seen[i] = true
		k, err := r.readCached(i)
		if err != nil {
			return err
		}
		if k.id != i && (seen[k.id] || hidden[k.id]) {
			return nil
		}
		seen[k.id] = true
		r.p.Tick(2 + len(queue)>>6)
		queue.push(k)
		return nil
	}
	for _, i := range starts {
		if err := push(i); err != nil {
			return err
		}
	}
	for len(queue) > 0 {
		k := queue.pop()
		parents, more, err := visit(k)
		if err != nil || !more {
			return err
		}
		for _, i := range parents {
			if err := push(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// readShallow returns the commits whose parents a shallow clone lacks.
func (r *repository) readShallow() map[id]bool {
	if r.shallowRead {
		return r.shallow
	}
	r.shallowRead, r.shallow = true, nil
	b, err := r.p.ReadFile(r.common + "/shallow")
	if err != nil {
		return nil
	}
	r.shallow = make(map[id]bool)
	for line := range strings.Lines(string(b)) {
		r.p.Alloc(96)
		r.shallow[id(strings.TrimSpace(line))] = true
	}
	return r.shallow
}

// sortTopologically orders commits so that no parent comes before its children, and keeps lines of history
// together, as git's --topo-order does.
func (r *repository) sortTopologically(list []*commit) []*commit {
	r.p.Alloc(int64(len(list)) * 160)
	children := make(map[id]int, len(list))
	byID := make(map[id]*commit, len(list))
	for _, k := range list {
		byID[k.id] = k
	}
	for _, k := range list {
		for _, parent := range k.parents {
			children[parent]++
		}
	}
	var stack, sorted []*commit
	for _, k := range slices.Backward(list) {
		if children[k.id] == 0 {
			stack = append(stack, k)
		}
	}
	for len(stack) > 0 {
		r.p.Tick(2)
		k := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		sorted = append(sorted, k)
		for _, parent := range k.parents {
			if children[parent]--; children[parent] == 0 && byID[parent] != nil {
				stack = append(stack, byID[parent])
			}
		}
	}
	return sorted
}

// The marks of a search for merge bases.
const (
	fromOne = 1 << iota
	fromTwo
	isStale
	isResult
)

// findMergeBases returns the best common ancestors of two commits, newest first.
func (r *repository) findMergeBases(one, two id) ([]id, error) {
	if one == two {
		return []id{one}, nil
	}
	marks := map[id]int{}
	var queue commitQueue
	push := func(i id, mark int) error {
		if marks[i]&mark == mark {
			return nil
		}
		k, err := r.readCached(i)
		if err != nil {
			return err
		}
		r.p.Alloc(128)
		r.p.Tick(2)
		marks[i] |= mark
		queue.push(k)
		return nil
	}
	if err := push(one, fromOne); err != nil {
		return nil, err
	}
	if err := push(two, fromTwo); err != nil {
		return nil, err
	}
	var found []id
	for slices.ContainsFunc(queue, func(e queuedCommit) bool { return marks[e.c.id]&isStale == 0 }) {
		r.p.Tick(len(queue)>>4 + 1)
		k := queue.pop()
		mark := marks[k.id] & (fromOne | fromTwo | isStale)
		if mark == fromOne|fromTwo {
			if marks[k.id]&isResult == 0 {
				marks[k.id] |= isResult
				found = append(found, k.id)
			}
			mark |= isStale
		}
		for _, parent := range k.parents {
			if err := push(parent, mark); err != nil {
				return nil, err
			}
		}
	}
	found = slices.DeleteFunc(found, func(i id) bool { return marks[i]&isStale != 0 })
	return r.removeRedundant(found)
}

// removeRedundant removes the commits that are ancestors of others in the list.
func (r *repository) removeRedundant(list []id) ([]id, error) {
	if len(list) < 2 {
		return list, nil
	}
	var kept []id
	for n, i := range list {
		redundant := false
		for m, other := range list {
			if m == n || redundant {
				continue
			}
			var err error
			if redundant, err = r.isAncestor(i, other); err != nil {
				return nil, err
			}
		}
		if !redundant {
			kept = append(kept, i)
		}
	}
	return kept, nil
}

// changesOf returns the changes of a commit against its first parent.
func (r *repository) changesOf(c *commit) ([]change, error) {
	if len(c.parents) > 0 {
		return r.compareRevisions(c.parents[0], c.tree)
	}
	return r.compareRevisions("", c.tree)
}

// compareRevisions returns the changes between the trees of two revisions; "" is the empty tree. Equal
// directories are not read.
func (r *repository) compareRevisions(old, new id) ([]change, error) {
	for _, i := range []*id{&old, &new} {
		if *i == "" {
			continue
		}
		tree, err := r.peelTo(*i, "tree", newFatal("not a tree object: %s", *i))
		if err != nil {
			return nil, err
		}
		*i = tree
	}
	var list []change
	err := r.compareSubtrees(old, new, "", &list)
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.name, b.name) })
	return list, err
}

func (r *repository) compareSubtrees(old, new id, prefix string, list *[]change) error {
	if old == new {
		return nil
	}
	if !r.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer r.p.Leave()
	names := make(map[string][2]treeEntry)
	for side, tree := range []id{old, new} {
		if tree == "" {
			continue
		}
		items, err := r.readTreeItems(tree)
		if err != nil {
			return err
		}
		for _, it := range items {
			r.p.Tick(1)
			pair := names[it.name]
			pair[side] = it.treeEntry
			names[it.name] = pair
		}
	}
	r.p.Alloc(int64(len(names)) * 200)
	defer r.p.Free(int64(len(names)) * 200)
	for name, pair := range names {
		if pair[0] == pair[1] {
			continue
		}
		var sub [2]id
		for side := range pair {
			if pair[side].mode == modeTree {
				sub[side] = pair[side].id
				pair[side] = treeEntry{}
			}
		}
		if pair[0] != pair[1] {
			r.p.Alloc(int64(len(prefix)+len(name)) + 200)
			*list = append(*list, change{name: prefix + name, old: pair[0], new: pair[1]})
		}
		if err := r.compareSubtrees(sub[0], sub[1], prefix+name+"/", list); err != nil {
			return err
		}
	}
	return nil
}
