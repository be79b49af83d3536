package shell

import (
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errInterrupted is what readLine returns after ^C.
var errInterrupted = errors.New("interrupted")

// editor reads lines from a terminal that passes every key: it shows them,
// lets a person change them, and knows the lines of before. Output goes
// through a terminal that makes \r\n of \n.
type editor struct {
	next     func() (byte, error)                       // the next byte typed; errInterrupted for a signal
	write    func(text string)                          // to the screen
	columns  func() int                                 // of the screen
	complete func(line string, pos int) (int, []string) // what the word that ends at pos could become, and where it begins
	past     func() []string                            // lines of before, oldest first
	spend    func(n int)                                // is told of work and memory

	prompt string // the last line of it
	text   []rune
	at     int // of the cursor in text
	killed []rune
	row    int  // of the cursor, from the prompt's
	tabbed bool // the last key was Tab
	shown  bool // a line is being typed

	list  []string // lines of before, while one is looked for
	index int      // in list; len(list) is the line that is being typed
	typed []rune   // that line
}

// maxLine bounds a line that is typed, in characters.
const maxLine = 1 << 16

// readLine shows a prompt and returns the line typed after it, io.EOF after
// ^D on an empty one, or errInterrupted.
func (e *editor) readLine(prompt string) (string, error) {
	e.prompt = prompt
	if i := strings.LastIndexByte(prompt, '\n'); i >= 0 {
		e.write(prompt[:i+1])
		e.prompt = prompt[i+1:]
	}
	e.text, e.at, e.row, e.shown = e.text[:0], 0, 0, true
	defer func() { e.shown = false }()
	e.list = e.past()
	e.index, e.typed = len(e.list), nil
	e.draw()
	for {
		c, err := e.next()
		if err != nil {
			e.abandon(err)
			return "", err
		}
		done, err := e.press(c)
		if err != nil {
			e.abandon(err)
			return "", err
		}
		if done {
			e.end()
			e.write("\n")
			return string(e.text), nil
		}
	}
}

// abandon leaves the line as it stands.
func (e *editor) abandon(err error) {
	e.end()
	if errors.Is(err, errInterrupted) {
		e.write("^C")
	}
	e.write("\n")
}

// control returns the key that Ctrl and a letter are.
func control(c byte) byte { return c & 0x1f }

// press does what a key does; done is set for Enter.
func (e *editor) press(c byte) (done bool, err error) {
	tabbed := e.tabbed
	e.tabbed = false
	switch c {
	case '\r', '\n':
		return true, nil
	case control('C'):
		return false, errInterrupted
	case control('D'):
		if len(e.text) == 0 {
			return false, io.EOF
		}
		e.remove(e.at, e.at+1)
	case 127, control('H'):
		e.remove(e.at-1, e.at)
	case '\t':
		e.tab(tabbed)
	case control('R'):
		return e.search()
	case 27:
		return false, e.escape()
	case control('V'):
		if c, err = e.next(); err == nil {
			err = e.character(c)
		}
		return false, err
	default:
		if c < 32 {
			e.controlKey(c)
			return false, nil
		}
		return false, e.character(c)
	}
	return false, nil
}

// controlKey does what a key with Ctrl does that only moves and removes.
func (e *editor) controlKey(c byte) {
	switch c {
	case control('A'):
		e.move(0)
	case control('E'):
		e.move(len(e.text))
	case control('B'):
		e.move(e.at - 1)
	case control('F'):
		e.move(e.at + 1)
	case control('K'):
		e.kill(e.at, len(e.text))
	case control('U'):
		e.kill(0, e.at)
	case control('W'):
		e.kill(e.wordBefore(unicode.IsSpace), e.at)
	case control('Y'):
		e.insert(e.killed)
	case control('T'):
		e.swap()
	case control('L'):
		e.write("\x1b[H\x1b[2J")
		e.row = 0
		e.draw()
	case control('P'):
		e.recall(e.index - 1)
	case control('N'):
		e.recall(e.index + 1)
	}
}

// character takes the first byte of a character, and the rest of it.
func (e *editor) character(c byte) error {
	b := []byte{c}
	for c >= utf8.RuneSelf && !utf8.FullRune(b) {
		next, err := e.next()
		if err != nil {
			return err
		}
		b = append(b, next)
	}
	r, _ := utf8.DecodeRune(b)
	e.insert([]rune{r})
	return nil
}

// escape reads the rest of a key that begins with ESC.
func (e *editor) escape() error {
	c, err := e.next()
	if err != nil {
		return err
	}
	switch c {
	case '[', 'O':
		return e.sequence()
	case 'b', 'B':
		e.move(e.wordBefore(notWord))
	case 'f', 'F':
		e.move(e.wordAfter())
	case 'd', 'D':
		e.kill(e.at, e.wordAfter())
	case 127, control('H'):
		e.kill(e.wordBefore(notWord), e.at)
	case '<':
		e.recall(0)
	case '>':
		e.recall(len(e.list))
	case '.', '_':
		e.lastWord()
	}
	return nil
}

// sequence reads the rest of a key that begins with ESC [.
func (e *editor) sequence() error {
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
		return e.named(string(args), c)
	}
	return nil
}

// named does what a key with a name does.
func (e *editor) named(args string, final byte) error {
	far := strings.HasSuffix(args, ";5") || strings.HasSuffix(args, ";3")
	switch {
	case final == 'A':
		e.recall(e.index - 1)
	case final == 'B':
		e.recall(e.index + 1)
	case final == 'C' && far:
		e.move(e.wordAfter())
	case final == 'C':
		e.move(e.at + 1)
	case final == 'D' && far:
		e.move(e.wordBefore(notWord))
	case final == 'D':
		e.move(e.at - 1)
	case final == 'H' || final == '~' && (args == "1" || args == "7"):
		e.move(0)
	case final == 'F' || final == '~' && (args == "4" || args == "8"):
		e.move(len(e.text))
	case final == '~' && args == "3":
		e.remove(e.at, e.at+1)
	case final == '~' && args == "200":
		return e.paste()
	}
	return nil
}

// pasteEnd ends what a terminal marks as pasted.
const pasteEnd = "\x1b[201~"

// paste takes what was pasted as text, whatever keys are in it.
func (e *editor) paste() error {
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
		e.spend(1)
	}
	text := strings.TrimSuffix(string(b), pasteEnd)
	e.insert([]rune(strings.TrimSuffix(text, "\n")))
	return nil
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// wordBefore returns where the word before the cursor begins.
func (e *editor) wordBefore(between func(rune) bool) int {
	i := e.at
	for i > 0 && between(e.text[i-1]) {
		i--
	}
	for i > 0 && !between(e.text[i-1]) {
		i--
	}
	return i
}

// wordAfter returns where the word after the cursor ends.
func (e *editor) wordAfter() int {
	i := e.at
	for i < len(e.text) && notWord(e.text[i]) {
		i++
	}
	for i < len(e.text) && !notWord(e.text[i]) {
		i++
	}
	return i
}

// move puts the cursor elsewhere.
func (e *editor) move(to int) {
	if to = min(max(to, 0), len(e.text)); to != e.at {
		e.at = to
		e.draw()
	}
}

// insert puts characters in at the cursor.
func (e *editor) insert(list []rune) {
	list = list[:min(len(list), max(0, maxLine-len(e.text)))]
	if len(list) == 0 {
		return
	}
	e.spend(len(list) + len(e.text)/16)
	end := e.at == len(e.text)
	text := append(append(append(make([]rune, 0, len(e.text)+len(list)), e.text[:e.at]...), list...), e.text[e.at:]...)
	e.text, e.at = text, e.at+len(list)
	if end && len(list) == 1 && e.fits(list[0]) {
		e.write(string(list))
		return
	}
	e.draw()
}

// remove takes the characters from i to j out.
func (e *editor) remove(i, j int) {
	i, j = max(i, 0), min(j, len(e.text))
	if i >= j {
		return
	}
	e.text = append(e.text[:i:i], e.text[j:]...)
	e.at = i
	e.draw()
}

// kill is remove, for control('Y') to bring back.
func (e *editor) kill(i, j int) {
	if i < j {
		e.killed = append([]rune(nil), e.text[i:j]...)
		e.remove(i, j)
	}
}

// swap exchanges the characters around the cursor.
func (e *editor) swap() {
	i := e.at
	if i == len(e.text) {
		i--
	}
	if i < 1 {
		return
	}
	text := append([]rune(nil), e.text...)
	text[i-1], text[i] = text[i], text[i-1]
	e.text, e.at = text, i+1
	e.draw()
}

// recall shows a line of before, or the one being typed.
func (e *editor) recall(i int) {
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
	e.at = len(e.text)
	e.draw()
}

// lastWord puts in the last word of the line before.
func (e *editor) lastWord() {
	if len(e.list) == 0 {
		return
	}
	if f := strings.Fields(e.list[len(e.list)-1]); len(f) > 0 {
		e.insert([]rune(f[len(f)-1]))
	}
}
