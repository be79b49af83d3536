package text

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var prOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Long: "pages", Arg: option.Required, ID: '+'},
	{Long: "columns", Arg: option.Required, ID: '#'},
	{Short: 'a', Long: "across"},
	{Short: 'd', Long: "double-space"},
	{Short: 'e', Long: "expand-tabs", Arg: option.Optional},
	{Short: 'i', Long: "output-tabs", Arg: option.Optional},
	{Short: 'F', Long: "form-feed"},
	{Short: 'f', ID: 'F'},
	{Short: 'h', Long: "header", Arg: option.Required},
	{Short: 'J', Long: "join-lines"},
	{Short: 'l', Long: "length", Arg: option.Required},
	{Short: 'm', Long: "merge"},
	{Short: 'n', Long: "number-lines", Arg: option.Optional},
	{Short: 'N', Long: "first-line-number", Arg: option.Required},
	{Short: 'o', Long: "indent", Arg: option.Required},
	{Short: 'r', Long: "no-file-warnings"},
	{Short: 's', Long: "separator", Arg: option.Optional},
	{Short: 'S', Long: "sep-string", Arg: option.Optional},
	{Short: 't', Long: "omit-header"},
	{Short: 'T', Long: "omit-pagination"},
	{Short: 'w', Long: "width", Arg: option.Required},
	{Short: 'W', Long: "page-width", Arg: option.Required},
	{Short: 'c', Long: "show-control-chars"},
	{Short: 'v', Long: "show-nonprinting"},
	{Short: 'D', Long: "date-format", Arg: option.Required},
}}

// prJob is the state of one run of pr.
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

func runPr(p *kernel.Proc) int {
	j := &prJob{p: p, out: p.Out(), columns: 1, length: 66, width: 72, first: 1, numberSep: "\t", digits: 5, line: 1}
	opts, names, ok := prOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.applyOption(o) {
			return 1
		}
	}
	var files []string
	for _, name := range names {
		if len(name) > 1 && name[0] == '+' && name[1] >= '0' && name[1] <= '9' {
			if !j.parsePageRange(name[1:]) {
				return 1
			}
			continue
		}
		files = append(files, name)
	}
	if j.length <= 2*prHead {
		j.bare = true
	}
	j.run(stream.OperandsOrStdin(files))
	return j.code
}

func (j *prJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case '+':
		return j.parsePageRange(o.Value)
	case '#':
		return j.parseAmount(&j.columns, "number of columns", o.Value, 1)
	case 'l':
		return j.parseAmount(&j.length, "'-l PAGE_LENGTH' invalid number of lines", o.Value, 1)
	case 'w', 'W':
		j.cut = j.cut || o.Key == 'W'
		return j.parseAmount(&j.width, "'-w PAGE_WIDTH' invalid number of characters", o.Value, 1)
	case 'o':
		return j.parseAmount(&j.margin, "'-o MARGIN' invalid line offset", o.Value, 0)
	case 'N':
		return j.parseAmount(&j.line, "'-N NUMBER' invalid starting line number", o.Value, 0)
	case 'n':
		return j.parseNumbering(o.Value)
	case 's', 'S':
		j.hasSep, j.sep = true, o.Value
		if o.Key == 's' && !o.HasValue {
			j.sep = "\t"
		}
		j.join = j.join || o.Key == 's'
	case 'h':
		j.header, j.hasHeader = o.Value, true
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

func (j *prJob) parseAmount(to *int, what, s string, least int) bool {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > 1<<20 {
		j.p.Errorf("invalid %s: %s", what, quoting.QuoteWord(s))
		return false
	}
	*to = n
	return true
}

func (j *prJob) parsePageRange(s string) bool {
	first, last, both := strings.Cut(s, ":")
	if !j.parseAmount(&j.first, "page range", first, 1) {
		return false
	}
	return !both || j.parseAmount(&j.last, "page range", last, j.first)
}

func (j *prJob) parseNumbering(s string) bool {
	j.number = true
	if s != "" && (s[0] < '0' || s[0] > '9') {
		j.numberSep, s = s[:1], s[1:]
	}
	if s == "" {
		return true
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100 {
		j.p.Errorf("'-n' extra characters or invalid number in the argument: %s", quoting.QuoteWord(s))
		option.SuggestHelp(j.p)
		return false
	}
	j.digits = n
	return true
}

// prText is the content of one file.
type prText struct {
	name  string
	at    time.Time
	lines []string
}

// run reads the files and prints them.
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
		j.print(t, j.arrangeRows(t.lines))
	}
	if j.merge && len(texts) > 0 {
		j.columns = len(texts)
		j.print(prText{at: j.p.Now()}, mergeColumns(texts))
	}
}

// read reads one file and reports whether it could be opened.
func (j *prJob) read(name string) (prText, bool) {
	t := prText{name: name, at: j.p.Now()}
	in, err := stream.Open(j.p, name)
	if err != nil {
		if !j.calm {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		}
		j.code = 1
		return t, false
	}
	defer stream.Close(in)
	if info, err := j.p.Stat(name); err == nil && name != "-" {
		t.at = info.ModTime()
	}
	if name == "-" {
		t.name = ""
	}
	list := stream.NewLineReader(j.p, in, '\n')
	defer list.Close()
	for line := list.Next(); line != nil; line = list.Next() {
		j.p.Alloc(int64(len(line)) + lineCost)
		t.lines = append(t.lines, string(stream.TrimDelimiter(line, '\n')))
	}
	return t, true
}

// countBodyLines returns how many lines of text a page has.
func (j *prJob) countBodyLines() int {
	n := j.length
	if !j.bare {
		n -= 2 * prHead
	}
	if j.double {
		n = max(n/2, 1)
	}
	return n
}

// arrangeRows arranges the lines in the columns of each page.
func (j *prJob) arrangeRows(lines []string) [][]string {
	var rows [][]string
	perPage := j.countBodyLines() * j.columns
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

// mergeColumns arranges files side by side, one per column.
func mergeColumns(texts []prText) [][]string {
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
		n := min(j.countBodyLines(), len(rows))
		j.page++
		shown := j.page >= j.first && (j.last == 0 || j.page <= j.last)
		if shown && !j.bare {
			j.printHeading(t)
		}
		for _, row := range rows[:n] {
			if shown {
				j.printRow(row)
			}
			j.line += len(row)
			if j.merge {
				j.line -= len(row) - 1
			}
		}
		if shown && !j.bare {
			j.printTrailer(n)
		}
		rows = rows[n:]
	}
}

func (j *prJob) writeText(s string) {
	_, _ = j.out.WriteString(s) // Flush reports the error
}

func (j *prJob) printHeading(t prText) {
	title := t.name
	if j.hasHeader {
		title = j.header
	}
	date := t.at.In(datetime.LocalZone(j.p)).Format("2006-01-02 15:04")
	page := fmt.Sprintf("Page %d", j.page)
	room := max(j.width-len(date)-len(page)-terminal.TextWidth(title), 2)
	left := room / 2
	j.writeText("\n\n" + strings.Repeat(" ", j.margin) + date + strings.Repeat(" ", left) + title + strings.Repeat(" ", room-left) + page + "\n\n\n")
}

func (j *prJob) printTrailer(n int) {
	if j.feed {
		j.writeText("\f")
		return
	}
	if j.double {
		n *= 2
	}
	j.writeText(strings.Repeat("\n", max(j.length-2*prHead-n, 0)+prHead))
}

// printRow prints one line of all columns, which begin at equal distances.
func (j *prJob) printRow(cells []string) {
	j.p.Tick(1 + len(cells))
	j.writeText(strings.Repeat(" ", j.margin))
	if j.number {
		j.writeText(fmt.Sprintf("%*d%s", j.digits, j.line, j.numberSep))
	}
	width := (j.width - (j.columns - 1)) / j.columns
	column := 0
	for c, cell := range cells {
		if c > 0 {
			switch {
			case j.hasSep:
				j.writeText(j.sep)
			default:
				column = j.padTo(column, c*(width+1))
			}
		}
		if j.expand || j.columns > 1 && strings.Contains(cell, "\t") {
			cell = expandTabs(cell)
		}
		if j.columns > 1 && !j.join || j.cut {
			cell = cell[:min(len(cell), max(width, 1))]
		}
		j.writeText(cell)
		column += terminal.TextWidth(cell)
	}
	j.writeText("\n")
	if j.double {
		j.writeText("\n")
	}
}

// padTo writes tabs and spaces from one column to another.
func (j *prJob) padTo(from, to int) int {
	for next := from - from%8 + 8; next <= to; next = from - from%8 + 8 {
		if to-from == 1 {
			break
		}
		j.writeText("\t")
		from = next
	}
	if from < to {
		j.writeText(strings.Repeat(" ", to-from))
	}
	return max(from, to)
}

// expandTabs replaces tabs by spaces.
func expandTabs(s string) string {
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
