package jq

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// timeTable has the functions for times.
var timeTable = map[string]native{
	"now/0":    (*machine).now,
	"gmtime/0": func(m *machine, in Value, _ []Value) (Value, error) { return m.brokenDown(in, "gmtime()", time.UTC) },
	"localtime/0": func(m *machine, in Value, _ []Value) (Value, error) {
		return m.brokenDown(in, "localtime()", m.localZone())
	},
	"mktime/0": (*machine).mktime,
	"strftime/1": func(m *machine, in Value, args []Value) (Value, error) {
		return m.strftime(in, args, "strftime/1", time.UTC)
	},
	"strflocaltime/1": func(m *machine, in Value, args []Value) (Value, error) {
		return m.strftime(in, args, "strflocaltime/1", m.localZone())
	},
	"strptime/1": (*machine).strptime,
}

// now implements now/0.
func (m *machine) now(Value, []Value) (Value, error) {
	if m.host.Now == nil {
		return 0.0, nil
	}
	sec, nsec := m.host.Now()
	return float64(sec) + float64(nsec/1000)/1e6, nil
}

// brokenDown returns [year, month, day, hours, minutes, seconds, week day, year day] of a time in
// seconds.
func (m *machine) brokenDown(in Value, name string, zone *time.Location) (Value, error) {
	f, ok := toFloat(in)
	if !ok {
		return nil, failf("%s requires numeric inputs", name)
	}
	whole := math.Floor(f)
	if math.Abs(whole) > 1e14 || math.IsNaN(f) {
		return nil, failf("error converting number of seconds since epoch to datetime")
	}
	t := time.Unix(int64(whole), 0).In(zone)
	return brokenTime(t, float64(t.Second())+(f-whole)), nil
}

// localZone returns the host's time zone.
func (m *machine) localZone() *time.Location {
	if m.host.Zone == nil {
		return time.UTC
	}
	return m.host.Zone
}

// brokenTime returns the array of a time with the given seconds.
func brokenTime(t time.Time, seconds float64) *Array {
	return NewArray(float64(t.Year()), float64(t.Month()-1), float64(t.Day()), float64(t.Hour()),
		float64(t.Minute()), seconds, float64(t.Weekday()), float64(t.YearDay()-1))
}

// timeOf returns the time of a broken down time in a zone.
func timeOf(v Value, zone *time.Location) (time.Time, bool) {
	a, ok := v.(*Array)
	if !ok || len(a.Items) < 6 {
		return time.Time{}, false
	}
	var n [6]int
	for i := range n {
		f, ok := toFloat(a.Items[i])
		if !ok || math.Abs(f) > 1e10 {
			return time.Time{}, false
		}
		n[i] = int(math.Floor(f))
	}
	return time.Date(n[0], time.Month(n[1]+1), n[2], n[3], n[4], n[5], 0, zone), true
}

// mktime implements mktime/0.
func (m *machine) mktime(in Value, _ []Value) (Value, error) {
	if _, ok := in.(*Array); !ok {
		return nil, failf("mktime requires array inputs")
	}
	t, ok := timeOf(in, time.UTC)
	if !ok {
		return nil, failf("mktime requires parsed datetime inputs")
	}
	return float64(t.Unix()), nil
}

// strftime implements strftime/1 and strflocaltime/1; name is for messages.
func (m *machine) strftime(in Value, args []Value, name string, zone *time.Location) (Value, error) {
	if _, ok := toFloat(in); ok {
		v, err := m.brokenDown(in, "gmtime()", zone)
		if err != nil {
			return nil, err
		}
		in = v
	}
	t, ok := timeOf(in, zone)
	if !ok {
		return nil, failf("%s requires parsed datetime inputs", name)
	}
	format, ok := args[0].(string)
	if !ok {
		return nil, failf("%s requires a string format", name)
	}
	m.alloc(int64(len(format)) * 32)
	return m.formatTime(t, format), nil
}

// shorthand has the conversions of strftime that abbreviate others.
var shorthand = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'F': "%Y-%m-%d", 'T': "%H:%M:%S", 'X': "%H:%M:%S",
	'R': "%H:%M", 'r': "%I:%M:%S %p", 'h': "%b", 'n': "\n", 't': "\t",
}

// formatTime formats a time as strftime does.
func (m *machine) formatTime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		m.tick(4)
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if s, ok := shorthand[format[i]]; ok {
			b.WriteString(m.formatTime(t, s))
			continue
		}
		b.WriteString(timeField(t, format[i]))
	}
	return b.String()
}

// timeField formats a conversion for the date.
func timeField(t time.Time, c byte) string {
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	switch c {
	case 'Y':
		return strconv.Itoa(t.Year())
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 'y':
		return fmt.Sprintf("%02d", t.Year()%100)
	case 'G':
		return strconv.Itoa(isoYear)
	case 'g':
		return fmt.Sprintf("%02d", isoYear%100)
	case 'V':
		return fmt.Sprintf("%02d", isoWeek)
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7)
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7)
	case 'm':
		return fmt.Sprintf("%02d", int(t.Month()))
	case 'B':
		return t.Month().String()
	case 'b':
		return t.Month().String()[:3]
	case 'd':
		return fmt.Sprintf("%02d", t.Day())
	case 'e':
		return fmt.Sprintf("%2d", t.Day())
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay())
	case 'A':
		return t.Weekday().String()
	case 'a':
		return t.Weekday().String()[:3]
	}
	return clockField(t, c, hour12)
}

// clockField formats a conversion for the time of day.
func clockField(t time.Time, c byte, hour12 int) string {
	switch c {
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1)
	case 'w':
		return strconv.Itoa(int(t.Weekday()))
	case 'H':
		return fmt.Sprintf("%02d", t.Hour())
	case 'I':
		return fmt.Sprintf("%02d", hour12)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 'l':
		return fmt.Sprintf("%2d", hour12)
	case 'M':
		return fmt.Sprintf("%02d", t.Minute())
	case 'S':
		return fmt.Sprintf("%02d", t.Second())
	case 'p':
		return [...]string{"AM", "PM"}[t.Hour()/12]
	case 'P':
		return [...]string{"am", "pm"}[t.Hour()/12]
	case 's':
		return strconv.FormatInt(t.Unix(), 10)
	case 'Z':
		return t.Format("MST")
	case 'z':
		return t.Format("-0700")
	case '%':
		return "%"
	}
	return "%" + string(rune(c))
}

// strptime implements strptime/1.
func (m *machine) strptime(in Value, args []Value) (Value, error) {
	s, format, ok := bothStrings(in, args[0])
	if !ok {
		return nil, failf("strptime/1 requires string inputs and arguments")
	}
	m.tick(len(s) + len(format))
	p := timeParser{rest: s, year: 1900, day: 1, yday: -1, wday: -1}
	if !p.parse(format, 0) || p.rest != "" {
		return nil, failf("date %s does not match format %s", strconv.Quote(s), strconv.Quote(format))
	}
	return p.brokenDown(), nil
}

// timeParser parses a text with a strptime format.
type timeParser struct {
	rest                         string
	year, month, day             int
	hour, minute, second         int
	yday, wday                   int
	pm, half, hasMonth, hasEpoch bool
	epoch                        int64
}

// parse parses a format; depth is 1 inside an abbreviation.
func (p *timeParser) parse(format string, depth int) bool {
	for i := 0; i < len(format); i++ {
		c := format[i]
		switch {
		case strings.IndexByte(space, c) >= 0:
			p.rest = strings.TrimLeft(p.rest, space)
		case c != '%' || i+1 == len(format):
			if p.rest == "" || p.rest[0] != c {
				return false
			}
			p.rest = p.rest[1:]
		default:
			i++
			if long, ok := shorthand[format[i]]; ok && depth == 0 {
				if !p.parse(long, 1) {
					return false
				}
				continue
			}
			if !p.readField(format[i]) {
				return false
			}
		}
	}
	return true
}

// readNumber reads up to width digits with a value between low and high.
func (p *timeParser) readNumber(width, low, high int, to *int) bool {
	p.rest = strings.TrimLeft(p.rest, " ")
	n, i := 0, 0
	for i < len(p.rest) && i < width && isDigit(p.rest[i]) {
		n = n*10 + int(p.rest[i]-'0')
		i++
	}
	if i == 0 || n < low || n > high {
		return false
	}
	p.rest = p.rest[i:]
	*to = n
	return true
}

// readName reads one of the names 0 to n-1, in full or abbreviated to three letters.
func (p *timeParser) readName(n int, name func(int) string, to *int) bool {
	for i := range n {
		for _, s := range []string{name(i), name(i)[:3]} {
			if len(p.rest) >= len(s) && strings.EqualFold(p.rest[:len(s)], s) {
				p.rest = p.rest[len(s):]
				*to = i
				return true
			}
		}
	}
	return false
}

// readField reads a conversion for the date.
func (p *timeParser) readField(c byte) bool {
	switch c {
	case 'Y':
		return p.readNumber(4, 0, 9999, &p.year)
	case 'y':
		if !p.readNumber(2, 0, 99, &p.year) {
			return false
		}
		p.year += 1900
		if p.year < 1969 {
			p.year += 100
		}
		return true
	case 'm':
		p.hasMonth = true
		ok := p.readNumber(2, 1, 12, &p.month)
		p.month--
		return ok
	case 'B', 'b':
		p.hasMonth = true
		return p.readName(12, func(i int) string { return time.Month(i + 1).String() }, &p.month)
	case 'd', 'e':
		p.hasMonth = true
		return p.readNumber(2, 1, 31, &p.day)
	case 'j':
		ok := p.readNumber(3, 1, 366, &p.yday)
		p.yday--
		return ok
	case 'A', 'a':
		return p.readName(7, func(i int) string { return time.Weekday(i).String() }, &p.wday)
	case 'u', 'w':
		return p.readNumber(1, 0, 7, &p.wday)
	}
	return p.readClockField(c)
}

// readClockField reads a conversion for the time of day.
func (p *timeParser) readClockField(c byte) bool {
	switch c {
	case 'H', 'k':
		return p.readNumber(2, 0, 23, &p.hour)
	case 'I', 'l':
		p.half = true
		return p.readNumber(2, 1, 12, &p.hour)
	case 'M':
		return p.readNumber(2, 0, 59, &p.minute)
	case 'S':
		return p.readNumber(2, 0, 60, &p.second)
	case 'p', 'P':
		n := 0
		ok := p.readName(2, func(i int) string { return [...]string{"AM ", "PM "}[i] }, &n)
		if !ok && len(p.rest) >= 2 {
			ok = strings.EqualFold(p.rest[:2], "am") || strings.EqualFold(p.rest[:2], "pm")
			n = boolToInt(strings.EqualFold(p.rest[:2], "pm"))
			p.rest = p.rest[2:]
		}
		p.pm = n == 1
		return ok
	case 'Z':
		p.rest = strings.TrimLeft(p.rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
		return true
	case 'z':
		return p.readZone()
	case 's':
		n := 0
		p.hasEpoch = p.readNumber(15, 0, 1e14, &n)
		p.epoch = int64(n)
		return p.hasEpoch
	case '%':
		ok := strings.HasPrefix(p.rest, "%")
		p.rest = strings.TrimPrefix(p.rest, "%")
		return ok
	}
	return false
}

// readZone reads a time zone, which doesn't change the time.
func (p *timeParser) readZone() bool {
	if strings.HasPrefix(p.rest, "Z") {
		p.rest = p.rest[1:]
		return true
	}
	if p.rest == "" || p.rest[0] != '+' && p.rest[0] != '-' {
		return false
	}
	p.rest = p.rest[1:]
	n := 0
	if !p.readNumber(2, 0, 24, &n) {
		return false
	}
	p.rest = strings.TrimPrefix(p.rest, ":")
	return p.rest == "" || !isDigit(p.rest[0]) || p.readNumber(2, 0, 59, &n)
}

// brokenDown returns the broken down time of the fields.
func (p *timeParser) brokenDown() *Array {
	if p.hasEpoch {
		t := time.Unix(p.epoch, 0).UTC()
		return brokenTime(t, float64(t.Second()))
	}
	if p.half {
		p.hour = p.hour%12 + 12*boolToInt(p.pm)
	}
	t := time.Date(p.year, time.Month(p.month+1), p.day, p.hour, p.minute, 0, 0, time.UTC)
	if p.yday >= 0 && !p.hasMonth {
		t = time.Date(p.year, 1, p.yday+1, p.hour, p.minute, 0, 0, time.UTC)
	}
	return brokenTime(t, float64(p.second))
}
