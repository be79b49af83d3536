package git

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// filePatch is the part of a patch that changes one file.
type filePatch struct {
	old, new string // "" for /dev/null
	oldMode  uint32
	newMode  uint32
	oldID    string
	rename   bool
	copied   bool
	binary   bool
	literal  bool // versions is the new and the old content of a binary file
	versions [2][]byte
	hunks    []patchHunk
}

// patchHunk is a run of lines with a sign: ' ', '-' or '+'. The lines have no line ends; a last line without one
// in its file is marked by noEnd.
type patchHunk struct {
	oldAt int
	lines []hunkLine
}

type hunkLine struct {
	sign  byte
	text  string
	noEnd bool
}

// patchParser reads unified diffs.
type patchParser struct {
	r     *repository
	lines []string
	strip int
	files []*filePatch
}

// parsePatch parses a patch.
func (r *repository) parsePatch(text string, strip int) ([]*filePatch, error) {
	r.p.Alloc(int64(len(text)) * 3)
	p := &patchParser{r: r, lines: strings.Split(text, "\n"), strip: strip}
	for len(p.lines) > 0 {
		r.p.Tick(2)
		line := p.lines[0]
		switch {
		case strings.HasPrefix(line, "diff --git "):
			if err := p.parseHeader(line); err != nil {
				return nil, err
			}
		case strings.HasPrefix(line, "--- ") && len(p.lines) > 1 && strings.HasPrefix(p.lines[1], "+++ "):
			f := &filePatch{}
			p.files = append(p.files, f)
			if err := p.parseNames(f); err != nil {
				return nil, err
			}
			if err := p.parseHunks(f); err != nil {
				return nil, err
			}
		default:
			p.lines = p.lines[1:]
		}
	}
	return p.files, nil
}

// name returns the name of a file without the leading directories that are stripped.
func (p *patchParser) name(text string, strip int) (string, error) {
	text = strings.TrimRight(cutBefore(text, "\t"), "\r")
	if unquoted, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		text = unquoted
	}
	if text == "/dev/null" {
		return "", nil
	}
	for range strip {
		if _, rest, ok := strings.Cut(text, "/"); ok {
			text = rest
		}
	}
	for part := range strings.SplitSeq(text, "/") {
		if !isSafeName(part) {
			return "", newError("invalid path '%s'", text)
		}
	}
	return text, nil
}

// parseHeader parses the lines from diff --git on.
func (p *patchParser) parseHeader(line string) error {
	f := &filePatch{}
	p.files = append(p.files, f)
	rest := strings.TrimPrefix(line, "diff --git ")
	if a, b, ok := splitHeaderNames(rest); ok {
		var err error
		if f.old, err = p.name(a, p.strip); err != nil {
			return err
		}
		if f.new, err = p.name(b, p.strip); err != nil {
			return err
		}
	}
	p.lines = p.lines[1:]
	for len(p.lines) > 0 {
		line := p.lines[0]
		key, value, _ := strings.Cut(line, " ")
		mode := func(text string) uint32 { n, _ := strconv.ParseUint(text, 8, 32); return uint32(n) } // 0: no mode
		var err error
		switch {
		case strings.HasPrefix(line, "new file mode "):
			f.newMode, f.old = mode(line[14:]), ""
		case strings.HasPrefix(line, "deleted file mode "):
			f.oldMode, f.new = mode(line[18:]), ""
		case strings.HasPrefix(line, "old mode "):
			f.oldMode = mode(value[5:])
		case strings.HasPrefix(line, "new mode "):
			f.newMode = mode(value[5:])
		case strings.HasPrefix(line, "rename from "), strings.HasPrefix(line, "copy from "):
			_, name, _ := strings.Cut(value, " ")
			f.old, err = p.name(name, 0)
			f.rename, f.copied = key == "rename", key == "copy"
		case strings.HasPrefix(line, "rename to "), strings.HasPrefix(line, "copy to "):
			_, name, _ := strings.Cut(value, " ")
			f.new, err = p.name(name, 0)
		case key == "index":
			f.oldID = cutBefore(value, "..")
		case key == "similarity" || key == "dissimilarity":
		case strings.HasPrefix(line, "GIT binary patch"):
			f.binary = true
			return p.parseBinary(f)
		case strings.HasPrefix(line, "Binary files "):
			f.binary = true
		case strings.HasPrefix(line, "--- "):
			if err := p.parseNames(f); err != nil {
				return err
			}
			return p.parseHunks(f)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		p.lines = p.lines[1:]
	}
	return nil
}

// splitHeaderNames splits "a/x b/x", where both names are equal, or quoted.
func splitHeaderNames(text string) (a, b string, ok bool) {
	if half := len(text) / 2; len(text)%2 == 1 && text[half] == ' ' && len(text) > 4 && text[2:half] == text[half+3:] {
		return text[:half], text[half+1:], true
	}
	a, b, ok = strings.Cut(text, " ")
	return a, b, ok && !strings.Contains(b, " ")
}

func (p *patchParser) parseNames(f *filePatch) error {
	for _, side := range []struct {
		prefix string
		to     *string
	}{{"--- ", &f.old}, {"+++ ", &f.new}} {
		if len(p.lines) == 0 || !strings.HasPrefix(p.lines[0], side.prefix) {
			return newError("corrupt patch: %s is missing", strings.TrimSpace(side.prefix))
		}
		name, err := p.name(p.lines[0][4:], p.strip)
		if err != nil {
			return err
		}
		*side.to = name
		p.lines = p.lines[1:]
	}
	return nil
}

func (p *patchParser) parseHunks(f *filePatch) error {
	for len(p.lines) > 0 && strings.HasPrefix(p.lines[0], "@@ -") {
		var h patchHunk
		head := p.lines[0]
		left, right := [2]int{0, 1}, [2]int{0, 1}
		fields := strings.Fields(head)
		if len(fields) < 3 || !parseSpan(fields[1], '-', &left) || !parseSpan(fields[2], '+', &right) {
			return newError("corrupt patch at line: %s", head)
		}
		h.oldAt = left[0]
		p.lines = p.lines[1:]
		for left[1] > 0 || right[1] > 0 {
			if len(p.lines) == 0 {
				return newError("corrupt patch: a hunk ends early: %s", head)
			}
			p.r.p.Tick(1)
			line := p.lines[0]
			if line == "" {
				line = " "
			}
			switch line[0] {
			case ' ':
				left[1], right[1] = left[1]-1, right[1]-1
			case '-':
				left[1]--
			case '+':
				right[1]--
			case '\\':
			default:
				return newError("corrupt patch at line: %.80s", line)
			}
			if line[0] == '\\' {
				if n := len(h.lines); n > 0 {
					h.lines[n-1].noEnd = true
				}
			} else {
				p.r.p.Alloc(40)
				h.lines = append(h.lines, hunkLine{line[0], line[1:], false})
			}
			p.lines = p.lines[1:]
		}
		if len(p.lines) > 0 && strings.HasPrefix(p.lines[0], `\`) && len(h.lines) > 0 {
			h.lines[len(h.lines)-1].noEnd = true
			p.lines = p.lines[1:]
		}
		f.hunks = append(f.hunks, h)
	}
	return nil
}

// parseSpan parses -12,3 or +12.
func parseSpan(text string, sign byte, to *[2]int) bool {
	if text == "" || text[0] != sign {
		return false
	}
	at, count, ok := strings.Cut(text[1:], ",")
	n, err := strconv.Atoi(at)
	to[0] = n
	if ok && err == nil {
		to[1], err = strconv.Atoi(count)
	}
	return err == nil && n >= 0 && to[1] >= 0 && to[1] < 1<<30
}

// applyHunks returns a text with the hunks of a patch applied; reverse applies them backwards.
func (r *repository) applyHunks(f *filePatch, text []byte, reverse bool) ([]byte, error) {
	lines := splitLines(r.p, text)
	shift, done := 0, 0
	var out bytes.Buffer
	write := func(list [][]byte) {
		for _, line := range list {
			r.p.Alloc(int64(len(line)))
			out.Write(line)
		}
	}
	name := orDefault(f.old, f.new)
	for _, h := range f.hunks {
		var old, new [][]byte
		for _, l := range h.lines {
			line := []byte(l.text)
			if !l.noEnd {
				line = append(line, '\n')
			}
			sign := l.sign
			if reverse && sign != ' ' {
				sign = '-' + '+' - sign
			}
			if sign != '+' {
				old = append(old, line)
			}
			if sign != '-' {
				new = append(new, line)
			}
		}
		at := r.findHunk(lines, old, done, max(h.oldAt-1, 0)+shift)
		if at < 0 {
			return nil, newError("patch failed: %s:%d\nerror: %s: patch does not apply", name, h.oldAt, name)
		}
		write(lines[done:at])
		write(new)
		shift = at - max(h.oldAt-1, 0)
		done = at + len(old)
	}
	write(lines[done:])
	return out.Bytes(), nil
}

// findHunk returns where lines are, next to the place where they should be, or -1.
func (r *repository) findHunk(lines, old [][]byte, from, want int) int {
	if len(old) == 0 {
		return min(max(want, from), len(lines))
	}
	for d := 0; d <= len(lines); d++ {
		for _, at := range []int{want - d, want + d} {
			r.p.Tick(1)
			if at >= from && at+len(old) <= len(lines) && equalLines(lines[at:at+len(old)], old) {
				return at
			}
		}
	}
	return -1
}

// applyPatches is git apply.
func (c *call) applyPatches() error {
	strip := 1
	if text := c.flags["-p"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return newFatal("option -p expects a non-negative integer, got '%s'", text)
		}
		strip = n
	}
	var files []*filePatch
	names := append(slices.Clone(c.args), c.paths...)
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		var b []byte
		var err error
		if name == "-" {
			b, err = c.p.ReadAll(c.p.Stdin)
		} else if b, err = c.p.ReadFile(name); err != nil {
			return &failure{128, "error: can't open patch '" + name + "': No such file or directory"}
		}
		if err != nil {
			return err
		}
		part, err := c.parsePatch(string(b), strip)
		if err != nil {
			return err
		}
		files = append(files, part...)
	}
	if len(files) == 0 {
		return &failure{128, "error: No valid patches in input (allow with \"--allow-empty\")"}
	}
	if c.has("--stat", "--numstat", "--summary") {
		return c.printPatchStat(files)
	}
	return c.applyFiles(files)
}

// printPatchStat prints the statistics of a patch.
func (c *call) printPatchStat(files []*filePatch) error {
	f := &patch{r: c.repository, stat: c.has("--stat"), numStat: c.has("--numstat"), width: 80, digits: 4}
	for _, file := range files {
		row := statRow{name: orDefault(file.new, file.old), binary: file.binary}
		for _, h := range file.hunks {
			for _, l := range h.lines {
				switch l.sign {
				case '+':
					row.added++
				case '-':
					row.removed++
				}
			}
		}
		f.added, f.removed = f.added+row.added, f.removed+row.removed
		f.statRows = append(f.statRows, row)
		if f.numStat {
			f.printf("%d\t%d\t%s\n", row.added, row.removed, row.name)
		}
	}
	if f.stat {
		f.printStat()
		f.printTotal()
	}
	return nil
}

// appliedFile is the result of a patch for a file.
type appliedFile struct {
	patch *filePatch
	text  []byte
	mode  uint32
}

// applyFiles applies patches to all files or, if one does not apply, to none.
func (c *call) applyFiles(files []*filePatch) error {
	reverse := c.has("-R", "--reverse")
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	var list []appliedFile
	for _, f := range files {
		if reverse {
			f.old, f.new, f.oldMode, f.newMode = f.new, f.old, f.newMode, f.oldMode
		}
		if f.binary && !f.literal {
			return newError("cannot apply binary patch to '%s' without full index line", orDefault(f.new, f.old))
		}
		a, err := c.applyFile(x, f, reverse)
		if err != nil {
			return err
		}
		list = append(list, a)
	}
	if c.has("--check") {
		return nil
	}
	for _, a := range list {
		if err := c.storeApplied(x, a); err != nil {
			return err
		}
	}
	if c.has("--index", "--cached") {
		return c.writeIndex(x)
	}
	return nil
}

// applyFile computes the result of a patch for one file.
func (c *call) applyFile(x index, f *filePatch, reverse bool) (appliedFile, error) {
	a := appliedFile{patch: f, mode: orMode(f.newMode, 0o100644)}
	var text []byte
	if f.old != "" {
		var mode uint32
		var err error
		if c.has("--cached") {
			e, ok := x[f.old]
			if !ok {
				return a, newError("%s: does not exist in index", f.old)
			}
			_, text, err = c.readObject(e.id)
			mode = e.mode
		} else {
			text, mode, err = c.readWorkFile(f.old)
		}
		if err != nil {
			return a, newError("%s: No such file or directory", f.old)
		}
		a.mode = orMode(f.newMode, mode)
	} else if _, err := c.p.Lstat(c.root + "/" + f.new); err == nil && !c.has("--cached") {
		return a, newError("%s: already exists in working directory", f.new)
	}
	if e, ok := x[orDefault(f.old, f.new)]; ok && c.has("--index", "--cached") {
		if f.old == "" {
			return a, newError("%s: already exists in index", f.new)
		}
		if now, _, err := c.workEntry(f.old); err != nil || now != e.treeEntry && !c.has("--cached") {
			return a, newError("%s: does not match index", f.old)
		}
	}
	if f.literal {
		want, result := f.versions[1], f.versions[0]
		if reverse {
			want, result = result, want
		}
		if !bytes.Equal(text, want) {
			return a, newError("the patch applies to '%s', which does not match the current contents.", orDefault(f.old, f.new))
		}
		a.text = result
		return a, nil
	}
	var err error
	a.text, err = c.applyHunks(f, text, reverse)
	return a, err
}

func orMode(mode, other uint32) uint32 {
	if mode == 0 {
		return other
	}
	return mode
}

// storeApplied writes the result of a patch to the working tree, to the index, or to both.
func (c *call) storeApplied(x index, a appliedFile) error {
	f := a.patch
	if f.old != "" && f.old != f.new && !f.copied {
		if !c.has("--cached") {
			c.removeWorkFile(f.old)
		}
		delete(x, f.old)
	}
	if f.new == "" {
		return nil
	}
	i, err := c.writeObject("blob", a.text)
	if err != nil {
		return err
	}
	e := treeEntry{a.mode, i}
	if c.has("--cached") {
		x[f.new] = indexEntry{treeEntry: e}
		return nil
	}
	if err := c.writeWorkFile(f.new, e); err != nil || !c.has("--index") {
		return err
	}
	return c.putIndex(x, f.new, e)
}
