package text

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var csplitOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "suffix-format", Arg: option.Required},
	{Short: 'f', Long: "prefix", Arg: option.Required},
	{Short: 'k', Long: "keep-files"},
	{Long: "suppress-matched", ID: 'M'},
	{Short: 'n', Long: "digits", Arg: option.Required},
	{Short: 's', Long: "quiet"},
	{Short: 's', Long: "silent"},
	{Short: 'z', Long: "elide-empty-files"},
}}

// csplitPattern is one pattern of the command line: where to split.
type csplitPattern struct {
	text   string
	line   int // 0 for a regular expression
	re     *regex.Regexp
	skip   bool
	offset int
	repeat int // -1: as often as possible
}

// csplitJob is the state of one run of csplit.
type csplitJob struct {
	p                           *kernel.Proc
	prefix, format              string
	digits                      int
	keep, suppress, quiet, bare bool
	lines                       [][]byte
	used                        int // lines that have been used
	searchFrom                  int // start of the search for the next match
	made                        []string
}

// csplitFault ends a run; its cause has been reported.
type csplitFault struct{}

func (csplitFault) Error() string { return "reported" }

func runCsplit(p *kernel.Proc) int {
	j := &csplitJob{p: p, prefix: "xx", digits: 2}
	opts, names, ok := csplitOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'b':
			j.format = o.Value
		case 'f':
			j.prefix = o.Value
		case 'k':
			j.keep = true
		case 'M':
			j.suppress = true
		case 's':
			j.quiet = true
		case 'z':
			j.bare = true
		case 'n':
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 || n > 200 {
				p.Errorf("%s: invalid number", quoting.QuoteWord(o.Value))
				return 1
			}
			j.digits = n
		}
	}
	if option.ReportMissing(p, names, 2) {
		return 1
	}
	patterns, err := j.parsePatterns(names[1:])
	if err != nil {
		return 1
	}
	if !j.read(names[0]) {
		return 1
	}
	if err := j.splitAtPatterns(patterns); err != nil {
		if !j.keep {
			for _, name := range j.made {
				_ = p.Unlink(name) // it may be gone
			}
		}
		return 1
	}
	return 0
}

func (j *csplitJob) reportError(format string, args ...any) error {
	j.p.Errorf(format, args...)
	return csplitFault{}
}

func (j *csplitJob) parsePatterns(words []string) ([]csplitPattern, error) {
	var list []csplitPattern
	last := 0
	for _, w := range words {
		j.p.Tick(4)
		switch {
		case w == "":
			return nil, j.reportError("%s: invalid pattern", quoting.QuoteWord(w))
		case w[0] == '{' && len(list) > 0:
			n, err := parseRepeatCount(w)
			if err != nil {
				return nil, j.reportError("%s: integer required between '{' and '}'", w)
			}
			list[len(list)-1].repeat = n
		case w[0] == '/' || w[0] == '%':
			c, err := j.parseExpression(w)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		default:
			n, err := strconv.Atoi(w)
			switch {
			case err != nil:
				return nil, j.reportError("%s: invalid pattern", quoting.QuoteWord(w))
			case n == 0:
				return nil, j.reportError("%s: line number must be greater than zero", w)
			case n < last:
				return nil, j.reportError("line number %s is smaller than preceding line number, %d", quoting.QuoteWord(w), last)
			case n == last:
				j.p.Errorf("warning: line number %s is the same as preceding line number", quoting.QuoteWord(w))
			}
			last = n
			list = append(list, csplitPattern{text: w, line: n})
		}
	}
	return list, nil
}

func parseRepeatCount(w string) (int, error) {
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

func (j *csplitJob) parseExpression(w string) (csplitPattern, error) {
	c := csplitPattern{text: w, skip: w[0] == '%'}
	end := strings.LastIndexByte(w, w[0])
	if end == 0 {
		return c, j.reportError("%s: closing delimiter '%c' missing", w, w[0])
	}
	if tail := w[end+1:]; tail != "" {
		n, err := strconv.Atoi(tail)
		if err != nil {
			return c, j.reportError("%s: integer expected after delimiter", w)
		}
		c.offset = n
	}
	re, err := regex.Compile(w[1:end], regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Budget: j.p})
	if err != nil {
		return c, j.reportError("%s: invalid regular expression: %v", quoting.QuoteWord(w), err)
	}
	c.re = re
	return c, nil
}

// read reads all lines of the input and reports whether it could be opened.
func (j *csplitJob) read(name string) bool {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.p.Errorf("cannot open %s for reading: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	list := stream.NewLineReader(j.p, in, '\n')
	defer list.Close()
	for line := list.Next(); line != nil; line = list.Next() {
		j.p.Alloc(int64(len(line)) + lineCost)
		j.lines = append(j.lines, append([]byte(nil), line...))
	}
	return true
}

// lineCost is the memory of a line besides its text, and of a name, in bytes.
const lineCost = 64

// splitAtPatterns applies the patterns in turn and writes the rest.
func (j *csplitJob) splitAtPatterns(patterns []csplitPattern) error {
	for _, c := range patterns {
		for n := 0; c.repeat < 0 || n <= c.repeat; n++ {
			j.p.Tick(1)
			more, err := j.splitOnce(c, n)
			if err != nil {
				return err
			}
			if !more {
				return nil
			}
		}
	}
	return j.writeRest()
}

// splitOnce applies a pattern once, for the n-th time. more is false when the input is used up.
func (j *csplitJob) splitOnce(c csplitPattern, n int) (more bool, err error) {
	if c.re == nil {
		return true, j.writeUpTo(c, c.line*(n+1)-1, n)
	}
	i := max(j.searchFrom, j.used)
	for ; i < len(j.lines); i++ {
		if c.re.Match(stream.TrimDelimiter(j.lines[i], '\n'), 0, nil, j.p) {
			break
		}
	}
	if i == len(j.lines) {
		if c.repeat < 0 {
			if c.skip {
				return false, nil
			}
			return false, j.writeRest()
		}
		text := quoting.QuoteWord(c.text) + ": match not found"
		if n > 0 {
			text += fmt.Sprintf(" on repetition %d", n)
		}
		err := j.reportError("%s", text)
		if !c.skip {
			if werr := j.writeRest(); werr != nil {
				return false, werr
			}
		}
		return false, err
	}
	end := i + c.offset
	if end < j.used || end > len(j.lines) {
		return false, j.reportError("%s: line number out of range", quoting.QuoteWord(c.text))
	}
	j.searchFrom = i + 1
	if c.skip {
		j.used = end
	} else if err := j.write(end); err != nil {
		return false, err
	}
	j.skipMatch()
	return true, nil
}

// skipMatch skips the matching line if --suppress-matched is given.
func (j *csplitJob) skipMatch() {
	if j.suppress && j.used < len(j.lines) {
		j.used++
	}
}

// writeUpTo writes the lines before line end into the next file.
func (j *csplitJob) writeUpTo(c csplitPattern, end, n int) error {
	if end >= len(j.lines) {
		text := quoting.QuoteWord(c.text) + ": line number out of range"
		if n > 0 {
			text += fmt.Sprintf(" on repetition %d", n)
		}
		err := j.reportError("%s", text)
		if werr := j.writeRest(); werr != nil {
			return werr
		}
		return err
	}
	if err := j.write(max(end, j.used)); err != nil {
		return err
	}
	j.skipMatch()
	return nil
}

// writeRest writes the remaining lines.
func (j *csplitJob) writeRest() error { return j.write(len(j.lines)) }

func (j *csplitJob) name() string {
	n := len(j.made)
	if j.format != "" {
		return j.prefix + fmt.Sprintf(j.format, n)
	}
	return j.prefix + fmt.Sprintf("%0*d", j.digits, n)
}

// write writes the lines up to end into the next file.
func (j *csplitJob) write(end int) error {
	lines := j.lines[j.used:end]
	j.used = end
	if len(lines) == 0 && j.bare {
		return nil
	}
	name := j.name()
	h, err := j.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return j.reportError("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
	}
	j.p.Alloc(lineCost)
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
		return j.reportError("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
	}
	if !j.quiet {
		_, _ = fmt.Fprintln(j.p.Out(), size) // Flush reports the error
	}
	return nil
}
