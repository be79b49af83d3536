package jq

import "unsafe"

// survey adds up what the machine still holds and settles the account with it.
// It runs between two instructions only, when nothing is held elsewhere.
func (m *machine) survey() {
	m.epoch++
	s := surveyor{m: m, epoch: m.epoch, seen: map[*byte]struct{}{}}
	s.total += int64(len(m.stack))*cellSize + int64(cap(m.forks))*forkSize
	for i := range m.stack {
		s.add(m.stack[i].v)
	}
	s.frame(m.frame)
	s.tracker(&m.track)
	for i := range m.forks {
		f := &m.forks[i]
		s.add(f.over)
		s.frame(f.frame)
		s.tracker(&f.track)
	}
	s.drain()
	m.settle(s.total)
}

// surveyor walks values without recursion; it visits each container once.
type surveyor struct {
	m     *machine
	epoch uint32
	total int64
	work  []Value
	calls []*frame
	seen  map[*byte]struct{} // long strings
	paths map[*pathNode]struct{}
}

const longString = 64

func (s *surveyor) add(v Value) {
	switch v := v.(type) {
	case float64:
		s.total += 8
	case string:
		s.text(v)
	case *tracker:
		s.tracker(v)
	case *Number:
		s.total += 32
		s.text(v.text)
	case *Array:
		if v.mark != s.epoch {
			v.mark = s.epoch
			s.work = append(s.work, v)
		}
	case *Object:
		if v.mark != s.epoch {
			v.mark = s.epoch
			s.work = append(s.work, v)
		}
	}
}

func (s *surveyor) text(t string) {
	s.total += valueSize
	if len(t) < longString {
		s.total += int64(len(t))
		return
	}
	p := unsafe.StringData(t)
	if _, ok := s.seen[p]; !ok {
		s.seen[p] = struct{}{}
		s.total += int64(len(t))
	}
}

func (s *surveyor) frame(f *frame) {
	if f != nil && f.mark != s.epoch {
		f.mark = s.epoch
		s.calls = append(s.calls, f)
	}
}

func (s *surveyor) tracker(t *tracker) {
	s.add(t.value)
	for p := t.path; p != nil; p = p.up {
		if _, ok := s.paths[p]; ok {
			return
		}
		if s.paths == nil {
			s.paths = map[*pathNode]struct{}{}
		}
		s.paths[p] = struct{}{}
		s.total += 32
		s.add(p.key)
	}
}

func (s *surveyor) drain() {
	for len(s.work) > 0 || len(s.calls) > 0 {
		s.m.tick(1)
		if n := len(s.calls); n > 0 {
			f := s.calls[n-1]
			s.calls = s.calls[:n-1]
			s.visit(f)
			continue
		}
		n := len(s.work) - 1
		v := s.work[n]
		s.work = s.work[:n]
		s.contents(v)
	}
}

func (s *surveyor) visit(f *frame) {
	s.total += frameSize + int64(len(f.vars)+len(f.args))*valueSize
	s.frame(f.up)
	s.frame(f.ret)
	for i := range f.args {
		s.frame(f.args[i].env)
	}
	for _, v := range f.vars {
		s.add(v)
	}
}

func (s *surveyor) contents(v Value) {
	s.total += headSize
	switch v := v.(type) {
	case *Array:
		s.m.tick(len(v.Items) / 4)
		s.total += int64(cap(v.Items)) * valueSize
		for _, item := range v.Items {
			s.add(item)
		}
	case *Object:
		s.m.tick(len(v.entries) / 2)
		s.total += int64(cap(v.entries)) * entrySize
		if v.index != nil {
			s.total += int64(len(v.entries)) * indexSize
		}
		for i := range v.entries {
			s.total += int64(len(v.entries[i].Key))
			s.add(v.entries[i].Value)
		}
	}
}
