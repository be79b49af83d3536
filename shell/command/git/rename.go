package git

import (
	"cmp"
	"hash/maphash"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The marks for the similarity of files; most is that of equal ones.
const (
	mostSimilar  = 60000
	leastSimilar = mostSimilar / 2
	sameNamed    = mostSimilar * 3 / 4 // needed of files with a unique equal base name
	mostRenames  = 1000                // more files on a side are not compared by content
)

// candidate is a pair of a removed and a created file.
type candidate struct {
	from, to, score int
	sameName        bool
}

// renameFinder joins files that were removed and created to renames.
type renameFinder struct {
	r          *repository
	list       []change
	similar    int   // the least mark of a rename
	from, to   []int // numbers of the changes that are not joined yet
	chunks     map[id]map[uint64]int
	sizes      map[id]int
	seed       maphash.Seed
	readTarget func(c change) ([]byte, error)
}

// parseSimilarity reads how similar the files of a rename are at least: 90%, or 9 for 0.9, as git reads it.
func parseSimilarity(text string) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || len(number) > 9 {
		return 0, &failure{129, "error: invalid argument to find-renames: '" + text + "' is no percentage"}
	}
	whole := 100
	if !percent {
		whole = 1
		for range len(number) {
			whole *= 10
		}
	}
	return min(n*mostSimilar/whole, mostSimilar), nil
}

// findRenames replaces pairs of a removed and a created file that are similar enough by renames. readTarget reads the
// new side of a change. The list stays sorted by the new name.
func (r *repository) findRenames(list []change, similar int, readTarget func(change) ([]byte, error)) ([]change, error) {
	f := &renameFinder{r: r, list: list, similar: similar, chunks: make(map[id]map[uint64]int), sizes: make(map[id]int), seed: maphash.MakeSeed(), readTarget: readTarget}
	for n, c := range list {
		switch {
		case c.new.mode == 0 && c.old.mode != modeRepo:
			f.from = append(f.from, n)
		case c.old.mode == 0 && c.new.mode != modeRepo:
			f.to = append(f.to, n)
		}
	}
	if len(f.from) == 0 || len(f.to) == 0 {
		return list, nil
	}
	mark := r.p.Charged()
	defer func() { r.p.Free(r.p.Charged() - mark) }()
	f.joinEqual()
	if len(f.from) > 0 && len(f.to) > 0 && similar < mostSimilar && len(f.from)*len(f.to) <= mostRenames*mostRenames {
		if err := f.joinSameNamed(); err != nil {
			return nil, err
		}
		if err := f.joinSimilar(); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(f.list, func(c change) bool { return c.old.mode == 0 && c.new.mode == 0 }), nil
}

// join makes a rename of two changes.
func (f *renameFinder) join(from, to, score int) {
	f.list[to].from, f.list[to].score, f.list[to].old = f.list[from].name, score, f.list[from].old
	f.list[from].old = treeEntry{}
	f.from = slices.DeleteFunc(f.from, func(n int) bool { return n == from })
	f.to = slices.DeleteFunc(f.to, func(n int) bool { return n == to })
}

// joinEqual joins files of equal content, those of the same base name first.
func (f *renameFinder) joinEqual() {
	byID := make(map[id][]int)
	for _, n := range f.from {
		byID[f.list[n].old.id] = append(byID[f.list[n].old.id], n)
	}
	for _, to := range slices.Clone(f.to) {
		f.r.p.Tick(4)
		sources := byID[f.list[to].new.id]
		best, bestRank := -1, -1
		for at, from := range sources {
			rank := 0
			if path.Base(f.list[from].name) == path.Base(f.list[to].name) {
				rank = 1
			}
			if f.list[from].old.mode&0o170000 == f.list[to].new.mode&0o170000 && rank > bestRank {
				best, bestRank = at, rank
			}
		}
		if best >= 0 {
			byID[f.list[to].new.id] = slices.Delete(slices.Clone(sources), best, best+1)
			f.join(sources[best], to, mostSimilar)
		}
	}
}

// joinSameNamed joins similar files whose base name is unique on both sides.
func (f *renameFinder) joinSameNamed() error {
	index := func(numbers []int) map[string]int {
		names := make(map[string]int)
		for _, n := range numbers {
			base := path.Base(f.list[n].name)
			if _, twice := names[base]; twice {
				names[base] = -1
			} else {
				names[base] = n
			}
		}
		return names
	}
	sources, targets := index(f.from), index(f.to)
	for _, from := range slices.Clone(f.from) {
		base := path.Base(f.list[from].name)
		to, ok := targets[base]
		if !ok || to < 0 || sources[base] < 0 {
			continue
		}
		score, err := f.compare(from, to)
		if err != nil {
			return err
		}
		if score >= max(sameNamed, f.similar) {
			f.join(from, to, score)
		}
	}
	return nil
}

// joinSimilar joins the other files, the most similar first.
func (f *renameFinder) joinSimilar() error {
	var pairs []candidate
	for _, to := range f.to {
		for _, from := range f.from {
			f.r.p.Tick(4)
			score, err := f.compare(from, to)
			if err != nil {
				return err
			}
			if score >= f.similar {
				f.r.p.Alloc(40)
				pairs = append(pairs, candidate{from, to, score, path.Base(f.list[from].name) == path.Base(f.list[to].name)})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b candidate) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		switch {
		case a.sameName == b.sameName:
			return 0
		case a.sameName:
			return -1
		}
		return 1
	})
	for _, pair := range pairs {
		if slices.Contains(f.from, pair.from) && slices.Contains(f.to, pair.to) {
			f.join(pair.from, pair.to, pair.score)
		}
	}
	return nil
}

// compare returns how much of a removed file is in a created one.
func (f *renameFinder) compare(from, to int) (int, error) {
	old, new := f.list[from], f.list[to]
	if old.old.mode&0o170000 != 0o100000 || new.new.mode&0o170000 != 0o100000 {
		return 0, nil
	}
	a, err := f.split(old.old.id, func() ([]byte, error) { _, b, err := f.r.readObject(old.old.id); return b, err })
	if err != nil {
		return 0, err
	}
	b, err := f.split(new.new.id, func() ([]byte, error) { return f.readTarget(new) })
	if err != nil {
		return 0, err
	}
	sizeA, sizeB := f.sizes[old.old.id], f.sizes[new.new.id]
	larger := max(sizeA, sizeB)
	if sizeA == 0 || sizeB == 0 || larger*(mostSimilar-f.similar) < (larger-min(sizeA, sizeB))*mostSimilar {
		return 0, nil
	}
	copied := 0
	for chunk, n := range a {
		f.r.p.Tick(1)
		copied += min(n, b[chunk])
	}
	return copied * mostSimilar / larger, nil
}

// split returns how many bytes of a file are in each different chunk: a line, or 64 bytes of a longer one.
func (f *renameFinder) split(i id, read func() ([]byte, error)) (map[uint64]int, error) {
	if chunks, ok := f.chunks[i]; ok {
		return chunks, nil
	}
	b, err := read()
	if err != nil {
		return nil, err
	}
	chunks := make(map[uint64]int)
	f.sizes[i] = len(b)
	binary := isBinary(b)
	for rest := b; len(rest) > 0; {
		f.r.p.Tick(2)
		n := min(len(rest), 64)
		if at := slices.Index(rest[:n], '\n'); at >= 0 {
			n = at + 1
		}
		part := rest[:n]
		rest = rest[n:]
		if !binary && n > 1 && part[n-2] == '\r' && part[n-1] == '\n' {
			part = append(slices.Clone(part[:n-2]), '\n')
		}
		hash := maphash.Bytes(f.seed, part)
		if chunks[hash] == 0 {
			f.r.p.Alloc(48)
		}
		chunks[hash] += len(part)
	}
	f.r.release(b)
	f.chunks[i] = chunks
	return chunks, nil
}

// formatRename returns the two names of a rename with what they share in front of braces, as in d/{a => b}/c.
func formatRename(from, to string) string {
	head := 0
	for n := 0; n < len(from) && n < len(to) && from[n] == to[n]; n++ {
		if from[n] == '/' {
			head = n + 1
		}
	}
	tail, limit := 0, head
	if head > 0 {
		limit = head - 1 // the slash may be shared by both ends
	}
	for n := 1; n <= len(from)-limit && n <= len(to)-limit && from[len(from)-n] == to[len(to)-n]; n++ {
		if from[len(from)-n] == '/' {
			tail = n
		}
	}
	if head == 0 && tail == 0 {
		return from + " => " + to
	}
	middle := func(name string) string { return name[head:max(head, len(name)-tail)] }
	return from[:head] + "{" + middle(from) + " => " + middle(to) + "}" + strings.TrimPrefix(from[len(from)-tail:], "")
}
