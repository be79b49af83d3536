package awk

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (in *interp) now() time.Time {
	if in.cfg.Now == nil {
		return time.Unix(0, 0)
	}
	return in.cfg.Now()
}

// defaultTimeFormat is what strftime uses when none is given.
const defaultTimeFormat = "%a %b %e %H:%M:%S %Z %Y"

func (c *compiler) strftime(e *builtinExpr) strFn {
	in := c.in
	format := func() string {
		if x := in.procinfo.strs["strftime"]; x != nil {
			return x.v.str(in.convfmt)
		}
		return defaultTimeFormat
	}
	when := func() float64 { return float64(in.now().Unix()) }
	utc := func() bool { return false }
	if len(e.args) > 0 {
		format = c.str(e.args[0])
	}
	if len(e.args) > 1 {
		when = c.num(e.args[1])
	}
	if len(e.args) > 2 {
		utc = c.cond(e.args[2])
	}
	return func() string {
		f := format()
		t := time.Unix(int64(when()), 0).In(in.zone)
		if utc() {
			t = t.UTC()
		}
		in.reserve(len(f) * 32)
		return strftime(f, t)
	}
}

func (c *compiler) timeFn(e *builtinExpr) numFn {
	in := c.in
	if e.name == "systime" {
		return func() float64 { return float64(in.now().Unix()) }
	}
	s := c.str(e.args[0])
	utc := func() bool { return false }
	if len(e.args) > 1 {
		utc = c.cond(e.args[1])
	}
	return func() float64 {
		t := s()
		zone := in.zone
		if utc() {
			zone = time.UTC
		}
		return mktime(t, zone)
	}
}

// mktime reads "YYYY MM DD HH MM SS [DST]".
func mktime(s string, zone *time.Location) float64 {
	var n [6]int
	f := strings.Fields(s)
	if len(f) < 6 {
		return -1
	}
	for i := range n {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return -1
		}
		n[i] = v
	}
	return float64(time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, zone).Unix())
}

// strftime formats t as the C library does in the C locale.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			pad = format[i]
			i++
		}
		if (format[i] == 'E' || format[i] == 'O') && i+1 < len(format) {
			i++
		}
		s, ok := timeField(format[i], t, pad)
		if !ok {
			s = "%" + format[i:i+1]
		}
		if pad == '^' {
			s = strings.ToUpper(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

// timeNumbers are the conversions that yield a number: its width and what it
// is padded with.
var timeNumbers = map[byte]struct {
	width int
	pad   byte
	get   func(t time.Time) int
}{
	'd': {2, '0', time.Time.Day}, 'e': {2, ' ', time.Time.Day},
	'H': {2, '0', time.Time.Hour}, 'k': {2, ' ', time.Time.Hour},
	'I': {2, '0', hour12}, 'l': {2, ' ', hour12},
	'j': {3, '0', time.Time.YearDay}, 'M': {2, '0', time.Time.Minute}, 'S': {2, '0', time.Time.Second},
	'm': {2, '0', func(t time.Time) int { return int(t.Month()) }},
	'y': {2, '0', func(t time.Time) int { return (t.Year()%100 + 100) % 100 }},
	'C': {2, '0', func(t time.Time) int { return t.Year() / 100 }},
	'Y': {1, '0', time.Time.Year},
	'G': {1, '0', func(t time.Time) int { y, _ := t.ISOWeek(); return y }},
	'g': {2, '0', func(t time.Time) int { y, _ := t.ISOWeek(); return y % 100 }},
	'V': {2, '0', func(t time.Time) int { _, w := t.ISOWeek(); return w }},
	'U': {2, '0', func(t time.Time) int { return (t.YearDay() + 6 - int(t.Weekday())) / 7 }},
	'W': {2, '0', func(t time.Time) int { return (t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7 }},
	'u': {1, '0', func(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }},
	'w': {1, '0', func(t time.Time) int { return int(t.Weekday()) }},
	's': {1, '0', func(t time.Time) int { return int(t.Unix()) }},
}

func hour12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

// timeWords are the conversions that have the same form as one of Go's layouts.
var timeWords = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'p': "PM", 'z': "-0700", 'Z': "MST",
	'D': "01/02/06", 'x': "01/02/06", 'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05", 'X': "15:04:05",
	'r': "03:04:05 PM", 'c': "Mon Jan _2 15:04:05 2006",
}

func timeField(c byte, t time.Time, pad byte) (string, bool) {
	if f, ok := timeNumbers[c]; ok {
		n := f.get(t)
		switch {
		case pad == '-':
			return strconv.Itoa(n), true
		case pad == '_' || pad == 0 && f.pad == ' ':
			return fmt.Sprintf("%*d", f.width, n), true
		}
		return fmt.Sprintf("%0*d", f.width, n), true
	}
	if layout, ok := timeWords[c]; ok {
		return t.Format(layout), true
	}
	switch c {
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	case 'P':
		return strings.ToLower(t.Format("PM")), true
	}
	return "", false
}
