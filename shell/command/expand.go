package command

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const (
	expandUsage = `Usage: expand [OPTION]... [FILE]...
Convert tabs in each FILE to spaces, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -i, --initial    do not convert tabs after non blanks
  -t, --tabs=N     have tabs N characters apart, not 8
  -t, --tabs=LIST  use comma separated list of tab positions; the last may
                     begin with '/' or '+' to go on from there
      --help       display this help and exit
`
	unexpandUsage = `Usage: unexpand [OPTION]... [FILE]...
Convert blanks in each FILE to tabs, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -a, --all         convert all blanks, instead of just initial blanks
      --first-only  convert only leading sequences of blanks (overrides -a)
  -t, --tabs=N      have tabs N characters apart instead of 8 (enables -a)
  -t, --tabs=LIST   use comma separated list of tab positions (enables -a)
      --help        display this help and exit
`
)

// tabStops are the columns of tabs.
type tabStops struct {
	every int   // where no list applies; 0: none
	list  []int // increasing
	from  int   // where every counts from: 0, or the last of the list
}

// next returns the stop after col; ok is false past the last one.
func (t tabStops) next(col int) (int, bool) {
	for _, s := range t.list {
		if s > col {
			return s, true
		}
	}
	if t.every == 0 {
		return col + 1, false
	}
	return col + t.every - (col-t.from)%t.every, true
}

// parseTabs reads the value of -t; msg says what is wrong with it.
func parseTabs(text string) (t tabStops, msg string) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	for i, w := range words {
		mark := byte(0)
		if w[0] == '/' || w[0] == '+' {
			mark, w = w[0], w[1:]
			if i < len(words)-1 {
				return t, "'" + string(mark) + "' specifier only allowed with the last value"
			}
		}
		n, err := strconv.Atoi(w)
		switch {
		case err != nil:
			return t, "tab size contains invalid character(s): " + cite(w)
		case n <= 0:
			return t, "tab size cannot be 0"
		case n > 1<<20:
			return t, "tab stop is too large " + cite(w)
		}
		switch {
		case mark != 0:
			t.every = n
			if mark == '+' && len(t.list) > 0 {
				t.from = t.list[len(t.list)-1]
			}
		case len(words) == 1:
			t.every = n
		case len(t.list) > 0 && n <= t.list[len(t.list)-1]:
			return t, "tab sizes must be ascending"
		default:
			t.list = append(t.list, n)
		}
	}
	if len(words) == 0 {
		t.every = 8
	}
	return t, ""
}

// tabJob is expand or unexpand.
type tabJob struct {
	p     *kernel.Proc
	stops tabStops
	first bool // only blanks at the beginning of a line
}

func expand(p *kernel.Proc) int {
	opts, names, ok := parsing{digits: true, options: []option{
		{short: 'i', long: "initial"}, {short: 't', long: "tabs", arg: required},
	}}.parse(p)
	if !ok {
		return 1
	}
	j := tabJob{p: p, stops: tabStops{every: 8}}
	for _, o := range opts {
		if o.key == 'i' {
			j.first = true
		} else if !j.tabs(o.value) {
			return 1
		}
	}
	return overLines(p, names, j.expandLine)
}

func (j *tabJob) tabs(text string) bool {
	t, msg := parseTabs(text)
	if msg != "" {
		j.p.Errorf("%s", msg)
		return false
	}
	j.stops = t
	return true
}

func (j *tabJob) expandLine(line []byte, ended bool) {
	out := j.p.Out()
	col, blank := 0, true
	for _, c := range line {
		switch {
		case c == '\t' && (blank || !j.first):
			next, _ := j.stops.next(col)
			j.p.Tick(next - col)
			for ; col < next; col++ {
				_ = out.WriteByte(' ') // shows at the flush, as below
			}
			continue
		case c == '\b':
			col = max(0, col-1)
		default:
			col++
		}
		blank = blank && c == ' '
		_ = out.WriteByte(c)
	}
	if ended {
		_ = out.WriteByte('\n')
	}
}

func unexpand(p *kernel.Proc) int {
	opts, names, ok := parsing{digits: true, options: []option{
		{short: 'a', long: "all"}, {long: "first-only", id: 'f'}, {short: 't', long: "tabs", arg: required},
	}}.parse(p)
	if !ok {
		return 1
	}
	j := tabJob{p: p, stops: tabStops{every: 8}, first: true}
	only := false
	for _, o := range opts {
		switch o.key {
		case 'a':
			j.first = false
		case 'f':
			only = true
		default:
			j.first = false
			if !j.tabs(o.value) {
				return 1
			}
		}
	}
	j.first = j.first || only
	return overLines(p, names, j.unexpandLine)
}

// unexpandLine turns runs of blanks that reach a tab stop into tabs; a single
// space stays one unless a blank follows it.
func (j *tabJob) unexpandLine(line []byte, ended bool) {
	out := j.p.Out()
	col, convert := 0, true
	for i := 0; i < len(line); {
		c := line[i]
		if c != ' ' && c != '\t' || !convert {
			_ = out.WriteByte(c) // shows at the flush, as below
			if c == '\b' {
				col = max(0, col-1)
			} else {
				col++
			}
			convert = convert && !j.first
			i++
			continue
		}
		start := col
		n := i
		for n < len(line) && (line[n] == ' ' || line[n] == '\t') {
			if line[n] == '\t' {
				col, _ = j.stops.next(col)
			} else {
				col++
			}
			n++
		}
		j.blanks(start, col, line[i:n])
		i = n
	}
	if ended {
		_ = out.WriteByte('\n')
	}
}

// blanks writes what leads from one column to another.
func (j *tabJob) blanks(from, to int, raw []byte) {
	out := j.p.Out()
	j.p.Tick(to - from)
	for first := true; from < to; first = false {
		next, ok := j.stops.next(from)
		if !ok || next > to || first && next == from+1 && len(raw) > 0 && raw[0] == ' ' && (len(raw) == 1 || next == to) {
			break
		}
		_ = out.WriteByte('\t') // shows at the flush, as below
		from = next
	}
	for ; from < to; from++ {
		_ = out.WriteByte(' ')
	}
}
