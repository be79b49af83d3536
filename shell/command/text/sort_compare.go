package text

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/versionsort"
)

// compare orders two keys by their text or value; seed is for -R.
func (k *sortKey) compare(a, b []byte, seed uint64) int {
	if (k.kind == sortVersion || k.kind == sortRandom) && (k.fold || k.dict || k.printing) {
		a, b = k.filterKey(a), k.filterKey(b)
	}
	switch k.kind {
	case sortNumeric:
		return compareNumbers(a, b)
	case sortGeneral:
		return compareFloats(parseGeneral(a), parseGeneral(b))
	case sortHuman:
		if d := humanOrder(a) - humanOrder(b); d != 0 {
			return d
		}
		return compareNumbers(a, b)
	case sortMonth:
		return parseMonth(a) - parseMonth(b)
	case sortVersion:
		return versionsort.Compare(a, b)
	case sortRandom:
		if x, y := hashWithSeed(a, seed), hashWithSeed(b, seed); x != y {
			return compareOrdered(x, y)
		}
	}
	if k.fold || k.dict || k.printing {
		return k.compareFiltered(a, b)
	}
	return bytes.Compare(a, b)
}

func compareOrdered[T uint64 | int | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// ignoresByte reports whether -d or -i ignore a byte.
func (k *sortKey) ignoresByte(c byte) bool {
	switch {
	case k.dict:
		return !(isBlank(c) || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	case k.printing:
		return c < ' ' || c >= 0x7f
	}
	return false
}

// filterKey returns a copy of a key with the changes of -d, -i and -f.
func (k *sortKey) filterKey(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if k.ignoresByte(c) {
			continue
		}
		if k.fold {
			c = toUpperASCII(c)
		}
		out = append(out, c)
	}
	return out
}

// compareFiltered orders keys under -d, -i and -f without copying them.
func (k *sortKey) compareFiltered(a, b []byte) int {
	i, j := 0, 0
	for {
		for i < len(a) && k.ignoresByte(a[i]) {
			i++
		}
		for j < len(b) && k.ignoresByte(b[j]) {
			j++
		}
		if i == len(a) || j == len(b) {
			return int(number.FromBool(i < len(a)) - number.FromBool(j < len(b)))
		}
		c, d := a[i], b[j]
		if k.fold {
			c, d = toUpperASCII(c), toUpperASCII(d)
		}
		if c != d {
			return int(c) - int(d)
		}
		i, j = i+1, j+1
	}
}

// orderPrefix returns a number that orders like the key as far as it goes: if the prefixes of two
// keys differ, the keys are in the same order as the prefixes.
func (k *sortKey) orderPrefix(b []byte, seed uint64) uint64 {
	var n uint64
	switch k.kind {
	case sortNumeric:
		n = approximateNumber(b)
	case sortGeneral:
		g := parseGeneral(b)
		n = orderFloat(g.value) >> 2
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
		n = uint64(parseMonth(b))
	case sortVersion:
		n = 0
	case sortRandom:
		if k.fold || k.dict || k.printing {
			b = k.filterKey(b)
		}
		n = hashWithSeed(b, seed)
	default:
		n = k.textPrefix(b)
	}
	if k.reverse {
		n = ^n
	}
	return n
}

// textPrefix returns the orderPrefix of a text key.
func (k *sortKey) textPrefix(b []byte) uint64 {
	if !(k.fold || k.dict || k.printing) {
		return firstEight(b)
	}
	var buf [8]byte
	n := 0
	for _, c := range b {
		if k.ignoresByte(c) {
			continue
		}
		if k.fold {
			c = toUpperASCII(c)
		}
		buf[n] = c
		if n++; n == 8 {
			break
		}
	}
	return binary.BigEndian.Uint64(buf[:])
}

// firstEight returns the first eight bytes as a number that orders like them.
func firstEight(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (56 - 8*i)
	}
	return n
}

// orderFloat returns a number that orders like f.
func orderFloat(f float64) uint64 {
	if f == 0 {
		f = 0 // no negative zero
	}
	n := math.Float64bits(f)
	if n>>63 != 0 {
		return ^n
	}
	return n | 1<<63
}

// approximateNumber returns a number that orders like the value of b, cut off after three decimals.
func approximateNumber(b []byte) uint64 {
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

// decimal is a number as written, without insignificant zeros.
type decimal struct {
	negative    bool
	whole, part []byte
}

// splitNumber splits a number into its sign, its integer part and its fraction.
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
		return int(number.FromBool(y.negative) - number.FromBool(x.negative))
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

// general is a value of sort -g. class is 0 for text that is no number, 1 for NaN, 2 for a number.
type general struct {
	class int
	value float64
}

func parseGeneral(b []byte) general {
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

// floatPrefix returns the length of the prefix of s that strtod would parse.
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
	whole := character.PrefixLen(s[i:], digits)
	i += whole
	part := 0
	if i < len(s) && s[i] == '.' {
		part = character.PrefixLen(s[i+1:], digits)
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
		if n := character.PrefixLen(s[j:], digits); n > 0 {
			return j + n
		}
	}
	return i
}

// hexFloatPrefix continues floatPrefix at i, after 0x.
func hexFloatPrefix(s string, i int) int {
	digits := "0123456789abcdefABCDEF"
	j := i + character.PrefixLen(s[i:], digits)
	if j < len(s) && s[j] == '.' {
		j += 1 + character.PrefixLen(s[j+1:], digits)
	}
	if j+1 < len(s) && (s[j] == 'p' || s[j] == 'P') {
		k := j + 1
		if s[k] == '-' || s[k] == '+' {
			k++
		}
		if n := character.PrefixLen(s[k:], "0123456789"); n > 0 {
			return k + n
		}
	}
	if j > i {
		return j
	}
	return i - 1
}

func compareFloats(a, b general) int {
	if a.class != b.class {
		return a.class - b.class
	}
	return compareOrdered(a.value, b.value)
}

// humanOrder returns the power of the unit after a number, negated for a negative number, and 0 for
// zero.
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

// parseMonth returns the number of the month whose name b begins with, or 0.
func parseMonth(b []byte) int {
	b = b[skipBlanks(b, 0):]
	if len(b) < 3 {
		return 0
	}
	name := string([]byte{toUpperASCII(b[0]), toUpperASCII(b[1]), toUpperASCII(b[2])})
	i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", name)
	if i < 0 || i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// hashWithSeed returns a hash of b that differs from seed to seed.
func hashWithSeed(b []byte, seed uint64) uint64 {
	h := seed ^ 14695981039346656037
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}
