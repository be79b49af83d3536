package shell

import (
	"cmp"
	"slices"
	"sort"
)

// array is an indexed array: a slice while the indices are close together, a
// map otherwise.
type array struct {
	vals   []string
	holes  []uint64 // a bit for each index of vals that is not set; nil when all are
	n      int      // number of elements
	sparse map[int64]string
	keys   []int64 // of sparse
	sorted bool    // keys are sorted
	bytes  int64   // size of the elements' text
}

func (a *array) clone() *array {
	c := *a
	c.vals = slices.Clone(a.vals)
	c.holes = slices.Clone(a.holes)
	if a.sparse != nil {
		c.sparse = make(map[int64]string, len(a.sparse))
		for k, v := range a.sparse {
			c.sparse[k] = v
		}
		c.keys = slices.Clone(a.keys)
	}
	return &c
}

func (a *array) isHole(i int64) bool {
	w := int(i >> 6)
	return w < len(a.holes) && a.holes[w]>>(uint(i)&63)&1 != 0
}

func (a *array) len() int {
	if a == nil {
		return 0
	}
	return a.n
}

// maxIndex returns the highest index, -1 for an empty array.
func (a *array) maxIndex() int64 {
	switch {
	case a == nil || a.n == 0:
		return -1
	case a.sparse != nil && a.sorted:
		return a.keys[len(a.keys)-1]
	case a.sparse != nil:
		return slices.Max(a.keys)
	}
	return int64(len(a.vals)) - 1
}

func (a *array) get(i int64) (string, bool) {
	switch {
	case a == nil || i < 0:
		return "", false
	case a.sparse != nil:
		s, ok := a.sparse[i]
		return s, ok
	case i >= int64(len(a.vals)) || a.holes != nil && a.isHole(i):
		return "", false
	}
	return a.vals[i], true
}

// set stores an element. As in bash, i is negative if an append overflowed the
// last index.
func (a *array) set(i int64, s string) {
	if old, ok := a.get(i); ok {
		a.bytes += stringCost(s) - stringCost(old)
	} else {
		a.bytes += stringCost(s)
		a.n++
	}
	if a.sparse == nil && (i < 0 || i > int64(len(a.vals))+1024+int64(3*a.n)) {
		a.makeSparse()
	}
	if a.sparse != nil {
		if _, ok := a.sparse[i]; !ok {
			a.sorted = len(a.keys) == 0 || a.sorted && a.keys[len(a.keys)-1] < i
			a.keys = append(a.keys, i)
		}
		a.sparse[i] = s
		return
	}
	for int64(len(a.vals)) < i {
		a.markHole(int64(len(a.vals)))
		a.vals = append(a.vals, "")
	}
	if i == int64(len(a.vals)) {
		a.vals = append(a.vals, s)
		return
	}
	a.vals[i] = s
	if w := int(i >> 6); w < len(a.holes) {
		a.holes[w] &^= 1 << (uint(i) & 63)
	}
}

func (a *array) markHole(i int64) {
	for int(i>>6) >= len(a.holes) {
		a.holes = append(a.holes, 0)
	}
	a.holes[i>>6] |= 1 << (uint(i) & 63)
}

// makeSparse converts the slice to a map.
func (a *array) makeSparse() {
	m := make(map[int64]string, a.n)
	keys := make([]int64, 0, a.n)
	a.eachElement(func(i int64, s string) bool {
		m[i] = s
		keys = append(keys, i)
		return true
	})
	a.sparse, a.keys, a.sorted, a.vals, a.holes = m, keys, true, nil, nil
}

func (a *array) removeIndex(i int64) {
	old, ok := a.get(i)
	if !ok {
		return
	}
	a.bytes -= stringCost(old)
	a.n--
	if a.sparse != nil {
		delete(a.sparse, i)
		a.sortKeys()
		k, _ := slices.BinarySearch(a.keys, i)
		a.keys = slices.Delete(a.keys, k, k+1)
		return
	}
	a.vals[i] = ""
	a.markHole(i)
	for n := int64(len(a.vals)); n > 0 && a.isHole(n-1); n-- {
		a.holes[(n-1)>>6] &^= 1 << (uint(n-1) & 63)
		a.vals = a.vals[:n-1]
	}
	if a.n == len(a.vals) {
		a.holes = nil
	}
}

func (a *array) sortKeys() {
	if !a.sorted {
		slices.Sort(a.keys)
		a.sorted = true
	}
}

// eachElement calls f for the elements in order until f returns false.
func (a *array) eachElement(f func(i int64, s string) bool) {
	switch {
	case a == nil:
	case a.sparse != nil:
		keys := a.keys
		if !a.sorted { // don't sort in place: a fork may read the array
			keys = slices.Clone(keys)
			slices.Sort(keys)
		}
		for _, k := range keys {
			if !f(k, a.sparse[k]) {
				return
			}
		}
	default:
		for i, s := range a.vals {
			if a.holes != nil && a.isHole(int64(i)) {
				continue
			}
			if !f(int64(i), s) {
				return
			}
		}
	}
}

// values returns the elements in order. The caller must not change them.
func (a *array) values() []string {
	if a == nil {
		return nil
	}
	if a.sparse == nil && a.holes == nil {
		return a.vals[:len(a.vals):len(a.vals)]
	}
	list := make([]string, 0, a.n)
	a.eachElement(func(_ int64, s string) bool {
		list = append(list, s)
		return true
	})
	return list
}

// newArray returns an array with the values.
func newArray(vals []string) *array {
	a := &array{vals: vals, n: len(vals)}
	for _, s := range vals {
		a.bytes += stringCost(s)
	}
	return a
}

// assoc is an associative array. It lists its elements in the order of bash's
// hash table, so that both print the same.
type assoc struct {
	m       map[string]*pair
	buckets uint32
	next    int
	bytes   int64
}

type pair struct {
	key, val string
	hash     uint32
	seq      int // later elements come first in their bucket
}

func newAssoc() *assoc { return &assoc{m: map[string]*pair{}, buckets: 1024} }

func (a *assoc) len() int {
	if a == nil {
		return 0
	}
	return len(a.m)
}

func (a *assoc) clone() *assoc {
	c := *a
	c.m = make(map[string]*pair, len(a.m))
	for k, p := range a.m {
		q := *p
		c.m[k] = &q
	}
	return &c
}

func (a *assoc) get(key string) (string, bool) {
	if a == nil {
		return "", false
	}
	if p := a.m[key]; p != nil {
		return p.val, true
	}
	return "", false
}

const bytesPerPair = 160

func (a *assoc) set(key, val string) {
	if p := a.m[key]; p != nil {
		a.bytes += stringCost(val) - stringCost(p.val)
		p.val = val
		return
	}
	if uint32(len(a.m)) >= a.buckets*2 {
		a.addBuckets()
	}
	a.next++
	a.m[key] = &pair{key: key, val: val, hash: hashName(key), seq: a.next}
	a.bytes += bytesPerPair + stringCost(key) + stringCost(val)
}

// addBuckets multiplies the buckets; the first element of a bucket becomes the
// last one of its new bucket.
func (a *assoc) addBuckets() {
	list := a.orderedPairs()
	a.buckets *= 4
	a.next = 0
	for _, p := range list {
		a.next++
		p.seq = a.next
	}
}

func (a *assoc) removeKey(key string) {
	if p := a.m[key]; p != nil {
		a.bytes -= bytesPerPair + stringCost(key) + stringCost(p.val)
		delete(a.m, key)
	}
}

// orderedPairs returns the elements in the order of the hash table.
func (a *assoc) orderedPairs() []*pair {
	if a == nil {
		return nil
	}
	list := make([]*pair, 0, len(a.m))
	for _, p := range a.m {
		list = append(list, p)
	}
	mask := a.buckets - 1
	slices.SortFunc(list, func(x, y *pair) int {
		if c := cmp.Compare(x.hash&mask, y.hash&mask); c != 0 {
			return c
		}
		return y.seq - x.seq
	})
	return list
}

// hashName returns the FNV-1 hash, which bash uses for names and keys.
func hashName(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h *= 16777619
		h ^= uint32(s[i])
	}
	return h
}

// sortByHash sorts names in the order of bash's table of variables.
func sortByHash(names []string) {
	sort.Slice(names, func(i, j int) bool {
		x, y := hashName(names[i])&1023, hashName(names[j])&1023
		if x != y {
			return x < y
		}
		return names[i] < names[j]
	})
}
