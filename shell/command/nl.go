package command

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
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

var nlOptions = parsing{options: []option{
	{short: 'b', long: "body-numbering", arg: required},
	{short: 'd', long: "section-delimiter", arg: required},
	{short: 'f', long: "footer-numbering", arg: required},
	{short: 'h', long: "header-numbering", arg: required},
	{short: 'i', long: "line-increment", arg: required},
	{short: 'l', long: "join-blank-lines", arg: required},
	{short: 'n', long: "number-format", arg: required},
	{short: 'p', long: "no-renumber"},
	{short: 's', long: "number-separator", arg: required},
	{short: 'v', long: "starting-line-number", arg: required},
	{short: 'w', long: "number-width", arg: required},
}}

// nlStyle says which lines of a section are numbered.
type nlStyle struct {
	kind byte // a, t, n, p
	re   *regex.Regexp
}

// nlJob is one run of nl.
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

func nl(p *kernel.Proc) int {
	j := &nlJob{p: p, out: p.Out(), header: nlStyle{kind: 'n'}, body: nlStyle{kind: 't'}, footer: nlStyle{kind: 'n'}, delim: `\:`, sep: "\t", format: "rn", start: 1, step: 1, join: 1, width: 6}
	opts, names, ok := nlOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.option(o) {
			return 1
		}
	}
	j.current, j.now = &j.body, j.start
	code := 0
	for _, name := range operandsOr(names) {
		in, err := open(p, name)
		if err != nil {
			p.Errorf("%s: %s", quotef(name), why(err))
			code = 1
			continue
		}
		list := newLines(p, in, '\n')
		for line := list.next(); line != nil; line = list.next() {
			j.line(trimDelim(line, '\n'))
		}
		if err := list.failed(); err != nil {
			p.Errorf("%s: %s", quotef(name), why(err))
			code = 1
		}
		list.close()
		closeInput(in)
	}
	return code
}

func (j *nlJob) option(o given) bool {
	switch o.key {
	case 'b':
		return j.style(&j.body, "body", o.value)
	case 'h':
		return j.style(&j.header, "header", o.value)
	case 'f':
		return j.style(&j.footer, "footer", o.value)
	case 'd':
		j.delim = o.value
		if len(o.value) == 1 {
			j.delim += ":"
		}
	case 's':
		j.sep = o.value
	case 'p':
		j.keep = true
	case 'n':
		if o.value != "ln" && o.value != "rn" && o.value != "rz" {
			j.p.Errorf("invalid line numbering format: %s", cite(o.value))
			tryHelp(j.p)
			return false
		}
		j.format = o.value
	case 'i':
		return j.number(&j.step, "line number increment", o.value, -1<<62)
	case 'v':
		return j.number(&j.start, "starting line number", o.value, -1<<62)
	case 'l':
		return j.number(&j.join, "line number of blank lines", o.value, 1)
	case 'w':
		w := int64(0)
		if !j.number(&w, "line number field width", o.value, 1) {
			return false
		}
		j.width = int(min(w, 1<<16))
	}
	return true
}

func (j *nlJob) number(to *int64, what, s string, least int64) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		j.p.Errorf("invalid %s: %s", what, cite(s))
		return false
	}
	if n < least {
		j.p.Errorf("invalid %s: %s: Numerical result out of range", what, cite(s))
		return false
	}
	*to = n
	return true
}

func (j *nlJob) style(to *nlStyle, section, s string) bool {
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
	j.p.Errorf("invalid %s numbering style: %s", section, cite(s))
	tryHelp(j.p)
	return false
}

// section starts another part of a page if a line is its delimiter.
func (j *nlJob) section(line []byte) bool {
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
	_ = j.out.WriteByte('\n') // errors of out show at its flush
	return true
}

func (j *nlJob) line(line []byte) {
	if j.section(line) {
		return
	}
	if !j.numbered(line) {
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

func (j *nlJob) numbered(line []byte) bool {
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
