package sqlite

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// dotCommand is a dot-command. It reports whether it failed.
type dotCommand func(s *session, args []string) bool

// dotCommands returns the dot-commands by their names.
func dotCommands() map[string]dotCommand {
	return map[string]dotCommand{
		"backup": (*session).saveDatabase, "save": (*session).saveDatabase, "clone": (*session).saveDatabase,
		"bail":    func(s *session, args []string) bool { return s.setSwitch(&s.bail, args) },
		"echo":    func(s *session, args []string) bool { return s.setSwitch(&s.echo, args) },
		"changes": func(s *session, args []string) bool { return s.setSwitch(&s.changes, args) },
		"headers": func(s *session, args []string) bool { return s.setSwitch(&s.headers, args) },
		"timer":   func(s *session, args []string) bool { return s.setSwitch(&s.timer, args) },
		"width":   (*session).setWidths, "timeout": (*session).setTimeout,
		"cd": (*session).changeDir, "databases": (*session).listDatabases, "dump": (*session).dump, "exit": (*session).quit, "quit": (*session).quit,
		"help": (*session).printHelp, "import": (*session).importFile, "indexes": (*session).listIndexes, "indices": (*session).listIndexes,
		"mode": (*session).chooseMode, "nullvalue": (*session).setNull, "once": (*session).redirect, "output": (*session).redirect,
		"open": (*session).openFile, "print": (*session).printWords, "read": (*session).readArgument, "schema": (*session).printSchema,
		"fullschema": (*session).printSchema, "separator": (*session).setSeparator, "show": (*session).show, "tables": (*session).listTables,
		"version": func(s *session, _ []string) bool {
			return s.query("SELECT 'SQLite '||sqlite_version()||' '||sqlite_source_id()")
		},
		"load": refuse("extensions can't be loaded: use SQL functions, or awk and jq on the output"), "shell": refuse("use .quit, or sqlite3 in a script"), "system": refuse("use .quit, or sqlite3 in a script"),
		"excel": refuse("use .mode csv and .once FILE"), "edit": refuse("there is no editor"),
	}
}

// refuse returns a dot-command that is not supported.
func refuse(text string) dotCommand {
	return func(s *session, _ []string) bool {
		s.printError("Error: this command is not available in a virtual sandbox: " + text)
		return true
	}
}

// runDot runs a dot-command, whose name may be abbreviated, and reports whether it failed.
func (s *session) runDot(line string) bool {
	words := splitWords(line[1:])
	if len(words) == 0 {
		return false
	}
	list := dotCommands()
	run, name := list[words[0]], words[0]
	if run == nil && len(name) > 1 {
		var names []string
		for full := range list {
			if strings.HasPrefix(full, name) {
				names = append(names, full)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			name, run = names[0], list[names[0]]
		}
	}
	if run == nil {
		s.printError(fmt.Sprintf("Error: unknown command or invalid arguments:  %q. Enter \".help\" for help", words[0]))
		return true
	}
	return run(s, append([]string{name}, words[1:]...))
}

// splitWords splits a dot-command at spaces; quotes protect them, and in double quotes backslashes are read as in C.
func splitWords(line string) []string {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return words
		}
		if c := line[0]; c == '\'' || c == '"' {
			end := 1
			for end < len(line) && line[end] != c {
				if line[end] == '\\' && c == '"' {
					end++
				}
				end++
			}
			word := line[1:min(end, len(line))]
			if c == '"' {
				word = unescape(word)
			}
			words, line = append(words, word), line[min(end+1, len(line)):]
			continue
		}
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, unescape(line[:end])), line[end:]
	}
}

// unescape replaces backslash escapes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`); err == nil {
		return text
	}
	return s
}

func (s *session) setSwitch(at *bool, args []string) bool {
	if len(args) != 2 {
		s.printError("Usage: ." + args[0] + " on|off")
		return true
	}
	switch strings.ToLower(args[1]) {
	case "on", "yes", "true", "1":
		*at = true
	default:
		*at = false
	}
	return false
}

// setTimeout sets how long statements wait for a lock, in milliseconds.
func (s *session) setTimeout(args []string) bool {
	ms := 0
	if len(args) > 1 {
		ms, _ = strconv.Atoi(args[1]) // another word is 0
	}
	if err := s.connect(); err != nil {
		s.printError(err.Error())
		return true
	}
	s.db.files.busy = time.Duration(min(max(ms, 0), math.MaxInt32)) * time.Millisecond
	return false
}

func (s *session) quit(args []string) bool {
	s.finished = true
	if len(args) > 1 {
		s.code, _ = strconv.Atoi(args[1]) // another word is 0
		s.code &= 255
	}
	return false
}

func (s *session) changeDir(args []string) bool {
	if len(args) != 2 {
		s.printError("Usage: .cd DIRECTORY")
		return true
	}
	if err := s.p.Chdir(args[1]); err != nil {
		s.printError(fmt.Sprintf("Cannot change to directory %q", args[1]))
		return true
	}
	return false
}

func (s *session) printHelp([]string) bool {
	s.print(usage)
	return false
}

func (s *session) chooseMode(args []string) bool {
	mode, table := "", ""
	for _, a := range args[1:] {
		switch {
		case strings.HasPrefix(a, "-"):
		case mode == "":
			mode = a
		default:
			table = a
		}
	}
	if mode == "" {
		s.print("current output mode: " + s.mode + "\n")
		return false
	}
	for _, full := range modes {
		if strings.HasPrefix(full, mode) && mode != "" && !slices.Contains(modes, mode) {
			mode = full
		}
	}
	if !s.setMode(mode, table) {
		s.printError("Error: mode should be one of: " + strings.Join(modes, " "))
		return true
	}
	switch mode {
	case "column":
		s.headers = true
	case "csv":
		s.row = "\r\n"
	}
	return false
}

// setWidths sets the widths of columns; without any, there are none.
func (s *session) setWidths(args []string) bool {
	const widest = 10_000
	s.widths = nil
	for _, a := range args[1:] {
		n, _ := strconv.Atoi(a) // another word is 0
		s.p.Alloc(8)
		s.widths = append(s.widths, max(-widest, min(n, widest)))
	}
	return false
}

func (s *session) setNull(args []string) bool {
	if len(args) != 2 {
		s.printError("Usage: .nullvalue STRING")
		return true
	}
	s.null = args[1]
	return false
}

func (s *session) setSeparator(args []string) bool {
	if len(args) < 2 || len(args) > 3 {
		s.printError("Usage: .separator COL ?ROW?")
		return true
	}
	if s.column = args[1]; len(args) > 2 {
		s.row = args[2]
	}
	return false
}

// setOutput sends the output to a file, or to standard output for "".
func (s *session) setOutput(name string) bool {
	if s.output != nil {
		if err := s.output.Close(); err != nil {
			s.printError("Error: " + program.Reason(err))
		}
		s.output, s.out = nil, s.p.Out()
	}
	if name == "" || name == "stdout" {
		return false
	}
	if strings.HasPrefix(name, "|") {
		return refuse("write to a file, or to standard output and a pipe")(s, nil)
	}
	h, err := s.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		s.printError(fmt.Sprintf("Error: cannot open %q", name))
		return true
	}
	s.output, s.out = h, fileWriter{s, h}
	return false
}

// fileWriter writes to the file of .output, and reports errors.
type fileWriter struct {
	s *session
	h *kernel.Handle
}

func (w fileWriter) Write(b []byte) (int, error) {
	n, err := w.h.Write(b)
	if err != nil {
		w.s.printError("Error: " + program.Reason(err))
	}
	return n, err
}

func (s *session) redirect(args []string) bool {
	name := ""
	if len(args) > 1 {
		name = args[len(args)-1]
	}
	s.once = args[0] == "once"
	return s.setOutput(name)
}

func (s *session) openFile(args []string) bool {
	name := ""
	readOnly := false
	for _, a := range args[1:] {
		switch strings.TrimLeft(a, "-") {
		case "readonly":
			readOnly = true
		case "new":
			if len(args) > 2 {
				_ = s.p.Unlink(args[len(args)-1]) // opening it reports an error
			}
		default:
			name = a
		}
	}
	if s.db != nil {
		db := s.db
		s.db = nil
		db.close()
	}
	s.file, s.readOnly = name, readOnly
	if err := s.connect(); err != nil {
		s.printError(err.Error())
		return true
	}
	return false
}

func (s *session) printWords(args []string) bool {
	s.print(strings.Join(args[1:], " ") + "\n")
	return false
}

func (s *session) readArgument(args []string) bool {
	if len(args) != 2 {
		s.printError("Usage: .read FILE")
		return true
	}
	return !s.readFile(args[1])
}

func (s *session) show([]string) bool {
	on := map[bool]string{true: "on", false: "off"}
	file := orDefault(s.file, ":memory:")
	s.print(fmt.Sprintf("        echo: %s\n     headers: %s\n        mode: %s\n   nullvalue: %q\ncolseparator: %q\nrowseparator: %q\n    filename: %s\n", on[s.echo], on[s.headers], s.mode, s.null, s.column, s.row, file))
	return false
}

// saveDatabase copies the database to a new file.
func (s *session) saveDatabase(args []string) bool {
	if len(args) < 2 {
		s.printError("Usage: ." + args[0] + " FILE")
		return true
	}
	if err := s.connect(); err != nil {
		s.printError(err.Error())
		return true
	}
	name := args[len(args)-1]
	if info, err := s.p.Stat(name); err == nil && info.Mode().IsRegular() {
		_ = s.p.Unlink(name) // VACUUM INTO reports that it exists
	}
	return s.runSQL("VACUUM INTO "+quoteText(name), "Error: ", "Error: ")
}

// query prints the rows of a statement as a list.
func (s *session) query(sql string) bool {
	kept := s.format
	s.format = format{mode: "list", column: "|", row: "\n"}
	failed := s.runSQL(sql, "Error: ", "Error: ")
	s.format = kept
	return failed
}

// values returns the first column of a statement.
func (s *session) values(sql string, args ...string) ([]string, bool) {
	if err := s.connect(); err != nil {
		s.printError(err.Error())
		return nil, false
	}
	st, _, err := s.db.Prepare(sql)
	if err != nil {
		s.db.files.rethrow()
		s.printError("Error: " + describe(err, "", false))
		return nil, false
	}
	for n, a := range args {
		if err := st.BindText(n+1, a); err != nil {
			s.printError("Error: " + describe(err, "", false))
		}
	}
	var list []string
	for st.Step() {
		text := st.ColumnText(0)
		s.p.Alloc(int64(32 + len(text)))
		list = append(list, text)
	}
	err = st.Close()
	s.db.files.rethrow()
	if err != nil {
		s.printError("Error: " + describe(err, "", false))
		return nil, false
	}
	return list, true
}

// printColumns prints names in columns on lines of 80 characters.
func (s *session) printColumns(list []string) {
	widest := 0
	for _, name := range list {
		widest = max(widest, columnWidth(name))
	}
	columns := max(80/(widest+2), 1)
	rows := (len(list) + columns - 1) / columns
	for n := range rows {
		line := ""
		for k := n; k < len(list); k += rows {
			if k > n {
				line += "  "
			}
			line += list[k] + strings.Repeat(" ", widest-columnWidth(list[k]))
		}
		s.print(line + "\n")
	}
}

func pattern(args []string) string {
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return "%"
}

func (s *session) listTables(args []string) bool {
	list, ok := s.values("SELECT name FROM sqlite_schema WHERE type IN ('table','view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ?1 ORDER BY 1", pattern(args))
	s.printColumns(list)
	return !ok
}

func (s *session) listIndexes(args []string) bool {
	list, ok := s.values("SELECT name FROM sqlite_schema WHERE type='index' AND tbl_name LIKE ?1 ORDER BY 1", pattern(args))
	s.printColumns(list)
	return !ok
}

func (s *session) listDatabases([]string) bool {
	list, ok := s.values("SELECT name||': '||CASE WHEN file='' THEN '\"\"' ELSE file END FROM pragma_database_list")
	for _, line := range list {
		s.print(line + map[bool]string{true: " r/o", false: " r/w"}[s.readOnly] + "\n")
	}
	return !ok
}

var _ io.Writer = fileWriter{}
