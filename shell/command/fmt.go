package command

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var fmtOptions = parsing{digits: true, options: []option{
	{short: 'c', long: "crown-margin"},
	{short: 'p', long: "prefix", arg: required},
	{short: 's', long: "split-only"},
	{short: 't', long: "tagged-paragraph"},
	{short: 'u', long: "uniform-spacing"},
	{short: 'w', long: "width", arg: required},
	{short: 'g', long: "goal", arg: required},
}}

// fmtJob fills paragraphs: lines of the same indentation between blank ones.
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

// fmtWord is a word with the blanks that follow it where no line ends.
type fmtWord struct {
	text   []byte
	space  int
	paren  bool // begins with an opening mark
	punct  bool // ends with punctuation
	period bool // ends as a sentence may
	final  bool // ends a sentence
}

func fmtText(p *kernel.Proc) int {
	opts, names, ok := fmtOptions.parse(p)
	if !ok {
		return 1
	}
	j := fmtJob{p: p, width: 75}
	for _, o := range opts {
		switch o.key {
		case 'w', '#', 'g':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 0 || n > 2500 {
				p.Errorf("invalid width: %s", cite(o.value))
				return 1
			}
			if o.key == 'g' {
				j.goal = n
			} else {
				j.width = n
			}
		case 'p':
			j.prefix = []byte(o.value)
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
	for _, name := range operandsOr(names) {
		h, err := open(p, name)
		if err != nil {
			p.Errorf("cannot open %s for reading: %s", cite(name), why(err))
			code = 1
			continue
		}
		if err := j.file(h); err != nil {
			p.Errorf("read error: %s", why(err))
			code = 1
		}
		closeInput(h)
	}
	return code
}

func (j *fmtJob) file(h *kernel.Handle) error {
	l := newLines(j.p, h, '\n')
	defer l.close()
	for line := l.next(); line != nil; line = l.next() {
		j.line(trimDelim(line, '\n'))
	}
	j.flush()
	return l.failed()
}

func (j *fmtJob) line(line []byte) {
	body, ok := bytes.CutPrefix(line, j.prefix)
	indent := 0
	for indent < len(body) && (body[indent] == ' ' || body[indent] == '\t') {
		indent++
	}
	if !ok || indent == len(body) {
		j.flush()
		if ok && len(j.prefix) > 0 || !ok {
			_, _ = j.p.Out().Write(line) // shows at the flush, as below
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
	j.take(body[indent:])
}

// indentWidth is how wide blanks are.
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

// take adds the words of a line to the paragraph.
func (j *fmtJob) take(text []byte) {
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
		w.mark(next == len(text))
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

// mark notes what kind of word it is; last says that it ends its line.
func (w *fmtWord) mark(last bool) {
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

// flush prints the paragraph, with the line breaks that cost least.
func (j *fmtJob) flush() {
	if len(j.words) > 0 {
		breaks := j.breaks()
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
	_, _ = out.Write(j.prefix) // shows at the flush, as below
	_, _ = out.Write(bytes.Repeat([]byte{' '}, indent))
	for i, w := range words {
		_, _ = out.Write(w.text)
		if i < len(words)-1 {
			_, _ = out.Write(bytes.Repeat([]byte{' '}, w.space))
		}
	}
	_ = out.WriteByte('\n')
}

// breaks returns for each word that begins a line the word that begins the
// next, so that the paragraph's cost is least: lines near the goal, alike in
// length, broken after sentences and punctuation rather than elsewhere.
func (j *fmtJob) breaks() []int {
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

// lineCost is what a line of a width costs that ends before word k; after is
// the length of the next line, 0 where that is the last.
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

// wordCost is what it costs to begin a line with word i.
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
