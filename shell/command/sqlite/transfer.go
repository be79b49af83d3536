package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/ncruces/go-sqlite3"
)

// printSchema prints the statements that create the tables, indexes, views and triggers.
func (s *session) printSchema(args []string) bool {
	list, ok := s.values("SELECT type||char(1)||name||char(1)||sql FROM sqlite_schema WHERE sql IS NOT NULL AND (name LIKE ?1 OR tbl_name LIKE ?1) ORDER BY rowid", pattern(args))
	for _, row := range list {
		parts := strings.SplitN(row, "\x01", 3)
		text := strings.TrimSuffix(strings.TrimSpace(parts[2]), ";")
		if rest, found := strings.CutPrefix(text, `CREATE TABLE "`); found {
			text = `CREATE TABLE IF NOT EXISTS "` + rest
		}
		if parts[0] == "view" {
			if names, ok := s.values("SELECT name FROM pragma_table_info(?1)", parts[1]); ok {
				text += "\n/* " + parts[1] + "(" + strings.Join(names, ",") + ") */"
			}
		}
		s.print(text + ";\n")
	}
	return !ok
}

// dump prints the statements that make the database again.
func (s *session) dump(args []string) bool {
	s.print("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
	tables, ok := s.values("SELECT name||char(1)||sql FROM sqlite_schema WHERE type='table' AND sql IS NOT NULL AND name LIKE ?1 ORDER BY tbl_name='sqlite_sequence', rowid", pattern(args))
	for _, row := range tables {
		name, sql, _ := strings.Cut(row, "\x01")
		switch {
		case name == "sqlite_sequence":
			s.print("DELETE FROM sqlite_sequence;\n")
		case strings.HasPrefix(name, "sqlite_stat"):
			s.print("ANALYZE sqlite_schema;\n")
		case strings.HasPrefix(strings.ToUpper(sql), "CREATE VIRTUAL TABLE"):
			continue // there are no modules of virtual tables to read it
		default:
			if rest, found := strings.CutPrefix(sql, `CREATE TABLE "`); found {
				sql = `CREATE TABLE IF NOT EXISTS "` + rest
			}
			s.print(sql + ";\n")
		}
		kept := s.format
		s.format = format{mode: "insert", table: name}
		failed := s.runSQL("SELECT * FROM "+quoteName(name), "/****** CORRUPTION ERROR *******/ ", "/****** CORRUPTION ERROR *******/ ")
		s.format = kept
		ok = ok && !failed
	}
	others, more := s.values("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ('index','trigger','view') AND tbl_name LIKE ?1 ORDER BY type COLLATE NOCASE DESC, rowid", pattern(args))
	for _, sql := range others {
		s.print(sql + ";\n")
	}
	s.print("COMMIT;\n")
	return !ok || !more
}

// importFile reads a file of rows into a table: .import [--csv] [--skip N] FILE TABLE.
func (s *session) importFile(args []string) bool {
	column, row, skip := s.column, s.row, 0
	if s.mode == "csv" && row == "\r\n" {
		s.row, row = "\n", "\n" // as sqlite3 does
	}
	var names []string
	for n := 1; n < len(args); n++ {
		switch a := args[n]; strings.TrimLeft(a, "-") {
		case a:
			names = append(names, a)
		case "csv":
			column, row = ",", "\n"
		case "ascii":
			column, row = "\x1f", "\x1e"
		case "skip":
			if n++; n < len(args) {
				_, _ = fmt.Sscan(args[n], &skip) // another word is 0
			}
		case "v":
		default:
			s.printError(fmt.Sprintf("ERROR: unknown option: %q.", a))
			return true
		}
	}
	if len(names) != 2 || len(column) != 1 || len(row) == 0 {
		s.printError("Usage: .import [--csv] [--skip N] FILE TABLE, with a column separator of one byte")
		return true
	}
	h, err := stream.Open(s.p, names[0])
	if err != nil {
		s.printError(fmt.Sprintf("Error: cannot open %q", names[0]))
		return true
	}
	defer stream.Close(h)
	r := &rowReader{s: s, in: bufio.NewReader(h), column: column[0], row: row[len(row)-1], line: 1}
	for range skip {
		if _, err := r.read(); err != nil {
			return false
		}
	}
	return s.importRows(r, names[0], names[1])
}

// importRows inserts the rows in one transaction. A table that does not exist is created with the first row as its columns.
func (s *session) importRows(r *rowReader, file, table string) bool {
	columns, ok := s.values("SELECT name FROM pragma_table_info(?1)", table)
	if !ok {
		return true
	}
	if len(columns) == 0 {
		head, err := r.read()
		if errors.Is(err, errRow) {
			s.printError(fmt.Sprintf("%s: %v", file, err))
			return true
		}
		if err != nil {
			s.printError(file + ": empty file")
			return true
		}
		list := make([]string, len(head))
		for n, name := range head {
			list[n] = quoteName(name) + " TEXT"
		}
		if s.runSQL("CREATE TABLE "+quoteName(table)+"(\n"+strings.Join(list, ", ")+")", "Error: ", "Error: ") {
			return true
		}
		columns = head
	}
	if s.runSQL("BEGIN", "Error: ", "Error: ") {
		return true
	}
	st, _, err := s.db.Prepare("INSERT INTO " + quoteName(table) + " VALUES(" + strings.TrimSuffix(strings.Repeat("?,", len(columns)), ",") + ")")
	if err != nil {
		s.db.files.rethrow()
		s.printError("Error: " + describe(err, "", false))
		return true
	}
	failed := s.insertRows(r, st, file, len(columns))
	_ = st.Close() // insertRows reported its errors
	s.db.files.rethrow()
	return s.runSQL("COMMIT", "Error: ", "Error: ") || failed
}

func (s *session) insertRows(r *rowReader, st *sqlite3.Stmt, file string, columns int) (failed bool) {
	for {
		line := r.line
		row, err := r.read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.printError(fmt.Sprintf("%s:%d: %v", file, line, err))
			}
			return failed || !errors.Is(err, io.EOF)
		}
		switch {
		case len(row) < columns:
			s.printError(fmt.Sprintf("%s:%d: expected %d columns but found %d - filling the rest with NULL", file, line, columns, len(row)))
		case len(row) > columns:
			s.printError(fmt.Sprintf("%s:%d: expected %d columns but found %d - extras ignored", file, line, columns, len(row)))
			row = row[:columns]
		}
		err = st.ClearBindings()
		for n, v := range row {
			err = errors.Join(err, st.BindText(n+1, v))
		}
		err = errors.Join(err, st.Exec())
		s.db.files.rethrow()
		if err != nil {
			s.printError(fmt.Sprintf("%s:%d: INSERT failed: %s", file, line, cutAfter(describe(err, "", false), "\n")))
			failed = true
		}
	}
}

// rowReader reads rows of fields, which may be in quotes.
type rowReader struct {
	s           *session
	in          *bufio.Reader
	column, row byte
	line        int
}

var errRow = errors.New("a row has more than 1,000,000 bytes")

// read returns the next row.
func (r *rowReader) read() ([]string, error) {
	var row []string
	var field []byte
	size, quoted, any := 0, false, false
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			if !any {
				return nil, io.EOF
			}
			return append(row, string(field)), nil
		}
		r.s.p.Tick(1)
		if size++; size > maxLength {
			return nil, errRow
		}
		any = true
		if c == '\n' {
			r.line++
		}
		switch {
		case quoted && c == '"':
			if next, err := r.in.Peek(1); err == nil && next[0] == '"' {
				_, _ = r.in.Discard(1) // it was peeked
				field = append(field, '"')
				continue
			}
			quoted = false
		case quoted:
			field = append(field, c)
		case c == '"' && len(field) == 0:
			quoted = true
		case c == r.column:
			row, field = append(row, string(field)), field[:0]
		case c == r.row:
			if c == '\n' && len(field) > 0 && field[len(field)-1] == '\r' {
				field = field[:len(field)-1]
			}
			return append(slices.Clip(row), string(field)), nil
		default:
			field = append(field, c)
		}
	}
}
