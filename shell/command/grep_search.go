package command

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// grepFile is the search of one file.
type grepFile struct {
	*grepRun
	in    *kernel.Handle
	lines *lines
	name  string // as it is printed
	named bool

	run      []byte // the lines at hand
	offset   int64  // of run in the file
	numbered int    // the line number of the line at countAt
	countAt  int    // in run: newlines before it are in numbered
	shown    int    // in run: what is before has been printed or passed by
	selected int64
	trailing int // lines of context still to print
	gap      bool
	stopped  bool
	mute     bool // nothing more is printed: the file is not text
	binary   bool
	past     [][]byte // lines before run that may become context
	pastSize int64
	pastNum  int   // the number of the line after past
	pastOff  int64 // where past ends
	out      *bufio.Writer
}

// look goes through a file and prints what it finds. It returns how many
// lines were selected.
func (f *grepFile) look() (int64, error) {
	f.numbered = 1
	f.lines = newLines(f.p, f.in, f.delim)
	defer f.lines.close()
	f.gap = true
	for !f.stopped {
		f.run = f.lines.buffered()
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
	f.giveBack()
	if f.binary && f.selected > 0 && !f.quiet && f.list == 0 && !f.count {
		f.p.Errorf("%s: binary file matches", f.display())
	}
	return f.selected, f.lines.failed()
}

func (f *grepFile) display() string {
	if f.name == "-" {
		return "(standard input)"
	}
	return f.name
}

// checkText looks for what text doesn't hold.
func (f *grepFile) checkText() {
	if f.grepStyle.binary == binaryText || f.binary || f.delim == 0 || bytes.IndexByte(f.run, 0) < 0 {
		return
	}
	if f.grepStyle.binary == binaryNone {
		f.stopped = true
		return
	}
	f.binary = true
	f.mute = f.mute || !f.count
}

// searchRun goes through the lines at hand.
func (f *grepFile) searchRun() {
	if f.binary {
		f.zap()
	}
	at := 0
	for at < len(f.run) && !f.stopped {
		if f.selected == f.max {
			f.finishContext(len(f.run))
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

// zap makes a NUL end a line, as grep does in files that are not text.
func (f *grepFile) zap() {
	for i, c := range f.run {
		if c == 0 {
			f.run[i] = f.delim
		}
	}
	f.p.Tick(1 + len(f.run)>>6)
}

// nextMatch returns the first line at or after at that matches, or the end of
// the run twice.
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
		if f.match.line(trimDelim(f.run[at:end], f.delim)) {
			return at, end
		}
		at = end
	}
	return len(f.run), len(f.run)
}

// lineEnd returns where the line that holds at ends, its delimiter included.
func (f *grepFile) lineEnd(at int) int {
	if i := bytes.IndexByte(f.run[at:], f.delim); i >= 0 {
		return at + i + 1
	}
	return len(f.run)
}

// selectEach selects all lines from at to end.
func (f *grepFile) selectEach(at, end int) {
	if f.plain() && f.max < 0 && !f.stopped && at < end && !f.doubtful(f.run[at:end]) {
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

// plain reports whether lines are printed as they are, one after the other.
func (f *grepFile) plain() bool {
	return !(f.numbers || f.offsets || f.named || f.only || f.color || f.quiet || f.list != 0 || f.before > 0 || f.after > 0 || f.mute || f.tab || f.flush || f.replace != nil)
}

// selectLine counts and prints a line that was looked for.
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
	case f.mute:
		f.stop(end)
		return
	default:
		f.printSelected(begin, end)
		if f.mute {
			f.stop(end)
			return
		}
	}
	if f.selected == f.max && f.trailing == 0 {
		f.stop(end)
	}
}

// stop ends the search of the file at a place in the run.
func (f *grepFile) stop(at int) {
	f.stopped = true
	f.shown = max(f.shown, at)
}

// giveBack moves the offset of standard input to where the search stopped, so
// that another program can go on there.
func (f *grepFile) giveBack() {
	if !f.stopped || f.max < 0 || f.in.Fd() != 0 {
		return
	}
	unread := f.lines.end - f.lines.at + len(f.run) - f.shown
	_, _ = f.in.Seek(-int64(unread), io.SeekCurrent) // a pipe can't
}

// printSelected prints a line with the context around it.
func (f *grepFile) printSelected(begin, end int) {
	if !f.only && f.doubtful(f.run[begin:end]) {
		f.binary, f.mute = true, true
		return
	}
	if f.grouped {
		f.finishContext(begin)
		f.leadingContext(begin)
	}
	f.printLine(begin, end, ':')
	f.printed, f.shown, f.gap = true, end, false
	f.trailing = f.after
}

// doubtful reports whether a line holds bytes that are no characters, in a
// file that is shown as text only.
func (f *grepFile) doubtful(line []byte) bool {
	return f.grepStyle.binary != binaryText && !f.bytes && !f.lenient && !utf8.Valid(line)
}

// finishContext prints the context that follows the last selected line, up to
// limit.
func (f *grepFile) finishContext(limit int) {
	for at := f.shown; f.trailing > 0 && at < limit; {
		end := f.lineEnd(at)
		f.printLine(at, end, '-')
		f.trailing--
		f.shown, at = end, end
	}
}

// leadingContext prints the lines before begin, and a separator where lines
// were left out.
func (f *grepFile) leadingContext(begin int) {
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
		f.mark("\x1b[36m\x1b[K", f.separator)
		_ = f.out.WriteByte('\n') // shows at the flush, as all writes
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
	f.forget()
}

func (f *grepFile) forget() {
	f.p.Free(f.pastSize)
	f.past, f.pastSize = f.past[:0], 0
}

// keepContext prints the context that is due and saves lines that may become
// context of what follows.
func (f *grepFile) keepContext() {
	if f.before == 0 && f.after == 0 {
		f.number(len(f.run))
		return
	}
	if f.trailing > 0 && !f.stopped {
		f.finishContext(len(f.run))
	}
	if f.shown > 0 {
		f.gap = false
		f.forget()
	}
	f.pastNum, f.pastOff = f.number(len(f.run)), f.offset+int64(len(f.run))
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

// number returns the number of the line that begins at at.
func (f *grepFile) number(at int) int {
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
	_, _ = f.out.Write(b) // shows at the flush, as all writes
	if b[len(b)-1] != f.delim {
		_ = f.out.WriteByte(f.delim)
	}
	f.printed = true
}

// printLine prints a line of the run; sep tells selected lines from context.
func (f *grepFile) printLine(begin, end int, sep byte) {
	line := f.run[begin:end]
	if f.plain() {
		f.write(line)
		return
	}
	number := f.number(begin)
	f.printText(line, sep, number, f.offset+int64(begin))
}

// printMatches prints what matches in a line, each on a line of its own.
func (f *grepFile) printMatches(line []byte, sep byte, number int, offset int64) {
	text := trimDelim(line, f.delim)
	for at := 0; at <= len(text); {
		lo, hi, ok := f.match.next(text, at)
		if !ok {
			return
		}
		if f.doubtful(text[lo:hi]) {
			f.binary, f.mute = true, true
			return
		}
		f.head(sep, number, offset+int64(lo))
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
	f.head(sep, number, offset)
	text := trimDelim(line, f.delim)
	if (f.color || f.replace != nil) && (sep == ':') != f.invert {
		text = f.marked(text)
	}
	_, _ = f.out.Write(text)
	_ = f.out.WriteByte(f.delim)
	if f.flush {
		_ = f.out.Flush()
	}
}

// marked writes a line up to its last match, in color or replaced, and returns
// what is left.
func (f *grepFile) marked(text []byte) []byte {
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

// markMatch writes a match, or what replaces it.
func (f *grepFile) markMatch(text []byte, lo, hi int) {
	shown := text[lo:hi]
	if f.replace != nil {
		shown = f.match.expand(*f.replace, text, lo)
	}
	if f.color {
		f.mark("\x1b[01;31m\x1b[K", string(shown))
		return
	}
	_, _ = f.out.Write(shown)
}

// mark writes text after an escape sequence that sets its color.
func (f *grepFile) mark(on, text string) {
	if !f.color {
		_, _ = f.out.WriteString(text)
		return
	}
	_, _ = f.out.WriteString(on + text + "\x1b[m\x1b[K")
}

// head writes what stands before a line.
func (f *grepFile) head(sep byte, number int, offset int64) {
	const name, num, punct = "\x1b[35m\x1b[K", "\x1b[32m\x1b[K", "\x1b[36m\x1b[K"
	some := false
	if f.named {
		f.mark(name, f.display())
		if f.nulls {
			_ = f.out.WriteByte(0)
		} else {
			f.mark(punct, string(sep))
		}
		some = true
	}
	if f.numbers {
		f.mark(num, strconv.Itoa(number))
		f.mark(punct, string(sep))
		some = true
	}
	if f.offsets {
		f.mark(num, strconv.FormatInt(offset, 10))
		f.mark(punct, string(sep))
		some = true
	}
	if f.tab && some {
		_ = f.out.WriteByte('\t')
	}
}
