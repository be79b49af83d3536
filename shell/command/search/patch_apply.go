package search

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// patchWork is the application of a patch to one file.
type patchWork struct {
	*patchRun
	f          *patchFile
	in, out    string // the files read and written
	note       string // follows the name in messages
	exists     bool
	before     time.Time   // modification time of the file
	lines      []patchLine // of the file
	result     []patchLine
	copied     int // lines of the file copied to result
	offset     int // distance of the last hunk from its expected position
	addedLines int // by the hunks so far
	mismatch   bool
	skip       bool // do not apply the remaining hunks
	forced     bool // apply although the patch seems applied already
	rejects    []*patchHunk
	moved      []int // addedLines at each reject
}

// applyPatch applies a patch to its file and reports the result.
func (r *patchRun) applyPatch(f *patchFile) {
	if r.reverse {
		f.reverse()
	}
	w := &patchWork{patchRun: r, f: f}
	if !w.locateFiles() {
		w.skipAll()
		return
	}
	info, err := r.p.Stat(w.in)
	if err == nil {
		w.before = info.ModTime()
	}
	if err == nil && !info.Mode().IsRegular() {
		r.printMessage("File " + shellWord(w.in) + " is not a regular file -- refusing to patch\n")
		w.skip, w.rejects, w.moved = true, f.hunks, make([]int, len(f.hunks))
		w.saveRejects()
		return
	}
	if !w.load() {
		return
	}
	if w.f.creates && w.exists && len(w.lines) > 0 && !w.confirmPatch("create", "which already exists!") || w.f.deletes && !w.exists && !w.confirmPatch("delete", "which does not exist!") {
		w.skipAll()
		return
	}
	verb := "patching"
	if r.dry {
		verb = "checking"
	}
	r.printMessage(verb + " file " + shellWord(strings.TrimPrefix(w.out, "./")) + w.note + "\n")
	for i, h := range f.hunks {
		w.applyHunk(i+1, h)
	}
	w.result = append(w.result, w.lines[w.copied:]...)
	w.finishFile()
}

// reverse reverses a patch.
func (f *patchFile) reverse() {
	f.reversed = !f.reversed
	f.names[0], f.names[1] = f.names[1], f.names[0]
	f.heads[0], f.heads[1] = f.heads[1], f.heads[0]
	f.creates, f.deletes = f.deletes, f.creates
	for _, h := range f.hunks {
		h.swap()
	}
}

// confirmPatch reports a patch that doesn't fit the existing file, and whether to go on with it.
func (w *patchWork) confirmPatch(verb, what string) bool {
	turned := ""
	if w.reverse {
		turned = ", when reversed,"
	}
	w.printMessage("The next patch" + turned + " would " + verb + " the file " + shellWord(w.out) + ",\n" + what)
	if w.assumeReversed() {
		w.f.reverse()
		return true
	}
	return !w.skip
}

// assumeReversed reports whether to reverse a patch. There is no user to ask, so the options decide.
func (w *patchWork) assumeReversed() bool {
	option, verb := "Assume -R? [n] ", "Assuming -R."
	if w.reverse {
		option, verb = "Ignore -R? [n] ", "Ignoring -R."
	}
	switch {
	case w.forward:
		w.printMessage("  Skipping patch.\n")
		w.skip = true
		return false
	case w.force:
		w.printMessage("  Applying it anyway.\n")
		return false
	case w.batch:
		w.printMessage("  " + verb + "\n")
		return true
	}
	w.printMessage("  " + option + "\nApply anyway? [n] \nSkipping patch.\n")
	w.skip = true
	return false
}

// skipAll reports that no hunk was applied.
func (w *patchWork) skipAll() {
	n := len(w.f.hunks)
	w.status = max(w.status, 1)
	if n > 0 {
		w.printMessage(fmt.Sprintf("%d out of %d hunk%s ignored\n", n, n, pluralSuffix(n)))
	}
}

func pluralSuffix(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// load reads the file to patch.
func (w *patchWork) load() bool {
	data, err := w.p.ReadFile(w.in)
	w.exists = err == nil
	if err != nil && !w.isAbsent(w.in) {
		w.stopWithError("Can't open file " + w.in + " : " + program.Reason(err))
		return false
	}
	n := bytes.Count(data, []byte{'\n'}) + 1
	w.p.Alloc(patchLineCost * int64(n))
	w.lines = make([]patchLine, 0, n)
	for line := range bytes.Lines(data) {
		w.p.Tick(1)
		text := bytes.TrimSuffix(line, []byte{'\n'})
		w.lines = append(w.lines, patchLine{op: ' ', text: text, cut: len(text) == len(line)})
	}
	return true
}

// applyHunk applies the n-th hunk, or rejects it.
func (w *patchWork) applyHunk(n int, h *patchHunk) {
	where, fuzz := w.placeHunk(n, h)
	at := h.from
	if where != 0 {
		at = where
	}
	at += w.addedLines
	if where == 0 {
		w.rejects, w.moved = append(w.rejects, h), append(w.moved, w.addedLines)
		if !w.skip {
			w.printMessage(fmt.Sprintf("Hunk #%d FAILED at %d.\n", n, at))
		}
		return
	}
	w.put(h, where)
	if fuzz == 0 && w.offset == 0 && !w.verbose {
		return
	}
	text := fmt.Sprintf("Hunk #%d succeeded at %d", n, at)
	if fuzz > 0 {
		text += fmt.Sprintf(" with fuzz %d", fuzz)
	}
	if w.offset != 0 {
		text += fmt.Sprintf(" (offset %d line%s)", w.offset, pluralSuffix(w.offset))
	}
	w.printMessage(text + ".\n")
}

// placeHunk finds the position of the n-th hunk with increasing fuzz; where is 0 if there is none.
func (w *patchWork) placeHunk(n int, h *patchHunk) (where, fuzz int) {
	before, after := h.countContext()
	most := min(w.fuzz, max(before, after))
	for ; fuzz <= most && !w.skip; fuzz++ {
		where = w.find(h, fuzz)
		w.mismatch = w.mismatch || where == 0 || fuzz > 0 || w.offset != 0
		if n == 1 && where == 0 && w.seemsApplied(h, fuzz) && !w.skip {
			where = w.find(h, fuzz)
		}
		if where != 0 {
			return where, fuzz
		}
	}
	return 0, fuzz
}

// seemsApplied reports whether the first hunk fits in reverse and the patch was reversed because of
// that.
func (w *patchWork) seemsApplied(h *patchHunk, fuzz int) bool {
	if w.force || w.forced || w.f.reversed != w.reverse {
		return false
	}
	h.swap()
	where := w.find(h, fuzz)
	h.swap()
	if where == 0 {
		return false
	}
	if w.reverse {
		w.printMessage("Unreversed patch detected!")
	} else {
		w.printMessage("Reversed (or previously applied) patch detected!")
	}
	if w.assumeReversed() {
		w.f.reverse()
		return true
	}
	w.forced, w.offset = true, 0
	return w.skip
}

// find returns the line where a hunk fits, nearest to its expected position first, or 0. With fuzz,
// that many lines of context at its ends need not match.
func (w *patchWork) find(h *patchHunk, fuzz int) int {
	old := h.linesWithout('+')
	before, after := h.countContext()
	context := max(before, after)
	head, tail := fuzz+before-context, fuzz+after-context
	first := h.from + w.offset
	if len(old) == 0 {
		return first
	}
	last := len(w.lines) - (len(old) - tail) + 1
	forward, back := last-first, first-(w.copied+1)
	if first <= back {
		back = first - 1
	}
	move := func(by int) int {
		w.offset += by
		return first + by
	}
	if head < 0 && h.from <= 1 {
		by := 1 - first
		if tail < 0 && (len(old) != len(w.lines) || before < w.copied) {
			return 0
		}
		if w.copied <= before && by <= forward && w.matchesAt(old, first+by, 0, max(tail, 0)) {
			return move(by)
		}
		return 0
	}
	head = max(head, 0)
	if tail < 0 {
		by := first - (len(w.lines) - len(old) + 1)
		if by <= back && w.matchesAt(old, first-by, head, 0) {
			return move(-by)
		}
		return 0
	}
	start := 0
	if forward < 0 {
		start = -forward
	} else if back < 0 {
		start = -back
	}
	for by := start; by <= max(forward, back); by++ {
		if by <= forward && w.matchesAt(old, first+by, head, tail) {
			return move(by)
		}
		if by > 0 && by <= back && w.matchesAt(old, first-by, head, tail) {
			return move(-by)
		}
	}
	return 0
}

// matchesAt compares lines with the file from line at on, without the first head and the last tail
// ones.
func (w *patchWork) matchesAt(old []patchLine, at, head, tail int) bool {
	w.p.Tick(1)
	for i := head; i < len(old)-tail; i++ {
		k := at - 1 + i
		if k < 0 || k >= len(w.lines) {
			return false
		}
		a, b := old[i].text, w.lines[k].text
		if !bytes.Equal(a, b) && !(w.spaces && sameWords(a, b)) {
			return false
		}
		w.p.Tick(1 + len(a)>>6)
	}
	return true
}

// sameWords reports whether two lines differ only in amounts of blanks.
func sameWords(a, b []byte) bool {
	fold := diffFold{space: spaceAmount, tabWidth: 8}
	return bytes.Equal(fold.appendKey(nil, a), fold.appendKey(nil, b))
}

// put applies a hunk at a line. Unchanged lines are copied from the file, not from the patch.
func (w *patchWork) put(h *patchHunk, where int) {
	at := min(max(where-1, w.copied), len(w.lines))
	w.result = append(w.result, w.lines[w.copied:at]...)
	w.p.Alloc(40 * int64(len(h.lines)))
	for _, l := range h.lines {
		w.p.Tick(1)
		switch l.op {
		case '+':
			w.result = append(w.result, l)
			w.addedLines++
			continue
		case '-':
			w.addedLines--
		default:
			if at < len(w.lines) {
				w.result = append(w.result, w.lines[at])
			}
		}
		at = min(at+1, len(w.lines))
	}
	w.copied = at
}

// joinResult returns the patched file.
func (w *patchWork) joinResult() []byte {
	size := 0
	for _, l := range w.result {
		size += len(l.text) + 1
	}
	w.p.Alloc(int64(size))
	out := make([]byte, 0, size)
	for i, l := range w.result {
		out = append(out, l.text...)
		if !l.cut || i < len(w.result)-1 {
			out = append(out, '\n')
		}
	}
	return out
}
