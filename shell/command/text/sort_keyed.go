package text

import "slices"

// keyedSort sorts the lines of an arena by several keys.
type keyedSort struct {
	*sortJob
	a *sortArena
}

// sortKeyed sorts by the keys, then by the rule for ties.
func (j *sortJob) sortKeyed(a *sortArena) {
	s := keyedSort{j, a}
	s.sortByKey(0, a.lines)
}

// sortByKey sorts lines whose first n keys are equal: by the prefix of key n, then lines with equal
// prefixes by the whole key, then equal ones by the next key.
func (s *keyedSort) sortByKey(n int, list []sortLine) {
	if n == len(s.keys) {
		s.sortTies(list)
		return
	}
	k := s.keys[n]
	for i := range list {
		l := &list[i]
		text := s.a.lineText(l)
		from, to := k.findBounds(text, s.sep)
		l.from, l.to = uint32(from), uint32(to)
		l.prefix = k.orderPrefix(text[from:to], s.seed)
		s.p.Tick(1 + len(text)>>6)
	}
	s.a.radixSort(list, 56)
	for i := 0; i < len(list); {
		e := i + 1
		for e < len(list) && list[e].prefix == list[i].prefix {
			e++
		}
		if e-i > 1 {
			s.sortEqualPrefixes(n, list[i:e])
		}
		i = e
	}
}

// sortEqualPrefixes sorts lines whose n-th keys have the same prefix.
func (s *keyedSort) sortEqualPrefixes(n int, list []sortLine) {
	k := s.keys[n]
	compare := func(x, y *sortLine) int {
		s.p.Tick(1)
		c := k.compare(s.keyText(x), s.keyText(y), s.seed)
		if k.reverse {
			return -c
		}
		return c
	}
	for i := 1; i < len(list); i++ {
		if compare(&list[0], &list[i]) != 0 {
			slices.SortFunc(list, func(x, y sortLine) int {
				if c := compare(&x, &y); c != 0 {
					return c
				}
				return compareOrdered(uint64(x.at), uint64(y.at))
			})
			break
		}
	}
	for i := 0; i < len(list); {
		e := i + 1
		for e < len(list) && compare(&list[i], &list[e]) == 0 {
			e++
		}
		if e-i > 1 {
			s.sortByKey(n+1, list[i:e])
		}
		i = e
	}
}

func (s *keyedSort) keyText(l *sortLine) []byte {
	return s.a.buf[l.at+l.from : l.at+l.to]
}

// sortTies sorts lines whose keys are all equal.
func (s *keyedSort) sortTies(list []sortLine) {
	if s.stable || s.unique {
		byPlace := func(x, y sortLine) int { return compareOrdered(uint64(x.at), uint64(y.at)) }
		if !slices.IsSortedFunc(list, byPlace) {
			slices.SortFunc(list, byPlace)
		}
		return
	}
	flip := uint64(0)
	if s.global.reverse {
		flip = ^flip
	}
	s.a.sortFrom(list, 0, flip)
}
