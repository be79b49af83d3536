package command

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// patchWork is a patch on its way into a file.
type patchWork struct {
	*patchRun
	f        *patchFile
	in, out  string // the files read and written
	note     string // what is said after the name
	exists   bool
	before   time.Time   // when the file was changed last
	lines    []patchLine // of the file
	result   []patchLine
	frozen   int // lines of the file that are in result
	offset   int // how far the last hunk was from where it should be
	grown    int // lines that the hunks so far have added
	mismatch bool
	skip     bool // the rest of the hunks is not applied
	anyway   bool // the patch seems applied already, and that was accepted
	rejects  []*patchHunk
	moved    []int // what grown was at each reject
}

// apply applies a patch to its file and says how that went.
func (r *patchRun) apply(f *patchFile) {
	if r.reverse {
		f.turn()
	}
	w := &patchWork{patchRun: r, f: f}
	if !w.locate() {
		w.skipAll()
		return
	}
	info, err := r.p.Stat(w.in)
	if err == nil {
		w.before = info.ModTime()
	}
	if err == nil && !info.Mode().IsRegular() {
		r.say("File " + shellWord(w.in) + " is not a regular file -- refusing to patch\n")
		w.skip, w.rejects, w.moved = true, f.hunks, make([]int, len(f.hunks))
		w.reject()
		return
	}
	if !w.load() {
		return
	}
	if w.f.creates && w.exists && len(w.lines) > 0 && !w.ready("create", "which already exists!") || w.f.deletes && !w.exists && !w.ready("delete", "which does not exist!") {
		w.skipAll()
		return
	}
	verb := "patching"
	if r.dry {
		verb = "checking"
	}
	r.say(verb + " file " + shellWord(strings.TrimPrefix(w.out, "./")) + w.note + "\n")
	for i, h := range f.hunks {
		w.hunk(i+1, h)
	}
	w.result = append(w.result, w.lines[w.frozen:]...)
	w.finish()
}

// turn reverses a patch.
func (f *patchFile) turn() {
	f.reversed = !f.reversed
	f.names[0], f.names[1] = f.names[1], f.names[0]
	f.heads[0], f.heads[1] = f.heads[1], f.heads[0]
	f.creates, f.deletes = f.deletes, f.creates
	for _, h := range f.hunks {
		h.swap()
	}
}

// ready asks what to do with a patch that doesn't fit what exists.
func (w *patchWork) ready(verb, what string) bool {
	turned := ""
	if w.reverse {
		turned = ", when reversed,"
	}
	w.say("The next patch" + turned + " would " + verb + " the file " + shellWord(w.out) + ",\n" + what)
	if w.agree() {
		w.f.turn()
		return true
	}
	return !w.skip
}

// agree asks whether a patch is to be reversed. Nobody is there to answer, so
// that the options decide.
func (w *patchWork) agree() bool {
	option, verb := "Assume -R? [n] ", "Assuming -R."
	if w.reverse {
		option, verb = "Ignore -R? [n] ", "Ignoring -R."
	}
	switch {
	case w.forward:
		w.say("  Skipping patch.\n")
		w.skip = true
		return false
	case w.force:
		w.say("  Applying it anyway.\n")
		return false
	case w.batch:
		w.say("  " + verb + "\n")
		return true
	}
	w.say("  " + option + "\nApply anyway? [n] \nSkipping patch.\n")
	w.skip = true
	return false
}

// skipAll says that no hunk was applied.
func (w *patchWork) skipAll() {
	n := len(w.f.hunks)
	w.status = max(w.status, 1)
	if n > 0 {
		w.say(fmt.Sprintf("%d out of %d hunk%s ignored\n", n, n, plural(n)))
	}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// load reads the file to patch.
func (w *patchWork) load() bool {
	data, err := w.p.ReadFile(w.in)
	w.exists = err == nil
	if err != nil && !w.absent(w.in) {
		w.fatal("Can't open file " + w.in + " : " + why(err))
		return false
	}
	w.p.Alloc(40 * int64(bytes.Count(data, []byte{'\n'})+1))
	for line := range bytes.Lines(data) {
		w.p.Tick(1)
		text := bytes.TrimSuffix(line, []byte{'\n'})
		w.lines = append(w.lines, patchLine{op: ' ', text: text, cut: len(text) == len(line)})
	}
	return true
}

// hunk applies the n-th hunk, or rejects it.
func (w *patchWork) hunk(n int, h *patchHunk) {
	where, fuzz := w.place(n, h)
	at := h.from
	if where != 0 {
		at = where
	}
	at += w.grown
	if where == 0 {
		w.rejects, w.moved = append(w.rejects, h), append(w.moved, w.grown)
		if !w.skip {
			w.say(fmt.Sprintf("Hunk #%d FAILED at %d.\n", n, at))
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
		text += fmt.Sprintf(" (offset %d line%s)", w.offset, plural(w.offset))
	}
	w.say(text + ".\n")
}

// place looks for the place of the n-th hunk with more and more fuzz.
func (w *patchWork) place(n int, h *patchHunk) (where, fuzz int) {
	before, after := h.context()
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

// seemsApplied reports whether the first hunk fits the other way round and the
// patch was turned for that.
func (w *patchWork) seemsApplied(h *patchHunk, fuzz int) bool {
	if w.force || w.anyway || w.f.reversed != w.reverse {
		return false
	}
	h.swap()
	where := w.find(h, fuzz)
	h.swap()
	if where == 0 {
		return false
	}
	if w.reverse {
		w.say("Unreversed patch detected!")
	} else {
		w.say("Reversed (or previously applied) patch detected!")
	}
	if w.agree() {
		w.f.turn()
		return true
	}
	w.anyway, w.offset = true, 0
	return w.skip
}

// find looks for the place of a hunk, near where it should be first; 0 means
// that there is none. With fuzz some lines of context need not match.
func (w *patchWork) find(h *patchHunk, fuzz int) int {
	old := h.side('+')
	before, after := h.context()
	context := max(before, after)
	head, tail := fuzz+before-context, fuzz+after-context
	first := h.from + w.offset
	if len(old) == 0 {
		return first
	}
	last := len(w.lines) - (len(old) - tail) + 1
	forward, back := last-first, first-(w.frozen+1)
	if first <= back {
		back = first - 1
	}
	move := func(by int) int {
		w.offset += by
		return first + by
	}
	if head < 0 && h.from <= 1 {
		by := 1 - first
		if tail < 0 && (len(old) != len(w.lines) || before < w.frozen) {
			return 0
		}
		if w.frozen <= before && by <= forward && w.matches(old, first+by, 0, max(tail, 0)) {
			return move(by)
		}
		return 0
	}
	head = max(head, 0)
	if tail < 0 {
		by := first - (len(w.lines) - len(old) + 1)
		if by <= back && w.matches(old, first-by, head, 0) {
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
		if by <= forward && w.matches(old, first+by, head, tail) {
			return move(by)
		}
		if by > 0 && by <= back && w.matches(old, first-by, head, tail) {
			return move(-by)
		}
	}
	return 0
}

// matches compares lines with the file from line at on, but for the first and
// last ones.
func (w *patchWork) matches(old []patchLine, at, head, tail int) bool {
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

// sameWords compares two lines but for the amounts of blanks.
func sameWords(a, b []byte) bool {
	fold := diffFold{space: spaceAmount, tabWidth: 8}
	return bytes.Equal(fold.key(nil, a), fold.key(nil, b))
}

// put applies a hunk at a line. Lines that stay are the file's own.
func (w *patchWork) put(h *patchHunk, where int) {
	at := min(max(where-1, w.frozen), len(w.lines))
	w.result = append(w.result, w.lines[w.frozen:at]...)
	w.p.Alloc(40 * int64(len(h.lines)))
	for _, l := range h.lines {
		w.p.Tick(1)
		switch l.op {
		case '+':
			w.result = append(w.result, l)
			w.grown++
			continue
		case '-':
			w.grown--
		default:
			if at < len(w.lines) {
				w.result = append(w.result, w.lines[at])
			}
		}
		at = min(at+1, len(w.lines))
	}
	w.frozen = at
}

// content returns the patched file.
func (w *patchWork) content() []byte {
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
