package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/timezone"
)

// formatTime formats %(format)T, whose parenthesis is at f[i], and returns the
// length of the whole directive.
func (p *printer) formatTime(f string, i int, s spec) (int, bool) {
	depth, end := 0, -1
	for j := i; j < len(f); j++ {
		if f[j] == '(' {
			depth++
		} else if f[j] == ')' {
			if depth--; depth == 0 {
				end = j
				break
			}
		}
	}
	if end < 0 || end+1 >= len(f) || f[end+1] != 'T' {
		return 0, false
	}
	format := f[i+1 : end]
	if format == "" {
		format = "%X"
	}
	t := p.in.currentTime()
	if p.used < len(p.args) {
		switch sec := p.parseInteger(p.next()); sec {
		case -1:
		case -2:
			t = time.Unix(0, p.in.began)
		default:
			t = time.Unix(max(min(sec, 1<<52), -1<<52), 0)
		}
	}
	p.writeText(s, p.in.strftime(format, t))
	return end + 2, true
}

// timeZone returns the time zone in TZ; UTC if it is not set.
func (in *interp) timeZone() *time.Location { return timezone.Load(in.value("TZ")) }

// strftime formats a time as the C function does, in the time zone of the shell.
func (in *interp) strftime(format string, t time.Time) string {
	const most = 32 // bytes of the text for one of the format
	in.chargeScratch(most * len(format))
	defer in.releaseScratch(most * len(format)) // the caller charges what it keeps
	t = t.In(in.timeZone())
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		in.chargeWork(4)
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		if strings.IndexByte("EO", format[i]) >= 0 && i+1 < len(format) {
			i++
		}
		s, pad := timeField(format[i], t)
		b.WriteString(timeFlag(s, pad, flag))
	}
	return b.String()
}

// timeFlag pads a field according to its flag; pad is the width of a number.
func timeFlag(s string, pad int, flag byte) string {
	fill := "0"
	if pad < 0 {
		pad, fill = -pad, " "
	}
	switch flag {
	case '-':
		pad = 0
	case '_':
		fill = " "
	case '0':
		fill = "0"
	case '^', '#':
		s = strings.ToUpper(s)
	}
	for len(s) < pad {
		s = fill + s
	}
	return s
}

func timeField(c byte, t time.Time) (s string, pad int) {
	switch c {
	case 'Y':
		return strconv.Itoa(t.Year()), 0
	case 'C':
		return strconv.Itoa(t.Year() / 100), 2
	case 'y':
		return strconv.Itoa(t.Year() % 100), 2
	case 'm':
		return strconv.Itoa(int(t.Month())), 2
	case 'd':
		return strconv.Itoa(t.Day()), 2
	case 'e':
		return strconv.Itoa(t.Day()), -2
	case 'H':
		return strconv.Itoa(t.Hour()), 2
	case 'k':
		return strconv.Itoa(t.Hour()), -2
	case 'I':
		return strconv.Itoa((t.Hour()+11)%12 + 1), 2
	case 'l':
		return strconv.Itoa((t.Hour()+11)%12 + 1), -2
	case 'M':
		return strconv.Itoa(t.Minute()), 2
	case 'S':
		return strconv.Itoa(t.Second()), 2
	case 'j':
		return strconv.Itoa(t.YearDay()), 3
	}
	return dayField(c, t)
}

func dayField(c byte, t time.Time) (s string, pad int) {
	wday := int(t.Weekday())
	switch c {
	case 'a':
		return t.Format("Mon"), 0
	case 'A':
		return t.Format("Monday"), 0
	case 'b', 'h':
		return t.Format("Jan"), 0
	case 'B':
		return t.Format("January"), 0
	case 'u':
		return strconv.Itoa((wday+6)%7 + 1), 0
	case 'w':
		return strconv.Itoa(wday), 0
	case 'U':
		return strconv.Itoa((t.YearDay() + 6 - wday) / 7), 2
	case 'W':
		return strconv.Itoa((t.YearDay() + 6 - (wday+6)%7) / 7), 2
	case 'V':
		_, w := t.ISOWeek()
		return strconv.Itoa(w), 2
	case 'G':
		y, _ := t.ISOWeek()
		return strconv.Itoa(y), 0
	case 'g':
		y, _ := t.ISOWeek()
		return strconv.Itoa(y % 100), 2
	}
	return wholeField(c, t), 0
}

func wholeField(c byte, t time.Time) string {
	switch c {
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006")
	case 'D', 'x':
		return t.Format("01/02/06")
	case 'F':
		return t.Format("2006-01-02")
	case 'T', 'X':
		return t.Format("15:04:05")
	case 'R':
		return t.Format("15:04")
	case 'r':
		return t.Format("03:04:05 PM")
	case 'p':
		return t.Format("PM")
	case 'P':
		return strings.ToLower(t.Format("PM"))
	case 's':
		return strconv.FormatInt(t.Unix(), 10)
	case 'z':
		return t.Format("-0700")
	case 'Z':
		return t.Format("MST")
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	}
	return fmt.Sprintf("%%%c", c)
}
