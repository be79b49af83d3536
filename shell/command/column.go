package command

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const columnUsage = `Usage:
 column [options] [<file>...]

Columnate lists.

Options:
 -t, --table                      create a table
 -n, --table-name <name>          table name for JSON output
 -O, --table-order <columns>      specify order of output columns
 -N, --table-columns <names>      comma separated columns names
 -l, --table-columns-limit <num>  maximal number of input columns
 -d, --table-noheadings           don't print header
 -H, --table-hide <columns>       don't print the columns
 -R, --table-right <columns>      right align text in these columns
 -L, --keep-empty-lines           don't ignore empty lines
 -J, --json                       use JSON output format for table
 -o, --output-separator <string>  columns separator for table output
                                    (default is two spaces)
 -s, --separator <string>         possible table delimiters
 -c, --output-width <width>       width of output in number of characters
 -x, --fillrows                   fill rows before columns
 -h, --help                       display this help
`

var columnOptions = parsing{options: []option{
	{short: 't', long: "table"},
	{short: 'n', long: "table-name", arg: required},
	{short: 'O', long: "table-order", arg: required},
	{short: 'N', long: "table-columns", arg: required},
	{short: 'l', long: "table-columns-limit", arg: required},
	{short: 'd', long: "table-noheadings"},
	{short: 'H', long: "table-hide", arg: required},
	{short: 'R', long: "table-right", arg: required},
	{short: 'L', long: "keep-empty-lines"},
	{short: 'J', long: "json"},
	{short: 'o', long: "output-separator", arg: required},
	{short: 's', long: "separator", arg: required},
	{short: 'c', long: "output-width", arg: required},
	{short: 'c', long: "columns", arg: required},
	{short: 'x', long: "fillrows"},
	{short: 'h', long: "help"},
	{short: 'e', long: "table-header-repeat"},
	{short: 'E', long: "table-noextreme", arg: required},
	{short: 'T', long: "table-truncate", arg: required},
	{short: 'W', long: "table-wrap", arg: required},
	{short: 'm', long: "table-maxout"},
}}

// columnJob is one run of column.
type columnJob struct {
	p                          *kernel.Proc
	table, json, rows, keep    bool
	bare                       bool
	sep                        string
	hasSep                     bool
	join                       string
	names, order, hide, rights []string
	title                      string
	width, limit               int
	lines                      [][]byte
}

func columnMain(p *kernel.Proc) int {
	j := &columnJob{p: p, join: "  ", width: screenWidth(p), title: "table"}
	opts, names, ok := columnOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.key == 'h' {
			_, _ = p.Out().WriteString(columnUsage) // errors of Out show at its flush
			return 0
		}
		if !j.option(o) {
			return 1
		}
	}
	if j.json && j.names == nil {
		p.Errorf("option --table-columns required for --json")
		return 1
	}
	code := 1 // unless one file can be read
	for _, name := range operandsOr(names) {
		if j.read(name) {
			code = 0
		}
	}
	switch {
	case j.json:
		j.printJSON(j.cells())
	case j.table:
		if !j.printTable(j.cells()) {
			return 1
		}
	default:
		j.fill()
	}
	return code
}

func (j *columnJob) option(o given) bool {
	list := func() []string { return strings.Split(o.value, ",") }
	switch o.key {
	case 't':
		j.table = true
	case 'J':
		j.json, j.table = true, true
	case 'n':
		j.title = o.value
	case 'O':
		j.order = list()
	case 'N':
		j.names = list()
	case 'H':
		j.hide = list()
	case 'R':
		j.rights = list()
	case 'd':
		j.bare = true
	case 'L':
		j.keep = true
	case 'o':
		j.join = o.value
	case 's':
		j.sep, j.hasSep = o.value, true
	case 'x':
		j.rows = true
	case 'l', 'c':
		n, err := strconv.Atoi(o.value)
		if o.value == "unlimited" && o.key == 'c' {
			n, err = 0, nil
		}
		if err != nil || n < 0 || n == 0 && o.key == 'l' {
			j.p.Errorf("invalid columns argument: '%s'", o.value)
			return false
		}
		if o.key == 'l' {
			j.limit = n
		} else {
			j.width = n
		}
	}
	return true
}

func (j *columnJob) read(name string) bool {
	in, err := open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", name, why(err))
		return false
	}
	defer closeInput(in)
	list := newLines(j.p, in, '\n')
	defer list.close()
	for line := list.next(); line != nil; line = list.next() {
		line = trimDelim(line, '\n')
		if len(bytes.TrimSpace(line)) == 0 && !(j.keep && j.table) {
			continue
		}
		j.p.Alloc(int64(len(line)) + 48)
		j.lines = append(j.lines, bytes.Clone(line))
	}
	return true
}

// shown is the width of text on a screen.
func shown(b []byte) int { return textWidth(string(b)) }

// fill prints the lines in columns of the same width.
func (j *columnJob) fill() {
	widest := 0
	for _, l := range j.lines {
		widest = max(widest, shown(l))
	}
	widest = (widest + 8) &^ 7
	out := j.p.Out()
	across := j.width / widest
	if across < 1 || widest >= j.width && j.width > 0 {
		for _, l := range j.lines {
			_, _ = out.Write(append(l, '\n')) // errors of out show at its flush
		}
		return
	}
	n := len(j.lines)
	down := (n + across - 1) / across
	at := func(row, col int) int { return col*down + row }
	if j.rows {
		at = func(row, col int) int { return row*across + col }
	}
	for row := range down {
		used, end := 0, widest
		for col := range across {
			i := at(row, col)
			if i >= n {
				break
			}
			_, _ = out.Write(j.lines[i])
			used += shown(j.lines[i])
			j.p.Tick(1)
			if col == across-1 || at(row, col+1) >= n {
				break
			}
			for next := (used + 8) &^ 7; next <= end; next = (used + 8) &^ 7 {
				_ = out.WriteByte('\t')
				used = next
			}
			end += widest
		}
		_ = out.WriteByte('\n')
	}
}

// cells cuts the lines into cells: at runs of blanks, or at each separator.
func (j *columnJob) cells() [][][]byte {
	table := make([][][]byte, len(j.lines))
	for i, l := range j.lines {
		table[i] = j.split(l)
		j.p.Alloc(int64(len(table[i])) * 24)
		j.p.Tick(len(l) + 1)
	}
	return table
}

func (j *columnJob) split(l []byte) [][]byte {
	var row [][]byte
	inSep := func(c byte) bool {
		if j.hasSep {
			return strings.IndexByte(j.sep, c) >= 0
		}
		return c == ' ' || c == '\t'
	}
	for {
		if !j.hasSep {
			l = bytes.TrimLeft(l, " \t")
		}
		if j.limit > 0 && len(row) == j.limit-1 {
			return append(row, l)
		}
		i := 0
		for i < len(l) && !inSep(l[i]) {
			i++
		}
		if i == len(l) {
			if len(l) > 0 || j.hasSep {
				row = append(row, l)
			}
			return row
		}
		row = append(row, l[:i])
		l = l[i+1:]
	}
}

// find turns names, numbers and 0 for all into columns.
func (j *columnJob) find(list []string, n int) (map[int]bool, bool) {
	set := map[int]bool{}
	for _, name := range list {
		i, ok := j.columnOf(name, n)
		if !ok {
			j.p.Errorf("undefined column name '%s'", name)
			return nil, false
		}
		if i < 0 {
			for k := range n {
				set[k] = true
			}
			continue
		}
		set[i] = true
	}
	return set, true
}

func (j *columnJob) columnOf(name string, n int) (int, bool) {
	for i, s := range j.names {
		if s == name {
			return i, true
		}
	}
	if name == "0" {
		return -1, true
	}
	i, err := strconv.Atoi(name)
	return i - 1, err == nil && i >= 1 && i <= max(n, len(j.names))
}

// layout is which columns are shown, in their order.
func (j *columnJob) layout(n int) ([]int, bool) {
	hidden, ok := j.find(j.hide, n)
	if !ok {
		return nil, false
	}
	var order []int
	used := map[int]bool{}
	for _, name := range j.order {
		i, ok := j.columnOf(name, n)
		if !ok || i < 0 {
			j.p.Errorf("undefined column name '%s'", name)
			return nil, false
		}
		order, used[i] = append(order, i), true
	}
	for i := range n {
		if !used[i] {
			order = append(order, i)
		}
	}
	var out []int
	for _, i := range order {
		if !hidden[i] {
			out = append(out, i)
		}
	}
	return out, true
}

func (j *columnJob) printTable(table [][][]byte) bool {
	if j.names != nil && !j.bare {
		head := make([][]byte, len(j.names))
		for i, name := range j.names {
			head[i] = []byte(name)
		}
		if len(table) > 0 {
			table = append([][][]byte{head}, table...)
		}
	}
	n := len(j.names)
	for _, row := range table {
		n = max(n, len(row))
	}
	order, ok := j.layout(n)
	if !ok {
		return false
	}
	rights, ok := j.find(j.rights, n)
	if !ok {
		return false
	}
	widths := make([]int, n)
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], shown(cell))
		}
	}
	for _, row := range table {
		j.printRow(row, order, widths, rights)
	}
	return true
}

func (j *columnJob) printRow(row [][]byte, order, widths []int, rights map[int]bool) {
	out := j.p.Out()
	for k, i := range order {
		j.p.Tick(1)
		var cell []byte
		if i < len(row) {
			cell = row[i]
		}
		pad := strings.Repeat(" ", widths[i]-shown(cell))
		last := k == len(order)-1
		if rights[i] {
			_, _ = out.WriteString(pad) // errors of out show at its flush
		}
		_, _ = out.Write(cell)
		if !rights[i] && (!last || len(cell) == 0) {
			if last {
				pad = ""
			}
			_, _ = out.WriteString(pad)
		}
		if !last {
			_, _ = out.WriteString(j.join)
		}
	}
	_ = out.WriteByte('\n')
}

func (j *columnJob) printJSON(table [][][]byte) {
	out := j.p.Out()
	_, _ = fmt.Fprintf(out, "{\n   %s: [\n", columnQuote(j.title)) // errors of out show at its flush
	order, ok := j.layout(len(j.names))
	if !ok {
		return
	}
	for n, row := range table {
		_, _ = io.WriteString(out, map[bool]string{true: "      {\n", false: ",{\n"}[n == 0])
		for k, i := range order {
			value := "null"
			if i < len(row) && len(row[i]) > 0 {
				value = columnQuote(string(row[i]))
			}
			end := ",\n"
			if k == len(order)-1 {
				end = "\n"
			}
			_, _ = fmt.Fprintf(out, "         %s: %s%s", columnQuote(j.names[i]), value, end)
		}
		_, _ = io.WriteString(out, "      }")
	}
	_, _ = io.WriteString(out, "\n   ]\n}\n")
}

// columnQuote is a JSON string.
func columnQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
