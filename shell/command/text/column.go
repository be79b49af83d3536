package text

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var columnOptions = option.Parser{Options: []option.Option{
	{Short: 't', Long: "table"},
	{Short: 'n', Long: "table-name", Arg: option.Required},
	{Short: 'O', Long: "table-order", Arg: option.Required},
	{Short: 'N', Long: "table-columns", Arg: option.Required},
	{Short: 'l', Long: "table-columns-limit", Arg: option.Required},
	{Short: 'd', Long: "table-noheadings"},
	{Short: 'H', Long: "table-hide", Arg: option.Required},
	{Short: 'R', Long: "table-right", Arg: option.Required},
	{Short: 'L', Long: "keep-empty-lines"},
	{Short: 'J', Long: "json"},
	{Short: 'o', Long: "output-separator", Arg: option.Required},
	{Short: 's', Long: "separator", Arg: option.Required},
	{Short: 'c', Long: "output-width", Arg: option.Required},
	{Short: 'c', Long: "columns", Arg: option.Required},
	{Short: 'x', Long: "fillrows"},
	{Short: 'h', Long: "help"},
	{Short: 'e', Long: "table-header-repeat"},
	{Short: 'E', Long: "table-noextreme", Arg: option.Required},
	{Short: 'T', Long: "table-truncate", Arg: option.Required},
	{Short: 'W', Long: "table-wrap", Arg: option.Required},
	{Short: 'm', Long: "table-maxout"},
}}

// columnJob is the state of one run of column.
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

func runColumn(p *kernel.Proc) int {
	j := &columnJob{p: p, join: "  ", width: terminal.Width(p), title: "table"}
	opts, names, ok := columnOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.Key == 'h' {
			_, _ = p.Out().WriteString(columnUsage) // Flush reports the error
			return 0
		}
		if !j.applyOption(o) {
			return 1
		}
	}
	if j.json && j.names == nil {
		p.Errorf("option --table-columns required for --json")
		return 1
	}
	code := 1 // unless some file can be read
	for _, name := range stream.OperandsOrStdin(names) {
		if j.read(name) {
			code = 0
		}
	}
	switch {
	case j.json:
		j.printJSON(j.splitCells())
	case j.table:
		if !j.printTable(j.splitCells()) {
			return 1
		}
	default:
		j.fillColumns()
	}
	return code
}

func (j *columnJob) applyOption(o option.Setting) bool {
	list := func() []string { return strings.Split(o.Value, ",") }
	switch o.Key {
	case 't':
		j.table = true
	case 'J':
		j.json, j.table = true, true
	case 'n':
		j.title = o.Value
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
		j.join = o.Value
	case 's':
		j.sep, j.hasSep = o.Value, true
	case 'x':
		j.rows = true
	case 'l', 'c':
		n, err := strconv.Atoi(o.Value)
		if o.Value == "unlimited" && o.Key == 'c' {
			n, err = 0, nil
		}
		if err != nil || n < 0 || n == 0 && o.Key == 'l' {
			j.p.Errorf("invalid columns argument: '%s'", o.Value)
			return false
		}
		if o.Key == 'l' {
			j.limit = n
		} else {
			j.width = n
		}
	}
	return true
}

// read reads the lines of an operand and reports whether it could be opened.
func (j *columnJob) read(name string) bool {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", name, program.Reason(err))
		return false
	}
	defer stream.Close(in)
	list := stream.NewLineReader(j.p, in, '\n')
	defer list.Close()
	for line := list.Next(); line != nil; line = list.Next() {
		line = stream.TrimDelimiter(line, '\n')
		if len(bytes.TrimSpace(line)) == 0 && !(j.keep && j.table) {
			continue
		}
		j.p.Alloc(int64(len(line)) + lineCost)
		j.lines = append(j.lines, bytes.Clone(line))
	}
	return true
}

// widthOf returns how many columns text takes on a terminal.
func widthOf(b []byte) int { return terminal.TextWidth(string(b)) }

// fillColumns prints the lines in columns of equal width.
func (j *columnJob) fillColumns() {
	widest := 0
	for _, l := range j.lines {
		widest = max(widest, widthOf(l))
	}
	widest = (widest + 8) &^ 7
	out := j.p.Out()
	across := j.width / widest
	if across < 1 || widest >= j.width && j.width > 0 {
		for _, l := range j.lines {
			_, _ = out.Write(append(l, '\n')) // Flush reports the error
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
			used += widthOf(j.lines[i])
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

// splitCells splits the lines into cells: at runs of blanks, or at each separator.
func (j *columnJob) splitCells() [][][]byte {
	table := make([][][]byte, len(j.lines))
	for i, l := range j.lines {
		j.p.Tick(len(l) + 1)
		table[i] = j.splitLine(l)
	}
	return table
}

// cellCost is the memory of a cell in bytes, without its text.
const cellCost = 24

// splitLine splits a line into cells, at most as many as -l allows.
func (j *columnJob) splitLine(l []byte) [][]byte {
	row := make([][]byte, 0, 4)
	j.p.Alloc(4 * cellCost)
	add := func(cell []byte) {
		if len(row) == cap(row) { // charged before it grows
			j.p.Alloc(2 * int64(cap(row)) * cellCost)
			row = append(make([][]byte, 0, 2*cap(row)), row...)
			j.p.Free(int64(cap(row)) / 2 * cellCost)
		}
		row = append(row, cell)
	}
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
			add(l)
			return row
		}
		i := 0
		for i < len(l) && !inSep(l[i]) {
			i++
		}
		if i == len(l) {
			if len(l) > 0 || j.hasSep {
				add(l)
			}
			return row
		}
		add(l[:i])
		l = l[i+1:]
	}
}

// find returns the columns that a list of names and numbers selects; 0 selects all n.
func (j *columnJob) find(list []string, n int) (map[int]bool, bool) {
	set := map[int]bool{}
	for _, name := range list {
		i, ok := j.findColumn(name, n)
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

// findColumn returns the index of a column given by name or number, -1 for 0: all columns.
func (j *columnJob) findColumn(name string, n int) (int, bool) {
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

// chooseColumns returns the indexes of the visible columns in their order.
func (j *columnJob) chooseColumns(n int) ([]int, bool) {
	hidden, ok := j.find(j.hide, n)
	if !ok {
		return nil, false
	}
	var order []int
	used := map[int]bool{}
	for _, name := range j.order {
		i, ok := j.findColumn(name, n)
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
	order, ok := j.chooseColumns(n)
	if !ok {
		return false
	}
	rights, ok := j.find(j.rights, n)
	if !ok {
		return false
	}
	j.p.Alloc(8 * int64(n))
	widths := make([]int, n)
	for _, row := range table {
		for i, cell := range row {
			j.p.Tick(1 + len(cell)>>4)
			widths[i] = max(widths[i], widthOf(cell))
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
		var cell []byte
		if i < len(row) {
			cell = row[i]
		}
		j.p.Tick(1 + len(cell)>>4)
		pad := widths[i] - widthOf(cell)
		last := k == len(order)-1
		if rights[i] {
			j.writeBlanks(pad)
		}
		_, _ = out.Write(cell) // Flush reports the error
		if !rights[i] && !last {
			j.writeBlanks(pad)
		}
		if !last {
			_, _ = out.WriteString(j.join)
		}
	}
	_ = out.WriteByte('\n')
}

// writeBlanks writes n blanks.
func (j *columnJob) writeBlanks(n int) {
	const blanks = "                                                                "
	for ; n > 0; n -= len(blanks) {
		j.p.Tick(1)
		_, _ = j.p.Out().WriteString(blanks[:min(n, len(blanks))]) // Flush reports the error
	}
}

func (j *columnJob) printJSON(table [][][]byte) {
	out := j.p.Out()
	_, _ = fmt.Fprintf(out, "{\n   %s: [\n", quoteJSON(j.title)) // Flush reports the error
	order, ok := j.chooseColumns(len(j.names))
	if !ok {
		return
	}
	for n, row := range table {
		_, _ = io.WriteString(out, map[bool]string{true: "      {\n", false: ",{\n"}[n == 0])
		for k, i := range order {
			value := "null"
			if i < len(row) && len(row[i]) > 0 {
				value = quoteJSON(string(row[i]))
			}
			end := ",\n"
			if k == len(order)-1 {
				end = "\n"
			}
			_, _ = fmt.Fprintf(out, "         %s: %s%s", quoteJSON(j.names[i]), value, end)
		}
		_, _ = io.WriteString(out, "      }")
	}
	_, _ = io.WriteString(out, "\n   ]\n}\n")
}

// quoteJSON returns s as a JSON string.
func quoteJSON(s string) string {
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
