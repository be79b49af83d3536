package command

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// compare orders two keys by their text or value; random needs a seed.
func (k *sortKey) compare(a, b []byte, seed uint64) int {
	if (k.kind == sortVersion || k.kind == sortRandom) && (k.fold || k.dict || k.printing) {
		a, b = k.filtered(a), k.filtered(b)
	}
	switch k.kind {
	case sortNumeric:
		return compareNumbers(a, b)
	case sortGeneral:
		return compareFloats(generalNumber(a), generalNumber(b))
	case sortHuman:
		if d := humanOrder(a) - humanOrder(b); d != 0 {
			return d
		}
		return compareNumbers(a, b)
	case sortMonth:
		return month(a) - month(b)
	case sortVersion:
		return compareVersions(a, b)
	case sortRandom:
		if x, y := scramble(a, seed), scramble(b, seed); x != y {
			return order(x, y)
		}
	}
	if k.fold || k.dict || k.printing {
		return k.compareFiltered(a, b)
	}
	return bytes.Compare(a, b)
}

func order[T uint64 | int | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// ignored reports whether -d or -i pass over a byte.
func (k *sortKey) ignored(c byte) bool {
	switch {
	case k.dict:
		return !(isBlank(c) || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	case k.printing:
		return c < ' ' || c >= 0x7f
	}
	return false
}

// filtered returns a copy of what -d, -i and -f leave of a key.
func (k *sortKey) filtered(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if k.ignored(c) {
			continue
		}
		if k.fold {
			c = upper(c)
		}
		out = append(out, c)
	}
	return out
}

func (k *sortKey) compareFiltered(a, b []byte) int {
	i, j := 0, 0
	for {
		for i < len(a) && k.ignored(a[i]) {
			i++
		}
		for j < len(b) && k.ignored(b[j]) {
			j++
		}
		if i == len(a) || j == len(b) {
			return int(b2i(i < len(a)) - b2i(j < len(b)))
		}
		c, d := a[i], b[j]
		if k.fold {
			c, d = upper(c), upper(d)
		}
		if c != d {
			return int(c) - int(d)
		}
		i, j = i+1, j+1
	}
}

// prefix returns a number that orders like the key as far as it goes: where
// two keys differ in order, their prefixes differ the same way or not at all.
func (k *sortKey) prefix(b []byte, seed uint64) uint64 {
	var n uint64
	switch k.kind {
	case sortNumeric:
		n = quickNumber(b)
	case sortGeneral:
		g := generalNumber(b)
		n = floatBits(g.value) >> 2
		switch g.class {
		case 0:
			n = 0
		case 1:
			n = 1
		default:
			n += 2
		}
	case sortHuman:
		n = uint64(humanOrder(b) + 100)
	case sortMonth:
		n = uint64(month(b))
	case sortVersion:
		n = 0
	case sortRandom:
		if k.fold || k.dict || k.printing {
			b = k.filtered(b)
		}
		n = scramble(b, seed)
	default:
		n = k.textPrefix(b)
	}
	if k.reverse {
		n = ^n
	}
	return n
}

func (k *sortKey) textPrefix(b []byte) uint64 {
	if !(k.fold || k.dict || k.printing) {
		return head8(b)
	}
	var buf [8]byte
	n := 0
	for _, c := range b {
		if k.ignored(c) {
			continue
		}
		if k.fold {
			c = upper(c)
		}
		buf[n] = c
		if n++; n == 8 {
			break
		}
	}
	return binary.BigEndian.Uint64(buf[:])
}

// head8 returns the first eight bytes as a number that orders like them.
func head8(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (56 - 8*i)
	}
	return n
}

// floatBits returns a number that orders like f.
func floatBits(f float64) uint64 {
	if f == 0 {
		f = 0 // no negative zero
	}
	n := math.Float64bits(f)
	if n>>63 != 0 {
		return ^n
	}
	return n | 1<<63
}

// quickNumber returns a number that orders like the value of b, cut after
// three digits of its fraction.
func quickNumber(b []byte) uint64 {
	d := splitNumber(b)
	v := uint64(2e18) + uint64(len(d.whole))
	if len(d.whole) <= 15 {
		v = 0
		for _, c := range d.whole {
			v = v*10 + uint64(c-'0')
		}
		for i := range 3 {
			v *= 10
			if i < len(d.part) {
				v += uint64(d.part[i] - '0')
			}
		}
	}
	if d.negative {
		return 1<<63 - 1 - v
	}
	return 1<<63 | v
}

// decimal is a number as it is written, without zeros that don't count.
type decimal struct {
	negative    bool
	whole, part []byte
}

func splitNumber(b []byte) decimal {
	var d decimal
	b = b[skipBlanks(b, 0):]
	if len(b) > 0 && b[0] == '-' {
		d.negative = true
		b = b[1:]
	}
	for len(b) > 0 && b[0] == '0' {
		b = b[1:]
	}
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	d.whole = b[:n]
	if b = b[n:]; len(b) > 0 && b[0] == '.' {
		n = 1
		end := 1
		for n < len(b) && b[n] >= '0' && b[n] <= '9' {
			if n++; b[n-1] != '0' {
				end = n
			}
		}
		d.part = b[1:end]
	}
	if len(d.whole) == 0 && len(d.part) == 0 {
		d.negative = false
	}
	return d
}

// compareNumbers orders numbers of any length, as sort -n does.
func compareNumbers(a, b []byte) int {
	x, y := splitNumber(a), splitNumber(b)
	if x.negative != y.negative {
		return int(b2i(y.negative) - b2i(x.negative))
	}
	c := len(x.whole) - len(y.whole)
	if c == 0 {
		c = bytes.Compare(x.whole, y.whole)
	}
	if c == 0 {
		c = bytes.Compare(x.part, y.part)
	}
	if x.negative {
		return -c
	}
	return c
}

// general is a value of sort -g: no number (0), not-a-number (1) or a number.
type general struct {
	class int
	value float64
}

func generalNumber(b []byte) general {
	s := strings.TrimLeft(string(b[:min(len(b), 400)]), " \t\n\v\f\r")
	end := floatPrefix(s)
	if end == 0 {
		return general{}
	}
	s = s[:end]
	if strings.ContainsAny(s, "xX") && !strings.ContainsAny(s, "pP") {
		s += "p0"
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return general{}
	}
	if math.IsNaN(f) {
		return general{class: 1}
	}
	return general{class: 2, value: f}
}

// floatPrefix returns how much of s strtod would read.
func floatPrefix(s string) int {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	for _, word := range []string{"infinity", "inf", "nan"} {
		if len(s)-i >= len(word) && strings.EqualFold(s[i:i+len(word)], word) {
			return i + len(word)
		}
	}
	digits := "0123456789"
	exp := "eE"
	hex := len(s) > i+2 && s[i] == '0' && (s[i+1] == 'x' || s[i+1] == 'X')
	if hex {
		return hexFloatPrefix(s, i+2)
	}
	whole := span0(s[i:], digits)
	i += whole
	part := 0
	if i < len(s) && s[i] == '.' {
		part = span0(s[i+1:], digits)
		if whole+part > 0 {
			i += 1 + part
		}
	}
	if whole+part == 0 {
		return 0
	}
	if i < len(s) && strings.IndexByte(exp, s[i]) >= 0 {
		j := i + 1
		if j < len(s) && (s[j] == '-' || s[j] == '+') {
			j++
		}
		if n := span0(s[j:], digits); n > 0 {
			return j + n
		}
	}
	return i
}

// hexFloatPrefix is floatPrefix after 0x.
func hexFloatPrefix(s string, i int) int {
	digits := "0123456789abcdefABCDEF"
	j := i + span0(s[i:], digits)
	if j < len(s) && s[j] == '.' {
		j += 1 + span0(s[j+1:], digits)
	}
	if j+1 < len(s) && (s[j] == 'p' || s[j] == 'P') {
		k := j + 1
		if s[k] == '-' || s[k] == '+' {
			k++
		}
		if n := span0(s[k:], "0123456789"); n > 0 {
			return k + n
		}
	}
	if j > i {
		return j
	}
	return i - 1
}

// span0 returns how many bytes at the head of s are in set.
func span0(s, set string) int { return len(s) - len(strings.TrimLeft(s, set)) }

func compareFloats(a, b general) int {
	if a.class != b.class {
		return a.class - b.class
	}
	return order(a.value, b.value)
}

// humanOrder returns the power of the unit behind a number, negative for a
// negative number and 0 for zero.
func humanOrder(b []byte) int {
	d := splitNumber(b)
	if len(d.whole) == 0 && len(d.part) == 0 {
		return 0
	}
	b = b[skipBlanks(b, 0):]
	if b[0] == '-' {
		b = b[1:]
	}
	b = bytes.TrimLeft(b, "0123456789")
	if len(b) > 0 && b[0] == '.' {
		b = bytes.TrimLeft(b[1:], "0123456789")
	}
	n := 1
	if len(b) > 0 {
		if b[0] == 'k' {
			n = 2
		} else if i := bytes.IndexByte([]byte("KMGTPEZYRQ"), b[0]); i >= 0 {
			n = i + 2
		}
	}
	if d.negative {
		return -n
	}
	return n
}

// month returns the number of the month that b begins with, or 0.
func month(b []byte) int {
	b = b[skipBlanks(b, 0):]
	if len(b) < 3 {
		return 0
	}
	name := string([]byte{upper(b[0]), upper(b[1]), upper(b[2])})
	i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", name)
	if i < 0 || i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// scramble is a hash that differs from seed to seed.
func scramble(b []byte, seed uint64) uint64 {
	h := seed ^ 14695981039346656037
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// compareVersions orders names with numbers in them, as sort -V and ls -v.
func compareVersions(a, b []byte) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return int(b2i(len(a) > 0) - b2i(len(b) > 0))
	case a[0] == '.' && b[0] != '.':
		return -1
	case b[0] == '.' && a[0] != '.':
		return 1
	case a[0] == '.':
		for _, dots := range []string{".", ".."} {
			x, y := string(a) == dots, string(b) == dots
			if x || y {
				return int(b2i(!x) - b2i(!y))
			}
		}
	}
	x, y := versionStem(a), versionStem(b)
	c := compareRevisions(a[:x], b[:y])
	if c != 0 || x == len(a) && y == len(b) {
		return c
	}
	return compareRevisions(a, b)
}

// versionStem returns the length of a name without its suffixes.
func versionStem(s []byte) int {
	alpha := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '~' }
	for i := 0; ; i++ {
		stem := i
		for i+1 < len(s) && s[i] == '.' && alpha(s[i+1]) {
			for i += 2; i < len(s) && (alpha(s[i]) || s[i] >= '0' && s[i] <= '9'); i++ {
			}
		}
		if i >= len(s) {
			return stem
		}
	}
}

func versionWeight(s []byte, i int) int {
	if i >= len(s) {
		return -1
	}
	switch c := s[i]; {
	case c >= '0' && c <= '9':
		return 0
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return int(c)
	case c == '~':
		return -2
	default:
		return int(c) + 256
	}
}

func compareRevisions(a, b []byte) int {
	digit := func(s []byte, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		for i < len(a) && !digit(a, i) || j < len(b) && !digit(b, j) {
			if c := versionWeight(a, i) - versionWeight(b, j); c != 0 {
				return c
			}
			i, j = i+1, j+1
		}
		for i < len(a) && a[i] == '0' {
			i++
		}
		for j < len(b) && b[j] == '0' {
			j++
		}
		first := 0
		for digit(a, i) && digit(b, j) {
			if first == 0 {
				first = int(a[i]) - int(b[j])
			}
			i, j = i+1, j+1
		}
		switch {
		case digit(a, i):
			return 1
		case digit(b, j):
			return -1
		case first != 0:
			return first
		}
	}
	return 0
}
