package search

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

// grepFile is the state of the search of one file.
type grepFile struct {
	*grepRun
	in    *kernel.Handle
	lines *stream.LineReader
	name  string // in the output
	named bool

	run      []byte // the buffered lines
	offset   int64  // of run in the file
	numbered int    // the line number of the line at countAt
	countAt  int    // in run: newlines before it are counted in numbered
	shown    int    // in run: the part before it was printed or skipped
	selected int64
	trailing int // lines of context still to print
	gap      bool
	stopped  bool
	silenced bool // the file is not text: print no more lines
	binary   bool
	past     [][]byte // lines before run that may become context
	pastSize int64
	pastNum  int   // the number of the line after past
	pastOff  int64 // offset of the end of past
	out      *bufio.Writer
}

// searchLines searches a file and prints matches. It returns the number of selected lines.
func (f *grepFile) searchLines() (int64, error) {
	f.numbered = 1
	f.lines = stream.NewLineReader(f.p, f.in, f.delim)
	defer f.lines.Close()
	f.gap = true
	for !f.stopped {
		f.run = f.lines.NextBlock()
		if len(f.run) == 0 {
			break
		}
		f.checkText()
		if f.stopped {
			break
		}
		f.countAt, f.shown = 0, 0
		f.searchRun()
		f.keepContext()
		f.offset += int64(len(f.run))
	}
	f.returnUnread()
	if f.binary && f.selected > 0 && !f.quiet && f.list == 0 && !f.count {
		f.p.Errorf("%s: binary file matches", f.displayName())
	}
	return f.selected, f.lines.Err()
}

func (f *grepFile) displayName() string {
	if f.name == "-" {
		return "(standard input)"
	}
	return f.name
}

// checkText checks whether the file is text, and prepares for other data.
func (f *grepFile) checkText() {
	if f.grepStyle.binary == binaryText || f.binary || f.delim == 0 || bytes.IndexByte(f.run, 0) < 0 {
		return
	}
	if f.grepStyle.binary == binaryNone {
		f.stopped = true
		return
	}
	f.binary = true
	f.silenced = f.silenced || !f.count
}

// searchRun searches the buffered lines.
func (f *grepFile) searchRun() {
	if f.binary {
		f.endLinesAtNUL()
	}
	at := 0
	for at < len(f.run) && !f.stopped {
		if f.selected == f.max {
			f.printTrailingContext(len(f.run))
			if f.trailing == 0 {
				f.stop(f.shown)
			}
			return
		}
		begin, end := f.nextMatch(at)
		if f.invert {
			f.selectEach(at, begin)
			at = end
			continue
		}
		if begin == len(f.run) {
			return
		}
		f.selectLine(begin, end)
		at = end
	}
}

// endLinesAtNUL replaces NULs by line ends, as grep does in files that are not text.
func (f *grepFile) endLinesAtNUL() {
	for i, c := range f.run {
		if c == 0 {
			f.run[i] = f.delim
		}
	}
	f.p.Tick(1 + len(f.run)>>6)
}

// nextMatch returns the bounds of the first matching line at or after at. If there is none, both are
// the end of the run.
func (f *grepFile) nextMatch(at int) (begin, end int) {
	if !f.match.byLine {
		hit := f.match.scan(f.run, at)
		if hit < 0 || hit > len(f.run) || hit == len(f.run) && f.run[len(f.run)-1] == f.delim {
			return len(f.run), len(f.run)
		}
		begin = at + bytes.LastIndexByte(f.run[at:hit], f.delim) + 1
		return begin, f.lineEnd(hit)
	}
	for at < len(f.run) {
		end = f.lineEnd(at)
		if f.match.matchesLine(stream.TrimDelimiter(f.run[at:end], f.delim)) {
			return at, end
		}
		at = end
	}
	return len(f.run), len(f.run)
}

// lineEnd returns the end of the line that contains at, after its delimiter.
func (f *grepFile) lineEnd(at int) int {
	if i := bytes.IndexByte(f.run[at:], f.delim); i >= 0 {
		return at + i + 1
	}
	return len(f.run)
}

// selectEach selects all lines from at to end.
func (f *grepFile) selectEach(at, end int) {
	if f.isPlain() && f.max < 0 && !f.stopped && at < end && !f.isDoubtful(f.run[at:end]) {
		f.selected += int64(bytes.Count(f.run[at:end], []byte{f.delim}))
		if f.run[end-1] != f.delim {
			f.selected++
		}
		if !f.count {
			f.write(f.run[at:end])
		}
		return
	}
	for at < end && !f.stopped && f.selected != f.max {
		next := f.lineEnd(at)
		f.selectLine(at, next)
		at = next
	}
}

// isPlain reports whether selected lines are printed unchanged, without anything between them.
func (f *grepFile) isPlain() bool {
	return !(f.numbers || f.offsets || f.named || f.only || f.color || f.quiet || f.list != 0 || f.before > 0 || f.after > 0 || f.silenced || f.tab || f.flush || f.replace != nil)
}

// selectLine counts and prints a selected line.
func (f *grepFile) selectLine(begin, end int) {
	if f.max == f.selected {
		return
	}
	f.selected++
	f.p.Tick(1)
	switch {
	case f.quiet || f.list != 0:
		f.stop(end)
		return
	case f.count:
	case f.silenced:
		f.stop(end)
		return
	default:
		f.printSelected(begin, end)
		if f.silenced {
			f.stop(end)
			return
		}
	}
	if f.selected == f.max && f.trailing == 0 {
		f.stop(end)
	}
}

// stop ends the search of the file at a position in the run.
func (f *grepFile) stop(at int) {
	f.stopped = true
	f.shown = max(f.shown, at)
}

// returnUnread moves the offset of standard input to where the search stopped, so that another program
// can continue there.
func (f *grepFile) returnUnread() {
	if !f.stopped || f.max < 0 || f.in.Fd() != 0 {
		return
	}
	unread := f.lines.Buffered() + len(f.run) - f.shown
	_, _ = f.in.Seek(-int64(unread), io.SeekCurrent) // fails for a pipe
}

// printSelected prints a line with the context around it.
func (f *grepFile) printSelected(begin, end int) {
	if !f.only && f.isDoubtful(f.run[begin:end]) {
		f.binary, f.silenced = true, true
		return
	}
	if f.grouped {
		f.printTrailingContext(begin)
		f.printLeadingContext(begin)
	}
	f.printLine(begin, end, ':')
	f.printed, f.shown, f.gap = true, end, false
	f.trailing = f.after
}

// isDoubtful reports whether a line contains bytes that are not characters, while the file is only
// shown if it is text.
func (f *grepFile) isDoubtful(line []byte) bool {
	return f.grepStyle.binary != binaryText && !f.bytes && !f.lenient && !utf8.Valid(line)
}

// printTrailingContext prints the context after the last selected line, up to limit.
func (f *grepFile) printTrailingContext(limit int) {
	for at := f.shown; f.trailing > 0 && at < limit; {
		end := f.lineEnd(at)
		f.printLine(at, end, '-')
		f.trailing--
		f.shown, at = end, end
	}
}

// printLeadingContext prints the context before begin, after a separator if lines are omitted.
func (f *grepFile) printLeadingContext(begin int) {
	at, n := begin, 0
	for n < f.before && at > f.shown {
		at = f.shown + bytes.LastIndexByte(f.run[f.shown:at-1], f.delim) + 1
		n++
	}
	old := f.past
	if f.shown > 0 || at > 0 {
		old = nil
	}
	if keep := f.before - n; len(old) > keep {
		old = old[len(old)-keep:]
		f.gap = true
	}
	if f.printed && f.separated && (f.gap || at > f.shown) {
		f.printColored("\x1b[36m\x1b[K", f.separator)
		_ = f.out.WriteByte('\n') // Flush reports the error, as of all writes
	}
	f.printPast(old)
	for at < begin {
		end := f.lineEnd(at)
		f.printLine(at, end, '-')
		at = end
	}
}

// printPast prints lines that were read before the run.
func (f *grepFile) printPast(old [][]byte) {
	size := int64(0)
	for _, line := range old {
		size += int64(len(line))
	}
	number, offset := f.pastNum-len(old), f.pastOff-size
	for _, line := range old {
		f.printText(line, '-', number, offset)
		number++
		offset += int64(len(line))
	}
	f.dropContext()
}

func (f *grepFile) dropContext() {
	f.p.Free(f.pastSize)
	f.past, f.pastSize = f.past[:0], 0
}

// keepContext prints the trailing context of the run and saves lines that may become leading context
// in the next run.
func (f *grepFile) keepContext() {
	if f.before == 0 && f.after == 0 {
		f.lineNumber(len(f.run))
		return
	}
	if f.trailing > 0 && !f.stopped {
		f.printTrailingContext(len(f.run))
	}
	if f.shown > 0 {
		f.gap = false
		f.dropContext()
	}
	f.pastNum, f.pastOff = f.lineNumber(len(f.run)), f.offset+int64(len(f.run))
	at, n := len(f.run), 0
	for n < f.before && at > f.shown {
		at = f.shown + bytes.LastIndexByte(f.run[f.shown:at-1], f.delim) + 1
		n++
	}
	if at > f.shown {
		f.gap = true
	}
	for at < len(f.run) {
		end := f.lineEnd(at)
		f.past = append(f.past, bytes.Clone(f.run[at:end]))
		f.pastSize += int64(end-at) + 48
		f.p.Alloc(int64(end-at) + 48)
		at = end
	}
	for len(f.past) > f.before {
		f.p.Free(int64(len(f.past[0])) + 48)
		f.pastSize -= int64(len(f.past[0])) + 48
		f.past, f.gap = f.past[1:], true
	}
}

// lineNumber returns the number of the line that begins at at.
func (f *grepFile) lineNumber(at int) int {
	if !f.numbers {
		return 0
	}
	if at > f.countAt {
		f.numbered += bytes.Count(f.run[f.countAt:at], []byte{f.delim})
		f.countAt = at
	}
	return f.numbered
}

func (f *grepFile) write(b []byte) {
	_, _ = f.out.Write(b) // Flush reports the error, as of all writes
	if b[len(b)-1] != f.delim {
		_ = f.out.WriteByte(f.delim)
	}
	f.printed = true
}

// printLine prints a line of the run; sep is ':' for a selected line and '-' for context.
func (f *grepFile) printLine(begin, end int, sep byte) {
	line := f.run[begin:end]
	if f.isPlain() {
		f.write(line)
		return
	}
	number := f.lineNumber(begin)
	f.printText(line, sep, number, f.offset+int64(begin))
}

// printMatches prints each match in a line on a line of its own.
func (f *grepFile) printMatches(line []byte, sep byte, number int, offset int64) {
	text := stream.TrimDelimiter(line, f.delim)
	for at := 0; at <= len(text); {
		lo, hi, ok := f.match.next(text, at)
		if !ok {
			return
		}
		if f.isDoubtful(text[lo:hi]) {
			f.binary, f.silenced = true, true
			return
		}
		f.printPrefix(sep, number, offset+int64(lo))
		f.markMatch(text, lo, hi)
		_ = f.out.WriteByte(f.delim)
		at = hi
	}
}

func (f *grepFile) printText(line []byte, sep byte, number int, offset int64) {
	if f.only {
		if (sep == ':') != f.invert {
			f.printMatches(line, sep, number, offset)
		}
		return
	}
	f.printPrefix(sep, number, offset)
	text := stream.TrimDelimiter(line, f.delim)
	if (f.color || f.replace != nil) && (sep == ':') != f.invert {
		text = f.printMarked(text)
	}
	_, _ = f.out.Write(text)
	_ = f.out.WriteByte(f.delim)
	if f.flush {
		_ = f.out.Flush()
	}
}

// printMarked prints a line up to its last match, colored or replaced, and returns the rest.
func (f *grepFile) printMarked(text []byte) []byte {
	at := 0
	for at <= len(text) {
		lo, hi, ok := f.match.next(text, at)
		if !ok {
			break
		}
		_, _ = f.out.Write(text[at:lo])
		f.markMatch(text, lo, hi)
		at = hi
	}
	return text[at:]
}

// markMatch prints a match or its replacement.
func (f *grepFile) markMatch(text []byte, lo, hi int) {
	shown := text[lo:hi]
	if f.replace != nil {
		shown = f.match.expandReplacement(*f.replace, text, lo)
	}
	if f.color {
		f.printColored("\x1b[01;31m\x1b[K", string(shown))
		return
	}
	_, _ = f.out.Write(shown)
}

// printColored prints text after an escape sequence that sets its color.
func (f *grepFile) printColored(on, text string) {
	if !f.color {
		_, _ = f.out.WriteString(text)
		return
	}
	_, _ = f.out.WriteString(on + text + "\x1b[m\x1b[K")
}

// printPrefix prints the prefix of a line: file name, line number and offset.
func (f *grepFile) printPrefix(sep byte, number int, offset int64) {
	const name, num, punct = "\x1b[35m\x1b[K", "\x1b[32m\x1b[K", "\x1b[36m\x1b[K"
	some := false
	if f.named {
		f.printColored(name, f.displayName())
		if f.nulls {
			_ = f.out.WriteByte(0)
		} else {
			f.printColored(punct, string(sep))
		}
		some = true
	}
	if f.numbers {
		f.printColored(num, strconv.Itoa(number))
		f.printColored(punct, string(sep))
		some = true
	}
	if f.offsets {
		f.printColored(num, strconv.FormatInt(offset, 10))
		f.printColored(punct, string(sep))
		some = true
	}
	if f.tab && some {
		_ = f.out.WriteByte('\t')
	}
}
