package shell

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// fakeScreen is the screen of a terminal, with what is needed to see what an editor shows.
type fakeScreen struct {
	columns  int
	rows     [][]rune
	row, col int
}

// write shows text as xterm does, with \n as \r\n.
func (g *fakeScreen) write(text string) {
	for len(text) > 0 {
		if n := escapeLen(text); n > 0 {
			g.control(text[2:n])
			text = text[n:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch {
		case r == '\n':
			g.row, g.col = g.row+1, 0
		case r == '\r':
			g.col = 0
		case r >= ' ':
			g.put(r)
		}
	}
}

func (g *fakeScreen) control(seq string) {
	if seq == "" {
		return
	}
	n, _ := strconv.Atoi(strings.TrimLeft(seq[:len(seq)-1], "?"))
	switch seq[len(seq)-1] {
	case 'A':
		g.row -= max(n, 1)
	case 'C':
		g.col = min(g.col+max(n, 1), g.columns-1)
	case 'H':
		g.row, g.col = 0, 0
	case 'J':
		if n == 2 {
			g.rows = nil
			return
		}
		if g.row < len(g.rows) {
			g.rows = g.rows[:g.row+1]
			g.rows[g.row] = g.rows[g.row][:min(g.col, len(g.rows[g.row]))]
		}
	}
}

func (g *fakeScreen) put(r rune) {
	w := kernel.Columns(r)
	if g.col+w > g.columns {
		g.row, g.col = g.row+1, 0
	}
	for g.row >= len(g.rows) {
		g.rows = append(g.rows, nil)
	}
	line := g.rows[g.row]
	for len(line) < g.col+w {
		line = append(line, ' ')
	}
	if w > 0 {
		line[g.col] = r
		for i := 1; i < w; i++ {
			line[g.col+i] = 0
		}
	}
	g.rows[g.row] = line
	g.col += w
}

// text is what stands on the screen, with a bar before the cursor.
func (g *fakeScreen) text() string {
	var b strings.Builder
	for i := 0; i <= max(g.row, len(g.rows)-1); i++ {
		if i > 0 {
			b.WriteByte('\n')
		}
		var line []rune
		if i < len(g.rows) {
			line = g.rows[i]
		}
		for c := 0; c < len(line) || i == g.row && c <= g.col; c++ {
			if i == g.row && c == g.col {
				b.WriteByte('|')
			}
			if c < len(line) && line[c] != 0 {
				b.WriteRune(line[c])
			}
		}
	}
	return b.String()
}

// typeKeys runs an editor over some keys. It returns what the screen shows when they are used up,
// the line and how it ended.
func typeKeys(columns int, prompt, keys string, past ...string) (shown, line string, err error) {
	g := &fakeScreen{columns: columns}
	i := 0
	e := &editor{
		next: func() (byte, error) {
			if i == len(keys) {
				shown = g.text()
				return 0, io.ErrUnexpectedEOF
			}
			i++
			return keys[i-1], nil
		},
		write: g.write, columns: func() int { return columns }, history: func() []string { return past }, charge: func(int) {},
		complete: func(line string, pos int) (int, []string) {
			start := strings.LastIndexByte(line[:pos], ' ') + 1
			return start, withPrefix([]string{"alpha", "alps", "beta/", "gamma", "日本"}, line[start:pos])
		},
	}
	line, err = e.readLine(prompt)
	return shown, line, err
}

func TestEditorShows(t *testing.T) {
	past := []string{"first one", "second", "grep x\ny"}
	for name, c := range map[string]struct{ keys, want string }{
		"LettersAppear":             {"hello", "$ hello|"},
		"LeftAndInsert":             {"hllo\x1b[D\x1b[D\x1b[De", "$ he|llo"},
		"HomeAndEnd":                {"bc\x1b[Ha\x1b[Fd", "$ abcd|"},
		"CtrlAAndE":                 {"bc\x01a\x05d\x02", "$ abc|d"},
		"Backspace":                 {"abc\x7f\x7f", "$ a|"},
		"BackspaceWide":             {"日本\x7fx", "$ 日x|"},
		"Delete":                    {"abc\x01\x1b[3~\x04", "$ |c"},
		"KillToEnd":                 {"one two\x1b[D\x1b[D\x1b[D\x0b", "$ one |"},
		"KillLineAndYank":           {"one\x15\x19\x19", "$ oneone|"},
		"KillWord":                  {"one two  \x17", "$ one |"},
		"WordsByAlt":                {"one two three\x1bb\x1bb\x1bd", "$ one | three"},
		"WordsByCtrlArrows":         {"one two\x1b[1;5D\x1b[1;5D\x1b[1;5C!", "$ one!| two"},
		"Swap":                      {"ab\x14", "$ ba|"},
		"HistoryUp":                 {"\x1b[A\x1b[A", "$ second|"},
		"HistoryManyLines":          {"\x10", "$ grep x\ny|"},
		"HistoryDownIsWhatWasTyped": {"new\x1b[A\x1b[A\x1b[B\x1b[B", "$ new|"},
		"HistoryFirstAndLast":       {"\x1b<\x1b>\x1b<", "$ first one|"},
		"LastWord":                  {"echo \x1b.", "$ echo y|"},
		"Search":                    {"\x12sec", "(reverse-i-search)`sec': |sec\nond"},
		"SearchAgain":               {"\x12s\x12", "(reverse-i-search)`s': fir|st\n one"},
		"SearchFails":               {"\x12zzz", "(failed reverse-i-search)`zz\nz': |"},
		"SearchTakes":               {"\x12fir\x05!", "$ first one!|"},
		"SearchGivesUp":             {"typed\x12fir\x07", "$ typed|"},
		"TabFillsIn":                {"echo ga\t", "$ echo gamma |"},
		"TabFillsInCommon":          {"al\t", "$ alp|"},
		"TabOfDirectory":            {"b\t", "$ beta/|"},
		"TabTwiceLists":             {"alp\t\t", "$ alp\nalpha  alps\n$ alp|"},
		"TabInTheMiddle":            {"g x\x02\x02\t", "$ gamma | x"},
		"ControlIsShown":            {"a\x16\x03b", "$ a^Cb|"},
		"NothingIsObeyed":           {"a\u009b2Jb\x16\x1b[2Jc", "$ a2Jb^[[2Jc|"},
		"PasteIsText":               {"\x1b[200~a\tb\x03c\n\x1b[201~", "$ a^Ib^Cc|"},
		"PasteOfLines":              {"\x1b[200~a\rb\r\x1b[201~", "$ a\nb|"},
		"LongLineWraps":             {"0123456789012345678901234567890", "$ 01234567890123456789012345\n67890|"},
		"FullLineWraps":             {"01234567890123456789012345", "$ 01234567890123456789012345\n|"},
		"WideDoesNotBreak":          {"1234567890123456789012345日", "$ 1234567890123456789012345\n日|"},
		"EditWrapped":               {"01234567890123456789012345678\x01x", "$ x|0123456789012345678901234\n5678"},
		"CombiningTakesNoRoom":      {"e\u0301x\x7f", "$ e|"},
		"UnknownKeysAreNothing":     {"a\x1b[99~\x1bOZ\x1b[1;9Zb", "$ ab|"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _, _ := typeKeys(28, "$ ", c.keys, past...); got != c.want {
				t.Errorf("%q shows\n%s\nwant\n%s", c.keys, got, c.want)
			}
		})
	}
}

func TestEditorReturns(t *testing.T) {
	for name, c := range map[string]struct {
		keys, want string
		err        error
	}{
		"Enter":               {"ls\r", "ls", nil},
		"EnterInTheMiddle":    {"ls -l\x01\r", "ls -l", nil},
		"EndOfFile":           {"\x04", "", io.EOF},
		"NoEndOfFileInLine":   {"a\x04\r", "a", nil},
		"Interrupt":           {"abc\x03", "", errInterrupted},
		"InterruptSearch":     {"\x12x\x03", "", errInterrupted},
		"SearchAndRun":        {"\x12fir\r", "first", nil},
		"EmptyLine":           {"\r", "", nil},
		"BrokenTextIsOneRune": {"a\xffb\r", "a\ufffdb", nil},
	} {
		_, got, err := typeKeys(28, "$ ", c.keys, "first")
		if got != c.want || err != c.err { //nolint:errorlint // the very values
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
}

// TestEditorPrompts: escape sequences of a prompt take no room, and only its
// last line is drawn again.
func TestEditorPrompts(t *testing.T) {
	for prompt, want := range map[string]string{
		"\x1b[1;32mbox\x1b[0m$ ":    "box$ a|b",
		"\x1b]0;title\x07$ ":        "$ a|b",
		"two\nlines> ":              "two\nlines> a|b",
		"":                          "a|b",
		"日本$ ":                      "日本$ a|b",
		"exactly twenty chars ":     "exactly twenty chars a|b",
		"far wider than the glass ": "far wider than the glass \na|b",
	} {
		got, _, _ := typeKeys(25, prompt, "ab\x02")
		if got != want {
			t.Errorf("%q shows\n%s\nwant\n%s", prompt, got, want)
		}
	}
}

// FuzzEditor: whatever is typed, the screen shows what a fresh drawing of the
// line would show, and the cursor is where it belongs.
func FuzzEditor(f *testing.F) {
	for _, keys := range []string{"hello\x1b[D\x1b[Dx", "日本語\x7f\x01z\x0b\x19", "\x1b[A\x1b[B\x12fi\x12\x05", "al\t\t\tx\t", "\x1b[200~a\nb\tc\x1b[201~\x17", "a\x16\x1bb\x14\x1bb\x1bd\x1b\x7f"} {
		f.Add(keys, 10)
		f.Add(strings.Repeat(keys, 4), 7)
	}
	f.Fuzz(func(t *testing.T, keys string, columns int) {
		columns = 4 + (columns%100+100)%100
		if len(keys) > 500 {
			return
		}
		g := &fakeScreen{columns: columns}
		i := 0
		e := &editor{
			columns: func() int { return columns }, history: func() []string { return []string{"first one", "second\nline", "日本語日本語日本語"} }, charge: func(int) {},
			complete: func(line string, pos int) (int, []string) {
				start := strings.LastIndexByte(line[:pos], ' ') + 1
				return start, withPrefix([]string{"alpha", "alps"}, line[start:pos])
			},
			write: g.write,
		}
		plain := !strings.ContainsAny(keys, "\t\x0c") // which leave other things above
		e.next = func() (byte, error) {
			if plain && e.active {
				fresh := &fakeScreen{columns: columns}
				again := &editor{write: fresh.write, columns: e.columns, charge: e.charge, prompt: e.prompt, text: e.text, cursor: e.cursor}
				again.redraw()
				if got, want := g.text(), fresh.text(); got != want {
					t.Fatalf("after %q the screen shows\n%s\nand not\n%s", keys[:i], got, want)
				}
			}
			if i == len(keys) {
				return 0, io.ErrUnexpectedEOF
			}
			i++
			return keys[i-1], nil
		}
		line, err := e.readLine("$ ")
		if err == nil && len([]rune(line)) > maxLine {
			t.Fatalf("a line of %d bytes", len(line))
		}
	})
}
