package text

import (
	"bufio"
	"sort"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// tabStops is the list of tab stops.
type tabStops struct {
	list   []int
	every  int // distance after the list; 0: none
	offset int // column from which every counts
}

// next returns the first stop after column; ok is false after the last one.
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

// parse parses one argument of -t as GNU does.
func (t *tabStops) parse(p *kernel.Proc, s string) bool {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		kind := word[0]
		if kind == '/' || kind == '+' {
			word = word[1:]
		}
		n, err := strconv.Atoi(word)
		switch {
		case strings.Trim(word, "0123456789") != "":
			p.Errorf("tab size contains invalid character(s): %s", quoting.QuoteWord(strings.TrimLeft(word, "0123456789")))
			return false
		case err != nil || n > 1<<30:
			p.Errorf("tab stop is too large %s", quoting.QuoteWord(word))
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

// setDefault completes the stops: none means every 8 columns, a single one is a distance.
func (t *tabStops) setDefault() {
	switch {
	case len(t.list) == 0 && t.every == 0:
		t.every = 8
	case len(t.list) == 1 && t.every == 0:
		t.every, t.list = t.list[0], nil
	}
}

// tabJob is the state of one run of expand or unexpand.
type tabJob struct {
	p         *kernel.Proc
	out       *bufio.Writer
	stops     tabStops
	initial   bool // convert only before the first nonblank
	column    int
	text      bool // a nonblank was seen on this line
	pending   []byte
	single    bool // the first pending blank alone reaches a stop
	behindTab bool // the last output is a tab made of blanks
	pastStops bool // after the last stop of this line
}

var expandOptions = option.Parser{AllowDigits: true, Options: []option.Option{{Short: 'i', Long: "initial"}, {Short: 't', Long: "tabs", Arg: option.Required}}}

var unexpandOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'a', Long: "all"}, {Long: "first-only", ID: 'f'}, {Short: 't', Long: "tabs", Arg: option.Required},
}}

func runExpand(p *kernel.Proc) int {
	j := &tabJob{p: p, out: p.Out()}
	opts, names, ok := expandOptions.Parse(p)
	if !ok || !j.applyOptions(opts) {
		return 1
	}
	return j.convertFiles(names, j.expandByte)
}

func runUnexpand(p *kernel.Proc) int {
	j := &tabJob{p: p, out: p.Out(), initial: true}
	opts, names, ok := unexpandOptions.Parse(p)
	if !ok || !j.applyOptions(opts) {
		return 1
	}
	return j.convertFiles(names, j.unexpandByte)
}

func (j *tabJob) applyOptions(opts []option.Setting) bool {
	first := false
	for _, o := range opts {
		switch o.Key {
		case 'i':
			j.initial = true
		case 'f':
			first = true
		case 'a':
			j.initial = false
		case 't', '#':
			if !j.stops.parse(j.p, o.Value) {
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
	j.stops.setDefault()
	return true
}

// convertFiles passes the bytes of all files to put and returns the exit status.
func (j *tabJob) convertFiles(names []string, put func(byte)) int {
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		in, err := stream.Open(j.p, name)
		if err == nil {
			err = eachChunk(j.p, in, func(b []byte) {
				for _, c := range b {
					put(c)
				}
			})
			stream.Close(in)
		}
		if err != nil {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
		}
	}
	j.flushBlanks()
	return code
}

func (j *tabJob) write(b ...byte) {
	_, _ = j.out.Write(b) // Flush reports the error
}

// endLine writes the end of a line and starts the next one.
func (j *tabJob) endLine() {
	j.write('\n')
	j.column, j.text = 0, false
}

// expandByte writes a byte, a tab as spaces.
func (j *tabJob) expandByte(c byte) {
	switch {
	case c == '\n':
		j.endLine()
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

// unexpandByte writes a byte, collecting blanks that may become tabs.
func (j *tabJob) unexpandByte(c byte) {
	blank := c == ' ' || c == '\t'
	if blank && !(j.initial && j.text) && !j.pastStops {
		stop, ok := j.stops.next(j.column)
		if ok {
			j.addBlank(c, stop)
			return
		}
		j.pastStops = true
	}
	j.flushBlanks()
	switch c {
	case '\n':
		j.endLine()
		j.pastStops = false
	case '\b':
		j.write(c)
		j.column = max(j.column-1, 0)
	default:
		j.write(c)
		j.column++
	}
	j.text = j.text || !blank && c != '\n'
}

// addBlank collects a blank that may become part of a tab to stop. A single blank before a
// stop stays one, unless more blanks follow.
func (j *tabJob) addBlank(c byte, stop int) {
	if c == ' ' {
		j.column++
		if j.column < stop || len(j.pending) == 0 && !j.behindTab {
			j.single = j.single || j.column == stop
			j.reserveBlank()
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

// reserveBlank charges the growth of the collected blanks before they grow.
func (j *tabJob) reserveBlank() {
	have := cap(j.pending)
	if len(j.pending) < have {
		return
	}
	size := max(64, have+have/2)
	j.p.Alloc(int64(size))
	j.pending = append(make([]byte, 0, size), j.pending...)
	j.p.Free(int64(have))
}

// flushBlanks writes the collected blanks that did not become a tab.
func (j *tabJob) flushBlanks() {
	if j.single && len(j.pending) > 1 {
		j.pending[0] = '\t'
	}
	j.write(j.pending...)
	j.pending, j.single, j.behindTab = j.pending[:0], false, false
}
