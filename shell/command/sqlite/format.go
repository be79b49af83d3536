package sqlite

import (
	"encoding/hex"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// format is how rows are printed.
type format struct {
	mode        string
	column, row string // separators
	null        string
	table       string // of mode insert
	headers     bool
	widths      []int // of .width: least widths, at which values are wrapped; negative: to the right; 0: none
}

// wrap breaks a value of a column into lines of the column's width.
func (f *format) wrap(text string, column int) string {
	width := f.columnLimit(column)
	if width == 0 {
		return text
	}
	var b strings.Builder
	n := 0
	for _, c := range text {
		if c == '\n' {
			n = 0
		} else if n++; n > width {
			b.WriteByte('\n')
			n = 1
		}
		b.WriteRune(c)
	}
	return b.String()
}

// columnLimit returns the width of a column that .width has set; 0: none.
func (f *format) columnLimit(column int) int {
	if column >= len(f.widths) {
		return 0
	}
	return max(f.widths[column], -f.widths[column])
}

// modes are the names of .mode.
var modes = []string{"ascii", "box", "column", "csv", "html", "insert", "json", "line", "list", "markdown", "quote", "table", "tabs"}

// setMode sets a mode and its separators.
func (f *format) setMode(mode, table string) bool {
	if !slices.Contains(modes, mode) {
		return false
	}
	f.mode, f.table = mode, orDefault(table, "table")
	switch mode {
	case "csv":
		f.column, f.row = ",", "\n"
	case "tabs":
		f.column, f.row = "\t", "\n"
	case "ascii":
		f.column, f.row = "\x1f", "\x1e"
	case "quote":
		f.column, f.row = ",", "\n"
	case "list":
		f.column, f.row = "|", "\n"
	}
	return true
}

// isAligned reports whether a mode needs the widths of all rows.
func (f *format) isAligned() bool {
	return f.mode == "column" || f.mode == "table" || f.mode == "box" || f.mode == "markdown"
}

// printRows prints the rows of a statement.
func (s *session) printRows(st *sqlite3.Stmt) {
	names := make([]string, st.ColumnCount())
	for n := range names {
		names[n] = st.ColumnName(n)
	}
	if s.isAligned() {
		s.printAligned(st, names)
		return
	}
	count := 0
	for st.Step() {
		if count == 0 {
			s.printHeader(names)
		}
		s.printRow(st, names, count)
		count++
	}
	if s.mode == "json" && count > 0 {
		s.print("]\n")
	}
}

func (s *session) printHeader(names []string) {
	if !s.headers {
		return
	}
	switch s.mode {
	case "list", "tabs", "ascii":
		s.printJoined(names)
	case "csv":
		quoted := make([]string, len(names))
		for n, name := range names {
			quoted[n] = s.quoteCSV(name)
		}
		s.printJoined(quoted)
	case "quote":
		quoted := make([]string, len(names))
		for n, name := range names {
			quoted[n] = quoteText(name)
		}
		s.printJoined(quoted)
	case "html":
		s.print("<TR>")
		for _, name := range names {
			s.print("<TH>" + html.EscapeString(name) + "</TH>\n")
		}
		s.print("</TR>\n")
	}
}

// printJoined prints values with the separators of the mode, which may be long: they are not joined in
// memory.
func (s *session) printJoined(values []string) {
	for n, v := range values {
		if n > 0 {
			s.print(s.column)
		}
		s.p.Tick(1 + (len(v)+len(s.column))>>6)
		s.print(v)
	}
	s.print(s.row)
}

// printRow prints one row of a mode that needs no widths.
func (s *session) printRow(st *sqlite3.Stmt, names []string, count int) {
	values := make([]string, len(names))
	for n := range names {
		s.p.Tick(1)
		switch {
		case s.mode == "quote" || s.mode == "insert":
			values[n] = literal(st, n)
		case s.mode == "csv" && st.ColumnType(n) != sqlite3.NULL:
			values[n] = s.quoteCSV(s.text(st, n))
		case s.mode != "json":
			values[n] = s.text(st, n)
		}
	}
	switch s.mode {
	case "line":
		width := 5
		for _, name := range names {
			width = max(width, utf8.RuneCountInString(name))
		}
		if count > 0 {
			s.print("\n")
		}
		for n, v := range values {
			s.print(strings.Repeat(" ", width-utf8.RuneCountInString(names[n])) + names[n] + " = " + v + "\n")
		}
	case "json":
		s.printJSON(st, names, count)
	case "quote", "insert":
		if s.mode == "quote" {
			s.printJoined(values)
			return
		}
		columns := ""
		if s.headers {
			columns = "(" + strings.Join(names, ",") + ")"
		}
		s.print("INSERT INTO " + quoteNameIfNeeded(s.table) + columns + " VALUES(" + strings.Join(values, ",") + ");\n")
	case "html":
		s.print("<TR>")
		for _, v := range values {
			s.print("<TD>" + html.EscapeString(v) + "</TD>\n")
		}
		s.print("</TR>\n")
	default:
		s.printJoined(values)
	}
}

// text returns a value as the modes show it.
func (s *session) text(st *sqlite3.Stmt, n int) string {
	if st.ColumnType(n) == sqlite3.NULL {
		return s.null
	}
	text := st.ColumnText(n)
	if zero := strings.IndexByte(text, 0); zero >= 0 {
		text = text[:zero] // as C strings end
	}
	return text
}

// quoteCSV returns a value of a CSV file, in quotes if it needs them.
func (s *session) quoteCSV(v string) string {
	if v != "" && !strings.Contains(v, s.column) && !strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' || r >= 127 }) {
		return v
	}
	return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
}

// printJSON prints a row as an object of an array.
func (s *session) printJSON(st *sqlite3.Stmt, names []string, count int) {
	open := ",\n{"
	if count == 0 {
		open = "[{"
	}
	s.print(open)
	for n, name := range names {
		if n > 0 {
			s.print(",")
		}
		s.print(jsonText(name) + ":")
		switch st.ColumnType(n) {
		case sqlite3.NULL:
			s.print("null")
		case sqlite3.TEXT, sqlite3.BLOB:
			s.print(jsonText(st.ColumnText(n)))
		default:
			s.print(literal(st, n))
		}
	}
	s.print("}")
}

// literal returns a value as a literal of SQL.
func literal(st *sqlite3.Stmt, n int) string {
	switch st.ColumnType(n) {
	case sqlite3.NULL:
		return "NULL"
	case sqlite3.TEXT:
		return quoteText(st.ColumnText(n))
	case sqlite3.BLOB:
		return "X'" + hex.EncodeToString(st.ColumnRawBlob(n)) + "'"
	case sqlite3.FLOAT:
		switch v := st.ColumnFloat(n); {
		case v > 1.7976931348623157e308:
			return "1e999"
		case v < -1.7976931348623157e308:
			return "-1e999"
		}
	}
	return st.ColumnText(n)
}

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// quoteNameIfNeeded quotes a name that is not a plain word, or one of SQL's most common ones.
func quoteNameIfNeeded(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && (s[0] < '0' || s[0] > '9')
	if plain && !slices.Contains([]string{"table", "index", "select", "from", "where", "order", "group", "values", "to", "by", "in", "on", "as", "and", "or", "not", "null", "default", "check", "join", "limit", "set", "transaction", "commit", "create", "drop", "delete", "insert", "into", "update", "alter", "add", "all", "case", "when", "then", "else", "distinct", "unique", "primary", "references", "union", "using", "exists", "between", "having", "is", "foreign"}, strings.ToLower(s)) {
		return s
	}
	return quoteName(s)
}

// jsonText returns a text as JSON.
func jsonText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ' || r == 127:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// printAligned prints the modes that need the widths of all rows.
func (s *session) printAligned(st *sqlite3.Stmt, names []string) {
	charged := int64(0)
	defer func() { s.p.Free(charged) }()
	var rows [][]string
	widths := make([]int, len(names))
	for n, name := range names {
		widths[n] = max(columnWidth(name), s.columnLimit(n))
	}
	for st.Step() {
		row := make([]string, len(names))
		size := int64(24 + 16*len(names))
		for n := range names {
			row[n] = s.wrap(s.text(st, n), n)
			size += int64(len(row[n]))
		}
		s.p.Tick(int(size))
		s.p.Alloc(2 * size) // the list of rows grows to twice its size
		charged += 2 * size
		for n, v := range row {
			for line := range strings.SplitSeq(v, "\n") {
				widths[n] = max(widths[n], columnWidth(line))
			}
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		s.printGrid(names, rows, widths)
	}
}

// grid are the lines around cells: the left, inner and right part of a row and of the three kinds of rules.
type grid struct{ row, top, head, bottom [4]string }

var grids = map[string]grid{
	"column":   {row: [4]string{"", "  ", "", " "}, head: [4]string{"", "  ", "", "-"}},
	"table":    {row: [4]string{"| ", " | ", " |", " "}, top: [4]string{"+-", "-+-", "-+", "-"}, head: [4]string{"+-", "-+-", "-+", "-"}, bottom: [4]string{"+-", "-+-", "-+", "-"}},
	"markdown": {row: [4]string{"| ", " | ", " |", " "}, head: [4]string{"|-", "-|-", "-|", "-"}},
	"box":      {row: [4]string{"│ ", " │ ", " │", " "}, top: [4]string{"┌─", "─┬─", "─┐", "─"}, head: [4]string{"├─", "─┼─", "─┤", "─"}, bottom: [4]string{"└─", "─┴─", "─┘", "─"}},
}

func (s *session) printGrid(names []string, rows [][]string, widths []int) {
	g := grids[s.mode]
	rule := func(part [4]string) {
		if part[3] == "" {
			return
		}
		cells := make([]string, len(widths))
		for n, w := range widths {
			cells[n] = strings.Repeat(part[3], w)
		}
		s.print(part[0] + strings.Join(cells, part[1]) + part[2] + "\n")
	}
	rule(g.top)
	if s.headers || s.mode != "column" {
		s.printCells(g, names, widths, s.mode != "column")
		rule(g.head)
	}
	divided := slices.ContainsFunc(rows, func(row []string) bool {
		return slices.ContainsFunc(row, func(v string) bool { return strings.Contains(v, "\n") })
	})
	for i, row := range rows {
		s.p.Tick(1)
		s.printCells(g, row, widths, false)
		switch {
		case !divided || i == len(rows)-1 || s.mode == "markdown":
		case s.mode == "column":
			s.print("\n")
		default:
			rule(g.head)
		}
	}
	rule(g.bottom)
}

// printCells prints a row; a value with several lines takes several lines.
func (s *session) printCells(g grid, values []string, widths []int, centered bool) {
	height := 1
	lines := make([][]string, len(values))
	for n, v := range values {
		lines[n] = strings.Split(v, "\n")
		height = max(height, len(lines[n]))
	}
	for k := range height {
		cells := make([]string, len(values))
		for n := range values {
			text := ""
			if k < len(lines[n]) {
				text = lines[n][k]
			}
			left := 0
			space := max(widths[n]-columnWidth(text), 0)
			switch {
			case centered:
				left = space / 2
			case n < len(s.widths) && s.widths[n] < 0:
				left = space
			}
			cells[n] = strings.Repeat(" ", left) + text + strings.Repeat(" ", space-left)
		}
		s.print(g.row[0] + strings.Join(cells, g.row[1]) + g.row[2] + "\n")
	}
}

// columnWidth returns the number of characters of a text, as sqlite3 counts its columns.
func columnWidth(s string) int { return utf8.RuneCountInString(s) }
