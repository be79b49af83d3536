package shell

import (
	"io"
	"strings"
)

// search looks for a line of before as text is typed, the newest first. Keys
// that mean nothing here take the line found and do what they do.
func (e *editor) search() (done bool, err error) {
	prompt, text, at := e.prompt, e.text, e.at
	query, found := "", len(e.list)
	defer func() { e.prompt = prompt }()
	back := func() {
		e.prompt, e.text, e.at = prompt, text, at
		e.draw()
	}
	for {
		e.showFound(query, found)
		c, err := e.next()
		if err != nil {
			back()
			return false, err
		}
		switch c {
		case control('G'), control('C'):
			back()
			if c == control('C') {
				return false, errInterrupted
			}
			return false, nil
		case control('R'):
			if i := e.lookBack(query, found-1); i >= 0 {
				found = i
			}
		case 127, control('H'):
			if r := []rune(query); len(r) > 0 {
				query = string(r[:len(r)-1])
				found = max(e.lookBack(query, len(e.list)-1), -1)
			}
		default:
			if c < 32 {
				return e.settle(prompt, text, found, c)
			}
			if len(query) < 1024 {
				query += string([]byte{c})
			}
			if i := e.lookBack(query, min(found, len(e.list)-1)); i >= 0 {
				found = i
			}
		}
	}
}

// settle ends a search with the line found, and does what the key does.
func (e *editor) settle(prompt string, text []rune, found int, key byte) (bool, error) {
	e.prompt = prompt
	if found >= 0 && found < len(e.list) {
		e.typed = append([]rune(nil), text...)
		e.index = found
		e.text = []rune(e.list[found])
	} else {
		e.text = text
	}
	e.at = len(e.text)
	e.draw()
	if key == 27 {
		return false, e.escape()
	}
	if key == control('D') && len(e.text) == 0 {
		return false, io.EOF
	}
	return e.press(key)
}

// lookBack returns the newest line from i back that holds query, or -1.
func (e *editor) lookBack(query string, i int) int {
	for ; i >= 0 && query != ""; i-- {
		e.spend(1 + len(e.list[i])/64)
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
	e.at = 0
	if i := strings.Index(line, query); i > 0 {
		e.at = len([]rune(line[:i]))
	}
	e.draw()
}

// tab fills in what the word before the cursor becomes, as far as that is
// clear; again shows what it could become.
func (e *editor) tab(again bool) {
	e.tabbed = true
	line := string(e.text[:e.at])
	start, list := e.complete(line, len(line))
	if len(list) == 0 || start > len(line) {
		e.write("\a")
		return
	}
	fill := list[0]
	for _, l := range list[1:] {
		for !strings.HasPrefix(l, fill) {
			fill = fill[:len(fill)-1]
		}
	}
	fill = strings.ToValidUTF8(fill, "")
	if len(list) == 1 && !strings.HasSuffix(fill, "/") {
		fill += " "
	}
	word := line[start:]
	switch {
	case fill != word && len(fill) >= len(word):
		from := len([]rune(line[:start]))
		rest := e.text[e.at:]
		e.text = append(append([]rune(line[:start]), []rune(fill)...), rest...)
		e.at = from + len([]rune(fill))
		e.draw()
	case again:
		e.show(list)
	default:
		e.write("\a")
	}
}

// maxShown bounds the candidates that are shown.
const maxShown = 200

// show lists candidates in columns below the line.
func (e *editor) show(list []string) {
	at := e.at
	e.end()
	var names []string
	width := 0
	for _, l := range list[:min(len(list), maxShown)] {
		name := l
		if i := strings.LastIndexByte(strings.TrimSuffix(l, "/"), '/'); i >= 0 {
			name = l[i+1:]
		}
		name = printable(name)
		names = append(names, name)
		width = max(width, promptEnd(name, 1<<20).col+2)
	}
	columns := max(1, e.width()/width)
	rows := (len(names) + columns - 1) / columns
	var b strings.Builder
	b.WriteString("\n")
	for r := range rows {
		for i := r; i < len(names); i += rows {
			b.WriteString(names[i])
			if i+rows < len(names) {
				b.WriteString(strings.Repeat(" ", width-promptEnd(names[i], 1<<20).col))
			}
		}
		b.WriteString("\n")
	}
	if n := len(list) - maxShown; n > 0 {
		b.WriteString("… and " + itoa(n) + " more\n")
	}
	e.write(b.String())
	e.at, e.row = at, 0
	e.draw()
}

// printable returns a name with what a terminal would obey made visible.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, name)
}
