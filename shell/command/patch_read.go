package command

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// patchKind is the form of a patch.
type patchKind int

const (
	patchUnknown patchKind = iota
	patchUnified
	patchContext
	patchNormal
	patchGit // names and modes, but no changes of lines
)

// patchFile is a patch of one file.
type patchFile struct {
	kind     patchKind
	names    [3]string // old, new, index; empty where there is none
	heads    [2]string // the lines with the names of old and new, for rejects
	git      bool
	renamed  bool // from names[0] to names[1]
	copied   bool
	creates  bool // the old file does not exist
	deletes  bool // the new one won't
	mode     int64
	leading  [2]int   // lines of the input before the first hunk
	text     [][]byte // those lines
	hunks    []*patchHunk
	cost     int64
	reversed bool
}

// patchHunk is one run of changes.
type patchHunk struct {
	from, to int // lines where it begins, from 1
	lines    []patchLine
	function string
}

// patchLine is a line of a hunk: ' ' stays, '-' goes, '+' comes.
type patchLine struct {
	op   byte
	text []byte // without its newline
	cut  bool   // no newline follows in the file
}

// side returns the lines of the old or the new text.
func (h *patchHunk) side(without byte) []patchLine {
	list := make([]patchLine, 0, len(h.lines))
	for _, l := range h.lines {
		if l.op != without {
			list = append(list, l)
		}
	}
	return list
}

// context returns how many lines before and after the changes stay.
func (h *patchHunk) context() (before, after int) {
	for before < len(h.lines) && h.lines[before].op == ' ' {
		before++
	}
	for after < len(h.lines)-before && h.lines[len(h.lines)-1-after].op == ' ' {
		after++
	}
	return before, after
}

// swap turns the hunk around.
func (h *patchHunk) swap() {
	h.from, h.to = h.to, h.from
	for i := range h.lines {
		switch h.lines[i].op {
		case '-':
			h.lines[i].op = '+'
		case '+':
			h.lines[i].op = '-'
		}
	}
	// What goes still stands before what comes.
	for i := 0; i < len(h.lines); {
		end := i
		for end < len(h.lines) && h.lines[end].op != ' ' {
			end++
		}
		slices.SortStableFunc(h.lines[i:end], func(a, b patchLine) int { return int(b.op) - int(a.op) })
		i = end + 1
	}
}

// patchReader reads patches out of any text.
type patchReader struct {
	p     *kernel.Proc
	lines [][]byte // with their newlines
	at    int
	kind  patchKind
}

func newPatchReader(p *kernel.Proc, data []byte, kind patchKind) *patchReader {
	r := &patchReader{p: p, kind: kind}
	p.Alloc(int64(bytes.Count(data, []byte{'\n'})+1) * 24)
	for line := range bytes.Lines(data) {
		p.Tick(1)
		r.lines = append(r.lines, line)
	}
	return r
}

// peek returns line i from here without its end, or nil after the last one.
func (r *patchReader) peek(i int) []byte {
	if r.at+i >= len(r.lines) {
		return nil
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(r.lines[r.at+i], []byte{'\n'}), []byte{'\r'})
}

// next reads the next patch; nil means that there is none left, and a message
// that it can't be read.
func (r *patchReader) next() (*patchFile, string) {
	f := &patchFile{}
	f.leading[0] = r.at
	if !r.header(f) {
		return nil, ""
	}
	f.leading[1] = r.at
	for i := f.leading[0]; i < f.leading[1]; i++ {
		f.text = append(f.text, bytes.TrimSuffix(r.lines[i], []byte{'\n'}))
	}
	if msg := r.hunks(f); msg != "" {
		return f, msg
	}
	return f, ""
}

// header skips to the first hunk and notes what it passes.
func (r *patchReader) header(f *patchFile) bool {
	for ; r.at < len(r.lines); r.at++ {
		r.p.Tick(1)
		line := string(r.peek(0))
		if strings.HasPrefix(line, "diff --git ") {
			if f.git && (f.renamed || f.copied || f.mode != 0) {
				f.kind = patchGit
				return true
			}
			*f = patchFile{git: true, leading: f.leading}
			f.names[0], f.names[1], _ = strings.Cut(line[11:], " ")
			continue
		}
		if f.git && r.gitHeader(f, line) {
			continue
		}
		if kind := r.begins(f, line); kind != patchUnknown {
			f.kind = kind
			return true
		}
		r.named(f, line)
	}
	f.kind = patchGit
	return f.git && (f.renamed || f.copied || f.mode != 0)
}

// gitHeader reads a line of git's extended header.
func (r *patchReader) gitHeader(f *patchFile, line string) bool {
	for i, prefix := range []string{"rename from ", "rename to ", "copy from ", "copy to "} {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			f.names[i%2] = "\x00" + rest // as it stands: no prefix to strip
			f.renamed, f.copied = f.renamed || i < 2, f.copied || i >= 2
			return true
		}
	}
	for i, prefix := range []string{"new file mode ", "deleted file mode ", "new mode ", "old mode "} {
		rest, ok := strings.CutPrefix(line, prefix)
		if !ok {
			continue
		}
		mode, err := strconv.ParseInt(strings.TrimSpace(rest), 8, 32)
		switch {
		case i == 0:
			f.creates = true
		case i == 1:
			f.deletes = true
		}
		if err == nil && i%2 == 0 {
			f.mode = mode & 0o7777
		}
		return true
	}
	return false
}

// named notes the names in a header line.
func (r *patchReader) named(f *patchFile, line string) {
	switch {
	case strings.HasPrefix(line, "*** "):
		r.name(f, 0, line[4:])
	case strings.HasPrefix(line, "--- "):
		which := 0
		if r.at > 0 && strings.HasPrefix(string(r.lines[r.at-1]), "*** ") {
			which = 1
		}
		r.name(f, which, line[4:])
	case strings.HasPrefix(line, "+++ "):
		r.name(f, 1, line[4:])
	case strings.HasPrefix(line, "Index:"):
		f.names[2] = strings.TrimSpace(line[6:])
	}
}

// name reads a name, which ends at a tab or a date.
func (r *patchReader) name(f *patchFile, which int, text string) {
	f.heads[which] = text
	name, date, _ := strings.Cut(text, "\t")
	if strings.HasPrefix(name, `"`) {
		if s, err := strconv.Unquote(strings.TrimSpace(name)); err == nil {
			name = s
		}
	} else if i := strings.IndexAny(name, " "); i > 0 && date == "" && looksDated(name[i+1:]) {
		name, date = name[:i], name[i+1:]
	}
	if name == "/dev/null" || strings.HasPrefix(date, "1970-01-01 00:00:00") || strings.HasPrefix(date, "1969-12-31") && strings.HasSuffix(date, "00") || strings.HasPrefix(date, "Thu Jan  1 00:00:00 1970") {
		f.creates = f.creates || which == 0
		f.deletes = f.deletes || which == 1
	}
	if strings.HasPrefix(f.names[which], "\x00") {
		return // git has said it already
	}
	if name == "/dev/null" {
		name = ""
	}
	f.names[which] = name
}

func looksDated(s string) bool {
	return len(s) > 10 && isDigit(int(s[0])) && s[4] == '-' && s[7] == '-'
}

// begins reports whether hunks begin at a line, and of what kind.
func (r *patchReader) begins(f *patchFile, line string) patchKind {
	want := func(k patchKind) bool { return r.kind == patchUnknown || r.kind == k }
	switch {
	case strings.HasPrefix(line, "@@ -") && want(patchUnified) && (f.names != [3]string{} || f.creates || f.deletes || r.kind == patchUnified):
		return patchUnified
	case strings.HasPrefix(line, "********") && strings.HasPrefix(string(r.peek(1)), "*** ") && want(patchContext):
		return patchContext
	case line != "" && isDigit(int(line[0])) && want(patchNormal):
		if _, ok := normalCommand(line); ok && (strings.HasPrefix(string(r.peek(1)), "< ") || strings.HasPrefix(string(r.peek(1)), "> ")) {
			return patchNormal
		}
	}
	return patchUnknown
}

// hunks reads all hunks of a patch.
func (r *patchReader) hunks(f *patchFile) string {
	for {
		var h *patchHunk
		msg := ""
		line := string(r.peek(0))
		switch {
		case f.kind == patchUnified && strings.HasPrefix(line, "@@ -"):
			h, msg = r.unifiedHunk()
		case f.kind == patchContext && strings.HasPrefix(line, "********"):
			h, msg = r.contextHunk()
		case f.kind == patchNormal && line != "" && isDigit(int(line[0])):
			if _, ok := normalCommand(line); !ok {
				return ""
			}
			h, msg = r.normalHunk()
		}
		if msg != "" || h == nil {
			return msg
		}
		cost := int64(48*len(h.lines)) + 96
		r.p.Alloc(cost)
		f.cost += cost
		f.hunks = append(f.hunks, h)
	}
}

func (r *patchReader) malformed() string {
	if r.at >= len(r.lines) {
		return "unexpected end of file in patch"
	}
	return "malformed patch at line " + strconv.Itoa(r.at+1) + ": " + string(r.lines[r.at])
}

// span reads "3,7" or "3".
func patchSpan(s string) (from, n int, ok bool) {
	first, second, two := strings.Cut(s, ",")
	from, err := strconv.Atoi(first)
	n = 1
	if two && err == nil {
		n, err = strconv.Atoi(second)
	}
	return from, n, err == nil && from >= 0 && n >= 0
}

func (r *patchReader) unifiedHunk() (*patchHunk, string) {
	line := string(r.peek(0))
	old, rest, _ := strings.Cut(line[4:], " +")
	fresh, function, closed := strings.Cut(rest, " @@")
	from, left, okA := patchSpan(old)
	to, right, okB := patchSpan(fresh)
	if !okA || !okB || !closed {
		return nil, r.malformed()
	}
	h := &patchHunk{from: from, to: to, function: function}
	if left == 0 {
		h.from++
	}
	if right == 0 {
		h.to++
	}
	r.at++
	for left > 0 || right > 0 {
		r.p.Tick(1)
		l, ok := r.unifiedLine(left, right)
		if !ok {
			return nil, r.malformed()
		}
		if l.op != '+' {
			left--
		}
		if l.op != '-' {
			right--
		}
		if left < 0 || right < 0 {
			r.at--
			return nil, r.malformed()
		}
		h.lines = append(h.lines, l)
		r.noNewline(h)
	}
	return h, ""
}

// unifiedLine reads a line of a unified hunk. Blank lines at the very end may
// have been lost.
func (r *patchReader) unifiedLine(left, right int) (patchLine, bool) {
	if r.at >= len(r.lines) {
		return patchLine{op: ' '}, left == right && left < 3
	}
	text := bytes.TrimSuffix(r.lines[r.at], []byte{'\n'})
	switch {
	case len(text) == 0:
		r.at++
		return patchLine{op: ' '}, true
	case text[0] == '\t':
		r.at++
		return patchLine{op: ' ', text: text}, true
	case text[0] == ' ' || text[0] == '-' || text[0] == '+':
		r.at++
		return patchLine{op: text[0], text: text[1:]}, true
	}
	return patchLine{}, false
}

// noNewline reads what says that the line before lacks its newline.
func (r *patchReader) noNewline(h *patchHunk) {
	if line := r.peek(0); len(line) > 0 && line[0] == '\\' && len(h.lines) > 0 {
		h.lines[len(h.lines)-1].cut = true
		r.at++
	}
}

// contextHunk reads a hunk in two parts and weaves them together.
func (r *patchReader) contextHunk() (*patchHunk, string) {
	function := strings.TrimLeft(string(r.peek(0)), "*")
	r.at++
	old, from, msg := r.contextPart("*** ", " ****", "--- ")
	if msg != "" {
		return nil, msg
	}
	fresh, to, msg := r.contextPart("--- ", " ----", "")
	if msg != "" {
		return nil, msg
	}
	h := &patchHunk{from: from.at, to: to.at, function: function}
	if !from.given {
		old = commonLines(fresh)
	}
	if !to.given {
		fresh = commonLines(old)
	}
	i, j := 0, 0
	for i < len(old) || j < len(fresh) {
		switch {
		case i < len(old) && old[i].op == '-':
			h.lines = append(h.lines, old[i])
			i++
		case j < len(fresh) && fresh[j].op == '+':
			h.lines = append(h.lines, fresh[j])
			j++
		case i < len(old) && j < len(fresh):
			h.lines = append(h.lines, old[i])
			i++
			j++
		default:
			return nil, r.malformed()
		}
	}
	return h, ""
}

func commonLines(list []patchLine) []patchLine {
	var common []patchLine
	for _, l := range list {
		if l.op == ' ' {
			common = append(common, l)
		}
	}
	return common
}

// contextSpan is where a part of a context hunk stands, and whether its lines
// were given.
type contextSpan struct {
	at    int
	given bool
}

// contextPart reads one part of a context hunk.
func (r *patchReader) contextPart(head, tail, next string) (lines []patchLine, span contextSpan, msg string) {
	line := string(r.peek(0))
	numbers, ok := strings.CutPrefix(line, head)
	numbers, closed := strings.CutSuffix(strings.TrimRight(numbers, " "), tail)
	first, second, two := strings.Cut(numbers, ",")
	from, err := strconv.Atoi(first)
	to := from
	if two && err == nil {
		to, err = strconv.Atoi(second)
	}
	if !ok || !closed || err != nil || from < 0 || to < from-1 {
		return nil, span, r.malformed()
	}
	r.at++
	span.at = from
	count := to - from + 1
	if !two && from == 0 {
		count, span.at = 0, 1
	}
	part := &patchHunk{}
	for len(part.lines) < count {
		r.p.Tick(1)
		text := bytes.TrimSuffix(r.current(), []byte{'\n'})
		if next != "" && bytes.HasPrefix(text, []byte(next)) || bytes.HasPrefix(text, []byte("********")) || r.at >= len(r.lines) {
			break
		}
		l, ok := contextLine(text, head)
		if !ok {
			if len(part.lines) == 0 {
				break
			}
			return nil, span, r.malformed()
		}
		r.at++
		part.lines = append(part.lines, l)
		r.noNewline(part)
	}
	if n := len(part.lines); n != 0 && n != count {
		return nil, span, r.malformed()
	}
	span.given = len(part.lines) > 0 || count == 0
	return part.lines, span, ""
}

func (r *patchReader) current() []byte {
	if r.at >= len(r.lines) {
		return nil
	}
	return r.lines[r.at]
}

// contextLine reads a line of one part of a context hunk.
func contextLine(text []byte, head string) (patchLine, bool) {
	if len(text) == 0 {
		return patchLine{op: ' '}, true
	}
	body := text[min(2, len(text)):]
	if text[0] == '\t' {
		return patchLine{op: ' ', text: text}, true
	}
	side := byte('-')
	if head == "--- " {
		side = '+'
	}
	switch {
	case text[0] == ' ':
		return patchLine{op: ' ', text: body}, true
	case text[0] == '!' || text[0] == side:
		return patchLine{op: side, text: body}, true
	}
	return patchLine{}, false
}

// normalCommand reads a line such as 3,4c3 of a normal diff.
func normalCommand(line string) (h patchHunk, ok bool) {
	i := strings.IndexAny(line, "acd")
	if i <= 0 {
		return h, false
	}
	span := func(s string) (from, n int, ok bool) {
		first, second, two := strings.Cut(s, ",")
		from, err := strconv.Atoi(first)
		to := from
		if two && err == nil {
			to, err = strconv.Atoi(second)
		}
		return from, to - from + 1, err == nil && from >= 0 && to >= from
	}
	from, n, okA := span(line[:i])
	to, m, okB := span(line[i+1:])
	if !okA || !okB {
		return h, false
	}
	switch line[i] {
	case 'a':
		from, n = from+1, 0
	case 'd':
		to, m = to+1, 0
	}
	return patchHunk{from: from, to: to, function: strconv.Itoa(n) + " " + strconv.Itoa(m)}, true
}

func (r *patchReader) normalHunk() (*patchHunk, string) {
	h, _ := normalCommand(string(r.peek(0)))
	counts := strings.Fields(h.function)
	h.function = ""
	left, errA := strconv.Atoi(counts[0])
	right, errB := strconv.Atoi(counts[1])
	if errA != nil || errB != nil {
		return nil, r.malformed()
	}
	r.at++
	take := func(mark string, op byte, n int) bool {
		for range n {
			r.p.Tick(1)
			text := bytes.TrimSuffix(r.current(), []byte{'\n'})
			if !bytes.HasPrefix(text, []byte(mark)) {
				return false
			}
			r.at++
			h.lines = append(h.lines, patchLine{op: op, text: text[2:]})
			r.noNewline(&h)
		}
		return true
	}
	if !take("< ", '-', left) {
		return nil, r.malformed()
	}
	if left > 0 && right > 0 {
		if string(r.peek(0)) != "---" {
			return nil, r.malformed()
		}
		r.at++
	}
	if !take("> ", '+', right) {
		return nil, r.malformed()
	}
	return &h, ""
}
