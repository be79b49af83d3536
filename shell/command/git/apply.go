package git

import (
	"path"
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
	git      bool // it has the header of git, whose names are those of the repository
}

// patchHunk is a run of lines with a sign: ' ', '-' or '+'. The lines have no line ends; a last line without one
// in its file is marked by noEnd.
type patchHunk struct {
	head     string
	oldAt    int
	newAt    int
	lines    []hunkLine
	rejected bool
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
	patchOptions
	files []*filePatch
}

// patchOptions are how the names and the hunks of a patch are read.
type patchOptions struct {
	strip   int    // leading directories that are removed from names
	dir     string // the directory before all names
	recount bool   // the numbers of lines in the heads of hunks are not read
}

// parsePatch parses a patch.
func (r *repository) parsePatch(text string, options patchOptions) ([]*filePatch, error) {
	r.p.Alloc(int64(len(text)) * 3)
	p := &patchParser{r: r, lines: strings.Split(text, "\n"), patchOptions: options}
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
		_, rest, ok := strings.Cut(text, "/")
		if !ok && p.strip != 1 {
			return "", &failure{128, "error: git diff header lacks filename information when removing " + strconv.Itoa(p.strip) + " leading pathname components"}
		}
		if ok {
			text = rest
		}
	}
	text = path.Join(p.dir, text)
	for part := range strings.SplitSeq(text, "/") {
		if !isSafeName(part) {
			return "", newError("invalid path '%s'", text)
		}
	}
	return text, nil
}

// parseHeader parses the lines from diff --git on.
func (p *patchParser) parseHeader(line string) error {
	f := &filePatch{git: true}
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
			f.old, err = p.name(name, max(p.strip-1, 0))
			f.rename, f.copied = key == "rename", key == "copy"
		case strings.HasPrefix(line, "rename to "), strings.HasPrefix(line, "copy to "):
			_, name, _ := strings.Cut(value, " ")
			f.new, err = p.name(name, max(p.strip-1, 0))
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
			return &failure{128, "error: corrupt patch at line: " + head}
		}
		h.head, h.oldAt, h.newAt = head, left[0], right[0]
		p.lines = p.lines[1:]
		if p.recount {
			left[1], right[1] = p.countLines()
		}
		for left[1] > 0 || right[1] > 0 {
			if len(p.lines) == 0 {
				return &failure{128, "error: corrupt patch: a hunk ends early: " + head}
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
				return &failure{128, "error: corrupt patch at line: " + line[:min(len(line), 80)]}
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

// countLines counts the old and the new lines of the hunk that follows.
func (p *patchParser) countLines() (old, new int) {
	for n, line := range p.lines {
		p.r.p.Tick(1)
		switch {
		case line == "" && n == len(p.lines)-1:
			return old, new
		case line == "" || line[0] == ' ':
			old, new = old+1, new+1
		case line[0] == '-':
			old++
		case line[0] == '+':
			new++
		case line[0] != '\\':
			return old, new
		}
	}
	return old, new
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
