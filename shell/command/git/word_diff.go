package git

import (
	"bytes"
	"io"
)

// wordFormat is how a difference of words is printed.
type wordFormat int

const (
	noWords        wordFormat = iota
	plainWords                // [-old-]{+new+}
	porcelainWords            // a run of words a line
)

// readWordDiff reads the option --word-diff.
func (c *call) readWordDiff(f *patch) error {
	mode, ok := c.flags["--word-diff"]
	if !ok {
		return nil
	}
	switch mode {
	case "", "plain":
		f.words = plainWords
	case "porcelain":
		f.words = porcelainWords
	case "none":
		return nil
	case "color":
		return &failure{129, "error: git diff --word-diff=color is not supported here: use --word-diff=plain: nothing is coloured"}
	default:
		return &failure{129, "error: bad --word-diff argument: " + mode}
	}
	if !f.stat && !f.numStat && !f.shortStat && !f.names && !f.status && !f.raw && !f.summary {
		f.text = true
	}
	return nil
}

// wordSide is the text of one side between two lines of context, and its words.
type wordSide struct {
	text  []byte
	words [][]byte // each with a line end, as compareLines needs them
	spans [][2]int // where they are in text
}

// newWordSide splits lines into words.
func (f *patch) newWordSide(lines [][]byte) wordSide {
	var s wordSide
	size, words := int64(0), int64(0)
	for _, line := range lines {
		size += int64(len(line)) + 1
		words += countWords(line)
	}
	f.r.p.Alloc(2*size + 96*words)
	f.r.p.Tick(1 + int(size>>4))
	for _, line := range lines {
		s.text = append(s.text, line...)
		if line[len(line)-1] != '\n' {
			s.text = append(s.text, '\n')
		}
	}
	for at := 0; at < len(s.text); {
		from := at
		for at < len(s.text) && !isWordSpace(s.text[at]) {
			at++
		}
		if from < at {
			s.spans = append(s.spans, [2]int{from, at})
			s.words = append(s.words, append(bytes.Clone(s.text[from:at]), '\n'))
			continue
		}
		at++
	}
	return s
}

// countWords returns the number of words in a line.
func countWords(line []byte) int64 {
	n, inside := int64(0), false
	for _, c := range line {
		if space := isWordSpace(c); space {
			inside = false
		} else if !inside {
			n, inside = n+1, true
		}
	}
	return n
}

func isWordSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// span returns the text from one word to another, or the place behind the words before them.
func (s *wordSide) span(from, to int) (begin, end int) {
	switch {
	case from < to:
		return s.spans[from][0], s.spans[to-1][1]
	case from == 0:
		return 0, 0
	}
	end = s.spans[from-1][1]
	return end, end
}

// printWordHunk prints the lines of a hunk with the words that differ.
func (f *patch) printWordHunk(a, b [][]byte, from, to int, hunk []edit) {
	for _, e := range hunk {
		f.printWordContext(b[from:e.b0])
		f.printWords(a[e.a0:e.a1], b[e.b0:e.b1])
		from = e.b1
	}
	f.printWordContext(b[from:to])
}

// printWordContext prints lines without a change.
func (f *patch) printWordContext(lines [][]byte) {
	for _, line := range lines {
		text := bytes.TrimSuffix(line, []byte("\n"))
		if f.words == porcelainWords {
			f.printf(" %s\n~\n", text)
		} else {
			f.printf("%s\n", text)
		}
	}
}

// printWords prints lines that were changed.
func (f *patch) printWords(old, new [][]byte) {
	mark := f.r.p.Charged()
	defer func() { f.r.p.Free(f.r.p.Charged() - mark) }()
	a, b := f.newWordSide(old), f.newWordSide(new)
	if len(b.text) == 0 {
		f.printRun('-', a.text)
		return
	}
	shown := 0
	for _, e := range compareLines(f.r.p, a.words, b.words, nil) {
		a0, a1 := a.span(e.a0, e.a1)
		b0, b1 := b.span(e.b0, e.b1)
		f.printRun(' ', b.text[shown:b0])
		f.printRun('-', a.text[a0:a1])
		f.printRun('+', b.text[b0:b1])
		shown = b1
	}
	f.printRun(' ', b.text[shown:])
}

// printRun prints a run of words that were kept, removed or added; the marks end with the line.
func (f *patch) printRun(sign byte, text []byte) {
	open, end, line := "", "", "\n"
	switch {
	case f.words == porcelainWords:
		open, end, line = string(sign), "\n", "~\n"
	case sign == '-':
		open, end = "[-", "-]"
	case sign == '+':
		open, end = "{+", "+}"
	}
	out := f.out()
	for first := true; len(text) > 0; first = false {
		part, rest, more := bytes.Cut(text, []byte("\n"))
		if !first {
			_, _ = io.WriteString(out, f.prefix) // Flush reports the error, as of all writes
		}
		if len(part) > 0 {
			_, _ = io.WriteString(out, open)
			_, _ = out.Write(part)
			_, _ = io.WriteString(out, end)
		}
		if !more {
			return
		}
		_, _ = io.WriteString(out, line)
		text = rest
	}
}
