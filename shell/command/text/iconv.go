package text

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

//TRANSLIT after the name of the output encoding substitutes characters that the
encoding lacks, //IGNORE omits them.
`

var iconvOptions = option.Parser{Options: []option.Option{
	{Short: 'f', Long: "from-code", Arg: option.Required},
	{Short: 't', Long: "to-code", Arg: option.Required},
	{Short: 'l', Long: "list"},
	{Short: 'c'},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Short: 's', Long: "silent"},
	{Long: "verbose", ID: 's'},
}}

// charset is an encoding of characters as bytes.
type charset struct {
	names  string
	decode func(b []byte) (r rune, n int) // n: 0 for an incomplete, -1 for an illegal sequence
	encode func(b []byte, r rune) ([]byte, bool)
	mark   string // byte order mark that output begins with
	wide   int    // size of a unit whose byte order a mark in the input decides
}

// listCharsets returns the known charsets.
func listCharsets() []charset {
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

// findCharset returns a charset by one of its names, or nil.
func findCharset(name string) *charset {
	for _, c := range listCharsets() {
		for _, n := range strings.Fields(c.names) {
			if strings.EqualFold(n, name) {
				return &c
			}
		}
	}
	return nil
}

// iconvJob is the state of one run of iconv.
type iconvJob struct {
	p             *kernel.Proc
	from, to      *charset
	skip          bool // omit characters that the target lacks
	reportSkipped bool // report omitted characters at the end
	transliterate bool // write substitutes for them
	out           *bufio.Writer
	markWritten   bool // the mark is written
	rest          []byte
	at            int64
	lost          bool
	stopped       bool
	code          int
}

func runIconv(p *kernel.Proc) int {
	j := &iconvJob{p: p, out: p.Out()}
	opts, names, ok := iconvOptions.Parse(p)
	if !ok {
		return 64
	}
	from, to, output := "UTF-8", "UTF-8", ""
	for _, o := range opts {
		switch o.Key {
		case 'f':
			from = o.Value
		case 't':
			to = o.Value
		case 'c':
			j.skip = true
		case 'o':
			output = o.Value
		case 'l':
			for _, c := range listCharsets() {
				_, _ = j.out.WriteString(strings.ReplaceAll(c.names, " ", "// ") + "//\n") // Flush reports the error
			}
			return 0
		}
	}
	if !j.chooseCharsets(from, to) {
		p.Errorf("failed to start conversion processing: No such file or directory")
		return 1
	}
	if output != "" {
		h, err := p.Create(output)
		if err != nil {
			p.Errorf("unable to open output file: %s", program.Reason(err))
			return 1
		}
		defer stream.Close(h)
		j.out = bufio.NewWriter(h)
	}
	j.convertFiles(names)
	if err := j.out.Flush(); err != nil {
		p.Errorf("unable to write output: %s", program.Reason(err))
		return 1
	}
	return j.code
}

// chooseCharsets sets the charsets and the options after //. It reports whether both are known.
func (j *iconvJob) chooseCharsets(from, to string) bool {
	from, _, _ = strings.Cut(from, "//")
	name, rest, _ := strings.Cut(to, "//")
	if name == "" {
		name = "UTF-8"
	}
	for _, s := range strings.FieldsFunc(strings.ToUpper(rest), func(r rune) bool { return r == '/' || r == ',' }) {
		j.transliterate = j.transliterate || s == "TRANSLIT"
		if s == "IGNORE" {
			j.skip, j.reportSkipped = true, true
		}
	}
	j.from, j.to = findCharset(from), findCharset(name)
	return j.from != nil && j.to != nil
}

// convertFiles converts all operands.
func (j *iconvJob) convertFiles(names []string) {
	for _, name := range stream.OperandsOrStdin(names) {
		in, err := stream.Open(j.p, name)
		if err != nil {
			j.reportError("cannot open input file `%s': %s", name, program.Reason(err))
			continue
		}
		err = eachChunk(j.p, in, j.convertChunk)
		stream.Close(in)
		if err != nil {
			j.reportError("unable to read input: %s", program.Reason(err))
		}
		if j.stopped {
			return
		}
		if len(j.rest) > 0 {
			j.reportError("incomplete character or shift sequence at end of buffer")
			return
		}
		if j.lost && j.reportSkipped {
			j.reportError("illegal input sequence at position %d", j.at)
		}
		j.at = 0
	}
}

func (j *iconvJob) reportError(format string, args ...any) {
	_ = j.out.Flush() // the next write reports the error
	j.p.Errorf(format, args...)
	j.code = 1
}

// convertChunk converts a chunk; an incomplete character at its end is kept in rest.
func (j *iconvJob) convertChunk(b []byte) {
	if j.stopped {
		return
	}
	j.rest = append(j.rest, b...)
	b = j.rest
	if j.from.wide > 0 && j.at == 0 && len(b) >= j.from.wide {
		b = j.detectByteOrder(b)
	}
	var buf [8]byte
	for len(b) > 0 {
		r, n := j.from.decode(b)
		if n == 0 {
			break
		}
		if n < 0 {
			if !j.skip {
				j.rejectSequence()
				return
			}
			j.lost = true
			b = b[1:]
			j.at++
			continue
		}
		if !j.put(buf[:0], r) {
			j.rejectSequence()
			return
		}
		b = b[n:]
		j.at += int64(n)
	}
	j.rest = append(j.rest[:0], b...)
}

func (j *iconvJob) rejectSequence() {
	j.reportError("illegal input sequence at position %d", j.at)
	j.stopped = true
}

// detectByteOrder chooses the byte order by a byte order mark and returns b without the mark.
func (j *iconvJob) detectByteOrder(b []byte) []byte {
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

// put writes one character. It reports false if the target charset lacks it.
func (j *iconvJob) put(buf []byte, r rune) bool {
	if !j.markWritten {
		j.markWritten = true
		_, _ = j.out.WriteString(j.to.mark) // Flush reports the error
	}
	if b, ok := j.to.encode(buf, r); ok {
		_, _ = j.out.Write(b)
		return true
	}
	if j.transliterate {
		for _, s := range []string{translit[r], "?"} {
			if s != "" && j.encodeAll(s) {
				return true
			}
		}
	}
	j.lost = true
	return j.skip
}

// encodeAll writes a text in the target charset. It writes nothing and returns false if the charset
// lacks a character.
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

// translit maps characters to their substitutes for //TRANSLIT.
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
