package datetime

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// maxDateWidth is the largest width of a conversion.
const maxDateWidth = 4096

// Format formats t like strftime, with the flags of GNU date: %-d %_H %03N %^a.
func Format(p *kernel.Proc, t time.Time, format string) string {
	var b strings.Builder
	charged := int64(0)
	for i := 0; i < len(format); i++ {
		p.Tick(1)
		if b.Cap()-b.Len() < 2*maxDateWidth && len(format) > maxDateWidth { // it grows to twice its size
			n := 2*int64(b.Cap()) + 4*maxDateWidth
			p.Alloc(n)
			b.Grow(int(n) / 2)
			p.Free(charged)
			charged = n
		}
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		spec := format[i:]
		c := dateSpec{}
		used, ok := c.parse(spec)
		if !ok {
			b.WriteString(spec)
			break
		}
		text, ok := c.formatConversion(p, t)
		if !ok {
			text = spec[:used]
		}
		b.WriteString(text)
		i += used - 1
	}
	p.Free(charged) // the caller writes the text at once
	return b.String()
}

// dateSpec is a parsed conversion of a date format.
type dateSpec struct {
	pad    byte // '-', '_', '0' or 0 for the default
	upper  bool
	swap   bool
	width  int // -1: not given
	colons int
	verb   byte
}

// parse parses %[flags][width][EO]verb.
func (c *dateSpec) parse(s string) (used int, ok bool) {
	i := 1
	for ; i < len(s) && strings.IndexByte("-_0^#+", s[i]) >= 0; i++ {
		switch s[i] {
		case '^':
			c.upper = true
		case '#':
			c.swap = true
		default:
			c.pad = s[i]
		}
	}
	c.width = -1
	if n := character.PrefixLen(s[i:], "0123456789"); n > 0 {
		v, err := strconv.Atoi(s[i : i+n])
		if err != nil || v > maxDateWidth {
			v = maxDateWidth
		}
		c.width = v
		i += n
	}
	if i < len(s) && (s[i] == 'E' || s[i] == 'O') {
		i++
	}
	for i < len(s) && s[i] == ':' && c.colons < 3 {
		c.colons++
		i++
	}
	if i >= len(s) {
		return 0, false
	}
	c.verb = s[i]
	return i + 1, c.colons == 0 || c.verb == 'z'
}

// composite maps conversions to the formats they abbreviate.
var composite = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'F': "%Y-%m-%d", 'r': "%I:%M:%S %p", 'R': "%H:%M", 'T': "%H:%M:%S", 'x': "%m/%d/%y", 'X': "%H:%M:%S", '+': "%a %b %e %H:%M:%S %Z %Y",
}

func (c *dateSpec) formatConversion(p *kernel.Proc, t time.Time) (string, bool) {
	if f, ok := composite[c.verb]; ok {
		return c.applyTextFlags(Format(p, t, f)), true
	}
	switch c.verb {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'a':
		return c.applyTextFlags(t.Format("Mon")), true
	case 'A':
		return c.applyTextFlags(t.Format("Monday")), true
	case 'b', 'h':
		return c.applyTextFlags(t.Format("Jan")), true
	case 'B':
		return c.applyTextFlags(t.Format("January")), true
	case 'p':
		if c.swap {
			c.swap = false
			return c.applyTextFlags(t.Format("pm")), true
		}
		return c.applyTextFlags(t.Format("PM")), true
	case 'P':
		return c.applyTextFlags(t.Format("pm")), true
	case 'Z':
		name, _ := t.Zone()
		if c.swap {
			c.swap = false
			name = strings.ToLower(name)
		}
		return c.applyTextFlags(name), true
	case 'z':
		return c.formatZone(t), true
	case 'N':
		return c.formatNanoseconds(t), true
	}
	return c.formatNumber(t)
}

// applyTextFlags applies the flags that change words.
func (c *dateSpec) applyTextFlags(s string) string {
	if c.upper || c.swap {
		s = strings.ToUpper(s)
	}
	fill := " "
	if c.pad == '0' {
		fill = "0"
	}
	return strings.Repeat(fill, max(0, c.width-len(s))) + s
}

// formatNumber formats a numeric conversion with its default width and padding. It returns false for
// other conversions.
func (c *dateSpec) formatNumber(t time.Time) (string, bool) {
	isoYear, isoWeek := t.ISOWeek()
	v, width, pad := 0, 2, byte('0')
	switch c.verb {
	case 'C':
		v = t.Year() / 100
	case 'd':
		v = t.Day()
	case 'e':
		v, pad = t.Day(), '_'
	case 'g':
		v = isoYear % 100
	case 'G':
		v, width = isoYear, 4
	case 'H':
		v = t.Hour()
	case 'I':
		v = (t.Hour()+11)%12 + 1
	case 'j':
		v, width = t.YearDay(), 3
	case 'k':
		v, pad = t.Hour(), '_'
	case 'l':
		v, pad = (t.Hour()+11)%12+1, '_'
	case 'm':
		v = int(t.Month())
	case 'M':
		v = t.Minute()
	case 'q':
		v, width = (int(t.Month())+2)/3, 1
	case 's':
		v, width = int(t.Unix()), 1
	case 'S':
		v = t.Second()
	case 'u':
		v, width = (int(t.Weekday())+6)%7+1, 1
	case 'U':
		v = (t.YearDay() + 6 - int(t.Weekday())) / 7
	case 'V':
		v = isoWeek
	case 'w':
		v, width = int(t.Weekday()), 1
	case 'W':
		v = (t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7
	case 'y':
		v = (t.Year()%100 + 100) % 100
	case 'Y':
		v, width = t.Year(), 4
	default:
		return "", false
	}
	return c.formatDigits(v, width, pad), true
}

func (c *dateSpec) formatDigits(v, width int, pad byte) string {
	if c.pad != 0 {
		pad = c.pad
	}
	if c.width >= 0 {
		width = c.width
	}
	sign, n := "", strconv.Itoa(v)
	if v < 0 {
		sign, n = "-", n[1:]
	}
	gap := max(0, width-len(n)-len(sign))
	switch pad {
	case '-':
		return sign + n
	case '_':
		return strings.Repeat(" ", gap) + sign + n
	}
	return sign + strings.Repeat("0", gap) + n
}

func (c *dateSpec) formatNanoseconds(t time.Time) string {
	s := fmt.Sprintf("%09d", t.Nanosecond())
	if c.width > 0 && c.width < 9 {
		s = s[:c.width]
	}
	if c.pad == '-' && c.width < 0 {
		if s = strings.TrimRight(s, "0"); s == "" {
			s = "0"
		}
	}
	if c.width > 9 {
		s += strings.Repeat("0", c.width-9)
	}
	return s
}

// formatZone formats the zone as +hhmm, or with colons as +hh:mm, +hh:mm:ss or the shortest form.
func (c *dateSpec) formatZone(t time.Time) string {
	_, off := t.Zone()
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	h, m, s := off/3600, off/60%60, off%60
	var tail string
	switch {
	case c.colons == 0:
		tail = fmt.Sprintf("%02d", m)
	case c.colons == 1:
		tail = fmt.Sprintf(":%02d", m)
	case c.colons == 2 || s != 0:
		tail = fmt.Sprintf(":%02d:%02d", m, s)
	case m != 0:
		tail = fmt.Sprintf(":%02d", m)
	}
	width := 2
	if c.width > 0 {
		width = max(2, c.width-1-len(tail))
	}
	if c.pad == '-' || c.pad == '_' {
		fill := ""
		if c.pad == '_' {
			fill = strings.Repeat(" ", max(0, width-len(strconv.Itoa(h))))
		}
		return fill + string(sign) + strconv.Itoa(h) + tail
	}
	return fmt.Sprintf("%c%0*d%s", sign, width, h, tail)
}
