// Package sqlite is the command sqlite3. SQLite runs in a linear memory of its own, whose limit is charged before it is
// allocated, and reaches only the files of the sandbox.
package sqlite

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: sqlite3 [OPTIONS] [FILENAME [SQL...]]
FILENAME is the name of a database; a new one is created if it does not exist. Without FILENAME, or with :memory:, the
database is in memory. SQL and dot-commands are arguments, or lines of standard input.

  -bail, -batch, -echo, -readonly, -[no]header, -version
  -ascii, -box, -column, -csv, -html, -json, -line, -list, -markdown, -quote, -table, -tabs   form of the output
  -separator SEP, -newline SEP, -nullvalue TEXT
  -init FILE             read FILE first
  -cmd COMMAND           run COMMAND before reading standard input

Dot-commands: .backup .bail .cd .changes .clone .databases .dump .echo .exit .headers .help .import .indexes .mode .nullvalue
.once .open .output .print .quit .read .save .schema .separator .show .tables .timeout .timer .version .width
Databases are SQLite 3 files. A string or blob has at most 1,000,000 bytes. There are no extensions and no FTS5, and names of files
with "file:" are taken only as FILENAME.
`

// Commands returns sqlite3.
func Commands() []program.Command {
	return []program.Command{{Name: "sqlite3", Aliases: []string{"sqlite"}, Short: "read and write SQLite databases", Usage: usage, Run: program.FlushOutput(runSQLite, 1)}}
}

// options are the arguments of one call.
type options struct {
	file, init string
	commands   []string // of -cmd
	statements []string // after FILENAME
	readOnly   bool
	version    bool
}

// runSQLite runs sqlite3 and returns its exit status.
func runSQLite(p *kernel.Proc) int {
	s := &session{p: p, out: p.Out(), format: format{mode: "list", column: "|", row: "\n"}, display: ":memory:"}
	o, ok := s.parseOptions()
	if !ok {
		return 1
	}
	if o.version {
		_, _ = p.Out().WriteString("3.53.4 (atoll)\n") // Flush reports the error
		return 0
	}
	defer s.close()
	s.file, s.readOnly = o.file, o.readOnly
	if o.init != "" && !s.readFile(o.init) {
		return 1
	}
	for _, text := range o.commands {
		if s.runArgument(text) && s.bail {
			return 1
		}
	}
	if s.finished {
		return s.code
	}
	for _, text := range o.statements {
		if s.runArgument(text) {
			return max(s.failure, 1)
		}
		if s.finished {
			return s.code
		}
	}
	if len(o.statements) > 0 {
		return 0
	}
	if failed := s.readLines(p.Stdin, "-"); failed && !s.finished {
		return 1
	}
	return s.code
}

// parseOptions parses the arguments. Options may follow FILENAME, as in sqlite3.
func (s *session) parseOptions() (o options, ok bool) {
	args, named := s.p.Args[1:], false
	for len(args) > 0 {
		s.p.Tick(1)
		a := args[0]
		args = args[1:]
		if !strings.HasPrefix(a, "-") || a == "-" {
			if !named {
				o.file, named = a, true
				continue
			}
			o.statements = append(o.statements, a)
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-")
		value := ""
		if takesValue(name) {
			if len(args) == 0 {
				s.p.Errorf("Error: missing argument to %s", a)
				return o, false
			}
			value, args = args[0], args[1:]
		}
		if !s.applyOption(&o, name, value) {
			s.p.Errorf("Error: unknown option: %s\nUse -help for a list of options.", a)
			return o, false
		}
	}
	return o, true
}

func takesValue(name string) bool {
	switch name {
	case "separator", "newline", "nullvalue", "init", "cmd":
		return true
	}
	return false
}

// applyOption applies an option; false means that there is none of this name.
func (s *session) applyOption(o *options, name, value string) bool {
	switch name {
	case "batch", "interactive", "safe":
	case "bail":
		s.bail = true
	case "echo":
		s.echo = true
	case "readonly":
		o.readOnly = true
	case "header":
		s.headers = true
	case "noheader":
		s.headers = false
	case "separator":
		s.column = unescape(value)
	case "newline":
		s.row = unescape(value)
	case "nullvalue":
		s.null = value
	case "init":
		o.init = value
	case "cmd":
		o.commands = append(o.commands, value)
	case "version":
		o.version = true
	case "ascii", "box", "column", "csv", "html", "json", "line", "list", "markdown", "quote", "table", "tabs":
		s.setMode(name, "")
	default:
		return false
	}
	return true
}
