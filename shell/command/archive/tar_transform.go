package archive

import (
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// tarRename is a replacement of --transform.
type tarRename struct {
	re                         *regex.Regexp
	text                       string // with escapes
	nth                        int
	all                        bool
	names, symlinks, hardlinks bool // what it applies to
}

// errTransform is the error of an expression that is none.
var errTransform = errors.New("Invalid transform expression")

// parseTransform parses replacements s/RE/TEXT/FLAGS, separated by semicolons; flags=FLAGS precedes those that it applies to.
func parseTransform(p *kernel.Proc, text string) ([]tarRename, error) {
	var list []tarRename
	common := ""
	for text != "" {
		p.Tick(1)
		if rest, ok := strings.CutPrefix(text, "flags="); ok {
			common, text, _ = strings.Cut(rest, ";")
			continue
		}
		if len(text) < 2 || text[0] != 's' {
			return nil, errTransform
		}
		delim := text[1]
		pattern, rest, ok := cutEscaped(text[2:], delim)
		replacement, rest, ok2 := cutEscaped(rest, delim)
		if !ok || !ok2 {
			return nil, errTransform
		}
		flags, after, _ := strings.Cut(rest, ";")
		text, flags = after, common+flags
		r := tarRename{text: replacement, nth: 1, names: true, symlinks: true, hardlinks: true}
		o := regex.Options{Syntax: regex.BRE, Budget: p}
		for digits := ""; flags != ""; flags = flags[1:] {
			switch c := flags[0]; c {
			case 'g':
				r.all = true
			case 'i':
				o.IgnoreCase = true
			case 'x':
				o.Syntax = regex.ERE
			case 'r', 'R':
				r.names = c == 'r'
			case 's', 'S':
				r.symlinks = c == 's'
			case 'h', 'H':
				r.hardlinks = c == 'h'
			default:
				if c < '0' || c > '9' || len(digits) > 8 {
					return nil, errors.New("Unknown flag in transform expression: " + string(rune(c)))
				}
				digits += string(c)
				r.nth, _ = strconv.Atoi(digits) // digits
			}
		}
		var err error
		if r.re, err = regex.Compile(pattern, o); err != nil {
			return nil, errors.New("Invalid transform expression: " + err.Error())
		}
		list = append(list, r)
	}
	return list, nil
}

// cutEscaped cuts at a delimiter that no backslash precedes; the delimiter loses its backslash.
func cutEscaped(text string, delim byte) (before, after string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != delim {
				b.WriteByte('\\')
			}
		case text[i] == delim:
			return b.String(), text[i+1:], true
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// transformKind is what a name that is transformed is.
type transformKind int

const (
	transformName transformKind = iota
	transformSymlink
	transformHardLink
)

// transform applies the replacements of --transform to a name.
func (j *tarJob) transform(name string, kind transformKind) string {
	for i := range j.renames {
		r := &j.renames[i]
		if kind == transformName && r.names || kind == transformSymlink && r.symlinks || kind == transformHardLink && r.hardlinks {
			name = r.replace(j.p, name)
		}
	}
	return name
}

// replace replaces the matches in a name. Its memory is freed: names are short, or their headers are not written.
func (r *tarRename) replace(p *kernel.Proc, name string) string {
	b := &caseBuilder{p: p}
	defer func() { p.Free(b.charged) }()
	src, caps := []byte(name), make([]int, 20)
	from, count := 0, 0
	for from <= len(name) && r.re.Match(src, from, caps, p) {
		start, end := caps[0], caps[1]
		b.add(name[from:start])
		if count++; count >= r.nth {
			r.expand(b, name, caps)
		} else {
			b.add(name[start:end])
		}
		if from = end; start == end {
			if end < len(name) {
				b.add(name[end : end+1])
			}
			from++
		}
		if count >= r.nth && !r.all {
			break
		}
	}
	b.add(name[min(from, len(name)):])
	return string(b.b)
}

// expand adds the replacement of a match.
func (r *tarRename) expand(b *caseBuilder, name string, caps []int) {
	b.all, b.one = 0, 0
	for i := 0; i < len(r.text); i++ {
		c := r.text[i]
		group := -1
		switch {
		case c == '&':
			group = 0
		case c == '\\' && i+1 < len(r.text):
			i++
			switch c = r.text[i]; {
			case c >= '0' && c <= '9':
				group = int(c - '0')
			case c == 'L' || c == 'U':
				b.all, b.one = c, 0
				continue
			case c == 'l' || c == 'u':
				b.one = c
				continue
			case c == 'E':
				b.all, b.one = 0, 0
				continue
			case c == 'n':
				c = '\n'
			case c == 't':
				c = '\t'
			}
		}
		switch {
		case group < 0:
			b.add(string(c))
		case 2*group+1 < len(caps) && caps[2*group] >= 0:
			b.add(name[caps[2*group]:caps[2*group+1]])
		}
	}
	b.all, b.one = 0, 0
}

// caseBuilder collects a name, in the case that \L, \U, \l and \u ask for.
type caseBuilder struct {
	p        *kernel.Proc
	b        []byte
	all, one byte // L, U, l or u; 0: as it is
	charged  int64
}

func (b *caseBuilder) add(text string) {
	if text == "" {
		return
	}
	b.p.Tick(1 + len(text)>>4)
	n := int64(4 * len(text)) // it may grow to twice its length, and is copied
	b.p.Alloc(n)
	b.charged += n
	switch b.all {
	case 'L':
		text = strings.ToLower(text)
	case 'U':
		text = strings.ToUpper(text)
	}
	switch b.one {
	case 'l':
		text = strings.ToLower(text[:1]) + text[1:]
	case 'u':
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	b.one = 0
	b.b = append(b.b, text...)
}
