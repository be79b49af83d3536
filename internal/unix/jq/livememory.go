package jq

import "unsafe"

// measureLive measures the memory that the machine still uses and frees the rest in the account. It
// runs only between two instructions, when all values are reachable from the machine.
func (m *machine) measureLive() {
	m.epoch++
	s := liveMeter{m: m, epoch: m.epoch, seen: map[*byte]struct{}{}}
	s.total += int64(len(m.stack))*cellSize + int64(cap(m.forks))*forkSize
	for i := range m.stack {
		s.add(m.stack[i].v)
	}
	s.addFrame(m.frame)
	s.addTracker(&m.track)
	for i := range m.forks {
		f := &m.forks[i]
		s.add(f.over)
		s.addFrame(f.frame)
		s.addTracker(&f.track)
	}
	s.drainWork()
	m.setLive(s.total)
}

// liveMeter walks values without recursion and visits each container once.
type liveMeter struct {
	m     *machine
	epoch uint32
	total int64
	work  []Value
	calls []*frame
	seen  map[*byte]struct{} // data of long strings
	paths map[*pathNode]struct{}
}

// longString is the length in bytes from which shared strings are counted once.
const longString = 64

// add counts a scalar, or queues a container.
func (s *liveMeter) add(v Value) {
	switch v := v.(type) {
	case float64:
		s.total += 8
	case string:
		s.addText(v)
	case *tracker:
		s.addTracker(v)
	case *Number:
		s.total += 32
		s.addText(v.text)
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

// addText counts a string.
func (s *liveMeter) addText(t string) {
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

// addFrame queues a frame.
func (s *liveMeter) addFrame(f *frame) {
	if f != nil && f.mark != s.epoch {
		f.mark = s.epoch
		s.calls = append(s.calls, f)
	}
}

// addTracker counts the path of a tracker.
func (s *liveMeter) addTracker(t *tracker) {
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

// drainWork visits queued frames and containers until none is left.
func (s *liveMeter) drainWork() {
	for len(s.work) > 0 || len(s.calls) > 0 {
		s.m.tick(1)
		if n := len(s.calls); n > 0 {
			f := s.calls[n-1]
			s.calls = s.calls[:n-1]
			s.visitFrame(f)
			continue
		}
		n := len(s.work) - 1
		v := s.work[n]
		s.work = s.work[:n]
		s.visitContainer(v)
	}
}

// visitFrame counts a frame and adds its values.
func (s *liveMeter) visitFrame(f *frame) {
	s.total += frameSize + int64(len(f.vars)+len(f.args))*valueSize
	s.addFrame(f.up)
	s.addFrame(f.ret)
	for i := range f.args {
		s.addFrame(f.args[i].env)
	}
	for _, v := range f.vars {
		s.add(v)
	}
}

// visitContainer counts a container and adds its elements.
func (s *liveMeter) visitContainer(v Value) {
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
