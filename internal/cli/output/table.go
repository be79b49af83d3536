package output

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// narrowest is the least room in which text is wrapped.
const narrowest = 20

// wrapText breaks text between words into lines of at most width characters; a word that
// is longer has a line of its own. Width 0, or less than narrowest: it stays as it is.
func wrapText(text string, width int) []string {
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

// WrapHanging wraps text to width. The first line starts at column indent, and further lines
// are indented by as much.
func WrapHanging(text string, indent, width int) string {
	return strings.Join(wrapText(text, width-indent), "\n"+strings.Repeat(" ", indent))
}

// FormatTable formats rows in columns, separated by gap blanks.
func FormatTable(rows [][]string, gap int) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, gap, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes all
	return b.Bytes()
}

// MaxLineWidth is how many characters the longest line has.
func MaxLineWidth(text []byte) int {
	most := 0
	for line := range bytes.Lines(text) {
		most = max(most, utf8.RuneCount(bytes.TrimRight(line, " \n")))
	}
	return most
}

// WrapLastColumn gives rows whose last column is too wide further rows that go on with it.
// Rows that have not all as many columns stay as they are.
func WrapLastColumn(rows [][]string, gap, width int) [][]string {
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
		for i, part := range wrapText(row[last], width-before) {
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
