package command

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var hexdumpOptions = parsing{options: []option{
	{short: 'b', long: "one-byte-octal"},
	{short: 'c', long: "one-byte-char"},
	{short: 'C', long: "canonical"},
	{short: 'd', long: "two-bytes-decimal"},
	{short: 'o', long: "two-bytes-octal"},
	{short: 'x', long: "two-bytes-hex"},
	{short: 'e', long: "format", arg: required},
	{short: 'f', long: "format-file", arg: required},
	{short: 'n', long: "length", arg: required},
	{short: 's', long: "skip", arg: required},
	{short: 'v', long: "no-squeezing"},
	{short: 'h', long: "help"},
	{short: 'L', long: "color", arg: optional},
}}

// hexdumpCanned are the formats of the options.
var hexdumpCanned = map[rune][]string{
	'b': {`"%07.7_Ax\n"`, `"%07.7_ax " 16/1 "%03o " "\n"`},
	'c': {`"%07.7_Ax\n"`, `"%07.7_ax " 16/1 "%3_c " "\n"`},
	'C': {`"%08.8_Ax\n"`, `"%08.8_ax  " 8/1 "%02x " "  " 8/1 "%02x " `, `"  |" 16/1 "%_p" "|\n"`},
	'd': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "  %05u " "\n"`},
	'o': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 " %06o " "\n"`},
	'x': {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "   %04x " "\n"`},
	0:   {`"%07.7_Ax\n"`, `"%07.7_ax " 8/2 "%04x " "\n"`},
}

// hexUnit is a part of a format that is applied reps times.
type hexUnit struct {
	reps  int
	given bool // reps was written
	parts []hexPart
}

// hexPart is a text, or a conversion of size bytes with the text behind it.
type hexPart struct {
	flags     string
	width     int
	precision int // -1: none
	verb      string
	size      int
	text      string
}

// hexdumpJob is one run of hexdump.
type hexdumpJob struct {
	p       *kernel.Proc
	formats [][]hexUnit
	block   int
	all     bool
	skip    int64
	limit   int64
	address int64
	last    *hexPart // shown at the end with the last address
}

func hexdump(p *kernel.Proc) int {
	j := &hexdumpJob{p: p, limit: -1}
	opts, names, ok := hexdumpOptions.parse(p)
	if !ok {
		return 1
	}
	if p.Name() == "hd" {
		opts = append([]given{{key: 'C'}}, opts...)
	}
	if done, code := j.options(opts); done {
		return code
	}
	if j.formats == nil {
		j.canned(0)
	}
	j.measure()
	od := &odJob{p: p}
	in := &odInput{j: od, names: operandsOr(names)}
	defer in.close()
	skipped := &counted{w: io.Discard}
	_ = pump(p, skipped, io.LimitReader(in, j.skip)) // errors of reading are told by Read
	j.address = j.skip
	j.dump(in)
	if od.code != 0 && in.h == nil && j.address == j.skip {
		p.Errorf("all input file arguments failed")
	}
	return od.code
}

func (j *hexdumpJob) options(opts []given) (done bool, code int) {
	for _, o := range opts {
		switch o.key {
		case 'e':
			if !j.add(o.value) {
				return true, 1
			}
		case 'f':
			text, err := j.p.ReadFile(o.value)
			if err != nil {
				j.p.Errorf("can't read %s: %s", o.value, why(err))
				return true, 1
			}
			for _, line := range strings.Split(string(text), "\n") {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !j.add(line) {
					return true, 1
				}
			}
		case 'n', 's':
			n, ok := odSize(o.value)
			if !ok {
				j.p.Errorf("failed to parse %s: '%s'", map[rune]string{'n': "length", 's': "offset"}[o.key], o.value)
				return true, 1
			}
			if o.key == 'n' {
				j.limit = n
			} else {
				j.skip = n
			}
		case 'v':
			j.all = true
		case 'h':
			_, _ = j.p.Out().WriteString(hexdumpUsage) // errors of Out show at its flush
			return true, 0
		case 'L':
		default:
			j.canned(o.key)
		}
	}
	return false, 0
}

func (j *hexdumpJob) canned(key rune) {
	for _, f := range hexdumpCanned[key] {
		j.add(f)
	}
}

// add reads one format string.
func (j *hexdumpJob) add(s string) bool {
	whole := s
	var units []hexUnit
	for {
		s = strings.TrimLeft(s, " \t\n")
		if s == "" {
			break
		}
		u, size, rest, ok := hexCounts(s)
		if !ok {
			return j.badFormat(whole)
		}
		end := hexQuoted(rest)
		if end < 0 {
			return j.badFormat(whole)
		}
		if !u.read(hexUnescape(rest[1:end]), size) {
			return j.badFormat(whole)
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

func (j *hexdumpJob) badFormat(s string) bool {
	j.p.Errorf("bad format {%s}", s)
	return false
}

// hexCounts reads [REPS][/SIZE] in front of a quoted string.
func hexCounts(s string) (u hexUnit, size int, rest string, ok bool) {
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

// hexQuoted is where the string that s begins with ends, or -1.
func hexQuoted(s string) int {
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

func hexUnescape(s string) string {
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

// read splits a format into its conversions.
func (u *hexUnit) read(s string, size int) bool {
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
		if s, ok = part.conversion(s, size); !ok {
			return false
		}
	}
	u.parts = append(u.parts, part)
	if u.parts[0].text == "" && u.parts[0].verb == "" && len(u.parts) > 1 {
		u.parts = u.parts[1:]
	}
	return true
}

// conversion reads what follows a percent sign.
func (h *hexPart) conversion(s string, size int) (string, bool) {
	n := len(s) - len(strings.TrimLeft(s, "-+ 0#"))
	h.flags, s = s[:n], s[n:]
	n = len(s) - len(strings.TrimLeft(s, "0123456789"))
	h.width, _ = strconv.Atoi(s[:min(n, 4)]) // none is 0
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
		return h.special(s)
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

// special reads _a[dox], _A[dox], _c, _p and _u.
func (h *hexPart) special(s string) (string, bool) {
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

// bytes is how much of the input a unit takes at once.
func (u *hexUnit) bytes() int {
	n := 0
	for i := range u.parts {
		n += u.parts[i].size
	}
	return n
}

// measure finds the size of a block; a last unit without a count is repeated to fill it.
func (j *hexdumpJob) measure() {
	for _, units := range j.formats {
		n := 0
		for i := range units {
			n += units[i].reps * units[i].bytes()
		}
		j.block = max(j.block, n)
	}
	for _, units := range j.formats {
		n := 0
		for i := range units {
			n += units[i].reps * units[i].bytes()
		}
		for i := len(units) - 1; i >= 0; i-- {
			if size := units[i].bytes(); size > 0 {
				if !units[i].given {
					units[i].reps += (j.block - n) / size
				}
				break
			}
		}
	}
	j.block = max(j.block, 1)
}

func (j *hexdumpJob) dump(in io.Reader) {
	if j.limit >= 0 {
		in = io.LimitReader(in, j.limit)
	}
	j.p.Alloc(int64(2 * j.block))
	block, last := make([]byte, j.block), make([]byte, j.block)
	out := j.p.Out()
	var any, starred bool
	for {
		n, _ := io.ReadFull(in, block) // errors of reading are told by Read
		if n == 0 {
			break
		}
		j.p.Tick(n)
		if any && !j.all && n == j.block && bytes.Equal(block, last) {
			if !starred {
				_, _ = out.WriteString("*\n") // errors of out show at its flush
			}
			starred = true
		} else {
			starred = false
			for _, units := range j.formats {
				j.show(units, block[:n])
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
		_, _ = out.WriteString(j.last.address(j.address) + j.last.text)
	}
}

// show prints one block in one format.
func (j *hexdumpJob) show(units []hexUnit, b []byte) {
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
				_, _ = out.WriteString(part.value(b, at, j.address) + text) // errors of out show at its flush
				at += part.size
			}
		}
	}
}

// value formats the bytes at a place; where there are none it is blank.
func (h *hexPart) value(b []byte, at int, address int64) string {
	switch {
	case h.verb == "":
		return ""
	case strings.HasPrefix(h.verb, "_a"), strings.HasPrefix(h.verb, "_A"):
		if h.size == 0 && at < len(b) || at == 0 {
			return h.address(address + int64(at))
		}
		return strings.Repeat(" ", h.width)
	case at >= len(b):
		return strings.Repeat(" ", h.width)
	}
	data := make([]byte, max(h.size, 8))
	copy(data, b[at:min(len(b), at+h.size)])
	return h.format(data)
}

func (h *hexPart) address(n int64) string {
	return fmt.Sprintf(h.verbFor(h.verb[2:]), n)
}

// verbFor is the format of Go with this part's flags.
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
		return fmt.Sprintf(h.verbFor("s"), dots(data[:1]))
	case "_u":
		return fmt.Sprintf(h.verbFor("s"), hexNamed(data[0]))
	}
	return fmt.Sprintf(h.verbFor("s"), odChar(data[0]))
}

// hexNamed is a character as %_u shows it.
func hexNamed(c byte) string {
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
