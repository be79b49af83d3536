package data

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const hexdumpUsage = `Usage:
 hexdump [options] <file>...

Display file contents in hexadecimal, decimal, octal, or ascii.

Options:
 -b, --one-byte-octal      one-byte octal display
 -c, --one-byte-char       one-byte character display
 -C, --canonical           canonical hex+ASCII display
 -d, --two-bytes-decimal   two-byte decimal display
 -o, --two-bytes-octal     two-byte octal display
 -x, --two-bytes-hex       two-byte hexadecimal display
 -e, --format <format>     format string to be used for displaying data
 -f, --format-file <file>  file that contains format strings
 -n, --length <length>     interpret only length bytes of input
 -s, --skip <offset>       skip offset bytes from the beginning
 -v, --no-squeezing        output identical lines
 -h, --help                display this help
`

var hexdumpOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "one-byte-octal"},
	{Short: 'c', Long: "one-byte-char"},
	{Short: 'C', Long: "canonical"},
	{Short: 'd', Long: "two-bytes-decimal"},
	{Short: 'o', Long: "two-bytes-octal"},
	{Short: 'x', Long: "two-bytes-hex"},
	{Short: 'e', Long: "format", Arg: option.Required},
	{Short: 'f', Long: "format-file", Arg: option.Required},
	{Short: 'n', Long: "length", Arg: option.Required},
	{Short: 's', Long: "skip", Arg: option.Required},
	{Short: 'v', Long: "no-squeezing"},
	{Short: 'h', Long: "help"},
	{Short: 'L', Long: "color", Arg: option.Optional},
}}

// hexdumpCanned are the formats that options stand for.
var hexdumpCanned = map[rune][]string{
	'b': {`"%07.7_Ax\n"`, `"%07.7_ax " 16/1 "%03o " "\n"`},
	'c': {`"%07.7_Ax\n"`, `"%07.7_ax " 16/1 "%3_c " "\n"`},
	'C': {`"%08.8_Ax\n"`, `"%08.8_ax  " 8/1 "%02x " "  " 8/1 "%02x " `, `"  |" 16/1 "%_p" "|\n"`},
	'd': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "  %05u " "\n"`},
	'o': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 " %06o " "\n"`},
	'x': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "   %04x " "\n"`},
	0:   {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "%04x " "\n"`},
}

// hexUnit is a unit of a format, which is applied reps times.
type hexUnit struct {
	reps  int
	given bool // reps is given
	parts []hexPart
}

// hexPart is a text, or a conversion of size bytes and the text after it.
type hexPart struct {
	flags     string
	width     int
	precision int // -1: none
	verb      string
	size      int
	text      string
}

// hexdumpJob is the state of one run of hexdump.
type hexdumpJob struct {
	p       *kernel.Proc
	formats [][]hexUnit
	block   int
	all     bool
	skip    int64
	limit   int64
	address int64
	last    *hexPart // printed at the end with the last address
}

func runHexdump(p *kernel.Proc) int {
	j := &hexdumpJob{p: p, limit: -1}
	opts, names, ok := hexdumpOptions.Parse(p)
	if !ok {
		return 1
	}
	if p.Name() == "hd" {
		opts = append([]option.Setting{{Key: 'C'}}, opts...)
	}
	if done, code := j.applyOptions(opts); done {
		return code
	}
	if j.formats == nil {
		j.addCanned(0)
	}
	j.setBlockSize()
	od := &odJob{p: p}
	in := &odInput{j: od, names: stream.OperandsOrStdin(names)}
	defer in.close()
	skipped := &stream.CountingWriter{Writer: io.Discard}
	_ = stream.CopyCharged(p, skipped, io.LimitReader(in, j.skip)) // Read reports its errors
	j.address = j.skip
	j.dumpInput(in)
	if od.code != 0 && in.h == nil && j.address == j.skip {
		p.Errorf("all input file arguments failed")
	}
	return od.code
}

func (j *hexdumpJob) applyOptions(opts []option.Setting) (done bool, code int) {
	for _, o := range opts {
		switch o.Key {
		case 'e':
			if !j.add(o.Value) {
				return true, 1
			}
		case 'f':
			text, err := j.p.ReadFile(o.Value)
			if err != nil {
				j.p.Errorf("can't read %s: %s", o.Value, program.Reason(err))
				return true, 1
			}
			for _, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !j.add(line) {
					return true, 1
				}
			}
		case 'n', 's':
			n, ok := parseOdSize(o.Value)
			if !ok {
				j.p.Errorf("failed to parse %s: '%s'", map[rune]string{'n': "length", 's': "offset"}[o.Key], o.Value)
				return true, 1
			}
			if o.Key == 'n' {
				j.limit = n
			} else {
				j.skip = n
			}
		case 'v':
			j.all = true
		case 'h':
			_, _ = j.p.Out().WriteString(hexdumpUsage) // Flush reports the error
			return true, 0
		case 'L':
		default:
			j.addCanned(o.Key)
		}
	}
	return false, 0
}

func (j *hexdumpJob) addCanned(key rune) {
	for _, f := range hexdumpCanned[key] {
		j.add(f)
	}
}

// add parses one format string. It reports an error and returns false.
func (j *hexdumpJob) add(s string) bool {
	whole := s
	var units []hexUnit
	for {
		s = strings.TrimLeft(s, " \t\n")
		if s == "" {
			break
		}
		u, size, rest, ok := parseHexCounts(s)
		if !ok {
			return j.reportBadFormat(whole)
		}
		end := quotedEnd(rest)
		if end < 0 {
			return j.reportBadFormat(whole)
		}
		if !u.parseParts(unescapeHexText(rest[1:end]), size) {
			return j.reportBadFormat(whole)
		}
		s = rest[end+1:]
		units = append(units, u)
		j.p.Alloc(256)
	}
	if len(units) == 1 && len(units[0].parts) == 1 && strings.HasPrefix(units[0].parts[0].verb, "_A") {
		j.last = &units[0].parts[0]
		return true
	}
	j.formats = append(j.formats, units)
	return true
}

func (j *hexdumpJob) reportBadFormat(s string) bool {
	j.p.Errorf("bad format {%s}", s)
	return false
}

// parseHexCounts parses [REPS][/SIZE] before a quoted string.
func parseHexCounts(s string) (u hexUnit, size int, rest string, ok bool) {
	u.reps = 1
	n := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if n > 0 {
		v, err := strconv.Atoi(s[:n])
		if err != nil || v > 1<<16 || v == 0 {
			return u, 0, "", false
		}
		u.reps, u.given = v, true
		s = strings.TrimLeft(s[n:], " \t")
	}
	if strings.HasPrefix(s, "/") {
		s = strings.TrimLeft(s[1:], " \t")
		n = len(s) - len(strings.TrimLeft(s, "0123456789"))
		v, err := strconv.Atoi(s[:n])
		if err != nil || v > 1<<12 {
			return u, 0, "", false
		}
		size, s = v, strings.TrimLeft(s[n:], " \t")
	}
	return u, size, s, strings.HasPrefix(s, `"`)
}

// quotedEnd returns the end of the quoted string at the head of s, or -1.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescapeHexText replaces the escapes in a format.
func unescapeHexText(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if k := strings.IndexByte("0abfnrtv", s[i]); k >= 0 {
			b.WriteByte("\x00\a\b\f\n\r\t\v"[k])
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseParts splits a format into its conversions.
func (u *hexUnit) parseParts(s string, size int) bool {
	part := hexPart{precision: -1}
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			part.text += s
			break
		}
		part.text += s[:i]
		s = s[i+1:]
		if strings.HasPrefix(s, "%") {
			part.text += "%"
			s = s[1:]
			continue
		}
		u.parts = append(u.parts, part)
		part = hexPart{precision: -1}
		var ok bool
		if s, ok = part.parseConversion(s, size); !ok {
			return false
		}
	}
	u.parts = append(u.parts, part)
	if u.parts[0].text == "" && u.parts[0].verb == "" && len(u.parts) > 1 {
		u.parts = u.parts[1:]
	}
	return true
}

// parseConversion parses a conversion after its percent sign and returns the rest of s.
func (h *hexPart) parseConversion(s string, size int) (string, bool) {
	n := len(s) - len(strings.TrimLeft(s, "-+ 0#"))
	h.flags, s = s[:n], s[n:]
	n = len(s) - len(strings.TrimLeft(s, "0123456789"))
	h.width, _ = strconv.Atoi(s[:min(n, 4)]) // no digits count as 0
	s = s[n:]
	if strings.HasPrefix(s, ".") {
		n = len(s[1:]) - len(strings.TrimLeft(s[1:], "0123456789"))
		h.precision, _ = strconv.Atoi(s[1 : 1+min(n, 4)])
		s = s[1+n:]
	}
	if s == "" {
		return "", false
	}
	h.verb, s = s[:1], s[1:]
	h.size = size
	switch {
	case h.verb == "_" && s != "":
		return h.parseSpecial(s)
	case strings.Contains("diouxX", h.verb):
		if size == 0 {
			h.size = 4
		}
		return s, h.size == 1 || h.size == 2 || h.size == 4 || h.size == 8
	case strings.Contains("eEfgG", h.verb):
		if size == 0 {
			h.size = 8
		}
		return s, h.size == 4 || h.size == 8
	case h.verb == "c":
		h.size = 1
		return s, true
	case h.verb == "s":
		if size == 0 {
			h.size = max(h.precision, 1)
		}
		return s, true
	}
	return "", false
}

// parseSpecial parses _a[dox], _A[dox], _c, _p and _u.
func (h *hexPart) parseSpecial(s string) (string, bool) {
	h.verb += s[:1]
	switch s[0] {
	case 'a', 'A':
		if len(s) < 2 || !strings.Contains("dox", s[1:2]) {
			return "", false
		}
		h.verb, h.size = h.verb+s[1:2], 0
		return s[2:], true
	case 'c', 'p', 'u':
		h.size = 1
		return s[1:], true
	}
	return "", false
}

// unitSize returns the number of input bytes that one repetition of the unit consumes.
func (u *hexUnit) unitSize() int {
	n := 0
	for i := range u.parts {
		n += u.parts[i].size
	}
	return n
}

// setBlockSize computes the size of a block; a last unit without a count is repeated to fill it.
func (j *hexdumpJob) setBlockSize() {
	for _, units := range j.formats {
		n := 0
		for i := range units {
			n += units[i].reps * units[i].unitSize()
		}
		j.block = max(j.block, n)
	}
	for _, units := range j.formats {
		n := 0
		for i := range units {
			n += units[i].reps * units[i].unitSize()
		}
		for i := len(units) - 1; i >= 0; i-- {
			if size := units[i].unitSize(); size > 0 {
				if !units[i].given {
					units[i].reps += (j.block - n) / size
				}
				break
			}
		}
	}
	j.block = max(j.block, 1)
}

// dumpInput prints the input in all formats, block by block.
func (j *hexdumpJob) dumpInput(in io.Reader) {
	if j.limit >= 0 {
		in = io.LimitReader(in, j.limit)
	}
	j.p.Alloc(int64(2 * j.block))
	block, last := make([]byte, j.block), make([]byte, j.block)
	out := j.p.Out()
	var any, starred bool
	for {
		n, _ := io.ReadFull(in, block) // Read reports its errors
		if n == 0 {
			break
		}
		j.p.Tick(n)
		if any && !j.all && n == j.block && bytes.Equal(block, last) {
			if !starred {
				_, _ = out.WriteString("*\n") // Flush reports the error
			}
			starred = true
		} else {
			starred = false
			for _, units := range j.formats {
				j.printBlock(units, block[:n])
			}
		}
		any = true
		copy(last, block)
		j.address += int64(n)
		if n < j.block {
			break
		}
	}
	if any && j.last != nil {
		_, _ = out.WriteString(j.last.formatAddress(j.address) + j.last.text)
	}
}

// printBlock prints one block in one format.
func (j *hexdumpJob) printBlock(units []hexUnit, b []byte) {
	out := j.p.Out()
	at := 0
	for i := range units {
		u := &units[i]
		for rep := range u.reps {
			j.p.Tick(1)
			for k := range u.parts {
				part := &u.parts[k]
				text := part.text
				if rep == u.reps-1 && u.reps > 1 && k == len(u.parts)-1 {
					text = strings.TrimRight(text, " \t\n")
				}
				_, _ = out.WriteString(part.formatValue(b, at, j.address) + text) // Flush reports the error
				at += part.size
			}
		}
	}
}

// formatValue formats the bytes at a position; after the end of b it returns blanks.
func (h *hexPart) formatValue(b []byte, at int, address int64) string {
	switch {
	case h.verb == "":
		return ""
	case strings.HasPrefix(h.verb, "_a"), strings.HasPrefix(h.verb, "_A"):
		if h.size == 0 && at < len(b) || at == 0 {
			return h.formatAddress(address + int64(at))
		}
		return strings.Repeat(" ", h.width)
	case at >= len(b):
		return strings.Repeat(" ", h.width)
	}
	data := make([]byte, max(h.size, 8))
	copy(data, b[at:min(len(b), at+h.size)])
	return h.format(data)
}

func (h *hexPart) formatAddress(n int64) string {
	return fmt.Sprintf(h.verbFor(h.verb[2:]), n)
}

// verbFor returns the format of package fmt for verb with the flags of the part.
func (h *hexPart) verbFor(verb string) string {
	f := "%" + h.flags
	if h.width > 0 {
		f += strconv.Itoa(h.width)
	}
	if h.precision >= 0 {
		f += "." + strconv.Itoa(h.precision)
	}
	return f + verb
}

// format formats a unit of data.
func (h *hexPart) format(data []byte) string {
	v := uint64(0)
	for i := min(h.size, 8) - 1; i >= 0; i-- {
		v = v<<8 | uint64(data[i])
	}
	bits := 8 * h.size
	switch h.verb {
	case "d", "i":
		return fmt.Sprintf(h.verbFor("d"), int64(v<<(64-bits))>>(64-bits))
	case "u":
		return fmt.Sprintf(h.verbFor("d"), v)
	case "o", "x", "X":
		return fmt.Sprintf(h.verbFor(h.verb), v)
	case "e", "E", "f", "g", "G":
		f := math.Float64frombits(v)
		if h.size == 4 {
			f = float64(math.Float32frombits(uint32(v)))
		}
		return fmt.Sprintf(h.verbFor(h.verb), f)
	case "c":
		return fmt.Sprintf(h.verbFor("s"), string(data[:1]))
	case "s":
		text, _, _ := bytes.Cut(data[:h.size], []byte{0})
		return fmt.Sprintf(h.verbFor("s"), text)
	case "_p":
		return fmt.Sprintf(h.verbFor("s"), replaceUnprintable(data[:1]))
	case "_u":
		return fmt.Sprintf(h.verbFor("s"), hexCharName(data[0]))
	}
	return fmt.Sprintf(h.verbFor("s"), formatOdChar(data[0]))
}

// hexCharName returns a character as %_u prints it.
func hexCharName(c byte) string {
	switch {
	case c == '\n':
		return "lf"
	case c < ' ':
		return odNames[c]
	case c == 0x7f:
		return "del"
	case c > 0x7f:
		return fmt.Sprintf("%02x", c)
	}
	return string(rune(c))
}
