package command

import (
	"bufio"
	"sort"
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
  -t, --tabs=LIST  use comma separated list of tab positions.
                     The last specified position can be prefixed with '/'
                     to specify a tab size to use after the last
                     explicitly specified tab stop.  Also a prefix of '+'
                     can be used to align remaining tab stops relative to
                     the last specified tab stop instead of the first column
      --help       display this help and exit
`
	unexpandUsage = `Usage: unexpand [OPTION]... [FILE]...
Convert blanks in each FILE to tabs, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -a, --all        convert all blanks, instead of just initial blanks
      --first-only convert only leading sequences of blanks (overrides -a)
  -t, --tabs=N     have tabs N characters apart instead of 8 (enables -a)
  -t, --tabs=LIST  use comma separated list of tab positions.
      --help       display this help and exit
`
)

// tabStops says where tabs lead to.
type tabStops struct {
	list   []int
	every  int // behind the list; 0: none
	offset int // where every counts from
}

// next is the first stop behind column; ok is false behind the last.
func (t *tabStops) next(column int) (int, bool) {
	i := sort.SearchInts(t.list, column+1)
	switch {
	case i < len(t.list):
		return t.list[i], true
	case t.every > 0:
		return column + t.every - (column-t.offset)%t.every, true
	}
	return 0, false
}

// parse reads one argument of -t, in the way of GNU.
func (t *tabStops) parse(p *kernel.Proc, s string) bool {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		kind := word[0]
		if kind == '/' || kind == '+' {
			word = word[1:]
		}
		n, err := strconv.Atoi(word)
		switch {
		case strings.Trim(word, "0123456789") != "":
			p.Errorf("tab size contains invalid character(s): %s", cite(strings.TrimLeft(word, "0123456789")))
			return false
		case err != nil || n > 1<<30:
			p.Errorf("tab stop is too large %s", cite(word))
			return false
		case kind == '/':
			t.every, t.offset = n, 0
		case kind == '+':
			t.every, t.offset = n, 0
			if len(t.list) > 0 {
				t.offset = t.list[len(t.list)-1]
			}
		case n == 0:
			p.Errorf("tab size cannot be 0")
			return false
		case len(t.list) > 0 && n <= t.list[len(t.list)-1]:
			p.Errorf("tab sizes must be ascending")
			return false
		default:
			t.list = append(t.list, n)
		}
	}
	return true
}

// settle turns a single stop into a distance.
func (t *tabStops) settle() {
	switch {
	case len(t.list) == 0 && t.every == 0:
		t.every = 8
	case len(t.list) == 1 && t.every == 0:
		t.every, t.list = t.list[0], nil
	}
}

// tabJob is one run of expand or unexpand.
type tabJob struct {
	p         *kernel.Proc
	out       *bufio.Writer
	stops     tabStops
	initial   bool // only before the first character that is not blank
	column    int
	text      bool // there was such a character
	pending   []byte
	single    bool // the first pending blank alone reaches a stop
	behindTab bool // the last thing written is a tab made of blanks
	past      bool // no stops are left on this line
}

var expandOptions = parsing{digits: true, options: []option{{short: 'i', long: "initial"}, {short: 't', long: "tabs", arg: required}}}

var unexpandOptions = parsing{digits: true, options: []option{
	{short: 'a', long: "all"}, {long: "first-only", id: 'f'}, {short: 't', long: "tabs", arg: required},
}}

func expand(p *kernel.Proc) int {
	j := &tabJob{p: p, out: p.Out()}
	opts, names, ok := expandOptions.parse(p)
	if !ok || !j.options(opts) {
		return 1
	}
	return j.files(names, j.expandByte)
}

func unexpand(p *kernel.Proc) int {
	j := &tabJob{p: p, out: p.Out(), initial: true}
	opts, names, ok := unexpandOptions.parse(p)
	if !ok || !j.options(opts) {
		return 1
	}
	return j.files(names, j.unexpandByte)
}

func (j *tabJob) options(opts []given) bool {
	first := false
	for _, o := range opts {
		switch o.key {
		case 'i':
			j.initial = true
		case 'f':
			first = true
		case 'a':
			j.initial = false
		case 't', '#':
			if !j.stops.parse(j.p, o.value) {
				return false
			}
			if j.p.Name() == "unexpand" {
				j.initial = false
			}
		}
	}
	if first {
		j.initial = true
	}
	j.stops.settle()
	return true
}

func (j *tabJob) files(names []string, put func(byte)) int {
	code := 0
	for _, name := range operandsOr(names) {
		in, err := open(j.p, name)
		if err == nil {
			err = eachChunk(j.p, in, func(b []byte) {
				for _, c := range b {
					put(c)
				}
			})
			closeInput(in)
		}
		if err != nil {
			j.p.Errorf("%s: %s", quotef(name), why(err))
			code = 1
		}
	}
	j.release()
	return code
}

func (j *tabJob) write(b ...byte) {
	_, _ = j.out.Write(b) // errors of out show at its flush
}

// newline begins another line.
func (j *tabJob) newline() {
	j.write('\n')
	j.column, j.text = 0, false
}

func (j *tabJob) expandByte(c byte) {
	switch {
	case c == '\n':
		j.newline()
	case c == '\t' && !(j.initial && j.text):
		stop, ok := j.stops.next(j.column)
		if !ok {
			stop = j.column + 1
		}
		j.p.Tick(stop - j.column)
		for ; j.column < stop; j.column++ {
			j.write(' ')
		}
	case c == '\b':
		j.write(c)
		j.column = max(j.column-1, 0)
	default:
		j.write(c)
		j.column++
		j.text = j.text || c != ' '
	}
}

func (j *tabJob) unexpandByte(c byte) {
	blank := c == ' ' || c == '\t'
	if blank && !(j.initial && j.text) && !j.past {
		stop, ok := j.stops.next(j.column)
		if ok {
			j.blank(c, stop)
			return
		}
		j.past = true
	}
	j.release()
	switch c {
	case '\n':
		j.newline()
		j.past = false
	case '\b':
		j.write(c)
		j.column = max(j.column-1, 0)
	default:
		j.write(c)
		j.column++
	}
	j.text = j.text || !blank && c != '\n'
}

// blank takes a blank that may become a part of a tab to stop. A single blank
// in front of a stop stays one, unless more blanks follow.
func (j *tabJob) blank(c byte, stop int) {
	if c == ' ' {
		j.column++
		if j.column < stop || len(j.pending) == 0 && !j.behindTab {
			j.single = j.single || j.column == stop
			j.pending = append(j.pending, c)
			j.behindTab = false
			return
		}
	} else {
		j.column = stop
	}
	if j.single {
		j.write('\t')
	}
	j.single = false
	j.pending = j.pending[:0]
	j.behindTab = true
	j.write('\t')
}

// release writes blanks that didn't become a tab.
func (j *tabJob) release() {
	if j.single && len(j.pending) > 1 {
		j.pending[0] = '\t'
	}
	j.write(j.pending...)
	j.pending, j.single, j.behindTab = j.pending[:0], false, false
}
