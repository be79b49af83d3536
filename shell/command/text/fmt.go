package text

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const fmtUsage = `Usage: fmt [-WIDTH] [OPTION]... [FILE]...
Reformat each paragraph in the FILE(s), writing to standard output.

  -c, --crown-margin        preserve indentation of first two lines
  -p, --prefix=STRING       reformat only lines beginning with STRING
  -s, --split-only          split long lines, but do not refill
  -t, --tagged-paragraph    indentation of first line different from second
  -u, --uniform-spacing     one space between words, two after sentences
  -w, --width=WIDTH         maximum line width (default of 75 columns)
  -g, --goal=WIDTH          goal width (default of 93% of width)
      --help                display this help and exit
`

var fmtOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'c', Long: "crown-margin"},
	{Short: 'p', Long: "prefix", Arg: option.Required},
	{Short: 's', Long: "split-only"},
	{Short: 't', Long: "tagged-paragraph"},
	{Short: 'u', Long: "uniform-spacing"},
	{Short: 'w', Long: "width", Arg: option.Required},
	{Short: 'g', Long: "goal", Arg: option.Required},
}}

// fmtJob is the state of one run of fmt. It fills paragraphs: lines of the same indentation
// between blank ones.
type fmtJob struct {
	p           *kernel.Proc
	width, goal int
	prefix      []byte
	crown       bool
	split       bool
	uniform     bool

	words  []fmtWord // of the paragraph so far
	first  int       // indentation of its first line
	rest   int       // and of the others
	lines  int
	memory int64
}

// fmtWord is a word and the number of blanks that follow it inside a line.
type fmtWord struct {
	text   []byte
	space  int
	paren  bool // begins with an opening mark
	punct  bool // ends with punctuation
	period bool // ends as a sentence may
	final  bool // ends a sentence
}

func runFmt(p *kernel.Proc) int {
	opts, names, ok := fmtOptions.Parse(p)
	if !ok {
		return 1
	}
	j := fmtJob{p: p, width: 75}
	for _, o := range opts {
		switch o.Key {
		case 'w', '#', 'g':
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 || n > 2500 {
				p.Errorf("invalid width: %s", quoting.QuoteWord(o.Value))
				return 1
			}
			if o.Key == 'g' {
				j.goal = n
			} else {
				j.width = n
			}
		case 'p':
			j.prefix = []byte(o.Value)
		case 's':
			j.split = true
		case 'u':
			j.uniform = true
		case 'c', 't':
			j.crown = true
		}
	}
	if j.goal == 0 {
		j.goal = j.width * 187 / 200
	}
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		h, err := stream.Open(p, name)
		if err != nil {
			p.Errorf("cannot open %s for reading: %s", quoting.QuoteWord(name), program.Reason(err))
			code = 1
			continue
		}
		if err := j.formatFile(h); err != nil {
			p.Errorf("read error: %s", program.Reason(err))
			code = 1
		}
		stream.Close(h)
	}
	return code
}

func (j *fmtJob) formatFile(h *kernel.Handle) error {
	l := stream.NewLineReader(j.p, h, '\n')
	defer l.Close()
	for line := l.Next(); line != nil; line = l.Next() {
		j.addLine(stream.TrimDelimiter(line, '\n'))
	}
	j.flush()
	return l.Err()
}

// addLine adds a line to the paragraph, or ends the paragraph if the line doesn't belong to it.
func (j *fmtJob) addLine(line []byte) {
	body, ok := bytes.CutPrefix(line, j.prefix)
	indent := 0
	for indent < len(body) && (body[indent] == ' ' || body[indent] == '\t') {
		indent++
	}
	if !ok || indent == len(body) {
		j.flush()
		if ok && len(j.prefix) > 0 || !ok {
			_, _ = j.p.Out().Write(line) // Flush reports the error, here and below
		}
		_ = j.p.Out().WriteByte('\n')
		return
	}
	col := indentWidth(body[:indent])
	if j.lines > 0 && (j.split || col != j.rest && !(j.crown && j.lines == 1)) {
		j.flush()
	}
	if j.lines == 0 {
		j.first, j.rest = col, col
	} else if j.lines == 1 && j.crown {
		j.rest = col
	}
	j.lines++
	j.addWords(body[indent:])
}

// indentWidth returns how many columns blanks take.
func indentWidth(blanks []byte) int {
	col := 0
	for _, c := range blanks {
		if c == '\t' {
			col += 8 - col%8
		} else {
			col++
		}
	}
	return col
}

// addWords adds the words of a line to the paragraph.
func (j *fmtJob) addWords(text []byte) {
	n := int64(len(text) + 32)
	j.p.Alloc(n)
	j.memory += n
	text = bytes.Clone(text)
	for len(text) > 0 {
		end := bytes.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		next := end
		for next < len(text) && (text[next] == ' ' || text[next] == '\t') {
			next++
		}
		w := fmtWord{text: text[:end], space: next - end}
		w.classify(next == len(text))
		if j.uniform || next == len(text) {
			w.space = 1
			if w.final {
				w.space = 2
			}
		}
		j.p.Alloc(48)
		j.memory += 48
		j.words = append(j.words, w)
		text = text[next:]
	}
}

// classify records what marks the word begins and ends with; last reports whether it ends its line.
func (w *fmtWord) classify(last bool) {
	end := len(w.text) - 1
	w.paren = bytes.IndexByte([]byte("([`'\""), w.text[0]) >= 0
	w.punct = isPunct(w.text[end])
	for end > 0 && bytes.IndexByte([]byte(")]'\""), w.text[end]) >= 0 {
		end--
	}
	w.period = bytes.IndexByte([]byte(".?!"), w.text[end]) >= 0
	w.final = w.period && (last || w.space > 1)
}

func isPunct(c byte) bool {
	return c > ' ' && c < 0x7f && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// flush prints the paragraph with the line breaks of least cost.
func (j *fmtJob) flush() {
	if len(j.words) > 0 {
		breaks := j.chooseBreaks()
		for i := 0; i < len(j.words); i = breaks[i] {
			indent := j.rest
			if i == 0 {
				indent = j.first
			}
			j.print(j.words[i:breaks[i]], indent)
		}
	}
	j.p.Free(j.memory)
	j.words, j.lines, j.memory = nil, 0, 0
}

func (j *fmtJob) print(words []fmtWord, indent int) {
	out := j.p.Out()
	_, _ = out.Write(j.prefix) // Flush reports the error, here and below
	_, _ = out.Write(bytes.Repeat([]byte{' '}, indent))
	for i, w := range words {
		_, _ = out.Write(w.text)
		if i < len(words)-1 {
			_, _ = out.Write(bytes.Repeat([]byte{' '}, w.space))
		}
	}
	_ = out.WriteByte('\n')
}

// chooseBreaks returns, for each word that may begin a line, the word that begins the next line. The
// breaks have the least total cost: lines near the goal width and of similar length, broken after
// sentences and punctuation rather than elsewhere.
func (j *fmtJob) chooseBreaks() []int {
	n := len(j.words)
	j.p.Alloc(int64(24 * n))
	defer j.p.Free(int64(24 * n))
	best, length, next := make([]int64, n+1), make([]int, n+1), make([]int, n)
	for i := n - 1; i >= 0; i-- {
		indent := j.rest
		if i == 0 {
			indent = j.first
		}
		wide := indent + len(j.prefix) + len(j.words[i].text)
		best[i] = 1 << 60
		for k := i + 1; ; k++ {
			j.p.Tick(1)
			after := 0
			if k < n && next[k] < n {
				after = length[k]
			}
			cost := best[k] + j.lineCost(k, wide, after)
			if cost < best[i] {
				best[i], next[i], length[i] = cost, k, wide
			}
			if k == n {
				break
			}
			wide += j.words[k-1].space + len(j.words[k].text)
			if wide >= j.width {
				break
			}
		}
		best[i] += j.wordCost(i)
	}
	return next
}

// lineCost returns the cost of a line of a width that ends before word k; after is the length of the
// next line, 0 if this is the last.
func (j *fmtJob) lineCost(k, wide, after int) int64 {
	if k == len(j.words) {
		return 0
	}
	short := int64(j.goal - wide)
	cost := short * short * 100
	if after != 0 {
		d := int64(wide - after)
		cost += d * d * 100 / 2
	}
	return cost
}

// wordCost returns the cost of a line that begins with word i.
func (j *fmtJob) wordCost(i int) int64 {
	const unit = 70 * 70
	cost := int64(unit)
	w := j.words[i]
	if i > 0 {
		switch prev := j.words[i-1]; {
		case prev.final:
			cost -= 50 * 50
		case prev.period:
			cost += 600 * 600
		case prev.punct:
			cost -= 40 * 40
		case i > 1 && j.words[i-2].final:
			cost += 200 * 200 / int64(len(prev.text)+2)
		}
	}
	switch {
	case w.paren:
		cost -= 40 * 40
	case w.final:
		cost += 150 * 150 / int64(len(w.text)+2)
	}
	return cost
}
