package vt

// doSGR executes SGR: it changes the pen.
func (e *Emulator) doSGR() {
	q := &e.seq
	if q.n == 0 {
		e.pen = style{}
		return
	}
	for i := 0; i < q.n; {
		i = e.pen.applyParam(q, i)
	}
}

// setAttributes are the attributes that parameters set.
var setAttributes = map[int32]attr{1: bold, 2: faint, 3: italic, 5: blink, 6: blink, 7: inverse, 8: hidden, 9: strike, 53: overline}

// resetAttributes are the attributes that parameters reset.
var resetAttributes = map[int32]attr{22: bold | faint, 23: italic, 24: ulMask, 25: blink, 27: inverse, 28: hidden, 29: strike, 55: overline}

// applyParam applies the parameter at i with its sub-parameters and returns the index of
// the next one.
func (s *style) applyParam(q *sequence, i int) int {
	p := max(q.params[i], 0)
	next := i + 1
	for next < q.n && q.sub>>next&1 != 0 {
		next++
	}
	subs := next - i - 1
	switch {
	case p == 0:
		*s = style{}
	case p == 4:
		u := attr(1)
		if subs > 0 {
			if u = attr(max(q.params[i+1], 0)); u > 5 {
				u = 1
			}
		}
		s.attr = s.attr&^ulMask | u*underline
	case p == 21:
		s.attr = s.attr&^ulMask | 2*underline
	case p >= 30 && p <= 37:
		s.fg = palette | color(p-30)
	case p == 39:
		s.fg = 0
	case p >= 40 && p <= 47:
		s.bg = palette | color(p-40)
	case p == 49:
		s.bg = 0
	case p >= 90 && p <= 97:
		s.fg = palette | color(p-90+8)
	case p >= 100 && p <= 107:
		s.bg = palette | color(p-100+8)
	case p == 38 || p == 48 || p == 58:
		var c color
		var ok bool
		if c, next, ok = q.parseColor(i, next); ok && p == 38 {
			s.fg = c
		} else if ok && p == 48 {
			s.bg = c
		}
	default:
		s.attr = s.attr&^resetAttributes[p] | setAttributes[p]
	}
	return next
}

// parseColor parses the color of the parameter at i, whose sub-parameters end before
// next, and returns the index of the next parameter.
func (q *sequence) parseColor(i, next int) (c color, end int, ok bool) {
	args := q.params[i+1 : next] // with colons
	colons := len(args) > 0
	if !colons {
		args = q.params[next:q.n]
	}
	if len(args) == 0 {
		return 0, next, false
	}
	used := 1
	value := func(k int) color { return color(min(max(args[k], 0), 255)) }
	switch {
	case args[0] == 5 && len(args) >= 2:
		c, used, ok = palette|value(1), 2, true
	case args[0] == 2 && colons && len(args) >= 5: // 2:SPACE:R:G:B
		c, ok = rgb|value(2)<<16|value(3)<<8|value(4), true
	case args[0] == 2 && len(args) >= 4:
		c, used, ok = rgb|value(1)<<16|value(2)<<8|value(3), 4, true
	case args[0] == 5 || args[0] == 2:
		used = len(args)
	}
	if colons {
		return c, next, ok
	}
	return c, next + used, ok
}
