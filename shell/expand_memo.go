package shell

import "sync/atomic"

// patternMemo caches a constant pattern, compiled for each set of options that
// was used.
type patternMemo struct {
	src  string
	made [8]atomic.Pointer[pattern]
}

func newPatternMemo(src string) *patternMemo { return &patternMemo{src: src} }

func (m *patternMemo) get(in *interp, flags patFlags) *pattern {
	slot := &m.made[flags&7]
	if p := slot.Load(); p != nil {
		return p
	}
	p := in.compilePattern(m.src, flags)
	slot.Store(p)
	return p
}

// lastPattern caches the last pattern that a word expanded to.
type lastPattern struct {
	p atomic.Pointer[compiledPattern]
}

type compiledPattern struct {
	src   string
	flags patFlags
	p     *pattern
}

func (l *lastPattern) get(in *interp, src string, flags patFlags) *pattern {
	if m := l.p.Load(); m != nil && m.src == src && m.flags == flags {
		return m.p
	}
	p := in.compilePattern(src, flags)
	if len(src) < 1024 {
		l.p.Store(&compiledPattern{src, flags, p})
	}
	return p
}
