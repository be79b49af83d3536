package command

import (
	"fmt"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
	"github.com/atoll-sandbox/atoll/vfs"
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

Default options are: -bt -d'\:' -fn -hn -i1 -l1 -n'rn' -s<TAB> -v1 -w6
STYLE is one of: a all lines, t nonempty lines, n no lines, pBRE those that match.
FORMAT is one of: ln left justified, rn right justified, rz with leading zeros.
`

var nlOptions = parsing{options: []option{
	{short: 'b', long: "body-numbering", arg: required}, {short: 'd', long: "section-delimiter", arg: required},
	{short: 'f', long: "footer-numbering", arg: required}, {short: 'h', long: "header-numbering", arg: required},
	{short: 'i', long: "line-increment", arg: required}, {short: 'l', long: "join-blank-lines", arg: required},
	{short: 'n', long: "number-format", arg: required}, {short: 'p', long: "no-renumber"}, {short: 's', long: "number-separator", arg: required},
	{short: 'v', long: "starting-line-number", arg: required}, {short: 'w', long: "number-width", arg: required},
}}

// nlStyle says which lines get a number.
type nlStyle struct {
	kind byte // a, t, n or p
	re   *regex.Regexp
}

type nlJob struct {
	p            *kernel.Proc
	styles       [3]nlStyle // header, body, footer
	section      int
	delim        string
	sep          string
	format       string
	first, step  int64
	number       int64
	width, group int64
	blanks       int64
	keep         bool
}

func nl(p *kernel.Proc) int {
	opts, names, ok := nlOptions.parse(p)
	if !ok {
		return 1
	}
	j := nlJob{p: p, section: 1, delim: `\:`, sep: "\t", format: "rn", first: 1, step: 1, width: 6, group: 1}
	j.styles = [3]nlStyle{{kind: 'n'}, {kind: 't'}, {kind: 'n'}}
	for _, o := range opts {
		if !j.option(o) {
			return 1
		}
	}
	j.number = j.first
	return overLines(p, names, func(line []byte, _ bool) { j.line(line) })
}

// option takes one option; it has said what is wrong when it returns false.
func (j *nlJob) option(o given) bool {
	switch o.key {
	case 'h':
		return j.style(0, "header", o.value)
	case 'b':
		return j.style(1, "body", o.value)
	case 'f':
		return j.style(2, "footer", o.value)
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
		return j.count(&j.step, o.value, "line number increment", -1<<62)
	case 'v':
		return j.count(&j.first, o.value, "starting line number", -1<<62)
	case 'w':
		return j.count(&j.width, o.value, "line number field width", 1)
	case 'l':
		return j.count(&j.group, o.value, "line number of blank lines", 1)
	}
	return true
}

func (j *nlJob) count(to *int64, text, what string, least int64) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || what == "line number field width" && n > 1<<16 {
		reason := ""
		if err == nil {
			reason = ": " + vfs.ERANGE.Error()
		}
		j.p.Errorf("invalid %s: %s%s", what, cite(text), reason)
		return false
	}
	*to = n
	return true
}

func (j *nlJob) style(i int, what, text string) bool {
	s := nlStyle{}
	if text != "" {
		s.kind = text[0]
	}
	switch {
	case len(text) == 1 && (s.kind == 'a' || s.kind == 't' || s.kind == 'n'):
	case s.kind == 'p':
		re, err := regex.Compile(text[1:], regex.Options{Syntax: regex.BRE})
		if err != nil {
			j.p.Errorf("%v", err)
			return false
		}
		s.re = re
	default:
		j.p.Errorf("invalid %s numbering style: %s", what, cite(text))
		tryHelp(j.p)
		return false
	}
	j.styles[i] = s
	return true
}

func (j *nlJob) line(line []byte) {
	out := j.p.Out()
	if n := j.boundary(line); n >= 0 {
		j.section = n
		if !j.keep {
			j.number = j.first
		}
		_ = out.WriteByte('\n') // shows at the flush, as below
		return
	}
	if !j.numbered(line) {
		fmt.Fprintf(out, "%*s%s\n", int(j.width)+len(j.sep), "", line)
		return
	}
	layout := map[string]string{"ln": "%-*d%s%s\n", "rn": "%*d%s%s\n", "rz": "%0*d%s%s\n"}[j.format]
	fmt.Fprintf(out, layout, int(j.width), j.number, j.sep, line)
	j.number += j.step
}

// boundary returns which section a delimiter line begins, or -1.
func (j *nlJob) boundary(line []byte) int {
	if j.delim == "" {
		return -1
	}
	switch string(line) {
	case j.delim + j.delim + j.delim:
		return 0
	case j.delim + j.delim:
		return 1
	case j.delim:
		return 2
	}
	return -1
}

func (j *nlJob) numbered(line []byte) bool {
	s := j.styles[j.section]
	switch s.kind {
	case 'a':
		if j.group == 1 || len(line) > 0 {
			j.blanks = 0
			return true
		}
		if j.blanks++; j.blanks == j.group {
			j.blanks = 0
			return true
		}
		return false
	case 't':
		return len(line) > 0
	case 'p':
		return s.re.Match(line, 0, nil, j.p)
	}
	return false
}
