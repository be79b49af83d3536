package text

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const nlUsage = `Usage: nl [OPTION]... [FILE]...
Write each FILE to standard output, with line numbers added.

With no FILE, or when FILE is -, read standard input.

  -b, --body-numbering=STYLE      use STYLE for numbering body lines
  -d, --section-delimiter=CC      use CC for logical page delimiters
  -f, --footer-numbering=STYLE    use STYLE for numbering footer lines
  -h, --header-numbering=STYLE    use STYLE for numbering header lines
  -i, --line-increment=NUMBER     line number increment at each line
  -l, --join-blank-lines=NUMBER   group of NUMBER empty lines counted as one
  -n, --number-format=FORMAT      insert line numbers according to FORMAT
  -p, --no-renumber               do not reset line numbers for each section
  -s, --number-separator=STRING   add STRING after (possible) line number
  -v, --starting-line-number=NUMBER  first line number for each section
  -w, --number-width=NUMBER       use NUMBER columns for line numbers
      --help                      display this help and exit

STYLE is one of: a (number all lines), t (number only nonempty lines),
n (number no lines), pBRE (number only lines that match BRE).
FORMAT is one of: ln (left justified), rn (right justified), rz (with zeros).
`

var nlOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "body-numbering", Arg: option.Required},
	{Short: 'd', Long: "section-delimiter", Arg: option.Required},
	{Short: 'f', Long: "footer-numbering", Arg: option.Required},
	{Short: 'h', Long: "header-numbering", Arg: option.Required},
	{Short: 'i', Long: "line-increment", Arg: option.Required},
	{Short: 'l', Long: "join-blank-lines", Arg: option.Required},
	{Short: 'n', Long: "number-format", Arg: option.Required},
	{Short: 'p', Long: "no-renumber"},
	{Short: 's', Long: "number-separator", Arg: option.Required},
	{Short: 'v', Long: "starting-line-number", Arg: option.Required},
	{Short: 'w', Long: "number-width", Arg: option.Required},
}}

// nlStyle selects the lines of a section that are numbered.
type nlStyle struct {
	kind byte // a, t, n, p
	re   *regex.Regexp
}

// nlJob is the state of one run of nl.
type nlJob struct {
	p                      *kernel.Proc
	out                    *bufio.Writer
	header, body, footer   nlStyle
	current                *nlStyle
	delim                  string
	sep                    string
	format                 string
	keep                   bool
	start, step, join, now int64
	width                  int
	blanks                 int64
}

func runNl(p *kernel.Proc) int {
	j := &nlJob{p: p, out: p.Out(), header: nlStyle{kind: 'n'}, body: nlStyle{kind: 't'}, footer: nlStyle{kind: 'n'}, delim: `\:`, sep: "\t", format: "rn", start: 1, step: 1, join: 1, width: 6}
	opts, names, ok := nlOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.applyOption(o) {
			return 1
		}
	}
	j.current, j.now = &j.body, j.start
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		in, err := stream.Open(p, name)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
			continue
		}
		list := stream.NewLineReader(p, in, '\n')
		for line := list.Next(); line != nil; line = list.Next() {
			j.printLine(stream.TrimDelimiter(line, '\n'))
		}
		if err := list.Err(); err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
		}
		list.Close()
		stream.Close(in)
	}
	return code
}

func (j *nlJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'b':
		return j.parseStyle(&j.body, "body", o.Value)
	case 'h':
		return j.parseStyle(&j.header, "header", o.Value)
	case 'f':
		return j.parseStyle(&j.footer, "footer", o.Value)
	case 'd':
		j.delim = o.Value
		if len(o.Value) == 1 {
			j.delim += ":"
		}
	case 's':
		j.sep = o.Value
	case 'p':
		j.keep = true
	case 'n':
		if o.Value != "ln" && o.Value != "rn" && o.Value != "rz" {
			j.p.Errorf("invalid line numbering format: %s", quoting.QuoteWord(o.Value))
			option.SuggestHelp(j.p)
			return false
		}
		j.format = o.Value
	case 'i':
		return j.parseNumber(&j.step, "line number increment", o.Value, -1<<62)
	case 'v':
		return j.parseNumber(&j.start, "starting line number", o.Value, -1<<62)
	case 'l':
		return j.parseNumber(&j.join, "line number of blank lines", o.Value, 1)
	case 'w':
		w := int64(0)
		if !j.parseNumber(&w, "line number field width", o.Value, 1) {
			return false
		}
		j.width = int(min(w, 1<<16))
	}
	return true
}

func (j *nlJob) parseNumber(to *int64, what, s string, least int64) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		j.p.Errorf("invalid %s: %s", what, quoting.QuoteWord(s))
		return false
	}
	if n < least {
		j.p.Errorf("invalid %s: %s: Numerical result out of range", what, quoting.QuoteWord(s))
		return false
	}
	*to = n
	return true
}

func (j *nlJob) parseStyle(to *nlStyle, section, s string) bool {
	switch {
	case s == "a" || s == "t" || s == "n":
		to.kind = s[0]
		return true
	case strings.HasPrefix(s, "p"):
		re, err := regex.Compile(s[1:], regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Budget: j.p})
		if err != nil {
			j.p.Errorf("%v", err)
			return false
		}
		to.kind, to.re = 'p', re
		return true
	}
	j.p.Errorf("invalid %s numbering style: %s", section, quoting.QuoteWord(s))
	option.SuggestHelp(j.p)
	return false
}

// startSection starts another section of a page if line is its delimiter.
func (j *nlJob) startSection(line []byte) bool {
	n := len(j.delim)
	if n == 0 || len(line) == 0 || len(line)%n != 0 || len(line) > 3*n {
		return false
	}
	for i := 0; i < len(line); i += n {
		if string(line[i:i+n]) != j.delim {
			return false
		}
	}
	switch len(line) / n {
	case 3:
		j.current = &j.header
	case 2:
		j.current = &j.body
	case 1:
		j.current = &j.footer
	}
	if !j.keep {
		j.now = j.start
	}
	_ = j.out.WriteByte('\n') // Flush reports the error
	return true
}

func (j *nlJob) printLine(line []byte) {
	if j.startSection(line) {
		return
	}
	if !j.isNumbered(line) {
		_, _ = j.out.WriteString(strings.Repeat(" ", j.width+len(j.sep)))
	} else {
		layout := map[string]string{"ln": "%-*d", "rn": "%*d", "rz": "%0*d"}[j.format]
		_, _ = fmt.Fprintf(j.out, layout, j.width, j.now)
		_, _ = j.out.WriteString(j.sep)
		j.now += j.step
	}
	_, _ = j.out.Write(line)
	_ = j.out.WriteByte('\n')
}

// isNumbered reports whether a line gets a number.
func (j *nlJob) isNumbered(line []byte) bool {
	switch j.current.kind {
	case 'a':
		if j.join < 2 || len(line) > 0 {
			j.blanks = 0
			return true
		}
		if j.blanks++; j.blanks == j.join {
			j.blanks = 0
			return true
		}
		return false
	case 't':
		return len(line) > 0
	case 'p':
		return j.current.re.Match(line, 0, nil, j.p)
	}
	return false
}
