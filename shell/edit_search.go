package shell

import (
	"io"
	"strings"
)

// searchHistory searches the history backwards as text is typed. Other keys
// accept the found line and then have their usual effect.
func (e *editor) searchHistory() (done bool, err error) {
	prompt, text, at := e.prompt, e.text, e.cursor
	query, found := "", len(e.list)
	defer func() { e.prompt = prompt }()
	back := func() {
		e.prompt, e.text, e.cursor = prompt, text, at
		e.redraw()
	}
	for {
		e.showFound(query, found)
		c, err := e.next()
		if err != nil {
			back()
			return false, err
		}
		switch c {
		case ctrlKey('G'), ctrlKey('C'):
			back()
			if c == ctrlKey('C') {
				return false, errInterrupted
			}
			return false, nil
		case ctrlKey('R'):
			if i := e.findBackward(query, found-1); i >= 0 {
				found = i
			}
		case 127, ctrlKey('H'):
			if r := []rune(query); len(r) > 0 {
				query = string(r[:len(r)-1])
				found = max(e.findBackward(query, len(e.list)-1), -1)
			}
		default:
			if c < 32 {
				return e.endSearch(prompt, text, found, c)
			}
			if len(query) < 1024 {
				query += string([]byte{c})
			}
			if i := e.findBackward(query, min(found, len(e.list)-1)); i >= 0 {
				found = i
			}
		}
	}
}

// endSearch accepts the found line and handles the key that ended the search.
func (e *editor) endSearch(prompt string, text []rune, found int, key byte) (bool, error) {
	e.prompt = prompt
	if found >= 0 && found < len(e.list) {
		e.typed = append([]rune(nil), text...)
		e.index = found
		e.text = []rune(e.list[found])
	} else {
		e.text = text
	}
	e.cursor = len(e.text)
	e.redraw()
	if key == 27 {
		return false, e.readEscape()
	}
	if key == ctrlKey('D') && len(e.text) == 0 {
		return false, io.EOF
	}
	return e.handleKey(key)
}

// findBackward returns the newest line at or before i that contains query, or
// -1.
func (e *editor) findBackward(query string, i int) int {
	for ; i >= 0 && query != ""; i-- {
		e.charge(1 + len(e.list[i])/64)
		if strings.Contains(e.list[i], query) {
			return i
		}
	}
	return -1
}

func (e *editor) showFound(query string, found int) {
	line, word := "", "reverse-i-search"
	if found >= 0 && found < len(e.list) {
		line = e.list[found]
	}
	if query != "" && !strings.Contains(line, query) {
		word = "failed " + word
	}
	e.prompt = "(" + word + ")`" + strings.ToValidUTF8(query, "?") + "': "
	e.text = []rune(line)
	e.cursor = 0
	if i := strings.Index(line, query); i > 0 {
		e.cursor = len([]rune(line[:i]))
	}
	e.redraw()
}
