package shell

import (
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errInterrupted is the error of readLine after ^C.
var errInterrupted = errors.New("interrupted")

// editor reads lines from a terminal in raw mode, with editing, history and
// completion. Its output needs a terminal that converts \n to \r\n.
type editor struct {
	next     func() (byte, error)                       // returns the next typed byte; errInterrupted for a signal
	write    func(text string)                          // writes to the screen
	columns  func() int                                 // returns the width of the screen
	complete func(line string, pos int) (int, []string) // returns the candidates for the word that ends at pos, and its start
	history  func() []string                            // returns previous lines, oldest first
	charge   func(n int)                                // charges work and memory

	prompt    string // its last line
	text      []rune
	cursor    int // index in text
	killed    []rune
	cursorRow int  // row of the cursor, from the prompt's first row
	tabbed    bool // the last key was Tab
	active    bool // a line is being typed

	list  []string // previous lines
	index int      // index in list of the shown line; len(list) is the line being typed
	typed []rune   // the line being typed, while another one is shown
}

// maxLine limits a typed line, in characters.
const maxLine = 1 << 16

// readLine shows a prompt and returns the line typed after it. It returns
// io.EOF after ^D on an empty line, and errInterrupted after ^C.
func (e *editor) readLine(prompt string) (string, error) {
	e.prompt = prompt
	if i := strings.LastIndexByte(prompt, '\n'); i >= 0 {
		e.write(prompt[:i+1])
		e.prompt = prompt[i+1:]
	}
	e.text, e.cursor, e.cursorRow, e.active = e.text[:0], 0, 0, true
	defer func() { e.active = false }()
	e.list = e.history()
	e.index, e.typed = len(e.list), nil
	e.redraw()
	for {
		c, err := e.next()
		if err != nil {
			e.abandonLine(err)
			return "", err
		}
		done, err := e.handleKey(c)
		if err != nil {
			e.abandonLine(err)
			return "", err
		}
		if done {
			e.moveToEnd()
			e.write("\n")
			return string(e.text), nil
		}
	}
}

// abandonLine leaves the line on the screen and moves to the next.
func (e *editor) abandonLine(err error) {
	e.moveToEnd()
	if errors.Is(err, errInterrupted) {
		e.write("^C")
	}
	e.write("\n")
}

// ctrlKey returns the byte that a terminal sends for Ctrl and a letter.
func ctrlKey(c byte) byte { return c & 0x1f }

// handleKey performs the action of a key; done is set for Enter.
func (e *editor) handleKey(c byte) (done bool, err error) {
	tabbed := e.tabbed
	e.tabbed = false
	switch c {
	case '\r', '\n':
		return true, nil
	case ctrlKey('C'):
		return false, errInterrupted
	case ctrlKey('D'):
		if len(e.text) == 0 {
			return false, io.EOF
		}
		e.removeText(e.cursor, e.cursor+1)
	case 127, ctrlKey('H'):
		e.removeText(e.cursor-1, e.cursor)
	case '\t':
		e.completeAtCursor(tabbed)
	case ctrlKey('R'):
		return e.searchHistory()
	case 27:
		return false, e.readEscape()
	case ctrlKey('V'):
		if c, err = e.next(); err == nil {
			err = e.readCharacter(c)
		}
		return false, err
	default:
		if c < 32 {
			e.handleControlKey(c)
			return false, nil
		}
		return false, e.readCharacter(c)
	}
	return false, nil
}

// handleControlKey handles the Ctrl keys that move, remove or recall text.
func (e *editor) handleControlKey(c byte) {
	switch c {
	case ctrlKey('A'):
		e.moveCursor(0)
	case ctrlKey('E'):
		e.moveCursor(len(e.text))
	case ctrlKey('B'):
		e.moveCursor(e.cursor - 1)
	case ctrlKey('F'):
		e.moveCursor(e.cursor + 1)
	case ctrlKey('K'):
		e.killText(e.cursor, len(e.text))
	case ctrlKey('U'):
		e.killText(0, e.cursor)
	case ctrlKey('W'):
		e.killText(e.wordBefore(unicode.IsSpace), e.cursor)
	case ctrlKey('Y'):
		e.insertText(e.killed)
	case ctrlKey('T'):
		e.swapCharacters()
	case ctrlKey('L'):
		e.write("\x1b[H\x1b[2J")
		e.cursorRow = 0
		e.redraw()
	case ctrlKey('P'):
		e.showHistory(e.index - 1)
	case ctrlKey('N'):
		e.showHistory(e.index + 1)
	}
}

// readCharacter reads the rest of a UTF-8 character and inserts it.
func (e *editor) readCharacter(c byte) error {
	b := []byte{c}
	for c >= utf8.RuneSelf && !utf8.FullRune(b) {
		next, err := e.next()
		if err != nil {
			return err
		}
		b = append(b, next)
	}
	r, _ := utf8.DecodeRune(b)
	e.insertText([]rune{r})
	return nil
}

// readEscape reads and handles the rest of a key that begins with ESC.
func (e *editor) readEscape() error {
	c, err := e.next()
	if err != nil {
		return err
	}
	switch c {
	case '[', 'O':
		return e.readSequence()
	case 'b', 'B':
		e.moveCursor(e.wordBefore(isWordBreak))
	case 'f', 'F':
		e.moveCursor(e.wordAfter())
	case 'd', 'D':
		e.killText(e.cursor, e.wordAfter())
	case 127, ctrlKey('H'):
		e.killText(e.wordBefore(isWordBreak), e.cursor)
	case '<':
		e.showHistory(0)
	case '>':
		e.showHistory(len(e.list))
	case '.', '_':
		e.insertLastWord()
	}
	return nil
}

// readSequence reads and handles the rest of a key that begins with ESC [.
func (e *editor) readSequence() error {
	var args []byte
	for len(args) < 16 {
		c, err := e.next()
		if err != nil {
			return err
		}
		if c < 0x40 || c > 0x7e {
			args = append(args, c)
			continue
		}
		return e.handleNamedKey(string(args), c)
	}
	return nil
}

// handleNamedKey performs the action of an arrow or another named key.
func (e *editor) handleNamedKey(args string, final byte) error {
	far := strings.HasSuffix(args, ";5") || strings.HasSuffix(args, ";3")
	switch {
	case final == 'A':
		e.showHistory(e.index - 1)
	case final == 'B':
		e.showHistory(e.index + 1)
	case final == 'C' && far:
		e.moveCursor(e.wordAfter())
	case final == 'C':
		e.moveCursor(e.cursor + 1)
	case final == 'D' && far:
		e.moveCursor(e.wordBefore(isWordBreak))
	case final == 'D':
		e.moveCursor(e.cursor - 1)
	case final == 'H' || final == '~' && (args == "1" || args == "7"):
		e.moveCursor(0)
	case final == 'F' || final == '~' && (args == "4" || args == "8"):
		e.moveCursor(len(e.text))
	case final == '~' && args == "3":
		e.removeText(e.cursor, e.cursor+1)
	case final == '~' && args == "200":
		return e.readPaste()
	}
	return nil
}

// pasteEnd is the sequence that a terminal sends after pasted text.
const pasteEnd = "\x1b[201~"

// readPaste inserts pasted text literally, whatever keys it contains.
func (e *editor) readPaste() error {
	var b []byte
	for !strings.HasSuffix(string(b[max(0, len(b)-len(pasteEnd)):]), pasteEnd) {
		c, err := e.next()
		if err != nil {
			return err
		}
		if c == '\r' {
			c = '\n'
		}
		if len(b) < 4*maxLine {
			b = append(b, c)
		}
		e.charge(1)
	}
	text := strings.TrimSuffix(string(b), pasteEnd)
	e.insertText([]rune(strings.TrimSuffix(text, "\n")))
	return nil
}

func isWordBreak(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// wordBefore returns the start of the word before the cursor.
func (e *editor) wordBefore(between func(rune) bool) int {
	i := e.cursor
	for i > 0 && between(e.text[i-1]) {
		i--
	}
	for i > 0 && !between(e.text[i-1]) {
		i--
	}
	return i
}

// wordAfter returns the end of the word after the cursor.
func (e *editor) wordAfter() int {
	i := e.cursor
	for i < len(e.text) && isWordBreak(e.text[i]) {
		i++
	}
	for i < len(e.text) && !isWordBreak(e.text[i]) {
		i++
	}
	return i
}

// moveCursor moves the cursor to an index of the text.
func (e *editor) moveCursor(to int) {
	if to = min(max(to, 0), len(e.text)); to != e.cursor {
		e.cursor = to
		e.redraw()
	}
}

// insertText inserts characters at the cursor.
func (e *editor) insertText(list []rune) {
	list = list[:min(len(list), max(0, maxLine-len(e.text)))]
	if len(list) == 0 {
		return
	}
	e.charge(len(list) + len(e.text)/16)
	end := e.cursor == len(e.text)
	text := append(append(append(make([]rune, 0, len(e.text)+len(list)), e.text[:e.cursor]...), list...), e.text[e.cursor:]...)
	e.text, e.cursor = text, e.cursor+len(list)
	if end && len(list) == 1 && e.canAppend(list[0]) {
		e.write(string(list))
		return
	}
	e.redraw()
}

// removeText removes the characters from i to j.
func (e *editor) removeText(i, j int) {
	i, j = max(i, 0), min(j, len(e.text))
	if i >= j {
		return
	}
	e.text = append(e.text[:i:i], e.text[j:]...)
	e.cursor = i
	e.redraw()
}

// killText removes text and saves it for ctrlKey('Y').
func (e *editor) killText(i, j int) {
	if i < j {
		e.killed = append([]rune(nil), e.text[i:j]...)
		e.removeText(i, j)
	}
}

// swapCharacters exchanges the characters around the cursor.
func (e *editor) swapCharacters() {
	i := e.cursor
	if i == len(e.text) {
		i--
	}
	if i < 1 {
		return
	}
	text := append([]rune(nil), e.text...)
	text[i-1], text[i] = text[i], text[i-1]
	e.text, e.cursor = text, i+1
	e.redraw()
}

// showHistory shows line i of the history, or the line being typed.
func (e *editor) showHistory(i int) {
	if i < 0 || i > len(e.list) || i == e.index {
		return
	}
	if e.index == len(e.list) {
		e.typed = append([]rune(nil), e.text...)
	}
	e.index = i
	if i == len(e.list) {
		e.text = append([]rune(nil), e.typed...)
	} else {
		e.text = []rune(e.list[i])
	}
	e.cursor = len(e.text)
	e.redraw()
}

// insertLastWord inserts the last word of the previous line.
func (e *editor) insertLastWord() {
	if len(e.list) == 0 {
		return
	}
	if f := strings.Fields(e.list[len(e.list)-1]); len(f) > 0 {
		e.insertText([]rune(f[len(f)-1]))
	}
}
