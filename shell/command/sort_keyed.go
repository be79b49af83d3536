package command

import "slices"

// keyedSort orders the lines of an arena by one key after the other.
type keyedSort struct {
	*sortJob
	a *sortArena
}

// sortKeyed orders by the keys, then by what settles ties.
func (j *sortJob) sortKeyed(a *sortArena) {
	s := keyedSort{j, a}
	s.by(0, a.lines)
}

// by orders lines that are equal in the keys before the n-th: by its prefix,
// then those that share one by the whole key, then equal ones by the next.
func (s *keyedSort) by(n int, list []sortLine) {
	if n == len(s.keys) {
		s.ties(list)
		return
	}
	k := s.keys[n]
	for i := range list {
		l := &list[i]
		text := s.a.text(l)
		from, to := k.bounds(text, s.sep)
		l.from, l.to = uint32(from), uint32(to)
		l.prefix = k.prefix(text[from:to], s.seed)
		s.p.Tick(1 + len(text)>>6)
	}
	s.a.radix(list, 56)
	for i := 0; i < len(list); {
		e := i + 1
		for e < len(list) && list[e].prefix == list[i].prefix {
			e++
		}
		if e-i > 1 {
			s.run(n, list[i:e])
		}
		i = e
	}
}

// run orders lines whose n-th keys have the same prefix.
func (s *keyedSort) run(n int, list []sortLine) {
	k := s.keys[n]
	compare := func(x, y *sortLine) int {
		s.p.Tick(1)
		c := k.compare(s.key(x), s.key(y), s.seed)
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
				return order(uint64(x.at), uint64(y.at))
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
			s.by(n+1, list[i:e])
		}
		i = e
	}
}

func (s *keyedSort) key(l *sortLine) []byte {
	return s.a.buf[l.at+l.from : l.at+l.to]
}

// ties orders lines that are equal in all keys.
func (s *keyedSort) ties(list []sortLine) {
	if s.stable || s.unique {
		byPlace := func(x, y sortLine) int { return order(uint64(x.at), uint64(y.at)) }
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
