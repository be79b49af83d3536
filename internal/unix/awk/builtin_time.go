package awk

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// currentTime returns the time of the environment.
func (in *interp) currentTime() time.Time {
	if in.cfg.Now == nil {
		return time.Unix(0, 0)
	}
	return in.cfg.Now()
}

// defaultTimeFormat is the default format of strftime.
const defaultTimeFormat = "%a %b %e %H:%M:%S %Z %Y"

// compileStrftime compiles strftime.
func (c *compiler) compileStrftime(e *builtinExpr) strFn {
	in := c.in
	format := func() string {
		if x := in.procinfo.strs["strftime"]; x != nil {
			return x.v.asString(in.convfmt)
		}
		return defaultTimeFormat
	}
	when := func() float64 { return float64(in.currentTime().Unix()) }
	utc := func() bool { return false }
	if len(e.args) > 0 {
		format = c.compileStr(e.args[0])
	}
	if len(e.args) > 1 {
		when = c.compileNum(e.args[1])
	}
	if len(e.args) > 2 {
		utc = c.compileCond(e.args[2])
	}
	return func() string {
		f := format()
		t := time.Unix(int64(when()), 0).In(in.zone)
		if utc() {
			t = t.UTC()
		}
		in.chargeTemp(len(f) * 32)
		return formatTime(f, t)
	}
}

// compileTimeFunc compiles systime and mktime.
func (c *compiler) compileTimeFunc(e *builtinExpr) numFn {
	in := c.in
	if e.name == "systime" {
		return func() float64 { return float64(in.currentTime().Unix()) }
	}
	s := c.compileStr(e.args[0])
	utc := func() bool { return false }
	if len(e.args) > 1 {
		utc = c.compileCond(e.args[1])
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

// mktime parses "YYYY MM DD HH MM SS [DST]" and returns the time in seconds, or -1.
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

// formatTime formats t as C's strftime does in the C locale.
func formatTime(format string, t time.Time) string {
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

// timeNumbers are the conversions for numbers, with their width and padding.
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

// hour12 returns the hour from 1 to 12.
func hour12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

// timeWords are the conversions that correspond to a layout of Go.
var timeWords = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'p': "PM", 'z': "-0700", 'Z': "MST",
	'D': "01/02/06", 'x': "01/02/06", 'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05", 'X': "15:04:05",
	'r': "03:04:05 PM", 'c': "Mon Jan _2 15:04:05 2006",
}

// timeField formats one conversion; it returns false if it doesn't exist.
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
