package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/ncruces/go-sqlite3"
)

// session is one call of sqlite3.
type session struct {
	format

	p        *kernel.Proc
	out      io.Writer
	output   *kernel.Handle // of .output and .once; nil: standard output
	once     bool
	db       *connection
	file     string
	display  string
	readOnly bool
	bail     bool
	echo     bool
	changes  bool
	timer    bool
	finished bool // .quit was given
	code     int  // of .exit
	failure  int  // the code of the last error of SQLite
	depth    int  // of .read
}

// print writes output. Flush reports an error of standard output; a file reports its own.
func (s *session) print(text string) { _, _ = io.WriteString(s.out, text) }

// close closes the database and the output.
func (s *session) close() {
	s.setOutput("")
	if s.db != nil {
		db := s.db
		s.db = nil
		db.close()
	}
}

// connect opens the database, once.
func (s *session) connect() error {
	if s.db != nil {
		return nil
	}
	db, err := open(s.p, s.file, s.readOnly)
	if errors.Is(err, errMemory) {
		return fmt.Errorf("Error: %w", err)
	}
	if err != nil {
		return fmt.Errorf("Error: unable to open database %q: unable to open database file", s.file)
	}
	s.db = db
	return nil
}

// runArgument runs a dot-command or statements of an argument, and reports whether it failed.
func (s *session) runArgument(text string) bool {
	if strings.HasPrefix(text, ".") {
		return s.runDot(text)
	}
	return s.runSQL(text, "Error: in prepare, ", "Error: stepping, ")
}

// endOnce returns to standard output after the command that follows .once.
func (s *session) endOnce(before bool) {
	if before && s.once {
		s.once = false
		s.setOutput("")
	}
}

// runSQL runs statements and reports whether one failed.
func (s *session) runSQL(text, inPrepare, inStep string) (failed bool) {
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(v, inStep)
			failed = true
		}
	}()
	if err := s.connect(); err != nil {
		s.printError(err.Error())
		return true
	}
	if len(text) > maxLength {
		s.printError(inPrepare + "statement too long")
		return true
	}
	for strings.TrimSpace(text) != "" {
		s.p.Tick(1)
		st, rest, err := s.db.Prepare(text)
		s.db.files.rethrow()
		if err != nil {
			s.failure = codeOf(err)
			s.printError(inPrepare + describe(err, text, false))
			return true
		}
		if st == nil {
			return false
		}
		text = rest
		s.printRows(st)
		err = st.Err()
		err = errors.Join(err, st.Close())
		s.db.files.rethrow()
		if err != nil {
			s.failure = codeOf(err)
			s.printError(inStep + describe(err, "", true))
			return true
		}
	}
	if s.changes {
		s.print(fmt.Sprintf("changes: %d   total_changes: %d\n", s.db.Changes(), s.db.TotalChanges()))
	}
	return false
}

// codeOf returns SQLite's code of an error, or 1.
func codeOf(err error) int {
	var e *sqlite3.Error
	if errors.As(err, &e) {
		return int(e.Code())
	}
	var extended sqlite3.ExtendedErrorCode
	if errors.As(err, &extended) {
		return int(extended & 0xff)
	}
	var code sqlite3.ErrorCode
	if errors.As(err, &code) {
		return int(code)
	}
	return 1
}

// reportPanic reports an error with which the library panics: SQLite is out of memory. Other panics, such as that by
// which the kernel ends the process, continue.
func (s *session) reportPanic(v any, prefix string) {
	err, ok := v.(error)
	var bug runtime.Error
	if !ok || errors.As(err, &bug) {
		panic(v)
	}
	s.failure = int(sqlite3.NOMEM)
	s.printError(prefix + strings.TrimPrefix(err.Error(), "sqlite3: ") + " (7)")
}

// describe words an error as sqlite3 does: the message, the code of errors of running statements, and the place in the text.
func describe(err error, text string, code bool) string {
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("%s (%d)", strings.TrimPrefix(err.Error(), "sqlite3: "), codeOf(err))
	}
	message := e.Error()
	if at := strings.LastIndex(message, ": "); strings.HasPrefix(message, "sqlite3: ") && at >= 0 {
		parts := strings.SplitN(strings.TrimPrefix(message, "sqlite3: "), ": ", 2)
		if message = parts[0]; len(parts) > 1 {
			message = parts[1]
		}
	}
	message = cutAfter(message, "\n")
	if code {
		return fmt.Sprintf("%s (%d)", message, int(e.Code()))
	}
	return message + pointAt(text, e.SQL())
}

func cutAfter(s, sep string) string {
	head, _, _ := strings.Cut(s, sep)
	return head
}

// pointAt returns the line of a statement with a mark below the place of its error; rest is the text from there.
func pointAt(text, rest string) string {
	if rest == "" || !strings.HasSuffix(text, rest) {
		return ""
	}
	at := len(text) - len(rest)
	line := strings.ReplaceAll(text, "\n", " ")
	for at > 50 {
		line = line[10:]
		at -= 10
	}
	if len(line) > 78 {
		line = line[:78]
	}
	if at < 25 {
		return "\n  " + line + "\n  " + strings.Repeat(" ", at) + "^--- error here"
	}
	return "\n  " + line + "\n  " + strings.Repeat(" ", at-14) + "error here ---^"
}

func (s *session) printError(text string) {
	_ = s.p.Out().Flush() // the next write reports the error
	_, _ = io.WriteString(s.p.Stderr, text+"\n")
}

// readFile reads commands from a file and reports whether it could be opened and no command failed.
func (s *session) readFile(name string) bool {
	if s.depth >= 25 {
		s.printError("Input nesting limit (25) reached at line 1. Check recursion.")
		return false
	}
	h, err := s.p.Open(name)
	if err != nil {
		s.printError(fmt.Sprintf("Error: cannot open %q", name))
		return false
	}
	s.depth++
	defer func() {
		s.depth--
		stream.Close(h)
	}()
	return !s.readLines(h, name)
}

// readLines reads lines of SQL and dot-commands, and reports whether one failed.
func (s *session) readLines(in io.Reader, name string) bool {
	lines := bufio.NewReader(in)
	failed, number, start := false, 0, 0
	var text strings.Builder
	for {
		line, err := s.readLine(lines)
		number++
		if errors.Is(err, errLongLine) {
			s.printError(fmt.Sprintf("Error near line %d: %v", number, err))
			return true
		}
		if err != nil && line == "" {
			break
		}
		if s.echo {
			s.print(line + "\n")
		}
		trimmed := strings.TrimSpace(line)
		if text.Len() == 0 {
			if trimmed == "" || strings.HasPrefix(trimmed, "--") || strings.HasPrefix(trimmed, "#") {
				continue
			}
			if start = number; trimmed[0] == '.' {
				before := s.once
				if s.runDot(trimmed) {
					failed = true
				}
				s.endOnce(before)
				if s.finished || failed && s.bail {
					return failed
				}
				continue
			}
		}
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(line)
		if text.Len() > maxLength {
			s.printError(fmt.Sprintf("Error near line %d: statement too long", start))
			return true
		}
		if whole := text.String(); strings.Contains(line, ";") && s.isComplete(whole) {
			text.Reset()
			bad := s.runTimed(whole, start)
			s.endOnce(s.once)
			if bad {
				if failed = true; s.bail {
					return true
				}
			}
		}
	}
	if text.Len() > 0 && s.runTimed(text.String(), start) {
		failed = true
	}
	return failed
}

// runTimed runs statements that begin at a line of the input, reports whether one failed, and prints the time if .timer asks
// for it.
func (s *session) runTimed(text string, line int) (failed bool) {
	start := s.p.Now()
	before, _ := s.p.RunTime()
	failed = s.runSQL(text, fmt.Sprintf("Parse error near line %d: ", line), fmt.Sprintf("Runtime error near line %d: ", line))
	if s.timer {
		after, _ := s.p.RunTime()
		s.print(fmt.Sprintf("Run Time: real %.3f user %.6f sys 0.000000\n", s.p.Now().Sub(start).Seconds(), (after - before).Seconds()))
	}
	return failed
}

var errLongLine = fmt.Errorf("a line has more than %d bytes", maxLength)

// readLine returns a line of at most maxLength bytes, without its end.
func (s *session) readLine(in *bufio.Reader) (string, error) {
	var b []byte
	for {
		part, err := in.ReadSlice('\n')
		s.p.Tick(1 + len(part))
		b = append(b, part...)
		if len(b) > maxLength {
			return "", errLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(b), "\r\n"), err
		}
	}
}

// isComplete reports whether a text ends with a whole statement: outside of quotes, comments and the body of a trigger.
func (s *session) isComplete(text string) bool {
	s.p.Tick(len(text))
	semicolon := false
	words := []string{}
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case c == ';':
			semicolon = len(words) < 2 || !isTrigger(words) || strings.EqualFold(words[len(words)-1], "end")
			if words = words[:min(len(words), 4)]; semicolon {
				words = nil
			}
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
		case strings.HasPrefix(text[n:], "--"):
			end := strings.IndexByte(text[n:], '\n')
			if end < 0 {
				return semicolon
			}
			n += end
		case strings.HasPrefix(text[n:], "/*"):
			end := strings.Index(text[n+2:], "*/")
			if end < 0 {
				return false
			}
			n += end + 3
		case c == '\'' || c == '"' || c == '`' || c == '[':
			if c == '[' {
				c = ']'
			}
			end := strings.IndexByte(text[n+1:], c)
			if end < 0 {
				return false
			}
			n += end + 1
			semicolon = false
		default:
			from := n
			for n+1 < len(text) && isWordByte(text[n+1]) && isWordByte(c) {
				n++
			}
			semicolon = false
			if len(words) < 4 {
				words = append(words, text[from:n+1])
			} else {
				words = append(words[:4:4], text[from:n+1])
			}
		}
	}
	return semicolon
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// isTrigger reports whether words begin a CREATE TRIGGER.
func isTrigger(words []string) bool {
	low := strings.Fields(strings.ToLower(strings.Join(words, " ")))
	if low[0] == "explain" {
		low = low[1:]
	}
	return len(low) > 1 && low[0] == "create" && (low[1] == "trigger" || (low[1] == "temp" || low[1] == "temporary") && slices.Contains(low[:min(len(low), 3)], "trigger"))
}
