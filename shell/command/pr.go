package command

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const prUsage = `Usage: pr [OPTION]... [FILE]...
Paginate or columnate FILE(s) for printing.

With no FILE, or when FILE is -, read standard input.

  +FIRST[:LAST], --pages=FIRST[:LAST]  begin (and stop) with this page
  -COLUMN, --columns=COLUMN  output COLUMN columns and print columns down
  -a, --across               print columns across rather than down
  -d, --double-space         double space the output
  -e, --expand-tabs          expand input tabs
  -F, -f, --form-feed        use form feeds instead of newlines to separate pages
  -h, --header=HEADER        use a centered HEADER instead of filename
  -J, --join-lines           merge full lines
  -l, --length=NUMBER        set the page length to NUMBER lines (default 66)
  -m, --merge                print all files in parallel, one in each column
  -n[SEP[DIGITS]], --number-lines[=SEP[DIGITS]]  number lines
  -N, --first-line-number=NUMBER  start counting with NUMBER
  -o, --indent=MARGIN        offset each line with MARGIN spaces
  -r, --no-file-warnings     omit warning when a file cannot be opened
  -s[CHAR], --separator[=CHAR]  separate columns by a single character
  -S[STRING], --sep-string[=STRING]  separate columns by STRING
  -t, --omit-header          omit page headers and trailers
  -T, --omit-pagination      the same, and no form feeds
  -w, --width=NUMBER         set page width for multiple-column output
  -W, --page-width=NUMBER    set page width always
      --help                 display this help and exit
`

var prOptions = parsing{digits: true, options: []option{
	{long: "pages", arg: required, id: '+'}, {long: "columns", arg: required, id: '#'}, {short: 'a', long: "across"}, {short: 'd', long: "double-space"},
	{short: 'e', long: "expand-tabs", arg: optional}, {short: 'i', long: "output-tabs", arg: optional}, {short: 'F', long: "form-feed"}, {short: 'f', id: 'F'},
	{short: 'h', long: "header", arg: required}, {short: 'J', long: "join-lines"}, {short: 'l', long: "length", arg: required}, {short: 'm', long: "merge"},
	{short: 'n', long: "number-lines", arg: optional}, {short: 'N', long: "first-line-number", arg: required}, {short: 'o', long: "indent", arg: required}, {short: 'r', long: "no-file-warnings"},
	{short: 's', long: "separator", arg: optional}, {short: 'S', long: "sep-string", arg: optional}, {short: 't', long: "omit-header"}, {short: 'T', long: "omit-pagination"},
	{short: 'w', long: "width", arg: required}, {short: 'W', long: "page-width", arg: required}, {short: 'c', long: "show-control-chars"}, {short: 'v', long: "show-nonprinting"},
	{short: 'D', long: "date-format", arg: required},
}}

// prJob is one run of pr.
type prJob struct {
	p                                                     *kernel.Proc
	out                                                   *bufio.Writer
	columns, length, width, margin, first, last           int
	across, double, expand, feed, join, merge, bare, calm bool
	number                                                bool
	numberSep                                             string
	digits, line                                          int
	header, sep                                           string
	hasHeader, hasSep, cut                                bool
	page                                                  int
	code                                                  int
}

const (
	prHead = 5 // lines above the text of a page, and below it
)

func pr(p *kernel.Proc) int {
	j := &prJob{p: p, out: p.Out(), columns: 1, length: 66, width: 72, first: 1, numberSep: "\t", digits: 5, line: 1}
	opts, names, ok := prOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.option(o) {
			return 1
		}
	}
	var files []string
	for _, name := range names {
		if len(name) > 1 && name[0] == '+' && name[1] >= '0' && name[1] <= '9' {
			if !j.pages(name[1:]) {
				return 1
			}
			continue
		}
		files = append(files, name)
	}
	if j.length <= 2*prHead {
		j.bare = true
	}
	j.run(operandsOr(files))
	return j.code
}

func (j *prJob) option(o given) bool {
	switch o.key {
	case '+':
		return j.pages(o.value)
	case '#':
		return j.amount(&j.columns, "number of columns", o.value, 1)
	case 'l':
		return j.amount(&j.length, "'-l PAGE_LENGTH' invalid number of lines", o.value, 1)
	case 'w', 'W':
		j.cut = j.cut || o.key == 'W'
		return j.amount(&j.width, "'-w PAGE_WIDTH' invalid number of characters", o.value, 1)
	case 'o':
		return j.amount(&j.margin, "'-o MARGIN' invalid line offset", o.value, 0)
	case 'N':
		return j.amount(&j.line, "'-N NUMBER' invalid starting line number", o.value, 0)
	case 'n':
		return j.numbering(o.value)
	case 's', 'S':
		j.hasSep, j.sep = true, o.value
		if o.key == 's' && !o.has {
			j.sep = "\t"
		}
		j.join = j.join || o.key == 's'
	case 'h':
		j.header, j.hasHeader = o.value, true
	case 'a':
		j.across = true
	case 'd':
		j.double = true
	case 'e':
		j.expand = true
	case 'F':
		j.feed = true
	case 'J':
		j.join = true
	case 'm':
		j.merge = true
	case 'r':
		j.calm = true
	case 't', 'T':
		j.bare = true
	}
	return true
}

func (j *prJob) amount(to *int, what, s string, least int) bool {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > 1<<20 {
		j.p.Errorf("invalid %s: %s", what, cite(s))
		return false
	}
	*to = n
	return true
}

func (j *prJob) pages(s string) bool {
	first, last, both := strings.Cut(s, ":")
	if !j.amount(&j.first, "page range", first, 1) {
		return false
	}
	return !both || j.amount(&j.last, "page range", last, j.first)
}

func (j *prJob) numbering(s string) bool {
	j.number = true
	if s != "" && (s[0] < '0' || s[0] > '9') {
		j.numberSep, s = s[:1], s[1:]
	}
	if s == "" {
		return true
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100 {
		j.p.Errorf("'-n' extra characters or invalid number in the argument: %s", cite(s))
		tryHelp(j.p)
		return false
	}
	j.digits = n
	return true
}

// prText is what one file holds.
type prText struct {
	name  string
	at    time.Time
	lines []string
}

func (j *prJob) run(names []string) {
	var texts []prText
	for _, name := range names {
		t, ok := j.read(name)
		if !ok {
			continue
		}
		if j.merge {
			texts = append(texts, t)
			continue
		}
		j.page = 0
		j.print(t, j.rows(t.lines))
	}
	if j.merge && len(texts) > 0 {
		j.columns = len(texts)
		j.print(prText{at: j.p.Now()}, merged(texts))
	}
}

func (j *prJob) read(name string) (prText, bool) {
	t := prText{name: name, at: j.p.Now()}
	in, err := open(j.p, name)
	if err != nil {
		if !j.calm {
			j.p.Errorf("%s: %s", quotef(name), why(err))
		}
		j.code = 1
		return t, false
	}
	defer closeInput(in)
	if info, err := j.p.Stat(name); err == nil && name != "-" {
		t.at = info.ModTime()
	}
	if name == "-" {
		t.name = ""
	}
	list := newLines(j.p, in, '\n')
	defer list.close()
	for line := list.next(); line != nil; line = list.next() {
		j.p.Alloc(int64(len(line)) + 32)
		t.lines = append(t.lines, string(trimDelim(line, '\n')))
	}
	return t, true
}

// body is how many lines of text a page has.
func (j *prJob) body() int {
	n := j.length
	if !j.bare {
		n -= 2 * prHead
	}
	if j.double {
		n = max(n/2, 1)
	}
	return n
}

// rows puts the lines into the columns of each page.
func (j *prJob) rows(lines []string) [][]string {
	var rows [][]string
	perPage := j.body() * j.columns
	for len(lines) > 0 {
		page := lines[:min(perPage, len(lines))]
		lines = lines[len(page):]
		down := (len(page) + j.columns - 1) / j.columns
		full := len(page) % j.columns // columns that are a line longer
		if full == 0 {
			full = j.columns
		}
		for r := range down {
			j.p.Tick(j.columns)
			var row []string
			for c := range j.columns {
				i := c*down + r - max(0, c-full)
				if j.across {
					i = r*j.columns + c
				}
				if c >= full && r == down-1 && full < j.columns || i >= len(page) {
					break
				}
				row = append(row, page[i])
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// merged puts files side by side.
func merged(texts []prText) [][]string {
	var rows [][]string
	for i := 0; ; i++ {
		row := make([]string, len(texts))
		any := false
		for k, t := range texts {
			if i < len(t.lines) {
				row[k], any = t.lines[i], true
			}
		}
		if !any {
			return rows
		}
		rows = append(rows, row)
	}
}

// print prints the rows page by page.
func (j *prJob) print(t prText, rows [][]string) {
	for len(rows) > 0 {
		n := min(j.body(), len(rows))
		j.page++
		shown := j.page >= j.first && (j.last == 0 || j.page <= j.last)
		if shown && !j.bare {
			j.heading(t)
		}
		for _, row := range rows[:n] {
			if shown {
				j.row(row)
			}
			j.line += len(row)
			if j.merge {
				j.line -= len(row) - 1
			}
		}
		if shown && !j.bare {
			j.trailer(n)
		}
		rows = rows[n:]
	}
}

func (j *prJob) text(s string) {
	_, _ = j.out.WriteString(s) // errors of out show at its flush
}

func (j *prJob) heading(t prText) {
	title := t.name
	if j.hasHeader {
		title = j.header
	}
	date := t.at.In(zoneOf(j.p)).Format("2006-01-02 15:04")
	page := fmt.Sprintf("Page %d", j.page)
	room := max(j.width-len(date)-len(page)-textWidth(title), 2)
	left := room / 2
	j.text("\n\n" + strings.Repeat(" ", j.margin) + date + strings.Repeat(" ", left) + title + strings.Repeat(" ", room-left) + page + "\n\n\n")
}

func (j *prJob) trailer(n int) {
	if j.feed {
		j.text("\f")
		return
	}
	if j.double {
		n *= 2
	}
	j.text(strings.Repeat("\n", max(j.length-2*prHead-n, 0)+prHead))
}

// row prints one line of all columns, which begin at even distances.
func (j *prJob) row(cells []string) {
	j.p.Tick(1 + len(cells))
	j.text(strings.Repeat(" ", j.margin))
	if j.number {
		j.text(fmt.Sprintf("%*d%s", j.digits, j.line, j.numberSep))
	}
	width := (j.width - (j.columns - 1)) / j.columns
	column := 0
	for c, cell := range cells {
		if c > 0 {
			switch {
			case j.hasSep:
				j.text(j.sep)
			default:
				column = j.pad(column, c*(width+1))
			}
		}
		if j.expand || j.columns > 1 && strings.Contains(cell, "\t") {
			cell = untabbed(cell)
		}
		if j.columns > 1 && !j.join || j.cut {
			cell = cell[:min(len(cell), max(width, 1))]
		}
		j.text(cell)
		column += textWidth(cell)
	}
	j.text("\n")
	if j.double {
		j.text("\n")
	}
}

// pad goes to a column by tabs and spaces.
func (j *prJob) pad(from, to int) int {
	for next := from - from%8 + 8; next <= to; next = from - from%8 + 8 {
		if to-from == 1 {
			break
		}
		j.text("\t")
		from = next
	}
	if from < to {
		j.text(strings.Repeat(" ", to-from))
	}
	return max(from, to)
}

// untabbed turns tabs into spaces.
func untabbed(s string) string {
	var b strings.Builder
	column := 0
	for _, r := range s {
		if r == '\t' {
			n := 8 - column%8
			b.WriteString(strings.Repeat(" ", n))
			column += n
			continue
		}
		b.WriteRune(r)
		column++
	}
	return b.String()
}
