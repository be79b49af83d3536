package command

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const iconvUsage = `Usage: iconv [OPTION...] [FILE...]
Convert encoding of given files from one encoding to another.

  -f, --from-code=NAME       encoding of original text
  -t, --to-code=NAME         encoding for output
  -l, --list                 list all known coded character sets
  -c                         omit invalid characters from output
  -o, --output=FILE          output file
  -s, --silent               suppress warnings
      --help                 give this help list

To the name of the output encoding //TRANSLIT may be added, to write what it
lacks in another way, and //IGNORE, to leave that out.
`

var iconvOptions = parsing{options: []option{
	{short: 'f', long: "from-code", arg: required},
	{short: 't', long: "to-code", arg: required},
	{short: 'l', long: "list"},
	{short: 'c'},
	{short: 'o', long: "output", arg: required},
	{short: 's', long: "silent"},
	{long: "verbose", id: 's'},
}}

// charset is a way to write characters as bytes.
type charset struct {
	names  string
	decode func(b []byte) (r rune, n int) // n: 0 for too short, -1 for illegal
	encode func(b []byte, r rune) ([]byte, bool)
	mark   string // byte order mark that output begins with
	wide   int    // size of a unit whose order a mark of the input gives
}

func charsets() []charset {
	return []charset{
		{names: "UTF-8 UTF8", decode: decodeUTF8, encode: encodeUTF8},
		{names: "ASCII US-ASCII ANSI_X3.4-1968 646", decode: decodeBelow(0x80), encode: encodeBelow(0x80)},
		{names: "ISO-8859-1 ISO8859-1 ISO_8859-1 LATIN1 L1", decode: decodeBelow(0x100), encode: encodeBelow(0x100)},
		{names: "ISO-8859-15 ISO8859-15 LATIN-9 LATIN9", decode: decodeTable(latin9), encode: encodeTable(latin9)},
		{names: "CP1252 WINDOWS-1252 MS-ANSI", decode: decodeTable(cp1252), encode: encodeTable(cp1252)},
		{names: "UTF-16 UTF16", decode: decodeUTF16(false), encode: encodeUTF16(false), mark: "\xff\xfe", wide: 2},
		{names: "UTF-16LE UTF16LE UCS-2LE UCS-2 UCS2 ISO-10646-UCS-2", decode: decodeUTF16(false), encode: encodeUTF16(false)},
		{names: "UTF-16BE UTF16BE UCS-2BE", decode: decodeUTF16(true), encode: encodeUTF16(true)},
		{names: "UTF-32 UTF32", decode: decodeUTF32(false), encode: encodeUTF32(false), mark: "\xff\xfe\x00\x00", wide: 4},
		{names: "UTF-32LE UTF32LE UCS-4LE", decode: decodeUTF32(false), encode: encodeUTF32(false)},
		{names: "UTF-32BE UTF32BE UCS-4BE UCS-4 UCS4", decode: decodeUTF32(true), encode: encodeUTF32(true)},
	}
}

func findCharset(name string) *charset {
	for _, c := range charsets() {
		for _, n := range strings.Fields(c.names) {
			if strings.EqualFold(n, name) {
				return &c
			}
		}
	}
	return nil
}

// iconvJob is one run of iconv.
type iconvJob struct {
	p        *kernel.Proc
	from, to *charset
	skip     bool // leave out what can't be written
	told     bool // but tell at the end
	other    bool // write it in another way
	out      *bufio.Writer
	begun    bool // the mark is written
	rest     []byte
	at       int64
	lost     bool
	stopped  bool
	code     int
}

func iconv(p *kernel.Proc) int {
	j := &iconvJob{p: p, out: p.Out()}
	opts, names, ok := iconvOptions.parse(p)
	if !ok {
		return 64
	}
	from, to, output := "UTF-8", "UTF-8", ""
	for _, o := range opts {
		switch o.key {
		case 'f':
			from = o.value
		case 't':
			to = o.value
		case 'c':
			j.skip = true
		case 'o':
			output = o.value
		case 'l':
			for _, c := range charsets() {
				_, _ = j.out.WriteString(strings.ReplaceAll(c.names, " ", "// ") + "//\n") // errors of out show at its flush
			}
			return 0
		}
	}
	if !j.codes(from, to) {
		p.Errorf("failed to start conversion processing: No such file or directory")
		return 1
	}
	if output != "" {
		h, err := p.Create(output)
		if err != nil {
			p.Errorf("unable to open output file: %s", why(err))
			return 1
		}
		defer closeInput(h)
		j.out = bufio.NewWriter(h)
	}
	j.all(names)
	if err := j.out.Flush(); err != nil {
		p.Errorf("unable to write output: %s", why(err))
		return 1
	}
	return j.code
}

func (j *iconvJob) codes(from, to string) bool {
	from, _, _ = strings.Cut(from, "//")
	name, rest, _ := strings.Cut(to, "//")
	if name == "" {
		name = "UTF-8"
	}
	for _, s := range strings.FieldsFunc(strings.ToUpper(rest), func(r rune) bool { return r == '/' || r == ',' }) {
		j.other = j.other || s == "TRANSLIT"
		if s == "IGNORE" {
			j.skip, j.told = true, true
		}
	}
	j.from, j.to = findCharset(from), findCharset(name)
	return j.from != nil && j.to != nil
}

func (j *iconvJob) all(names []string) {
	for _, name := range operandsOr(names) {
		in, err := open(j.p, name)
		if err != nil {
			j.fail("cannot open input file `%s': %s", name, why(err))
			continue
		}
		err = eachChunk(j.p, in, j.convert)
		closeInput(in)
		if err != nil {
			j.fail("unable to read input: %s", why(err))
		}
		if j.stopped {
			return
		}
		if len(j.rest) > 0 {
			j.fail("incomplete character or shift sequence at end of buffer")
			return
		}
		if j.lost && j.told {
			j.fail("illegal input sequence at position %d", j.at)
		}
		j.at = 0
	}
}

func (j *iconvJob) fail(format string, args ...any) {
	_ = j.out.Flush() // a lost output is the next write's business
	j.p.Errorf(format, args...)
	j.code = 1
}

// convert converts what is there; the beginning of a character waits in rest.
func (j *iconvJob) convert(b []byte) {
	if j.stopped {
		return
	}
	j.rest = append(j.rest, b...)
	b = j.rest
	if j.from.wide > 0 && j.at == 0 && len(b) >= j.from.wide {
		b = j.order(b)
	}
	var buf [8]byte
	for len(b) > 0 {
		r, n := j.from.decode(b)
		if n == 0 {
			break
		}
		if n < 0 {
			if !j.skip {
				j.illegal()
				return
			}
			j.lost = true
			b = b[1:]
			j.at++
			continue
		}
		if !j.put(buf[:0], r) {
			j.illegal()
			return
		}
		b = b[n:]
		j.at += int64(n)
	}
	j.rest = append(j.rest[:0], b...)
}

func (j *iconvJob) illegal() {
	j.fail("illegal input sequence at position %d", j.at)
	j.stopped = true
}

// order takes a byte order mark off the input.
func (j *iconvJob) order(b []byte) []byte {
	wide := j.from.wide
	little := findCharset(fmt.Sprintf("UTF-%dLE", 8*wide))
	big := findCharset(fmt.Sprintf("UTF-%dBE", 8*wide))
	for _, c := range []*charset{little, big} {
		if r, _ := c.decode(b); r == 0xfeff {
			j.from = c
			j.at = int64(wide)
			return b[wide:]
		}
	}
	j.from = little
	return b
}

// put writes one character; it is false if that can't be.
func (j *iconvJob) put(buf []byte, r rune) bool {
	if !j.begun {
		j.begun = true
		_, _ = j.out.WriteString(j.to.mark) // errors of out show at its flush
	}
	if b, ok := j.to.encode(buf, r); ok {
		_, _ = j.out.Write(b)
		return true
	}
	if j.other {
		for _, s := range []string{translit[r], "?"} {
			if s != "" && j.encodeAll(s) {
				return true
			}
		}
	}
	j.lost = true
	return j.skip
}

func (j *iconvJob) encodeAll(s string) bool {
	var out []byte
	for _, r := range s {
		var ok bool
		if out, ok = j.to.encode(out, r); !ok {
			return false
		}
	}
	_, _ = j.out.Write(out)
	return true
}

// translit are other ways to write characters.
var translit = func() map[rune]string {
	m := map[rune]string{
		'€': "EUR", '“': `"`, '”': `"`, '„': ",,", '‘': "'", '’': "'", '‚': ",", '–': "-", '—': "-", '…': "...", 'ß': "ss", 'æ': "ae", 'Æ': "AE", 'œ': "oe", 'Œ': "OE", 'ø': "o", 'Ø': "O",
		'ﬁ': "fi", 'ﬂ': "fl", 'ﬀ': "ff", '½': " 1/2 ", '¼': " 1/4 ", '¾': " 3/4 ", '©': "(C)", '®': "(R)", '™': "(TM)", '«': "<<", '»': ">>", '\u00a0': " ", '•': "o", '×': "x", 'đ': "d", 'ł': "l", 'Ł': "L",
		'ð': "d", 'þ': "th", 'Þ': "TH", 'ı': "i", '‹': "<", '›': ">", '−': "-", '‐': "-", '‑': "-", '→': "->", '←': "<-", '⇒': "=>", '≤': "<=", '≥': ">=", '≠': "!=", '¡': "!", '\u2009': " ", '\u202f': " ",
	}
	for base, marked := range map[string]string{
		"a": "àáâãäåāăą", "c": "çćĉċč", "d": "ď", "e": "èéêëēĕėęě", "g": "ĝğġģ", "h": "ĥ", "i": "ìíîïĩīĭį", "j": "ĵ", "k": "ķ", "l": "ĺļľ", "n": "ñńņň", "o": "òóôõöōŏő", "r": "ŕŗř", "s": "śŝşšș",
		"t": "ţťț", "u": "ùúûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "źżž",
	} {
		for _, r := range marked {
			m[r] = base
			for _, up := range strings.ToUpper(string(r)) {
				m[up] = strings.ToUpper(base)
			}
		}
	}
	return m
}()
