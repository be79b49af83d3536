package awk

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// span is a part of the record.
type span struct{ from, to int32 }

// record is $0 with its fields. Fields are parts of the record until one is assigned to. Then they
// are separate values, and the record is rebuilt when it is read.
type record struct {
	rec    string
	valid  bool // rec is up to date
	done   bool // all fields have been found
	owned  bool // the fields are in values
	spans  []span
	resume int // where the search for more fields resumes
	values []value
	split  splitter // of this record
	next   splitter // of the next record
}

// splitter finds fields. It appends to spans until there are at least need of them or no more, and
// returns where to resume, or -1 at the end.
type splitter interface {
	find(in *interp, s string, from, need int, spans []span) ([]span, int)
}

// maxFields is the maximum number of fields that a program can create.
const maxFields = 10_000_000

// setRecord assigns $0.
func (in *interp) setRecord(s string) {
	if len(s) > 256 {
		in.cloneStored = true
	}
	in.charge(int64(len(s)) - int64(len(in.rec)))
	if in.owned {
		in.dropValues()
	}
	in.rec = s
	in.valid, in.done, in.owned = true, false, false
	in.spans = in.spans[:0]
	in.resume = 0
	in.split = in.next
}

// dropValues frees the fields that are separate values.
func (in *interp) dropValues() {
	var n int64
	for i := range in.values {
		n += int64(len(in.values[i].s)) + valueCost
	}
	in.charge(-n)
	clear(in.values)
	in.values = in.values[:0]
}

// valueCost is the charge in bytes for a field that is a separate value, beside its text.
const valueCost = 48

// splitTo finds at least need fields.
func (in *interp) splitTo(need int) {
	in.spans, in.resume = in.split.find(in, in.rec, in.resume, need, in.spans)
	if in.resume < 0 {
		in.done = true
	}
	in.tick(1)
}

// splitAll finds all fields.
func (in *interp) splitAll() {
	if !in.done {
		in.splitTo(maxFields)
	}
}

// numFields returns NF.
func (in *interp) numFields() int {
	if in.owned {
		return len(in.values)
	}
	in.splitAll()
	return len(in.spans)
}

// fieldValue returns $i for i > 0. A missing field compares as an empty string, as in gawk.
func (in *interp) fieldValue(i int) value {
	if in.owned {
		if i <= len(in.values) {
			return in.values[i-1]
		}
		return inValue("")
	}
	if i > len(in.spans) {
		if !in.done {
			in.splitTo(i)
		}
		if i > len(in.spans) {
			return inValue("")
		}
	}
	sp := in.spans[i-1]
	return value{s: in.rec[sp.from:sp.to], k: external}
}

// fieldText returns the text of $i for i > 0.
func (in *interp) fieldText(i int) string {
	if in.owned {
		if i <= len(in.values) {
			return in.values[i-1].asString(in.convfmt)
		}
		return ""
	}
	if i > len(in.spans) {
		if !in.done {
			in.splitTo(i)
		}
		if i > len(in.spans) {
			return ""
		}
	}
	sp := in.spans[i-1]
	return in.rec[sp.from:sp.to]
}

// recordText returns $0.
func (in *interp) recordText() string {
	if !in.valid {
		in.rebuildRecord()
	}
	return in.rec
}

// rebuildRecord joins the fields to the record.
func (in *interp) rebuildRecord() {
	n := len(in.ofs) * max(0, len(in.values)-1)
	for i := range in.values {
		n += len(in.values[i].s)
	}
	in.chargeTemp(n)
	b := make([]byte, 0, n)
	for i := range in.values {
		if i > 0 {
			b = append(b, in.ofs...)
		}
		b = append(b, in.values[i].asString(in.convfmt)...)
	}
	in.tickBytes(len(b))
	in.charge(int64(len(b)) - int64(len(in.rec)))
	in.rec = unsafeString(b)
	in.valid = true
	if len(b) > 256 {
		in.cloneStored = true
	}
}

// takeFields makes the fields separate values.
func (in *interp) takeFields() {
	if in.owned {
		return
	}
	in.splitAll()
	var n int64
	for _, sp := range in.spans {
		n += int64(sp.to-sp.from) + valueCost
	}
	in.charge(n)
	in.values = slices.Grow(in.values, len(in.spans))
	for _, sp := range in.spans {
		in.values = append(in.values, inValue(in.rec[sp.from:sp.to]))
	}
	in.owned = true
}

// setNF changes the number of fields to n.
func (in *interp) setNF(line, n int) {
	if n < 0 {
		in.fatal(line, "NF set to negative value")
	}
	if n > maxFields {
		in.fatal(line, "too many fields: %d", n)
	}
	in.takeFields()
	in.resizeFields(n)
	in.valid = false
}

// resizeFields removes or adds fields at the end.
func (in *interp) resizeFields(n int) {
	for len(in.values) > n {
		last := len(in.values) - 1
		in.charge(-int64(len(in.values[last].s)) - valueCost)
		in.values[last] = value{}
		in.values = in.values[:last]
	}
	if grow := n - len(in.values); grow > 0 {
		in.charge(int64(grow) * valueCost)
		in.flushCharges()
		in.tick(grow / 16)
		in.values = slices.Grow(in.values, grow)
		for ; grow > 0; grow-- {
			in.values = append(in.values, inValue(""))
		}
	}
}

// setField assigns $i.
func (in *interp) setField(line, i int, v value) {
	if i == 0 {
		in.setRecord(strings.Clone(v.asString(in.convfmt)))
		return
	}
	if i > maxFields {
		in.fatal(line, "too many fields: %d", i)
	}
	in.takeFields()
	if i > len(in.values) {
		in.resizeFields(i)
	}
	in.storeValue(&in.values[i-1], v)
	in.valid = false
}

// appendSpan appends a field. It charges the slice before it grows.
func (in *interp) appendSpan(spans []span, s span) []span {
	if have := cap(spans); len(spans) == have {
		more := max(64, 2*have)
		in.charge(int64(more) * spanSize)
		in.flushCharges()
		spans = append(make([]span, 0, more), spans...)
		in.charge(-int64(have) * spanSize)
	}
	return append(spans, s)
}

// spanSize is the size of a span in memory, in bytes.
const spanSize = 8

// fieldIndex checks the number of a field.
func (in *interp) fieldIndex(line int, n float64) int {
	if n < 0 {
		in.fatal(line, "attempt to access field %d", int64(n))
	}
	if n > 1<<31 {
		return 1 << 31
	}
	return int(n)
}

// blankSplitter splits at blanks and newlines and ignores those at both ends.
type blankSplitter struct{}

// find implements splitter.
func (blankSplitter) find(in *interp, s string, i, need int, spans []span) ([]span, int) {
	start := i
	for {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n') {
			i++
		}
		if i >= len(s) {
			in.tickBytes(i - start)
			return spans, -1
		}
		if len(spans) >= need {
			in.tickBytes(i - start)
			return spans, i
		}
		b := i
		for i < len(s) && s[i] != ' ' && s[i] != '\t' && s[i] != '\n' {
			i++
		}
		spans = in.appendSpan(spans, span{int32(b), int32(i)})
	}
}

// charSplitter splits at every occurrence of a byte, and at newlines if lines is set.
type charSplitter struct {
	c     byte
	lines bool
}

// find implements splitter.
func (p charSplitter) find(in *interp, s string, i, need int, spans []span) ([]span, int) {
	if s == "" {
		return spans, -1
	}
	start := i
	for {
		if len(spans) >= need {
			in.tickBytes(i - start)
			return spans, i
		}
		n := strings.IndexByte(s[i:], p.c)
		if p.lines {
			n = indexEither(s[i:], p.c, '\n')
		}
		if n < 0 {
			in.tickBytes(len(s) - start)
			return in.appendSpan(spans, span{int32(i), int32(len(s))}), -1
		}
		spans = in.appendSpan(spans, span{int32(i), int32(i + n)})
		i += n + 1
	}
}

// indexEither returns the index of the first a or b, or -1.
func indexEither(s string, a, b byte) int {
	for i := range len(s) {
		if s[i] == a || s[i] == b {
			return i
		}
	}
	return -1
}

// eachSplitter makes every character a field.
type eachSplitter struct{}

// find implements splitter.
func (eachSplitter) find(in *interp, s string, i, _ int, spans []span) ([]span, int) {
	in.tickBytes(len(s) * 8)
	for i < len(s) {
		w := 1
		if in.utf8 && s[i] >= utf8.RuneSelf {
			_, w = utf8.DecodeRuneInString(s[i:])
		}
		spans = in.appendSpan(spans, span{int32(i), int32(i + w)})
		i += w
	}
	return spans, -1
}

// regexSplitter splits at matches that aren't empty.
type regexSplitter struct {
	re *regex.Regexp
}

// find implements splitter.
func (p regexSplitter) find(in *interp, s string, i, _ int, spans []span) ([]span, int) {
	if s == "" {
		return spans, -1
	}
	var caps [2]int
	from := i
	for at := i; at <= len(s) && in.find(p.re, s, at, caps[:]); {
		in.tick(1)
		if caps[1] == caps[0] {
			at = caps[1] + 1
			continue
		}
		spans = in.appendSpan(spans, span{int32(from), int32(caps[0])})
		from, at = caps[1], caps[1]
	}
	return in.appendSpan(spans, span{int32(from), int32(len(s))}), -1
}

// patternSplitter makes every match of a regular expression a field (FPAT).
type patternSplitter struct {
	re *regex.Regexp
}

// find implements splitter.
func (p patternSplitter) find(in *interp, s string, i, _ int, spans []span) ([]span, int) {
	var caps [2]int
	last := -1 // the end of the last field
	for i <= len(s) && in.find(p.re, s, i, caps[:]) {
		in.tick(1)
		if caps[0] == caps[1] && caps[0] == last {
			i = caps[1] + 1
			continue
		}
		spans = in.appendSpan(spans, span{int32(caps[0]), int32(caps[1])})
		last, i = caps[1], caps[1]
		if caps[0] == caps[1] {
			i++
		}
	}
	return spans, -1
}

// widthSplitter splits into fields of fixed widths, each after a number of skipped characters. A
// width of -1 is the rest of the record.
type widthSplitter struct {
	skips, widths []int
}

// find implements splitter.
func (p widthSplitter) find(in *interp, s string, i, _ int, spans []span) ([]span, int) {
	for k, w := range p.widths {
		i += in.charOffset(s[i:], p.skips[k])
		if i >= len(s) {
			break
		}
		end := len(s)
		if w >= 0 {
			end = i + in.charOffset(s[i:], w)
		}
		spans = in.appendSpan(spans, span{int32(i), int32(end)})
		i = end
	}
	return spans, -1
}

// splitterFor returns the splitter for a value of FS or a separator of split(). A regular
// expression never means blanks.
func (in *interp) splitterFor(sep string, isRegex bool, line int) splitter {
	lines := !isRegex && in.rs == ""
	switch {
	case sep == " " && !isRegex:
		return blankSplitter{}
	case sep == "":
		return eachSplitter{}
	case len(sep) == 1 && sep[0] != '\\' && sep[0] < utf8.RuneSelf && !isRegex && !(in.ignoreCase && isNameStart(sep[0])):
		return charSplitter{c: sep[0], lines: lines}
	case len(sep) == 1 && sep[0] == '\\':
		return charSplitter{c: '\\', lines: lines}
	case isRegex && len(sep) == 1 && strings.IndexByte(`\.[]()*+?{}|^$`, sep[0]) < 0 && !in.ignoreCase && sep[0] < utf8.RuneSelf:
		return charSplitter{c: sep[0]}
	}
	if lines {
		sep = "(" + sep + ")|\n"
	}
	return regexSplitter{in.regexes.get(sep, line)}
}

// useFS makes FS the splitter of the next records.
func (in *interp) useFS(line int) {
	in.next = in.splitterFor(in.fs, false, line)
}

// useFieldwidths makes FIELDWIDTHS the splitter of the next records.
func (in *interp) useFieldwidths(line int) {
	var w widthSplitter
	for _, f := range strings.Fields(in.fieldwidths) {
		skip, width, ok := strings.Cut(f, ":")
		if !ok {
			skip, width = "0", f
		}
		n := int(toNumber(width))
		if width == "*" {
			n = -1
		} else if n <= 0 {
			in.fatal(line, "invalid FIELDWIDTHS value, for field %d, near `%s'", len(w.widths)+1, f)
		}
		w.skips = append(w.skips, int(toNumber(skip)))
		w.widths = append(w.widths, n)
	}
	in.next = w
}

// useFPAT makes FPAT the splitter of the next records.
func (in *interp) useFPAT(line int) {
	in.next = patternSplitter{in.regexes.get(in.fpat, line)}
}
