package search

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// patchKind is the format of a patch.
type patchKind int

const (
	patchUnknown patchKind = iota
	patchUnified
	patchContext
	patchNormal
	patchGit // names and modes, but no changes of lines
)

// patchFile is a parsed patch of one file.
type patchFile struct {
	kind     patchKind
	names    [3]string // old, new, index; empty where there is none
	heads    [2]string // the lines with the names of old and new, for rejects
	git      bool
	renamed  bool // from names[0] to names[1]
	copied   bool
	creates  bool // the old file does not exist
	deletes  bool // the new file does not exist
	mode     int64
	leading  [2]int   // lines of the input before the first hunk
	text     [][]byte // those lines
	hunks    []*patchHunk
	cost     int64
	reversed bool
}

// patchHunk is one run of changes.
type patchHunk struct {
	from, to int // first lines, counted from 1
	lines    []patchLine
	function string
}

// patchLine is a line of a hunk: op is ' ' for context, '-' for a removed and '+' for an added line.
type patchLine struct {
	op   byte
	text []byte // without its newline
	cut  bool   // no newline follows in the file
}

// patchLineCost is the memory of a line of a hunk in bytes, without its text.
const patchLineCost = 40

// addLine appends a line to a hunk. The growth is charged before it happens.
func (r *patchReader) addLine(h *patchHunk, l patchLine) {
	if n := cap(h.lines); len(h.lines) == n {
		size := max(8, n+n/2)
		r.p.Alloc(int64(size) * patchLineCost)
		h.lines = append(make([]patchLine, 0, size), h.lines...)
		r.p.Free(int64(n) * patchLineCost)
	}
	h.lines = append(h.lines, l)
}

// linesWithout returns the lines of a hunk whose op is not without: the old or the new text.
func (h *patchHunk) linesWithout(without byte) []patchLine {
	list := make([]patchLine, 0, len(h.lines))
	for _, l := range h.lines {
		if l.op != without {
			list = append(list, l)
		}
	}
	return list
}

// countContext returns the number of lines of context before and after the changes.
func (h *patchHunk) countContext() (before, after int) {
	for before < len(h.lines) && h.lines[before].op == ' ' {
		before++
	}
	for after < len(h.lines)-before && h.lines[len(h.lines)-1-after].op == ' ' {
		after++
	}
	return before, after
}

// swap reverses the hunk.
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
	// Removed lines stay before added ones.
	for i := 0; i < len(h.lines); {
		end := i
		for end < len(h.lines) && h.lines[end].op != ' ' {
			end++
		}
		slices.SortStableFunc(h.lines[i:end], func(a, b patchLine) int { return int(b.op) - int(a.op) })
		i = end + 1
	}
}

// patchReader parses patches within any text.
type patchReader struct {
	p     *kernel.Proc
	lines [][]byte // with their newlines
	at    int
	kind  patchKind
}

func newPatchReader(p *kernel.Proc, data []byte, kind patchKind) *patchReader {
	r := &patchReader{p: p, kind: kind}
	n := bytes.Count(data, []byte{'\n'}) + 1
	p.Alloc(int64(n) * 24)
	r.lines = make([][]byte, 0, n)
	for line := range bytes.Lines(data) {
		p.Tick(1)
		r.lines = append(r.lines, line)
	}
	return r
}

// peekLine returns the i-th line after the current one without its end, or nil after the last one.
func (r *patchReader) peekLine(i int) []byte {
	if r.at+i >= len(r.lines) {
		return nil
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(r.lines[r.at+i], []byte{'\n'}), []byte{'\r'})
}

// next returns the next patch, or nil if there is none left, or the message of an error.
func (r *patchReader) next() (*patchFile, string) {
	f := &patchFile{}
	f.leading[0] = r.at
	if !r.readHeader(f) {
		return nil, ""
	}
	f.leading[1] = r.at
	for i := f.leading[0]; i < f.leading[1]; i++ {
		f.text = append(f.text, bytes.TrimSuffix(r.lines[i], []byte{'\n'}))
	}
	if msg := r.readHunks(f); msg != "" {
		return f, msg
	}
	return f, ""
}

// readHeader skips to the first hunk and records names and modes on the way. It reports whether it
// found a patch.
func (r *patchReader) readHeader(f *patchFile) bool {
	for ; r.at < len(r.lines); r.at++ {
		r.p.Tick(1)
		line := string(r.peekLine(0))
		if strings.HasPrefix(line, "diff --git ") {
			if f.git && (f.renamed || f.copied || f.mode != 0) {
				f.kind = patchGit
				return true
			}
			*f = patchFile{git: true, leading: f.leading}
			f.names[0], f.names[1], _ = strings.Cut(line[11:], " ")
			continue
		}
		if f.git && r.parseGitHeader(f, line) {
			continue
		}
		if kind := r.hunkKindAt(f, line); kind != patchUnknown {
			f.kind = kind
			return true
		}
		r.readNameLine(f, line)
	}
	f.kind = patchGit
	return f.git && (f.renamed || f.copied || f.mode != 0)
}

// parseGitHeader parses a line of git's extended header and reports whether it is one.
func (r *patchReader) parseGitHeader(f *patchFile, line string) bool {
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

// readNameLine records the name in a header line.
func (r *patchReader) readNameLine(f *patchFile, line string) {
	switch {
	case strings.HasPrefix(line, "*** "):
		r.setName(f, 0, line[4:])
	case strings.HasPrefix(line, "--- "):
		which := 0
		if r.at > 0 && strings.HasPrefix(string(r.lines[r.at-1]), "*** ") {
			which = 1
		}
		r.setName(f, which, line[4:])
	case strings.HasPrefix(line, "+++ "):
		r.setName(f, 1, line[4:])
	case strings.HasPrefix(line, "Index:"):
		f.names[2] = strings.TrimSpace(line[6:])
	}
}

// setName records a name, which ends at a tab or a date.
func (r *patchReader) setName(f *patchFile, which int, text string) {
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
		return // already set by the git header
	}
	if name == "/dev/null" {
		name = ""
	}
	f.names[which] = name
}

func looksDated(s string) bool {
	return len(s) > 10 && character.IsDigit(int(s[0])) && s[4] == '-' && s[7] == '-'
}

// hunkKindAt returns the format of the hunk that begins at a line, or patchUnknown.
func (r *patchReader) hunkKindAt(f *patchFile, line string) patchKind {
	want := func(k patchKind) bool { return r.kind == patchUnknown || r.kind == k }
	switch {
	case strings.HasPrefix(line, "@@ -") && want(patchUnified) && (f.names != [3]string{} || f.creates || f.deletes || r.kind == patchUnified):
		return patchUnified
	case strings.HasPrefix(line, "********") && strings.HasPrefix(string(r.peekLine(1)), "*** ") && want(patchContext):
		return patchContext
	case line != "" && character.IsDigit(int(line[0])) && want(patchNormal):
		if _, ok := parseNormalCommand(line); ok && (strings.HasPrefix(string(r.peekLine(1)), "< ") || strings.HasPrefix(string(r.peekLine(1)), "> ")) {
			return patchNormal
		}
	}
	return patchUnknown
}

// readHunks reads all hunks of a patch. It returns the message of an error, or "".
func (r *patchReader) readHunks(f *patchFile) string {
	for {
		var h *patchHunk
		msg := ""
		line := string(r.peekLine(0))
		switch {
		case f.kind == patchUnified && strings.HasPrefix(line, "@@ -"):
			h, msg = r.parseUnifiedHunk()
		case f.kind == patchContext && strings.HasPrefix(line, "********"):
			h, msg = r.parseContextHunk()
		case f.kind == patchNormal && line != "" && character.IsDigit(int(line[0])):
			if _, ok := parseNormalCommand(line); !ok {
				return ""
			}
			h, msg = r.parseNormalHunk()
		}
		if msg != "" || h == nil {
			return msg
		}
		cost := int64(2*patchLineCost*len(h.lines)) + 96 // two copies while it is applied
		r.p.Alloc(cost)
		f.cost += cost + int64(cap(h.lines))*patchLineCost
		f.hunks = append(f.hunks, h)
	}
}

func (r *patchReader) malformedMessage() string {
	if r.at >= len(r.lines) {
		return "unexpected end of file in patch"
	}
	return "malformed patch at line " + strconv.Itoa(r.at+1) + ": " + string(r.lines[r.at])
}

// parsePatchSpan parses "3,7" or "3".
func parsePatchSpan(s string) (from, n int, ok bool) {
	first, second, two := strings.Cut(s, ",")
	from, err := strconv.Atoi(first)
	n = 1
	if two && err == nil {
		n, err = strconv.Atoi(second)
	}
	return from, n, err == nil && from >= 0 && n >= 0
}

func (r *patchReader) parseUnifiedHunk() (*patchHunk, string) {
	line := string(r.peekLine(0))
	old, rest, _ := strings.Cut(line[4:], " +")
	fresh, function, closed := strings.Cut(rest, " @@")
	from, left, okA := parsePatchSpan(old)
	to, right, okB := parsePatchSpan(fresh)
	if !okA || !okB || !closed {
		return nil, r.malformedMessage()
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
		l, ok := r.parseUnifiedLine(left, right)
		if !ok {
			return nil, r.malformedMessage()
		}
		if l.op != '+' {
			left--
		}
		if l.op != '-' {
			right--
		}
		if left < 0 || right < 0 {
			r.at--
			return nil, r.malformedMessage()
		}
		r.addLine(h, l)
		r.parseNoNewline(h)
	}
	return h, ""
}

// parseUnifiedLine reads a line of a unified hunk. It supplies blank lines that were lost at the very end.
func (r *patchReader) parseUnifiedLine(left, right int) (patchLine, bool) {
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

// parseNoNewline parses the mark after a line that lacks its newline.
func (r *patchReader) parseNoNewline(h *patchHunk) {
	if line := r.peekLine(0); len(line) > 0 && line[0] == '\\' && len(h.lines) > 0 {
		h.lines[len(h.lines)-1].cut = true
		r.at++
	}
}

// parseContextHunk reads the two parts of a context hunk and merges them.
func (r *patchReader) parseContextHunk() (*patchHunk, string) {
	function := strings.TrimLeft(string(r.peekLine(0)), "*")
	r.at++
	old, from, msg := r.parseContextPart("*** ", " ****", "--- ")
	if msg != "" {
		return nil, msg
	}
	fresh, to, msg := r.parseContextPart("--- ", " ----", "")
	if msg != "" {
		return nil, msg
	}
	h := &patchHunk{from: from.at, to: to.at, function: function}
	if !from.given {
		old = filterCommon(fresh)
	}
	if !to.given {
		fresh = filterCommon(old)
	}
	i, j := 0, 0
	for i < len(old) || j < len(fresh) {
		switch {
		case i < len(old) && old[i].op == '-':
			r.addLine(h, old[i])
			i++
		case j < len(fresh) && fresh[j].op == '+':
			r.addLine(h, fresh[j])
			j++
		case i < len(old) && j < len(fresh):
			r.addLine(h, old[i])
			i++
			j++
		default:
			return nil, r.malformedMessage()
		}
	}
	return h, ""
}

// filterCommon returns the lines of context.
func filterCommon(list []patchLine) []patchLine {
	var common []patchLine
	for _, l := range list {
		if l.op == ' ' {
			common = append(common, l)
		}
	}
	return common
}

// contextSpan is the range of lines of a part of a context hunk, and whether its lines are present.
type contextSpan struct {
	at    int
	given bool
}

// parseContextPart reads one part of a context hunk.
func (r *patchReader) parseContextPart(head, tail, next string) (lines []patchLine, span contextSpan, msg string) {
	line := string(r.peekLine(0))
	numbers, ok := strings.CutPrefix(line, head)
	numbers, closed := strings.CutSuffix(strings.TrimRight(numbers, " "), tail)
	first, second, two := strings.Cut(numbers, ",")
	from, err := strconv.Atoi(first)
	to := from
	if two && err == nil {
		to, err = strconv.Atoi(second)
	}
	if !ok || !closed || err != nil || from < 0 || to < from-1 {
		return nil, span, r.malformedMessage()
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
		text := bytes.TrimSuffix(r.currentLine(), []byte{'\n'})
		if next != "" && bytes.HasPrefix(text, []byte(next)) || bytes.HasPrefix(text, []byte("********")) || r.at >= len(r.lines) {
			break
		}
		l, ok := parseContextLine(text, head)
		if !ok {
			if len(part.lines) == 0 {
				break
			}
			return nil, span, r.malformedMessage()
		}
		r.at++
		r.addLine(part, l)
		r.parseNoNewline(part)
	}
	if n := len(part.lines); n != 0 && n != count {
		return nil, span, r.malformedMessage()
	}
	span.given = len(part.lines) > 0 || count == 0
	return part.lines, span, ""
}

func (r *patchReader) currentLine() []byte {
	if r.at >= len(r.lines) {
		return nil
	}
	return r.lines[r.at]
}

// parseContextLine reads a line of one part of a context hunk.
func parseContextLine(text []byte, head string) (patchLine, bool) {
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

// parseNormalCommand parses a line such as 3,4c3 of a normal diff.
func parseNormalCommand(line string) (h patchHunk, ok bool) {
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

func (r *patchReader) parseNormalHunk() (*patchHunk, string) {
	h, _ := parseNormalCommand(string(r.peekLine(0)))
	counts := strings.Fields(h.function)
	h.function = ""
	left, errA := strconv.Atoi(counts[0])
	right, errB := strconv.Atoi(counts[1])
	if errA != nil || errB != nil {
		return nil, r.malformedMessage()
	}
	r.at++
	take := func(mark string, op byte, n int) bool {
		for range n {
			r.p.Tick(1)
			text := bytes.TrimSuffix(r.currentLine(), []byte{'\n'})
			if !bytes.HasPrefix(text, []byte(mark)) {
				return false
			}
			r.at++
			r.addLine(&h, patchLine{op: op, text: text[2:]})
			r.parseNoNewline(&h)
		}
		return true
	}
	if !take("< ", '-', left) {
		return nil, r.malformedMessage()
	}
	if left > 0 && right > 0 {
		if string(r.peekLine(0)) != "---" {
			return nil, r.malformedMessage()
		}
		r.at++
	}
	if !take("> ", '+', right) {
		return nil, r.malformedMessage()
	}
	return &h, ""
}
