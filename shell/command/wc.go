package command

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const wcUsage = `Usage: wc [OPTION]... [FILE]...
  or:  wc [OPTION]... --files0-from=F
Print newline, word, and byte counts for each FILE, and a total line if
more than one FILE is specified.  A word is a non-zero-length sequence of
printable characters delimited by white space.

With no FILE, or when FILE is -, read standard input.

The options below may be used to select which counts are printed, always in
the following order: newline, word, character, byte, maximum line length.
  -c, --bytes            print the byte counts
  -m, --chars            print the character counts
  -l, --lines            print the newline counts
      --files0-from=F    read input from the files specified by
                           NUL-terminated names in file F;
                           If F is - then read names from standard input
  -L, --max-line-length  print the maximum display width
  -w, --words            print the word counts
      --help             display this help and exit
`

// wordCount is what wc counts and what it has counted.
type wordCount struct {
	lines, words, chars, bytes, width int64
}

func (c *wordCount) add(o wordCount) {
	c.lines += o.lines
	c.words += o.words
	c.chars += o.chars
	c.bytes += o.bytes
	c.width = max(c.width, o.width)
}

type wcJob struct {
	p                                 *kernel.Proc
	lines, words, chars, bytes, width bool
	columns                           int // width of a number
}

var wcOptions = parsing{options: []option{
	{short: 'c', long: "bytes"},
	{short: 'm', long: "chars"},
	{short: 'l', long: "lines"},
	{short: 'w', long: "words"},
	{long: "files0-from", arg: required, id: 'F'},
	{short: 'L', long: "max-line-length"},
}}

func wc(p *kernel.Proc) int {
	opts, names, ok := wcOptions.parse(p)
	if !ok {
		return 1
	}
	j := wcJob{p: p}
	from := ""
	for _, o := range opts {
		switch o.key {
		case 'c':
			j.bytes = true
		case 'm':
			j.chars = true
		case 'l':
			j.lines = true
		case 'w':
			j.words = true
		case 'L':
			j.width = true
		case 'F':
			from = o.value
		}
	}
	if !(j.lines || j.words || j.chars || j.bytes || j.width) {
		j.lines, j.words, j.bytes = true, true, true
	}
	code := 0
	if from != "" {
		if names, ok = names0(p, from, "cannot open "+quote(from)+" for reading", names); !ok {
			return 1
		}
		names, code = checkNames0(p, from, names)
	}
	return max(code, j.all(names, from))
}

// names0 returns the names that a file lists, each ended by a NUL; wording
// is what is said where it can't be opened.
func names0(p *kernel.Proc, from, wording string, operands []string) ([]string, bool) {
	if len(operands) > 0 {
		p.Errorf("extra operand %s\nfile operands cannot be combined with --files0-from", quote(operands[0]))
		tryHelp(p)
		return nil, false
	}
	in, err := open(p, from)
	if err != nil {
		p.Errorf("%s: %s", wording, why(err))
		return nil, false
	}
	defer closeInput(in)
	b, err := p.ReadAll(in)
	if err != nil {
		p.Errorf("%s: read error: %s", quote(from), why(err))
		return nil, false
	}
	if len(b) == 0 {
		return []string{}, true
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), true
}

// checkNames0 drops names that can't be, with a complaint for each.
func checkNames0(p *kernel.Proc, from string, names []string) ([]string, int) {
	good, code := []string{}, 0
	for i, n := range names {
		switch {
		case n == "":
			p.Errorf("%s:%d: invalid zero-length file name", quotef(from), i+1)
			code = 1
		case n == "-" && from == "-":
			p.Errorf("when reading file names from stdin, no file name of %s allowed", quote(n))
			code = 1
		default:
			good = append(good, n)
		}
	}
	return good, code
}

func (j *wcJob) all(names []string, from string) int {
	code := 0
	show := names
	if len(names) == 0 && from == "" {
		names, show = []string{"-"}, []string{""}
	}
	j.columns = j.numberWidth(names)
	var total wordCount
	for i, name := range names {
		c, ok := j.file(name)
		if !ok {
			code = 1
		}
		if c == nil {
			continue
		}
		j.print(*c, show[i])
		total.add(*c)
	}
	if len(names) > 1 {
		j.print(total, "total")
	}
	return code
}

func (j *wcJob) numberWidth(names []string) int {
	n := b2i(j.lines) + b2i(j.words) + b2i(j.chars) + b2i(j.bytes) + b2i(j.width)
	if len(names) == 0 || len(names) == 1 && n == 1 {
		return 1
	}
	least, total := 1, int64(0)
	for i, name := range names {
		size, regular, err := j.sizeOf(name)
		switch {
		case err != nil && i == 0:
			return 1
		case err != nil:
		case regular:
			total += size
		default:
			least = 7
		}
	}
	return max(least, len(strconv.FormatInt(total, 10)))
}

// sizeOf returns the size of a regular file.
func (j *wcJob) sizeOf(name string) (size int64, regular bool, err error) {
	if name == "-" {
		f := j.p.Stdin.File()
		if f == nil {
			return 0, false, nil
		}
		info, err := f.Stat()
		return info.Size(), err == nil && info.Mode().IsRegular(), err
	}
	info, err := j.p.Stat(name)
	if err != nil {
		return 0, false, err
	}
	return info.Size(), info.Mode().IsRegular(), nil
}

func (j *wcJob) print(c wordCount, name string) {
	out := j.p.Out()
	sep := ""
	put := func(wanted bool, n int64) {
		if wanted {
			s := strconv.FormatInt(n, 10)
			_, _ = out.WriteString(sep + strings.Repeat(" ", max(0, j.columns-len(s))) + s) // shows at the flush
			sep = " "
		}
	}
	put(j.lines, c.lines)
	put(j.words, c.words)
	put(j.chars, c.chars)
	put(j.bytes, c.bytes)
	put(j.width, c.width)
	if name != "" {
		if strings.Contains(name, "\n") {
			name = quotef(name)
		}
		_, _ = out.WriteString(" " + name)
	}
	_ = out.WriteByte('\n')
}

// file counts one file. A directory has counts, of nothing.
func (j *wcJob) file(name string) (*wordCount, bool) {
	in, err := open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", quotef(name), why(err))
		if errors.Is(err, vfs.EISDIR) {
			return &wordCount{}, false
		}
		return nil, false
	}
	defer closeInput(in)
	var c wordCount
	if err := j.count(in, &c); err != nil {
		j.p.Errorf("%s: %s", quotef(name), why(err))
		return &c, false
	}
	return &c, true
}

func (j *wcJob) count(in *kernel.Handle, c *wordCount) error {
	if j.bytes && !j.lines && !j.words && !j.chars && !j.width && sizeOnly(in, c) {
		return nil
	}
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	counter := wcScan{c: c, wide: j.width}
	keep := 0 // bytes of a character that is not complete
	for {
		n, err := in.Read(b[keep:])
		c.bytes += int64(n)
		data := b[:keep+n]
		end := err != nil
		switch {
		case j.words || j.width:
			keep = counter.scan(data, end)
		case j.chars:
			keep = partial(data, end)
			c.chars += runesIn(data[:len(data)-keep])
			c.lines += int64(bytes.Count(data[:len(data)-keep], []byte{'\n'}))
		default:
			c.lines += int64(bytes.Count(data, []byte{'\n'}))
		}
		j.p.Tick(1 + n>>6)
		copy(b[:], data[len(data)-keep:])
		if errors.Is(err, io.EOF) {
			counter.finish()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sizeOnly counts the bytes that a plain file has left without reading them.
func sizeOnly(in *kernel.Handle, c *wordCount) bool {
	f := in.File()
	if f == nil || in.Open().Flags&os.O_WRONLY != 0 {
		return false
	}
	at, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return false
	}
	end, err := in.Seek(0, io.SeekEnd)
	c.bytes = max(0, end-at)
	return err == nil
}

// partial returns how many bytes at the end of b begin a character that goes
// on behind it.
func partial(b []byte, end bool) int {
	if end {
		return 0
	}
	for i := 1; i <= min(3, len(b)); i++ {
		if c := b[len(b)-i]; c >= 0xc0 {
			if !utf8.FullRune(b[len(b)-i:]) {
				return i
			}
			return 0
		} else if c < 0x80 {
			return 0
		}
	}
	return 0
}

// runesIn counts characters; bytes that belong to none don't count.
func runesIn(b []byte) int64 {
	n := int64(0)
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			n++
			b = b[1:]
			continue
		}
		r, w := utf8.DecodeRune(b)
		if r != utf8.RuneError || w > 1 {
			n++
		}
		b = b[w:]
	}
	return n
}

// wcScan counts words and widths, and keeps its state between pieces.
type wcScan struct {
	c      *wordCount
	wide   bool
	inWord bool
	column int64
}

const (
	wcOther = iota // neither ends nor begins a word
	wcSpace
	wcWord
	wcHigh
)

var wcClass = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 0x80:
			t[c] = wcHigh
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = wcSpace
		case c > ' ' && c < 0x7f:
			t[c] = wcWord
		}
	}
	return t
}()

func (s *wcScan) scan(b []byte, end bool) (keep int) {
	keep = partial(b, end)
	b = b[:len(b)-keep]
	s.c.lines += int64(bytes.Count(b, []byte{'\n'}))
	words, chars, in := int64(0), int64(0), s.inWord
	for i := 0; i < len(b); i++ {
		switch wcClass[b[i]] {
		case wcWord:
			if !in {
				words++
				in = true
			}
		case wcSpace:
			in = false
		case wcHigh:
			r, w := utf8.DecodeRune(b[i:])
			i += w - 1
			chars -= int64(w - 1)
			switch {
			case r == utf8.RuneError && w == 1:
				chars--
			case unicode.IsSpace(r):
				in = false
			case unicode.IsPrint(r) && !in:
				words++
				in = true
			}
		}
	}
	s.inWord = in
	s.c.words += words
	s.c.chars += chars + int64(len(b))
	if s.wide {
		s.widths(b)
	}
	return keep
}

// widths measures lines as a terminal shows them.
func (s *wcScan) widths(b []byte) {
	for i := 0; i < len(b); {
		r, w := utf8.DecodeRune(b[i:])
		i += w
		switch {
		case r == '\n' || r == '\r' || r == '\f':
			s.finish()
		case r == '\t':
			s.column += 8 - s.column%8
		case r == utf8.RuneError && w == 1:
		default:
			s.column += int64(runeWidth(r))
		}
	}
}

func (s *wcScan) finish() {
	s.c.width = max(s.c.width, s.column)
	s.column = 0
}
