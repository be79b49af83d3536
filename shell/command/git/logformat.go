package git

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// commitFormatter expands a format such as "%h %an %s" for a commit.
type commitFormatter struct {
	l    *logRun
	k    *commit
	b    []byte
	pad  padding // of the next text
	wrap wrapping
}

// padding is how %<(N), %>(N) and the like lay out one text.
type padding struct {
	side   string // "<": the text is at the left, ">": at the right, ">>": likewise, and over spaces before it, "><": in the middle, "": as it is
	column bool   // the width is a column of the line
	width  int
	cut    string // what becomes of a longer text: trunc, ltrunc, mtrunc, or "": it stays
}

// wrapping is how %w(WIDTH,FIRST,REST) breaks what follows it into lines.
type wrapping struct {
	from               int // in the text
	width, first, rest int
}

// maxFormatWidth is the largest width in a format.
const maxFormatWidth = 1000

// expandFormat expands a format for a commit.
func (l *logRun) expandFormat(format string, k *commit) (string, error) {
	f := &commitFormatter{l: l, k: k}
	charged := 0
	for i := 0; i < len(format); {
		l.p.Tick(1)
		before := len(f.b)
		if format[i] != '%' || i+1 == len(format) {
			f.b = append(f.b, format[i])
			i++
			continue
		}
		used, err := f.expandNext(format[i+1:])
		if err != nil {
			return "", err
		}
		i += used + 1
		if charged += max(len(f.b)-before, 0); charged >= 4096 { // the text grows to twice its size
			l.allocText(2 * charged)
			charged = 0
		}
	}
	f.endWrapping()
	return string(f.b), nil
}

// expandNext expands the placeholder that a text begins with, without its %, and returns how many bytes it has.
func (f *commitFormatter) expandNext(text string) (int, error) {
	if p, used, err := parsePadding(text); used > 0 || err != nil {
		f.pad = p
		return used, err
	}
	if inner, _, ok := strings.Cut(text, ")"); ok && strings.HasPrefix(inner, "w(") {
		numbers, err := parseWidths(inner[2:])
		f.endWrapping()
		f.wrap = wrapping{len(f.b), numbers[0], numbers[1], numbers[2]}
		return len(inner) + 1, err
	}
	mark := byte(0)
	skipped := 0
	if text[0] == '-' || text[0] == '+' || text[0] == ' ' {
		mark, skipped = text[0], 1
		if text = text[1:]; text == "" {
			return 1, nil
		}
	}
	out, used, err := f.l.expandField(text, f.k)
	switch {
	case out == "" && mark == '-':
		f.b = bytes.TrimRight(f.b, "\n")
	case out != "" && mark == '+':
		out = "\n" + out
	case out != "" && mark == ' ':
		out = " " + out
	}
	f.add(out)
	return used + skipped, err
}

// expandField is expandOne for the fields that need more than the commit.
func (l *logRun) expandField(text string, k *commit) (string, int, error) {
	if text[0] == 'N' {
		note, err := l.readNote(k)
		return note, 1, err
	}
	if inner, _, ok := strings.Cut(text, ")"); ok && strings.HasPrefix(inner, "(trailers") {
		options, given := strings.CutPrefix(inner, "(trailers:")
		if given || inner == "(trailers" {
			return l.formatTrailers(k, options, given), len(inner) + 1, nil
		}
	}
	out, used := l.expandOne(text, k)
	return out, used, nil
}

// parsePadding reads <(N), >(N), >>(N), ><(N) and the same with | for a column and, after a comma, trunc, ltrunc or mtrunc.
func parsePadding(text string) (p padding, used int, err error) {
	rest := text
	for _, side := range []string{"><", ">>", ">", "<"} {
		if after, ok := strings.CutPrefix(text, side); ok {
			p.side, rest = side, after
			break
		}
	}
	if p.side == "" {
		return padding{}, 0, nil
	}
	rest, p.column = strings.CutPrefix(rest, "|")
	inner, _, ok := strings.Cut(rest, ")")
	if !ok || !strings.HasPrefix(inner, "(") {
		return padding{}, 0, nil
	}
	used = len(text) - len(rest) + len(inner) + 1
	number, cut, _ := strings.Cut(inner[1:], ",")
	p.width, err = strconv.Atoi(strings.TrimSpace(number))
	if err != nil || p.width < 0 || p.width > maxFormatWidth {
		return p, used, newFatal("a width of a format is a number up to %d: '%s'", maxFormatWidth, inner[1:])
	}
	p.cut = strings.TrimSpace(cut)
	return p, used, nil
}

// parseWidths reads the numbers of %w, of which each may be missing.
func parseWidths(text string) (numbers [3]int, err error) {
	if text == "" {
		return numbers, nil
	}
	for n, part := range strings.SplitN(text, ",", 3) {
		numbers[n], err = strconv.Atoi(strings.TrimSpace(part))
		if err != nil || numbers[n] < 0 || numbers[n] > maxFormatWidth {
			return numbers, newFatal("a width of a format is a number up to %d: '%s'", maxFormatWidth, text)
		}
	}
	return numbers, nil
}

// add adds a text with the padding that it shall have.
func (f *commitFormatter) add(text string) {
	p := f.pad
	f.pad = padding{}
	if p.side == "" {
		f.b = append(f.b, text...)
		return
	}
	width, n := p.width, utf8.RuneCountInString(text)
	if p.column {
		line := f.b[bytes.LastIndexByte(f.b, '\n')+1:]
		width -= utf8.RuneCount(line)
	}
	for p.side == ">>" && n > width && bytes.HasSuffix(f.b, []byte(" ")) {
		f.b = f.b[:len(f.b)-1]
		width++
	}
	if n > width && width >= 2 && p.cut != "" {
		text, n = cutText(text, width, p.cut), width
	}
	before, after := 0, max(width-n, 0)
	switch p.side {
	case ">", ">>":
		before, after = after, 0
	case "><":
		before, after = after/2, after-after/2
	}
	f.b = append(f.b, strings.Repeat(" ", before)+text+strings.Repeat(" ", after)...)
}

// cutText shortens a text to a width of at least two, with two dots for what is left out: at the end (trunc), at the
// beginning (ltrunc) or in the middle (mtrunc).
func cutText(text string, width int, how string) string {
	runes := []rune(text)
	switch how {
	case "ltrunc":
		return ".." + string(runes[len(runes)-(width-2):])
	case "mtrunc":
		first := max(width/2-1, 0)
		return string(runes[:first]) + ".." + string(runes[len(runes)-(width-2-first):])
	}
	return string(runes[:width-2]) + ".."
}

// endWrapping breaks what was added since the last %w into lines.
func (f *commitFormatter) endWrapping() {
	w := f.wrap
	f.wrap = wrapping{}
	if w == (wrapping{}) {
		return
	}
	text := string(f.b[w.from:])
	f.l.allocText(2 * len(text))
	f.b = append(f.b[:w.from], f.l.wrapText(text, w)...)
}

// wrapText breaks a text into lines of a width; 0: only indents them. A line that begins with a letter or a digit goes on
// with the one before it.
func (l *logRun) wrapText(text string, w wrapping) string {
	var b strings.Builder
	indent := strings.Repeat(" ", w.first)
	if w.width == 0 {
		for line := range strings.Lines(text) {
			l.p.Tick(1 + len(line)>>4)
			b.WriteString(indent + line)
			indent = strings.Repeat(" ", w.rest)
		}
		return b.String()
	}
	column := 0
	for line := range strings.Lines(text) {
		l.p.Tick(1 + len(line)>>4)
		letter := line[0] >= '0' && line[0] <= '9' || line[0] >= 'a' && line[0] <= 'z' || line[0] >= 'A' && line[0] <= 'Z'
		if b.Len() > 0 && !letter {
			b.WriteByte('\n')
			column = 0
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
				b.WriteString(indent)
				column, indent = len(indent), strings.Repeat(" ", w.rest)
			case column+1+n > w.width:
				b.WriteString("\n" + indent)
				column = len(indent)
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
	}
	return b.String()
}

// formatTrailers returns the trailers of a commit's message as %(trailers:OPTIONS) prints them.
func (l *logRun) formatTrailers(k *commit, options string, given bool) string {
	var keys []string
	only, unfold, keyOnly, valueOnly, joined := false, false, false, false, false
	separator, between := "\n", ": "
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		yes := value != "false" && value != "no" && value != "off"
		switch name {
		case "key":
			keys = append(keys, strings.ToLower(strings.TrimSuffix(value, ":")))
		case "only":
			only = yes
		case "unfold":
			unfold = yes
		case "keyonly":
			keyOnly = yes
		case "valueonly":
			valueOnly = yes
		case "separator":
			separator, joined = l.expandSeparator(value, k), true
		case "key_value_separator":
			between = l.expandSeparator(value, k)
		}
	}
	_, trailers, _ := l.splitTrailers(k.message, true)
	if !given {
		return strings.Join(trailers, "")
	}
	var list []string
	for _, line := range trailers {
		l.p.Tick(1 + len(line)>>4)
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !isTrailer(line) {
			if !only && len(keys) == 0 {
				list = append(list, strings.TrimSuffix(line, "\n"))
			}
			continue
		}
		if len(keys) > 0 && !slices.Contains(keys, strings.ToLower(key)) {
			continue
		}
		if unfold {
			value = strings.Join(strings.Fields(value), " ")
		}
		l.allocText(2*len(line) + 16)
		switch {
		case keyOnly && !valueOnly:
			list = append(list, key)
		case valueOnly && !keyOnly:
			list = append(list, value)
		default:
			list = append(list, key+between+value)
		}
	}
	text := strings.Join(list, separator)
	if !joined && len(list) > 0 {
		text += "\n"
	}
	return text
}

// expandSeparator expands %n and %xHH in the separator of an option.
func (l *logRun) expandSeparator(text string, k *commit) string {
	for _, escape := range []string{"%n", "%x2C", "%x2c", "%x0A", "%x0a", "%x20", "%x09", "%x00", "%%"} {
		out, _ := l.expandOne(escape[1:], k)
		text = strings.ReplaceAll(text, escape, out)
	}
	return text
}
