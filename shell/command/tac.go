package command

import (
	"bytes"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

const tacUsage = `Usage: tac [OPTION]... [FILE]...
Write each FILE to standard output, last line first.

With no FILE, or when FILE is -, read standard input.

  -b, --before             attach the separator before instead of after
  -r, --regex              interpret the separator as a regular expression
  -s, --separator=STRING   use STRING as the separator instead of newline
      --help               display this help and exit
`

var tacOptions = parsing{options: []option{
	{short: 'b', long: "before"}, {short: 'r', long: "regex"}, {short: 's', long: "separator", arg: required},
}}

// tacJob is where the records of tac end.
type tacJob struct {
	p      *kernel.Proc
	sep    []byte
	re     *regex.Regexp
	before bool
}

func tac(p *kernel.Proc) int {
	opts, names, ok := tacOptions.parse(p)
	if !ok {
		return 1
	}
	job := tacJob{p: p, sep: []byte{'\n'}}
	isRegex := false
	for _, o := range opts {
		switch o.key {
		case 'b':
			job.before = true
		case 'r':
			isRegex = true
		case 's':
			job.sep = []byte(o.value)
			if o.value == "" {
				job.sep = []byte{0}
			}
		}
	}
	if isRegex {
		re, err := regex.Compile(emacsPattern(string(job.sep)), regex.Options{Syntax: regex.BRE})
		if err != nil {
			p.Errorf("%v", err)
			return 1
		}
		job.re = re
	}
	code := 0
	for _, name := range operandsOr(names) {
		h, err := open(p, name)
		if err != nil {
			p.Errorf("failed to open %s for reading: %s", cite(name), why(err))
			code = 1
			continue
		}
		if err := job.file(h); err != nil {
			p.Errorf("%s: read error: %s", name, why(err))
			code = 1
		}
		closeInput(h)
	}
	return code
}

// emacsPattern turns a pattern of tac, in which + and ? stand for themselves
// as operators, into a basic one.
func emacsPattern(s string) string {
	var b strings.Builder
	set := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && !set:
			b.WriteByte(c)
			i++
			c = s[i]
		case c == '[':
			set = true
		case c == ']':
			set = false
		case (c == '+' || c == '?') && !set:
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// file prints the records of one file. The whole of it is held, as the last
// record comes first.
func (j *tacJob) file(h *kernel.Handle) error {
	before := j.p.Charged()
	data, err := j.p.ReadAll(h)
	defer func() { j.p.Free(j.p.Charged() - before) }()
	if err != nil {
		return err
	}
	starts := j.starts(data)
	out := j.p.Out()
	end := len(data)
	for i := len(starts) - 1; i >= 0; i-- {
		j.p.Tick(1 + (end-starts[i])>>6)
		_, _ = out.Write(data[starts[i]:end]) // shows at the flush
		end = starts[i]
	}
	return nil
}

// starts returns where the records begin.
func (j *tacJob) starts(data []byte) []int {
	if len(data) == 0 {
		return nil
	}
	starts := []int{0}
	for at := 0; at < len(data); {
		from, to, ok := j.find(data, at)
		if !ok {
			break
		}
		next := to
		if j.before {
			next = from
		}
		if next > starts[len(starts)-1] && next < len(data) {
			j.p.Alloc(8)
			starts = append(starts, next)
		}
		at = max(to, at+1)
	}
	return starts
}

func (j *tacJob) find(data []byte, at int) (from, to int, ok bool) {
	j.p.Tick(1)
	if j.re == nil {
		i := bytes.Index(data[at:], j.sep)
		return at + i, at + i + len(j.sep), i >= 0
	}
	caps := make([]int, 2*(j.re.Groups()+1))
	if !j.re.Match(data, at, caps, j.p) {
		return 0, 0, false
	}
	return caps[0], caps[1], true
}
