package text

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// runFile runs a command that reads or writes files.
func (e *editor) runFile(name byte, c *cursor, from, to, count int, warned bool) error {
	quit := name == 'w' && strings.HasPrefix(c.text, "q")
	if quit {
		c.text = c.text[1:]
	}
	if c.text != "" && c.peek() != ' ' && c.peek() != '\t' {
		return errSuffix
	}
	file := strings.TrimSpace(c.text)
	if strings.HasPrefix(file, "!") {
		return editError("Commands can't be read from or written to here: use a pipe of the shell")
	}
	switch name {
	case 'f':
		if count > 0 {
			return errNoAddr
		}
		if file != "" {
			e.file = file
		}
		if e.file == "" {
			return errNoName
		}
		e.print(e.file + "\n")
		return nil
	case 'e', 'E':
		return e.reopen(file, count, name == 'e' && e.modified && !warned)
	case 'r':
		if file == "" {
			file = e.file
		} else if e.file == "" {
			e.file = file
		}
		if count == 0 {
			to = len(e.lines)
		}
		if file == "" {
			return errNoName
		}
		return e.readInto(to, file)
	}
	if count == 0 {
		from, to = min(1, len(e.lines)), len(e.lines)
	}
	if err := e.writeFile(name, file, from, to); err != nil {
		return err
	}
	e.quit = quit
	return nil
}

func (e *editor) reopen(file string, count int, unsaved bool) error {
	if count > 0 {
		return errNoAddr
	}
	if unsaved {
		e.warned = true
		return errModified
	}
	if file != "" {
		e.file = file
	}
	if e.file == "" {
		return errNoName
	}
	e.change()
	e.lines, e.at = nil, 0
	err := e.readInto(0, e.file)
	e.modified = false
	return err
}

// readInto reads a file after a line.
func (e *editor) readInto(after int, file string) error {
	h, err := e.p.Open(file)
	if err != nil {
		_ = e.p.Out().Flush()                                                   // the next write reports the error
		_, _ = e.p.Stderr.WriteString(file + ": " + program.Reason(err) + "\n") // best effort
		return errNotRead
	}
	defer stream.Close(h)
	lines := stream.NewLineReader(e.p, h, '\n')
	defer lines.Close()
	var list []*string
	size, missing := 0, false
	for {
		line := lines.Next()
		if line == nil {
			break
		}
		size += len(line)
		missing = line[len(line)-1] != '\n'
		list = append(list, e.newLine(string(stream.TrimDelimiter(line, '\n'))))
	}
	if err := lines.Err(); err != nil {
		_, _ = e.p.Stderr.WriteString(file + ": " + program.Reason(err) + "\n") // best effort
		return errNotRead
	}
	if missing {
		size++
		e.print("Newline appended\n")
	}
	e.insert(after, list)
	if !e.quiet {
		e.print(strconv.Itoa(size) + "\n")
	}
	return nil
}

func (e *editor) writeFile(name byte, file string, from, to int) error {
	if file == "" {
		file = e.file
	} else if e.file == "" {
		e.file = file
	}
	if file == "" {
		return errNoName
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if name == 'W' {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	h, err := e.p.OpenFile(file, mode, 0o666)
	if err != nil {
		_ = e.p.Out().Flush()                                                   // the next write reports the error
		_, _ = e.p.Stderr.WriteString(file + ": " + program.Reason(err) + "\n") // best effort
		return editError("Cannot open output file")
	}
	size := 0
	for i := max(from, 1); i <= to; i++ {
		e.p.Tick(1)
		n, werr := h.WriteString(*e.lines[i-1] + "\n")
		if size += n; werr != nil {
			err = werr
			break
		}
	}
	if err = errors.Join(err, h.Close()); err != nil {
		return editError("Cannot write file")
	}
	if !e.quiet {
		e.print(strconv.Itoa(size) + "\n")
	}
	if from <= 1 && to == len(e.lines) {
		e.modified = false
	}
	return nil
}
