package hook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// sourceMap maps compiled code to its sources.
type sourceMap struct {
	sources []string
	lines   [][]segment // by line of the code, in the order of columns
	offset  int         // number of lines before the code
}

// segment maps a part of a line to its source; all numbers start at 0.
type segment struct{ column, source, line, sourceColumn int }

// readSourceMap reads a source map of version 3.
func readSourceMap(b []byte) (*sourceMap, error) {
	var raw struct {
		Sources  []string `json:"sources"`
		Mappings string   `json:"mappings"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("source map: %w", err)
	}
	m := &sourceMap{sources: raw.Sources}
	var at segment // numbers are encoded as differences
	for line := range strings.SplitSeq(raw.Mappings, ";") {
		at.column = 0
		var list []segment
		for field := range strings.SplitSeq(line, ",") {
			n, ok := decodeVLQ(field)
			if !ok {
				return nil, fmt.Errorf("source map: %q is no mapping", field)
			}
			if len(n) == 0 {
				continue
			}
			at.column += n[0]
			if len(n) >= 4 {
				at.source, at.line, at.sourceColumn = at.source+n[1], at.line+n[2], at.sourceColumn+n[3]
				list = append(list, at)
			}
		}
		m.lines = append(m.lines, list)
	}
	return m, nil
}

// decodeVLQ decodes variable-length numbers of base 64 digits with five bits each,
// the lowest first; the lowest bit of a number is its sign.
func decodeVLQ(s string) ([]int, bool) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var list []int
	n, shift := 0, 0
	for i := range len(s) {
		d := strings.IndexByte(digits, s[i])
		if d < 0 || shift > 30 {
			return nil, false
		}
		n |= d & 31 << shift
		shift += 5
		if d&32 != 0 {
			continue
		}
		if n&1 != 0 {
			list = append(list, -(n >> 1))
		} else {
			list = append(list, n>>1)
		}
		n, shift = 0, 0
	}
	return list, shift == 0
}

// originalPosition returns the source position of a line and column of the code,
// all from 1; false for generated code.
func (m *sourceMap) originalPosition(line, column int) (string, int, int, bool) {
	if line < 1 || line > len(m.lines) {
		return "", 0, 0, false
	}
	list := m.lines[line-1]
	i := sort.Search(len(list), func(i int) bool { return list[i].column > column-1 }) - 1
	if i < 0 || list[i].source < 0 || list[i].source >= len(m.sources) {
		return "", 0, 0, false
	}
	s := list[i]
	return m.sources[s.source], s.line + 1, s.sourceColumn + 1, true
}

// stackFrame matches a line of the engine's stack.
var stackFrame = regexp.MustCompile(`^\s*at (?:(.*) )?\(?` + regexp.QuoteMeta(codeName) + `:(\d+):(\d+)\)?$`)

// codeName is the engine's file name for evaluated code.
const codeName = "<eval>"

// rewriteStack rewrites an engine's stack to source positions and drops lines of
// generated code.
func (m *sourceMap) rewriteStack(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		f := stackFrame.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if f == nil {
			continue
		}
		l, _ := strconv.Atoi(f[2]) // digits; an overflow is no line of the source
		c, _ := strconv.Atoi(f[3])
		file, l, c, ok := m.originalPosition(l-m.offset, c)
		if !ok {
			continue
		}
		name := f[1]
		if name == "" || name == "<anonymous>" {
			name = "(anonymous)"
		}
		fmt.Fprintf(&b, "    at %s (%s:%d:%d)\n", name, file, l, c)
		if b.Len() > maxStack {
			break
		}
	}
	return b.String()
}
