package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

const csplitUsage = `Usage: csplit [OPTION]... FILE PATTERN...
Output pieces of FILE separated by PATTERN(s) to files 'xx00', 'xx01', ...,
and output byte counts of each piece to standard output.

Read standard input if FILE is -

  -b, --suffix-format=FORMAT  use sprintf FORMAT instead of %02d
  -f, --prefix=PREFIX        use PREFIX instead of 'xx'
  -k, --keep-files           do not remove output files on errors
      --suppress-matched     suppress the lines matching PATTERN
  -n, --digits=DIGITS        use specified number of digits instead of 2
  -s, --quiet, --silent      do not print counts of output file sizes
  -z, --elide-empty-files    suppress empty output files
      --help                 display this help and exit

Each PATTERN may be:
  INTEGER            copy up to but not including specified line number
  /REGEXP/[OFFSET]   copy up to but not including a matching line
  %REGEXP%[OFFSET]   skip to, but not including a matching line
  {INTEGER}          repeat the previous pattern specified number of times
  {*}                repeat the previous pattern as many times as possible
`

var csplitOptions = parsing{options: []option{
	{short: 'b', long: "suffix-format", arg: required}, {short: 'f', long: "prefix", arg: required}, {short: 'k', long: "keep-files"}, {long: "suppress-matched", id: 'M'},
	{short: 'n', long: "digits", arg: required}, {short: 's', long: "quiet"}, {short: 's', long: "silent"}, {short: 'z', long: "elide-empty-files"},
}}

// csplitPattern is one place to split at.
type csplitPattern struct {
	text   string
	line   int // 0: a regular expression
	re     *regex.Regexp
	skip   bool
	offset int
	repeat int // -1: as often as possible
}

// csplitJob is one run of csplit.
type csplitJob struct {
	p                           *kernel.Proc
	prefix, format              string
	digits                      int
	keep, suppress, quiet, bare bool
	lines                       [][]byte
	at                          int // lines that have been used
	from                        int // where the search for the next match begins
	made                        []string
}

// csplitFault ends a run; its reason has been told.
type csplitFault struct{}

func (csplitFault) Error() string { return "reported" }

func csplit(p *kernel.Proc) int {
	j := &csplitJob{p: p, prefix: "xx", digits: 2}
	opts, names, ok := csplitOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
		case 'b':
			j.format = o.value
		case 'f':
			j.prefix = o.value
		case 'k':
			j.keep = true
		case 'M':
			j.suppress = true
		case 's':
			j.quiet = true
		case 'z':
			j.bare = true
		case 'n':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 0 || n > 200 {
				p.Errorf("%s: invalid number", cite(o.value))
				return 1
			}
			j.digits = n
		}
	}
	if missing(p, names, 2) {
		return 1
	}
	patterns, err := j.patterns(names[1:])
	if err != nil {
		return 1
	}
	if !j.read(names[0]) {
		return 1
	}
	if err := j.split(patterns); err != nil {
		if !j.keep {
			for _, name := range j.made {
				_ = p.Unlink(name) // what is gone is gone
			}
		}
		return 1
	}
	return 0
}

func (j *csplitJob) fail(format string, args ...any) error {
	j.p.Errorf(format, args...)
	return csplitFault{}
}

func (j *csplitJob) patterns(words []string) ([]csplitPattern, error) {
	var list []csplitPattern
	last := 0
	for _, w := range words {
		switch {
		case w == "":
			return nil, j.fail("%s: invalid pattern", cite(w))
		case w[0] == '{' && len(list) > 0:
			n, err := csplitRepeat(w)
			if err != nil {
				return nil, j.fail("%s: integer required between '{' and '}'", w)
			}
			list[len(list)-1].repeat = n
		case w[0] == '/' || w[0] == '%':
			c, err := j.expression(w)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		default:
			n, err := strconv.Atoi(w)
			switch {
			case err != nil:
				return nil, j.fail("%s: invalid pattern", cite(w))
			case n == 0:
				return nil, j.fail("%s: line number must be greater than zero", w)
			case n < last:
				return nil, j.fail("line number %s is smaller than preceding line number, %d", cite(w), last)
			case n == last:
				j.p.Errorf("warning: line number %s is the same as preceding line number", cite(w))
			}
			last = n
			list = append(list, csplitPattern{text: w, line: n})
		}
	}
	return list, nil
}

func csplitRepeat(w string) (int, error) {
	inner, ok := strings.CutSuffix(w[1:], "}")
	if ok && inner == "*" {
		return -1, nil
	}
	n, err := strconv.Atoi(inner)
	if err == nil && (!ok || n < 0) {
		err = strconv.ErrSyntax
	}
	return n, err
}

func (j *csplitJob) expression(w string) (csplitPattern, error) {
	c := csplitPattern{text: w, skip: w[0] == '%'}
	end := strings.LastIndexByte(w, w[0])
	if end == 0 {
		return c, j.fail("%s: closing delimiter '%c' missing", w, w[0])
	}
	if tail := w[end+1:]; tail != "" {
		n, err := strconv.Atoi(tail)
		if err != nil {
			return c, j.fail("%s: integer expected after delimiter", w)
		}
		c.offset = n
	}
	re, err := regex.Compile(w[1:end], regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Budget: j.p})
	if err != nil {
		return c, j.fail("%s: invalid regular expression: %v", cite(w), err)
	}
	c.re = re
	return c, nil
}

func (j *csplitJob) read(name string) bool {
	in, err := open(j.p, name)
	if err != nil {
		j.p.Errorf("cannot open %s for reading: %s", quote(name), why(err))
		return false
	}
	defer closeInput(in)
	list := newLines(j.p, in, '\n')
	defer list.close()
	for line := list.next(); line != nil; line = list.next() {
		j.p.Alloc(int64(len(line)) + 32)
		j.lines = append(j.lines, append([]byte(nil), line...))
	}
	return true
}

func (j *csplitJob) split(patterns []csplitPattern) error {
	for _, c := range patterns {
		for n := 0; c.repeat < 0 || n <= c.repeat; n++ {
			j.p.Tick(1)
			more, err := j.one(c, n)
			if err != nil {
				return err
			}
			if !more {
				return nil
			}
		}
	}
	return j.rest()
}

// one handles a pattern once; more is false when the input has been used up.
func (j *csplitJob) one(c csplitPattern, n int) (more bool, err error) {
	if c.re == nil {
		return true, j.upTo(c, c.line*(n+1)-1, n)
	}
	i := max(j.from, j.at)
	for ; i < len(j.lines); i++ {
		if c.re.Match(trimDelim(j.lines[i], '\n'), 0, nil, j.p) {
			break
		}
	}
	if i == len(j.lines) {
		if c.repeat < 0 {
			if c.skip {
				return false, nil
			}
			return false, j.rest()
		}
		text := cite(c.text) + ": match not found"
		if n > 0 {
			text += fmt.Sprintf(" on repetition %d", n)
		}
		err := j.fail("%s", text)
		if !c.skip {
			if werr := j.rest(); werr != nil {
				return false, werr
			}
		}
		return false, err
	}
	end := i + c.offset
	if end < j.at || end > len(j.lines) {
		return false, j.fail("%s: line number out of range", cite(c.text))
	}
	j.from = i + 1
	if c.skip {
		j.at = end
	} else if err := j.write(end); err != nil {
		return false, err
	}
	j.afterMatch()
	return true, nil
}

// afterMatch leaves out the line that matched, if that is wanted.
func (j *csplitJob) afterMatch() {
	if j.suppress && j.at < len(j.lines) {
		j.at++
	}
}

// upTo writes the lines before a number.
func (j *csplitJob) upTo(c csplitPattern, end, n int) error {
	if end >= len(j.lines) {
		text := cite(c.text) + ": line number out of range"
		if n > 0 {
			text += fmt.Sprintf(" on repetition %d", n)
		}
		err := j.fail("%s", text)
		if werr := j.rest(); werr != nil {
			return werr
		}
		return err
	}
	if err := j.write(max(end, j.at)); err != nil {
		return err
	}
	j.afterMatch()
	return nil
}

// rest writes what is left.
func (j *csplitJob) rest() error { return j.write(len(j.lines)) }

func (j *csplitJob) name() string {
	n := len(j.made)
	if j.format != "" {
		return j.prefix + fmt.Sprintf(j.format, n)
	}
	return j.prefix + fmt.Sprintf("%0*d", j.digits, n)
}

// write writes the lines up to end into the next file.
func (j *csplitJob) write(end int) error {
	lines := j.lines[j.at:end]
	j.at = end
	if len(lines) == 0 && j.bare {
		return nil
	}
	name := j.name()
	h, err := j.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return j.fail("%s: %s", quotef(name), why(err))
	}
	j.made = append(j.made, name)
	size := 0
	for _, line := range lines {
		size += len(line)
		if _, err = h.Write(line); err != nil {
			break
		}
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return j.fail("%s: %s", quotef(name), why(err))
	}
	if !j.quiet {
		_, _ = fmt.Fprintln(j.p.Out(), size) // errors of Out show at its flush
	}
	return nil
}
