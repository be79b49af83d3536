package make

import (
	"strings"
)

// variable is a variable of a makefile.
type variable struct {
	value     string
	origin    string // as $(origin) says it
	recursive bool   // expanded when it is used
	fromEnv   bool   // the environment has it: recipes get it
	expanding bool
	charged   int64 // in the scope of a target
}

// lookup returns a variable, the innermost first; nil: none.
func (m *maker) lookup(name string) *variable {
	for i := len(m.scopes) - 1; i >= 0; i-- {
		if v := m.scopes[i][name]; v != nil {
			return v
		}
	}
	return m.vars[name]
}

// set defines a global variable.
func (m *maker) set(name string, v *variable) {
	if old := m.vars[name]; old != nil {
		m.p.Free(int64(len(old.value)))
		v.fromEnv = v.fromEnv || old.fromEnv
	} else {
		m.p.Alloc(int64(len(name)) + 128)
	}
	m.p.Alloc(int64(len(v.value)))
	m.vars[name] = v
}

// splitAssignment splits "NAME OP VALUE". ok is false if the line is no assignment; rest begins at the operator's end.
func splitAssignment(line string) (name, op, value string, ok bool) {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '$' && i+1 < len(line) && (line[i+1] == '(' || line[i+1] == '{'):
			depth++
			i++
		case depth > 0:
			if c == ')' || c == '}' {
				depth--
			} else if c == '(' || c == '{' {
				depth++
			}
		case c == '#':
			return "", "", "", false
		case c == ':':
			rest := line[i:]
			for _, op := range []string{":::=", "::=", ":="} {
				if strings.HasPrefix(rest, op) {
					return strings.TrimSpace(line[:i]), ":=", strings.TrimLeft(rest[len(op):], " \t"), true
				}
			}
			return "", "", "", false
		case c == '=':
			start, op := i, "="
			if i > 0 && strings.IndexByte("?+!", line[i-1]) >= 0 {
				start, op = i-1, line[i-1:i+1]
			}
			name = strings.TrimSpace(line[:start])
			if strings.ContainsAny(name, " \t") && !strings.Contains(name, "$") {
				return "", "", "", false
			}
			return name, op, strings.TrimLeft(line[i+1:], " \t"), true
		}
	}
	return "", "", "", false
}

// assign makes the assignment of a line.
func (m *maker) assign(line, origin string) bool {
	name, op, value, ok := splitAssignment(line)
	if !ok {
		return false
	}
	m.assignTo(nil, strings.TrimSpace(m.expand(name)), op, value, origin)
	return true
}

// precedes reports whether an assignment of the origin has no effect, since what there is takes precedence.
func precedes(old *variable, origin string) bool {
	if old == nil || origin == "override" {
		return false
	}
	return (old.origin == "command line" || old.origin == "override" || old.origin == "environment override") && origin == "file"
}

// assignTo assigns to a variable of a scope; nil: the global one.
func (m *maker) assignTo(scope map[string]*variable, name, op, value, origin string) {
	if name == "" {
		m.fail("empty variable name")
		return
	}
	old := m.lookup(name)
	if precedes(old, origin) {
		return
	}
	v := &variable{origin: origin}
	switch op {
	case ":=":
		v.value = m.expand(value)
	case "?=":
		if old != nil {
			return
		}
		v.value, v.recursive = value, true
	case "!=":
		v.value = m.runShell(m.expand(value))
	case "+=":
		switch {
		case old == nil:
			v.value, v.recursive = value, true
		default:
			if v.recursive = old.recursive; !v.recursive {
				value = m.expand(value)
			}
			m.charge(len(old.value) + len(value) + 1)
			switch {
			case old.value == "":
				v.value = value
			case value == "":
				v.value = old.value
			default:
				v.value = old.value + " " + value
			}
			if old.origin == "default" || old.origin == "environment" {
				v.fromEnv = old.fromEnv
			}
		}
	default:
		v.value, v.recursive = value, true
	}
	if scope == nil {
		m.set(name, v)
		return
	}
	v.charged = int64(len(v.value)) + 128
	m.p.Alloc(v.charged)
	if old != nil {
		v.fromEnv = old.fromEnv
	}
	if inner := scope[name]; inner != nil {
		m.p.Free(inner.charged)
	}
	scope[name] = v
}

// maxDepth is how deep expansions may be nested.
const maxDepth = 400

// builder collects an expansion, charged before it grows.
type builder struct {
	m *maker
	b []byte
}

func (b *builder) add(text string) {
	if need := len(b.b) + len(text); need > cap(b.b) {
		size := max(2*cap(b.b), need, 64)
		b.m.charge(size)
		b.b = append(make([]byte, 0, size), b.b...)
	}
	b.b = append(b.b, text...)
}

// expand replaces the references of a text.
func (m *maker) expand(text string) string {
	i := strings.IndexByte(text, '$')
	if i < 0 || m.failed() {
		return text
	}
	if m.depth++; m.depth > maxDepth {
		m.fail("references are nested too deep")
		m.depth--
		return ""
	}
	defer func() { m.depth-- }()
	b := &builder{m: m}
	for {
		m.p.Tick(1 + i>>6)
		b.add(text[:i])
		if text = text[i+1:]; text == "" || m.failed() {
			break
		}
		switch text[0] {
		case '$':
			b.add("$")
			text = text[1:]
		case '(', '{':
			end := matchingBracket(text)
			if end < 0 {
				m.fail("unterminated variable reference")
				return ""
			}
			b.add(m.expandReference(text[1:end], text[0]))
			text = text[end+1:]
		default:
			b.add(m.valueOf(text[:1]))
			text = text[1:]
		}
		if i = strings.IndexByte(text, '$'); i < 0 {
			b.add(text)
			break
		}
	}
	m.charge(len(b.b))
	return string(b.b)
}

// matchingBracket returns the index of the bracket that closes the one at 0, or -1.
func matchingBracket(text string) int {
	open, end := text[0], byte(')')
	if open == '{' {
		end = '}'
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// expandReference expands what is in brackets: a function, a variable or a substitution.
func (m *maker) expandReference(text string, open byte) string {
	if end := strings.IndexAny(text, " \t\n"); end > 0 {
		if f, ok := functions()[text[:end]]; ok {
			return m.callFunction(f, text[:end], strings.TrimLeft(text[end:], " \t\n"), open)
		}
	}
	if i := strings.IndexByte(text, ':'); i > 0 && !strings.Contains(text[:i], "$") || i > 0 && strings.Contains(text[i:], "=") {
		if from, to, ok := strings.Cut(text[i+1:], "="); ok {
			from, to = m.expand(from), m.expand(to)
			if !strings.Contains(from, "%") {
				from, to = "%"+from, "%"+to
			}
			return m.mapWords(m.valueOf(m.expand(text[:i])), func(w string) string { return patsubst(from, to, w) })
		}
	}
	return m.valueOf(m.expand(text))
}

// valueOf returns the value of a variable, expanded.
func (m *maker) valueOf(name string) string {
	if text, ok := m.automaticValue(name); ok {
		return text
	}
	if name == ".VARIABLES" {
		var b builder
		b.m = m
		for known := range m.vars {
			b.add(known + " ")
		}
		return string(b.b)
	}
	v := m.lookup(name)
	if v == nil {
		if m.warn && name != "" {
			m.warnf("%s: warning: undefined variable '%s'", m.at, name)
		}
		return ""
	}
	if !v.recursive {
		return v.value
	}
	if v.expanding {
		m.fail("Recursive variable '%s' references itself (eventually)", name)
		return ""
	}
	v.expanding = true
	text := m.expand(v.value)
	v.expanding = false
	return text
}

// mapWords applies f to each word, and joins the results with spaces.
func (m *maker) mapWords(text string, f func(string) string) string {
	b := builder{m: m}
	for i, w := range m.fields(text) {
		m.p.Tick(1)
		if i > 0 {
			b.add(" ")
		}
		b.add(f(w))
	}
	return string(b.b)
}

// fields returns the words of a text.
func (m *maker) fields(text string) []string {
	m.p.Tick(1 + len(text)>>6)
	m.charge(8 * len(text))
	return strings.Fields(text)
}

// matchPattern matches a word with a pattern that may have a %, and returns what it stands for.
func matchPattern(pattern, word string) (stem string, ok bool) {
	before, after, has := strings.Cut(pattern, "%")
	if !has {
		return "", pattern == word
	}
	if len(word) < len(before)+len(after) || !strings.HasPrefix(word, before) || !strings.HasSuffix(word, after) {
		return "", false
	}
	return word[len(before) : len(word)-len(after)], true
}

func patsubst(from, to, word string) string {
	stem, ok := matchPattern(from, word)
	if !ok {
		return word
	}
	if !strings.Contains(from, "%") {
		return to
	}
	return strings.Replace(to, "%", stem, 1)
}
