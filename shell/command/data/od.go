package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const odUsage = `Usage: od [OPTION]... [FILE]...
  or:  od [-abcdfilosx]... [FILE] [[+]OFFSET[.][b]]
Write an unambiguous representation, octal bytes by default, of FILE to
standard output. With no FILE, or when FILE is -, read standard input.

  -A, --address-radix=RADIX   output format for file offsets; RADIX is one
                                of [doxn], for Decimal, Octal, Hex or None
      --endian={big|little}   swap input bytes according the specified order
  -j, --skip-bytes=BYTES      skip BYTES input bytes first
  -N, --read-bytes=BYTES      limit dump to BYTES input bytes
  -S BYTES, --strings[=BYTES] output strings of at least BYTES graphic chars
  -t, --format=TYPE           select output format or formats
  -v, --output-duplicates     do not use * to mark line suppression
  -w[BYTES], --width[=BYTES]  output BYTES bytes per output line; 32 without
                                BYTES, 16 by default
      --help                  display this help and exit

  -a   same as -t a,  select named characters, ignoring high-order bit
  -b   same as -t o1, select octal bytes
  -c   same as -t c,  select printable characters or backslash escapes
  -d   same as -t u2, select unsigned decimal 2-byte units
  -f   same as -t fF, select floats
  -i   same as -t dI, select decimal ints
  -l   same as -t dL, select decimal longs
  -o   same as -t o2, select octal 2-byte units
  -s   same as -t d2, select decimal 2-byte units
  -x   same as -t x2, select hexadecimal 2-byte units

TYPE is made up of one or more of these specifications:
  a          named character, ignoring high-order bit
  c          printable character or backslash escape
  d[SIZE]    signed decimal, SIZE bytes per integer
  f[SIZE]    floating point, SIZE bytes per float
  o[SIZE]    octal, SIZE bytes per integer
  u[SIZE]    unsigned decimal, SIZE bytes per integer
  x[SIZE]    hexadecimal, SIZE bytes per integer
Adding a z suffix to any type displays printable characters at the end of
each output line.
`

var odOptions = option.Parser{Options: []option.Option{
	{Short: 'A', Long: "address-radix", Arg: option.Required},
	{Long: "endian", Arg: option.Required, ID: 'E'},
	{Short: 'j', Long: "skip-bytes", Arg: option.Required},
	{Short: 'N', Long: "read-bytes", Arg: option.Required},
	{Short: 'S', Arg: option.Required},
	{Long: "strings", Arg: option.Optional, ID: 'S'},
	{Short: 't', Long: "format", Arg: option.Required},
	{Short: 'v', Long: "output-duplicates"},
	{Short: 'w', Long: "width", Arg: option.Optional},
	{Long: "traditional", ID: 'T'},
	{Short: 'a'},
	{Short: 'b'},
	{Short: 'c'},
	{Short: 'd'},
	{Short: 'f'},
	{Short: 'e'},
	{Short: 'h'},
	{Short: 'i'},
	{Short: 'l'},
	{Short: 'o'},
	{Short: 's'},
	{Short: 'x'},
	{Short: 'B'},
	{Short: 'D'},
	{Short: 'F'},
	{Short: 'H'},
	{Short: 'I'},
	{Short: 'L'},
	{Short: 'O'},
	{Short: 'X'},
}}

// odOld are the types that obsolete options stand for.
var odOld = map[rune]string{
	'a': "a", 'b': "o1", 'c': "c", 'd': "u2", 'e': "fD", 'f': "fF", 'h': "x2", 'i': "dI", 'l': "dL", 'o': "o2", 's': "d2", 'x': "x2", 'B': "o2",
	'D': "u4", 'F': "fD", 'H': "x4", 'I': "dL", 'L': "dL", 'O': "o4", 'X': "x4",
}

// odFormat is a format in which each line is printed.
type odFormat struct {
	kind  byte // a c d f o u x
	size  int
	width int // of a field, without the space before it
	text  bool
}

// odJob is the state of one run of od.
type odJob struct {
	p       *kernel.Proc
	out     *bufio.Writer
	formats []odFormat
	radix   byte
	skip    int64
	limit   int64 // -1: none
	strings int
	all     bool
	width   int // -1: not given
	big     bool
	address int64
	code    int
}

func runOd(p *kernel.Proc) int {
	j := &odJob{p: p, out: p.Out(), radix: 'o', limit: -1, width: -1}
	opts, names, ok := odOptions.Parse(p)
	if !ok || !j.applyOptions(opts) {
		return 1
	}
	names = j.parseOldOffset(opts, names)
	if len(j.formats) == 0 {
		j.addTypes("o2")
	}
	if !j.checkWidth() {
		return 1
	}
	in := &odInput{j: j, names: stream.OperandsOrStdin(names)}
	defer in.close()
	if !in.skipBytes(j.skip) {
		return 1
	}
	j.address = j.skip
	if j.strings > 0 {
		j.dumpStrings(in)
	} else {
		j.dumpInput(in)
	}
	return j.code
}

func (j *odJob) applyOptions(opts []option.Setting) bool {
	for _, o := range opts {
		switch o.Key {
		case 'A':
			if len(o.Value) != 1 || !strings.Contains("doxn", o.Value) {
				j.p.Errorf("invalid output address radix %s; it must be one character from [doxn]", quoting.QuoteWord(o.Value))
				return false
			}
			j.radix = o.Value[0]
		case 'E':
			n, ok := option.Choose(j.p, "--endian", o.Value, []option.Choice{{Word: "big", Value: 1}, {Word: "little", Value: 0}})
			if !ok {
				return false
			}
			j.big = n == 1
		case 'j', 'N', 'S', 'w':
			if !j.applyNumber(o) {
				return false
			}
		case 't':
			if !j.addTypes(o.Value) {
				return false
			}
		case 'v':
			j.all = true
		case 'T':
		default:
			j.addTypes(odOld[o.Key])
		}
	}
	return true
}

func (j *odJob) applyNumber(o option.Setting) bool {
	n := int64(32)
	if o.Key == 'S' {
		n = 3
	}
	if o.HasValue {
		var ok bool
		if n, ok = parseOdSize(o.Value); !ok {
			j.p.Errorf("invalid %s argument %s", o.Name, quoting.QuoteWord(o.Value))
			return false
		}
	}
	switch o.Key {
	case 'j':
		j.skip = n
	case 'N':
		j.limit = n
	case 'S':
		j.strings = int(min(n, 1<<20))
	case 'w':
		if n > 1<<16 {
			j.p.Errorf("invalid %s argument %s", o.Name, quoting.QuoteWord(o.Value))
			return false
		}
		j.width = int(n)
	}
	return true
}

// parseOdSize parses a number of bytes: decimal, 0x hexadecimal or 0 octal, with a suffix.
func parseOdSize(s string) (int64, bool) {
	if len(s) > 1 && s[0] == '0' {
		n, err := strconv.ParseInt(s, 0, 64)
		return n, err == nil
	}
	n, fault := number.ParseSize(s, "bBkKmMgGtTPE0")
	return n, fault == number.Valid
}

// parseOldOffset removes a last operand +OFFSET[.][b] and sets the number of bytes to skip.
func (j *odJob) parseOldOffset(opts []option.Setting, names []string) []string {
	for _, o := range opts {
		if strings.ContainsRune("AjNtvwS", o.Key) {
			return names
		}
	}
	n := len(names)
	if n == 0 || n > 2 || len(names[n-1]) < 2 || names[n-1][0] != '+' {
		return names
	}
	s, base := names[n-1][1:], 8
	unit := int64(1)
	if t, ok := strings.CutSuffix(s, "b"); ok {
		s, unit = t, 512
	}
	if t, ok := strings.CutSuffix(s, "."); ok {
		s, base = t, 10
	} else if t, ok := strings.CutPrefix(s, "0x"); ok {
		s, base = t, 16
	}
	v, err := strconv.ParseInt(s, base, 48)
	if err != nil {
		return names
	}
	j.skip = v * unit
	return names[:n-1]
}

// odSizes are the sizes that letters and digits after a type stand for.
var odSizes = map[string]int{"C": 1, "S": 2, "I": 4, "L": 8, "1": 1, "2": 2, "4": 4, "8": 8}

// odFormatCost is the memory of a format in bytes.
const odFormatCost = 40

// addTypes parses the argument of -t.
func (j *odJob) addTypes(s string) bool {
	whole := s
	for s != "" {
		f := odFormat{kind: s[0], size: 1}
		s = s[1:]
		switch f.kind {
		case 'a', 'c':
			f.width = 3
		case 'd', 'o', 'u', 'x', 'f':
			var ok bool
			if s, ok = f.readSize(s); !ok {
				j.p.Errorf("invalid type string %s;\nthis system doesn't provide a %d-byte %s type", quoting.QuoteWord(whole), f.size, f.familyName())
				return false
			}
			f.width = fieldWidth(f.kind, f.size)
		default:
			j.p.Errorf("invalid character '%c' in type string %s", f.kind, quoting.QuoteWord(whole))
			return false
		}
		if strings.HasPrefix(s, "z") {
			f.text, s = true, s[1:]
		}
		j.p.Tick(1)
		j.p.Alloc(3 * odFormatCost) // the list doubles
		j.formats = append(j.formats, f)
	}
	return true
}

func (f *odFormat) familyName() string {
	if f.kind == 'f' {
		return "floating point"
	}
	return "integral"
}

// readSize parses an optional size and returns the rest of s.
func (f *odFormat) readSize(s string) (string, bool) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	f.size = 4
	if f.kind == 'f' {
		f.size = 8
		if s != "" && strings.Contains("FDL", s[:1]) {
			f.size = map[byte]int{'F': 4, 'D': 8, 'L': 8}[s[0]]
			return s[1:], true
		}
	} else if s != "" && strings.Contains("CSIL", s[:1]) {
		f.size = odSizes[s[:1]]
		return s[1:], true
	}
	if digits == 0 {
		return s, true
	}
	size, ok := odSizes[s[:digits]]
	if !ok {
		f.size, _ = strconv.Atoi(s[:min(digits, 9)])
		return s, false
	}
	f.size = size
	return s[digits:], f.kind != 'f' || size >= 4
}

func fieldWidth(kind byte, size int) int {
	widths := map[byte]map[int]int{
		'o': {1: 3, 2: 6, 4: 11, 8: 22}, 'd': {1: 4, 2: 6, 4: 11, 8: 20},
		'u': {1: 3, 2: 5, 4: 10, 8: 20}, 'x': {1: 2, 2: 4, 4: 8, 8: 16}, 'f': {4: 15, 8: 24},
	}
	return widths[kind][size]
}

// checkWidth sets the default width, and warns of one that does not fit the formats.
func (j *odJob) checkWidth() bool {
	unit := 1
	for _, f := range j.formats {
		unit = max(unit, f.size)
	}
	if j.width < 0 {
		j.width = 16
		return true
	}
	if j.width%unit != 0 || j.width == 0 {
		j.p.Errorf("warning: invalid width %d; using %d instead", j.width, unit)
		j.width = unit
	}
	return true
}

// odInput reads all inputs one after the other.
type odInput struct {
	j     *odJob
	names []string
	h     *kernel.Handle
	r     *bufio.Reader
}

func (in *odInput) close() {
	if in.h != nil {
		stream.Close(in.h)
	}
}

// Read reads from the current input and continues with the next one at its end.
func (in *odInput) Read(b []byte) (int, error) {
	for {
		if in.r == nil && !in.open() {
			return 0, io.EOF
		}
		n, err := in.r.Read(b)
		if n > 0 {
			return n, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			in.j.reportError(in.h.Name(), err)
		}
		if err != nil {
			in.close()
			in.r, in.h = nil, nil
		}
	}
}

func (j *odJob) reportError(name string, err error) {
	j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
	j.code = 1
}

// open opens the next input and reports whether there is one.
func (in *odInput) open() bool {
	for len(in.names) > 0 {
		name := in.names[0]
		in.names = in.names[1:]
		h, err := stream.Open(in.j.p, name)
		if err != nil {
			in.j.reportError(name, err)
			continue
		}
		in.h, in.r = h, bufio.NewReader(h)
		return true
	}
	return false
}

// skipBytes skips n bytes of the input and reports an error.
func (in *odInput) skipBytes(n int64) bool {
	done := &stream.CountingWriter{Writer: io.Discard}
	_ = stream.CopyCharged(in.j.p, done, io.LimitReader(in, n)) // Read reports its errors
	if done.Count < n {
		in.j.p.Errorf("cannot skip past end of combined input")
		return false
	}
	return true
}

// dumpInput prints the input in all formats, with repeated lines abbreviated.
func (j *odJob) dumpInput(in io.Reader) {
	if j.limit >= 0 {
		in = io.LimitReader(in, j.limit)
	}
	line := make([]byte, j.width)
	last := make([]byte, j.width)
	var starred, any bool
	for {
		n, _ := io.ReadFull(in, line) // Read reports its errors
		if n == 0 {
			break
		}
		j.p.Tick(n)
		if any && !j.all && n == j.width && bytes.Equal(line, last) {
			if !starred {
				_, _ = j.out.WriteString("*\n") // Flush reports the error
			}
			starred = true
		} else {
			starred = false
			j.printLine(line[:n])
		}
		copy(last, line)
		any = true
		j.address += int64(n)
		if n < j.width {
			break
		}
	}
	if j.radix != 'n' {
		_, _ = fmt.Fprintf(j.out, "%s\n", j.formatOffset(j.address))
	}
}

func (j *odJob) formatOffset(n int64) string {
	switch j.radix {
	case 'd':
		return fmt.Sprintf("%07d", n)
	case 'x':
		return fmt.Sprintf("%06x", n)
	case 'n':
		return ""
	}
	return fmt.Sprintf("%07o", n)
}

// printLine prints one line in all formats.
func (j *odJob) printLine(b []byte) {
	wide := 0
	for _, f := range j.formats {
		wide = max(wide, (f.width+1)*(j.width/f.size))
	}
	head := j.formatOffset(j.address)
	for i, f := range j.formats {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		_, _ = j.out.WriteString(head)
		f.print(j, b, wide)
		_ = j.out.WriteByte('\n')
	}
}

// print prints a line in one format; its fields are spread over the width.
func (f odFormat) print(j *odJob, b []byte, wide int) {
	fields := j.width / f.size
	spare := wide - (f.width+1)*fields
	rest := spare
	used := 0
	for i := fields; i > 0; i-- {
		next := spare * (i - 1) / fields
		width := rest - next + f.width + 1
		rest = next
		at := (fields - i) * f.size
		if at < len(b) {
			_, _ = fmt.Fprintf(j.out, "%*s", width, f.formatUnit(j, b[at:]))
		} else if f.text {
			used += width
		}
	}
	if f.text {
		_, _ = fmt.Fprintf(j.out, "%*s  >%s<", used, "", replaceUnprintable(b))
	}
}

// replaceUnprintable returns b with unprintable bytes replaced by dots.
func replaceUnprintable(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		out[i] = c
		if c < ' ' || c > '~' {
			out[i] = '.'
		}
	}
	return out
}

// formatUnit formats the first unit of b; missing bytes count as zeros.
func (f odFormat) formatUnit(j *odJob, b []byte) string {
	switch f.kind {
	case 'a':
		return odCharName(b[0] & 0x7f)
	case 'c':
		return formatOdChar(b[0])
	}
	v := uint64(0)
	for i := range f.size {
		at := i
		if !j.big {
			at = f.size - 1 - i
		}
		v <<= 8
		if at < len(b) {
			v |= uint64(b[at])
		}
	}
	return f.formatNumber(v)
}

func (f odFormat) formatNumber(v uint64) string {
	bits := 8 * f.size
	switch f.kind {
	case 'd':
		return strconv.FormatInt(int64(v<<(64-bits))>>(64-bits), 10)
	case 'u':
		return strconv.FormatUint(v, 10)
	case 'o':
		return fmt.Sprintf("%0*o", f.width, v)
	case 'x':
		return fmt.Sprintf("%0*x", f.width, v)
	}
	return formatOdFloat(v, f.size)
}

// dumpStrings prints runs of printable characters that end with a NUL.
func (j *odJob) dumpStrings(in io.Reader) {
	if j.limit >= 0 {
		in = io.LimitReader(in, j.limit)
	}
	r := bufio.NewReader(in)
	var run []byte
	at := j.address
	for {
		c, err := r.ReadByte()
		if err != nil {
			return
		}
		j.p.Tick(1)
		j.address++
		if c >= ' ' && c <= '~' {
			if len(run)%stream.ChunkSize == stream.ChunkSize-1 {
				j.p.Alloc(2 * stream.ChunkSize)
			}
			run = append(run, c)
			continue
		}
		if c == 0 && len(run) >= j.strings {
			if j.radix != 'n' {
				_, _ = j.out.WriteString(j.formatOffset(at) + " ")
			}
			_, _ = j.out.Write(append(run, '\n'))
		}
		run, at = run[:0], j.address
	}
}
