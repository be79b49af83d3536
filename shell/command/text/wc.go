package text

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// wordCount holds the counts of a file.
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

// wcJob is the state of one run of wc.
type wcJob struct {
	p                                 *kernel.Proc
	lines, words, chars, bytes, width bool
	columns                           int // width of a number
}

var wcOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "bytes"},
	{Short: 'm', Long: "chars"},
	{Short: 'l', Long: "lines"},
	{Short: 'w', Long: "words"},
	{Long: "files0-from", Arg: option.Required, ID: 'F'},
	{Short: 'L', Long: "max-line-length"},
}}

func runWc(p *kernel.Proc) int {
	opts, names, ok := wcOptions.Parse(p)
	if !ok {
		return 1
	}
	j := wcJob{p: p}
	from := ""
	for _, o := range opts {
		switch o.Key {
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
			from = o.Value
		}
	}
	if !(j.lines || j.words || j.chars || j.bytes || j.width) {
		j.lines, j.words, j.bytes = true, true, true
	}
	code := 0
	if from != "" {
		if names, ok = stream.ReadNames(p, from, "cannot open "+quoting.QuoteName(from)+" for reading", names); !ok {
			return 1
		}
		names, code = stream.DropInvalidNames(p, from, names)
	}
	return max(code, j.countFiles(names, from))
}

// countFiles counts all files, prints the counts and returns the exit status.
func (j *wcJob) countFiles(names []string, from string) int {
	code := 0
	show := names
	if len(names) == 0 && from == "" {
		names, show = []string{"-"}, []string{""}
	}
	j.columns = j.numberWidth(names)
	var total wordCount
	for i, name := range names {
		c, ok := j.countFile(name)
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

// numberWidth returns the width of the columns, by the sizes of the files.
func (j *wcJob) numberWidth(names []string) int {
	n := number.FromBool(j.lines) + number.FromBool(j.words) + number.FromBool(j.chars) + number.FromBool(j.bytes) + number.FromBool(j.width)
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
			_, _ = out.WriteString(sep + strings.Repeat(" ", max(0, j.columns-len(s))) + s) // Flush reports the error
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
			name = quoting.QuoteNameIfNeeded(name)
		}
		_, _ = out.WriteString(" " + name)
	}
	_ = out.WriteByte('\n')
}

// countFile counts one file. For a directory it returns zero counts and false.
func (j *wcJob) countFile(name string) (*wordCount, bool) {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		if errors.Is(err, vfs.EISDIR) {
			return &wordCount{}, false
		}
		return nil, false
	}
	defer stream.Close(in)
	var c wordCount
	if err := j.countStream(in, &c); err != nil {
		j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return &c, false
	}
	return &c, true
}

// countStream adds the counts of an input to c.
func (j *wcJob) countStream(in *kernel.Handle, c *wordCount) error {
	if j.bytes && !j.lines && !j.words && !j.chars && !j.width && countBySize(in, c) {
		return nil
	}
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
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
			keep = incompleteSuffix(data, end)
			c.chars += countRunes(data[:len(data)-keep])
			c.lines += int64(bytes.Count(data[:len(data)-keep], []byte{'\n'}))
		default:
			c.lines += int64(bytes.Count(data, []byte{'\n'}))
		}
		j.p.Tick(1 + n>>6)
		copy(b[:], data[len(data)-keep:])
		if errors.Is(err, io.EOF) {
			counter.endLine()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// countBySize sets the byte count to the unread size of a regular file without reading it. It reports
// false for other files.
func countBySize(in *kernel.Handle, c *wordCount) bool {
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

// incompleteSuffix returns how many bytes at the end of b are the start of a character that
// continues in the next chunk; end reports that there is none.
func incompleteSuffix(b []byte, end bool) int {
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

// countRunes counts characters; invalid bytes don't count.
func countRunes(b []byte) int64 {
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

// wcScan counts words and widths; it keeps its state between chunks.
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

// scan counts the words of b. It returns how many bytes at the end belong to an incomplete
// character.
func (s *wcScan) scan(b []byte, end bool) (keep int) {
	keep = incompleteSuffix(b, end)
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
		s.measureLines(b)
	}
	return keep
}

// measureLines measures the widths of lines on a terminal.
func (s *wcScan) measureLines(b []byte) {
	for i := 0; i < len(b); {
		r, w := utf8.DecodeRune(b[i:])
		i += w
		switch {
		case r == '\n' || r == '\r' || r == '\f':
			s.endLine()
		case r == '\t':
			s.column += 8 - s.column%8
		case r == utf8.RuneError && w == 1:
		default:
			s.column += int64(terminal.RuneWidth(r))
		}
	}
}

func (s *wcScan) endLine() {
	s.c.width = max(s.c.width, s.column)
	s.column = 0
}
