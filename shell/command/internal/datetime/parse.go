package datetime

import (
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/character"

	"github.com/atoll-sandbox/atoll/internal/unix/timezone"
)

// dateToken is a token of a date: a word, a number or another character.
type dateToken struct {
	kind  byte // 'w' word, 'n' number, 's' number with a sign, 'c' character, 0 end
	text  string
	n     int64 // of numbers
	nanos int   // the fraction of a number
	frac  bool
	len   int // digits of a number
	c     byte
}

// dateParser parses a date and collects its parts.
type dateParser struct {
	toks []dateToken
	at   int

	year, month, day     int
	yearDigits           int
	hour, minute, second int
	nanos                int
	dates, times, days   int
	zones, rels, stamps  int
	offset               int // seconds east of UTC
	weekday              int
	ordinal              int64
	rYear, rMonth, rDay  int64
	rHour, rMin, rSec    int64
	rNanos               int64
	stamp                time.Time
	iso                  int // position after a date of the form y-m-d
	hasYear              bool
}

// Parse parses a date like GNU date -d. Relative dates refer to now; zone applies if the date has none.
func Parse(s string, now time.Time, zone *time.Location) (time.Time, bool) {
	s = strings.TrimLeft(s, " \t\n")
	if rest, ok := strings.CutPrefix(s, `TZ="`); ok {
		name, tail, found := strings.Cut(rest, `"`)
		if !found {
			return time.Time{}, false
		}
		s, zone = tail, timezone.Load(name)
	}
	toks, ok := lexDate(s)
	if !ok {
		return time.Time{}, false
	}
	now = now.In(zone)
	d := &dateParser{toks: toks, hour: now.Hour(), minute: now.Minute(), second: now.Second(), nanos: now.Nanosecond()}
	d.year, d.month, d.day = now.Year(), int(now.Month()), now.Day()
	for d.peekToken(0).kind != 0 {
		if !d.parseItem() {
			return time.Time{}, false
		}
	}
	return d.computeTime(zone)
}

// lexDate splits a date into tokens. Text in parentheses is a comment.
func lexDate(s string) ([]dateToken, bool) {
	var list []dateToken
	if len(s) > 1000 {
		return nil, false
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
		case c == '(':
			n := commentLength(s[i:])
			if n == 0 {
				return nil, false
			}
			i += n
		case character.IsLetter(c):
			j := i
			for j < len(s) && (character.IsLetter(s[j]) || s[j] == '.') {
				j++
			}
			list = append(list, dateToken{kind: 'w', text: strings.ToLower(strings.ReplaceAll(s[i:j], ".", ""))})
			i = j
		case c >= '0' && c <= '9', (c == '-' || c == '+') && digitFollows(s[i+1:]):
			t, used, ok := lexDateNumber(s[i:])
			if !ok {
				return nil, false
			}
			list = append(list, t)
			i += used
		default:
			list = append(list, dateToken{kind: 'c', c: c})
			i++
		}
	}
	return list, true
}

// commentLength returns the length of a comment in parentheses, or 0 if it is not closed.
func commentLength(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// digitFollows reports whether the first nonblank of s is a digit.
func digitFollows(s string) bool {
	s = strings.TrimLeft(s, " \t")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

func lexDateNumber(s string) (t dateToken, used int, ok bool) {
	t.kind = 'n'
	i := 0
	if s[0] == '-' || s[0] == '+' {
		t.kind, t.c = 's', s[0]
		i = 1 + len(s[1:]) - len(strings.TrimLeft(s[1:], " \t"))
	}
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(s[start:i], 10, 64)
	if err != nil {
		return t, 0, false
	}
	t.n, t.len = n, i-start
	if i+1 < len(s) && (s[i] == '.' || s[i] == ',') && s[i+1] >= '0' && s[i+1] <= '9' {
		i++
		unit := 100_000_000
		for t.frac = true; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			t.nanos += int(s[i]-'0') * unit
			unit /= 10
		}
	}
	if t.c == '-' {
		t.n, t.nanos = -t.n, -t.nanos
	}
	return t, i, true
}

func (d *dateParser) peekToken(n int) dateToken {
	if d.at+n < len(d.toks) {
		return d.toks[d.at+n]
	}
	return dateToken{}
}

func (d *dateParser) isChar(n int, c byte) bool {
	t := d.peekToken(n)
	return t.kind == 'c' && t.c == c
}

// parseItem parses one part: a date, a time, a zone, a day or a relative shift.
func (d *dateParser) parseItem() bool {
	switch t := d.peekToken(0); t.kind {
	case 'c':
		switch {
		case t.c == '@' && d.stamps == 0 && len(d.toks) == 2 && (d.peekToken(1).kind == 'n' || d.peekToken(1).kind == 's'):
			n := d.peekToken(1)
			d.stamp = time.Unix(n.n, int64(n.nanos))
			d.stamps++
			d.at += 2
			return true
		case t.c == ',':
			d.at++
			return true
		}
		return false
	case 's':
		return d.parseShift()
	case 'n':
		return d.parseNumber()
	}
	return d.parseWord()
}

var dateMonths = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

var dateDays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// ParseMonth returns the number of a month given by its lower-case name or the first three letters of
// it, or 0.
func ParseMonth(w string) int {
	if w == "sept" {
		return 9
	}
	for i, m := range dateMonths {
		if w == m || w == m[:3] {
			return i + 1
		}
	}
	return 0
}

func dateDay(w string) int {
	switch w {
	case "tues":
		return 2
	case "wednes":
		return 3
	case "thur", "thurs":
		return 4
	}
	for i, name := range dateDays {
		if w == name || w == name[:3] {
			return i
		}
	}
	return -1
}

var dateOrdinals = map[string]int64{
	"last": -1, "this": 0, "next": 1, "first": 1, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
	"ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12,
}

var dateShifts = map[string]int64{"tomorrow": 1, "yesterday": -1, "today": 0, "now": 0}

// dateZones are the zone names that GNU date knows, in minutes east of UTC.
var dateZones = map[string]int{
	"gmt": 0, "ut": 0, "utc": 0, "wet": 0, "west": 60, "bst": 60, "art": -180, "brt": -180, "brst": -120, "nst": -210, "ndt": -150,
	"ast": -240, "adt": -180, "clt": -240, "clst": -180, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
	"pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600, "hast": -600, "hadt": -540, "sst": -720, "wat": 60, "cet": 60,
	"cest": 120, "met": 60, "mez": 60, "mest": 120, "mesz": 120, "eet": 120, "eest": 180, "cat": 120, "sast": 120, "eat": 180,
	"msk": 180, "msd": 240, "ist": 330, "sgt": 480, "kst": 540, "jst": 540, "gst": 600, "nzst": 720, "nzdt": 780,
}

func (d *dateParser) parseWord() bool {
	w := d.peekToken(0).text
	if m := ParseMonth(w); m > 0 {
		return d.parseMonthFirst(m)
	}
	if day := dateDay(w); day >= 0 {
		d.at++
		d.setDay(day, 0)
		if d.isChar(0, ',') {
			d.at++
		}
		return true
	}
	if n, ok := dateOrdinals[w]; ok {
		next := d.peekToken(1)
		if day := dateDay(next.text); next.kind == 'w' && day >= 0 {
			d.at += 2
			d.setDay(day, n)
			return true
		}
		if next.kind == 'w' && d.addUnits(next.text, n, 0) {
			d.at += 2
			d.applyAgo(next.text, n, 0)
			return true
		}
		return false
	}
	if n, ok := dateShifts[w]; ok {
		d.at++
		d.rels++
		d.rDay += n
		return true
	}
	if d.addUnits(w, 1, 0) {
		d.at++
		d.applyAgo(w, 1, 0)
		return true
	}
	return d.parseZoneWord(w)
}

func (d *dateParser) setDay(day int, ordinal int64) {
	d.days++
	d.weekday, d.ordinal = day, ordinal
}

// parseZoneWord parses a zone name, with a correction as in UTC+3.
func (d *dateParser) parseZoneWord(w string) bool {
	minutes, ok := dateZones[w]
	switch {
	case ok:
	case len(w) == 1 && w != "j":
		minutes = militaryZone(w[0])
	case w == "dst":
		d.at++
		d.offset += 3600
		return d.zones > 0
	default:
		return false
	}
	d.at++
	if w == "t" && d.peekToken(0).kind == 'n' && d.at-1 == d.iso { // the T of 2024-01-15T10:30
		return d.isChar(1, ':')
	}
	d.zones++
	d.offset = minutes * 60
	if d.peekToken(0).kind == 's' && d.peekToken(1).kind != 'w' {
		t := d.peekToken(0)
		d.at++
		off, ok := d.parseOffset(t)
		d.offset += off
		return ok
	}
	return true
}

func militaryZone(c byte) int {
	switch {
	case c >= 'a' && c <= 'i':
		return int(c-'a'+1) * 60
	case c >= 'k' && c <= 'm':
		return int(c-'a') * 60
	case c >= 'n' && c <= 'y':
		return -int(c-'n'+1) * 60
	}
	return 0
}

// parseOffset parses +hh, +hhmm or +hh:mm. It returns seconds and moves past the offset.
func (d *dateParser) parseOffset(t dateToken) (int, bool) {
	n := int(t.n)
	if d.isChar(0, ':') && d.peekToken(1).kind == 'n' {
		m := int(d.peekToken(1).n)
		d.at += 2
		if t.c == '-' {
			m = -m
		}
		return n*3600 + m*60, n >= -24 && n <= 24
	}
	if t.len <= 2 {
		return n * 3600, n >= -24 && n <= 24
	}
	return n/100*3600 + n%100*60, n >= -2400 && n <= 2400
}

// parseShift parses a signed number with its unit.
func (d *dateParser) parseShift() bool {
	t := d.peekToken(0)
	if next := d.peekToken(1); next.kind == 'w' && d.addUnits(next.text, t.n, int64(t.nanos)) {
		d.at += 2
		d.applyAgo(next.text, t.n, int64(t.nanos))
		return true
	}
	return false
}

// addUnits adds n units to the shift. It returns false if unit is not a unit of time.
func (d *dateParser) addUnits(unit string, n, nanos int64) bool {
	if nanos != 0 && unit != "second" && unit != "seconds" && unit != "sec" && unit != "secs" {
		return false
	}
	switch strings.TrimSuffix(unit, "s") {
	case "year":
		d.rYear += n
	case "month":
		d.rMonth += n
	case "fortnight":
		d.rDay += 14 * n
	case "week":
		d.rDay += 7 * n
	case "day":
		d.rDay += n
	case "hour":
		d.rHour += n
	case "minute", "min":
		d.rMin += n
	case "second", "sec":
		d.rSec += n
		d.rNanos += nanos
	default:
		return false
	}
	d.rels++
	return true
}

// applyAgo negates the last shift if "ago" follows.
func (d *dateParser) applyAgo(unit string, n, nanos int64) {
	if t := d.peekToken(0); t.kind == 'w' && (t.text == "ago" || t.text == "hence") {
		d.at++
		if t.text == "ago" {
			d.addUnits(unit, -2*n, -2*nanos)
		}
	}
}

// parseMonthFirst parses "Jan 15", "Jan 15, 2024" and "Jan-15-2024".
func (d *dateParser) parseMonthFirst(m int) bool {
	d.at++
	t := d.peekToken(0)
	switch {
	case t.kind == 's' && t.c == '-' && d.peekToken(1).kind == 's':
		d.setYear(-d.peekToken(1).n, d.peekToken(1).len)
		d.day = int(-t.n)
		d.at += 2
	case t.kind == 'n' && !d.isChar(1, ':'):
		d.day = int(t.n)
		d.at++
		if d.isChar(0, ',') && d.peekToken(1).kind == 'n' && !d.isChar(2, ':') {
			d.setYear(d.peekToken(1).n, d.peekToken(1).len)
			d.at += 2
		}
	default:
		return false
	}
	d.month = m
	d.dates++
	return true
}

func (d *dateParser) setYear(n int64, digits int) {
	d.hasYear = true
	d.year, d.yearDigits = int(n), digits
	if digits <= 2 {
		d.year += 1900
		if n < 69 {
			d.year += 100
		}
	}
}

// parseNumber parses a part that begins with an unsigned number.
func (d *dateParser) parseNumber() bool {
	t := d.peekToken(0)
	next := d.peekToken(1)
	switch {
	case d.isChar(1, ':'):
		return d.parseClock()
	case d.isChar(1, '/'):
		return d.parseSlashes()
	case next.kind == 's' && next.c == '-' && d.peekToken(2).kind == 's' && d.peekToken(2).c == '-':
		d.setYear(t.n, t.len)
		d.month, d.day = int(-next.n), int(-d.peekToken(2).n)
		d.dates++
		d.at += 3
		d.iso = d.at
		return true
	case next.kind == 'w' && (next.text == "am" || next.text == "pm"):
		d.at++
		d.times++
		d.hour, d.minute, d.second, d.nanos = int(t.n), 0, 0, 0
		return d.parseMeridian()
	case next.kind == 'w' && ParseMonth(next.text) > 0:
		return d.parseDayFirst(t, ParseMonth(next.text))
	case next.kind == 'c' && next.c == '-' && d.peekToken(2).kind == 'w' && ParseMonth(d.peekToken(2).text) > 0:
		d.at++
		return d.parseDayFirst(t, ParseMonth(d.peekToken(1).text))
	case next.kind == 'w' && dateDay(next.text) >= 0:
		d.setDay(dateDay(next.text), t.n)
		d.at += 2
		return true
	case next.kind == 'w' && d.addUnits(next.text, t.n, int64(t.nanos)):
		d.at += 2
		d.applyAgo(next.text, t.n, int64(t.nanos))
		return true
	}
	return d.parseBareNumber(t)
}

// parseDayFirst parses "15 Jan", "15 Jan 2024" and "15-Jan-2024".
func (d *dateParser) parseDayFirst(t dateToken, m int) bool {
	d.at += 2
	d.day, d.month = int(t.n), m
	d.dates++
	switch y := d.peekToken(0); {
	case y.kind == 'n' && !d.isChar(1, ':') && !(d.peekToken(1).kind == 'w' && (d.peekToken(1).text == "am" || d.peekToken(1).text == "pm")):
		d.setYear(y.n, y.len)
		d.at++
	case y.kind == 's' && y.c == '-' && d.peekToken(1).kind != 'w':
		d.setYear(-y.n, y.len)
		d.at++
	}
	return true
}

// parseSlashes parses m/d, m/d/y and y/m/d.
func (d *dateParser) parseSlashes() bool {
	a, b := d.peekToken(0), d.peekToken(2)
	if b.kind != 'n' {
		return false
	}
	d.dates++
	if !d.isChar(3, '/') {
		d.month, d.day = int(a.n), int(b.n)
		d.at += 3
		return true
	}
	c := d.peekToken(4)
	if c.kind != 'n' {
		return false
	}
	d.at += 5
	if a.len >= 4 {
		d.setYear(a.n, a.len)
		d.month, d.day = int(b.n), int(c.n)
		return true
	}
	d.month, d.day = int(a.n), int(b.n)
	d.setYear(c.n, c.len)
	return true
}

// parseClock parses hh:mm and hh:mm:ss, with am or pm or an offset.
func (d *dateParser) parseClock() bool {
	d.times++
	d.hour, d.second, d.nanos = int(d.peekToken(0).n), 0, 0
	m := d.peekToken(2)
	if m.kind != 'n' || m.frac {
		return false
	}
	d.minute = int(m.n)
	d.at += 3
	if d.isChar(0, ':') && d.peekToken(1).kind == 'n' {
		d.second, d.nanos = int(d.peekToken(1).n), d.peekToken(1).nanos
		d.at += 2
	}
	switch t := d.peekToken(0); {
	case t.kind == 'w' && (t.text == "am" || t.text == "pm"):
		return d.parseMeridian()
	case t.kind == 's':
		d.at++
		d.zones++
		off, ok := d.parseOffset(t)
		d.offset = off
		return ok && d.hour < 24
	}
	return d.hour < 24
}

func (d *dateParser) parseMeridian() bool {
	if d.hour < 1 || d.hour > 12 {
		return false
	}
	d.hour %= 12
	if d.peekToken(0).text == "pm" {
		d.hour += 12
	}
	d.at++
	return true
}

// parseBareNumber parses a lone number: a year after a date, yyyymmdd, or a time.
func (d *dateParser) parseBareNumber(t dateToken) bool {
	if t.frac {
		return false
	}
	d.at++
	switch {
	case d.dates > 0 && !d.hasYear && d.rels == 0 && (d.times > 0 || t.len > 2):
		d.setYear(t.n, t.len)
		return true
	case t.len > 4:
		d.dates++
		d.day, d.month = int(t.n%100), int(t.n/100%100)
		d.setYear(t.n/10000, t.len-4)
		return true
	}
	d.times++
	d.hour, d.minute, d.second, d.nanos = int(t.n), 0, 0, 0
	if t.len > 2 {
		d.hour, d.minute = int(t.n/100), int(t.n%100)
	}
	return d.hour < 24
}

// computeTime combines the parts. It returns false if they contradict each other or are out of range.
func (d *dateParser) computeTime(zone *time.Location) (time.Time, bool) {
	if d.stamps > 0 {
		return d.stamp.In(zone), d.dates+d.times+d.days+d.zones+d.rels == 0
	}
	if d.dates > 1 || d.times > 1 || d.days > 1 || d.zones > 1 {
		return time.Time{}, false
	}
	if d.times == 0 && (d.dates > 0 || d.days > 0 || d.rels == 0) {
		d.hour, d.minute, d.second, d.nanos = 0, 0, 0, 0
	}
	if d.minute > 59 || d.second > 59 || d.month < 1 || d.month > 12 || d.day < 1 || d.day > DaysIn(d.year, d.month) {
		return time.Time{}, false
	}
	const far = 1 << 40
	for _, n := range []int64{d.rYear, d.rMonth, d.rDay, d.rHour, d.rMin, d.rSec} {
		if n > far || n < -far {
			return time.Time{}, false
		}
	}
	loc := zone
	if d.zones > 0 {
		loc = time.FixedZone("", d.offset)
	}
	t := time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second, d.nanos, loc)
	if d.days > 0 && d.dates == 0 {
		shift := (d.weekday - int(t.Weekday()) + 7) % 7
		weeks := d.ordinal
		if d.ordinal > 0 && d.weekday != int(t.Weekday()) {
			weeks--
		}
		t = t.AddDate(0, 0, shift+7*int(weeks))
	}
	if d.rYear != 0 || d.rMonth != 0 || d.rDay != 0 {
		t = t.AddDate(int(d.rYear), int(d.rMonth), int(d.rDay))
	}
	sec := d.rHour*3600 + d.rMin*60 + d.rSec
	t = time.Unix(t.Unix()+sec, int64(t.Nanosecond())+d.rNanos)
	return t.In(zone), true
}

// DaysIn returns the number of days of a month.
func DaysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
