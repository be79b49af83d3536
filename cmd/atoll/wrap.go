package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns is how wide the terminal is on which somebody reads results; 0: nobody
// does, or it does not say, and lines are as long as they are.
func (a *app) columns() int {
	f, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// narrowest is the least room in which text is wrapped.
const narrowest = 20

// wrap breaks text between words into lines of at most width characters; a word that
// is longer has a line of its own. Width 0, or less than narrowest: it stays as it is.
func wrap(text string, width int) []string {
	if width < narrowest {
		return []string{text}
	}
	var list []string
	line, used := "", 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			line, used = word, n
		case used+1+n > width:
			list = append(list, line)
			line, used = word, n
		default:
			line, used = line+" "+word, used+1+n
		}
	}
	return append(list, line)
}

// hang is text behind what takes indent characters of its first line, wrapped to
// width, each further line after as many blanks.
func hang(text string, indent, width int) string {
	return strings.Join(wrap(text, width-indent), "\n"+strings.Repeat(" ", indent))
}

// table writes rows in columns. Where they are too wide for the terminal, they move
// together, and then the last one is wrapped.
func (a *app) table(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain(cell)
		}
	}
	text, width := layout(rows, 3), a.columns()
	if width > 0 && widest(text) > width {
		rows = wrapLast(rows, 2, width)
		text = layout(rows, 2)
	}
	_, err := a.out.Write(text)
	return err
}

// layout is rows in columns, with gap blanks between them.
func layout(rows [][]string, gap int) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, gap, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes all
	return b.Bytes()
}

// widest is how many characters the longest line has.
func widest(text []byte) int {
	most := 0
	for line := range bytes.Lines(text) {
		most = max(most, utf8.RuneCount(bytes.TrimRight(line, " \n")))
	}
	return most
}

// wrapLast gives rows whose last column is too wide further rows that go on with it.
// Rows that have not all as many columns stay as they are.
func wrapLast(rows [][]string, gap, width int) [][]string {
	if len(rows) == 0 {
		return rows
	}
	last := len(rows[0]) - 1
	before := 0
	for i := range last {
		most := 0
		for _, row := range rows {
			if len(row) != last+1 {
				return rows
			}
			most = max(most, utf8.RuneCountInString(row[i]))
		}
		before += most + gap
	}
	var list [][]string
	for _, row := range rows {
		for i, part := range wrap(row[last], width-before) {
			next := make([]string, last+1)
			if i == 0 {
				copy(next, row)
			}
			next[last] = part
			list = append(list, next)
		}
	}
	return list
}
