package make

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// function is a function of makefiles.
type function struct {
	min, max int // arguments; max 0: the last takes the rest
	raw      bool
	run      func(m *maker, args []string) string
}

// functions returns the functions by name.
func functions() map[string]function {
	word := func(f func(m *maker, w string) string) function {
		return function{1, 1, false, func(m *maker, a []string) string { return m.mapWords(a[0], func(w string) string { return f(m, w) }) }}
	}
	return map[string]function{
		"subst": {3, 3, false, (*maker).subst},
		"patsubst": {3, 3, false, func(m *maker, a []string) string {
			return m.mapWords(a[2], func(w string) string { return patsubst(strings.TrimSpace(a[0]), strings.TrimSpace(a[1]), w) })
		}},
		"strip":      {1, 1, false, func(m *maker, a []string) string { return strings.Join(m.fields(a[0]), " ") }},
		"findstring": {2, 2, false, func(_ *maker, a []string) string { return when(strings.Contains(a[1], a[0]), a[0]) }},
		"filter":     {2, 2, false, func(m *maker, a []string) string { return m.filter(a[0], a[1], true) }},
		"filter-out": {2, 2, false, func(m *maker, a []string) string { return m.filter(a[0], a[1], false) }},
		"sort": {1, 1, false, func(m *maker, a []string) string {
			list := m.fields(a[0])
			m.p.Tick(16 * len(list))
			sort.Strings(list)
			return strings.Join(slices.Compact(list), " ")
		}},
		"word":      {2, 2, false, (*maker).word},
		"wordlist":  {3, 3, false, (*maker).wordList},
		"words":     {1, 1, false, func(m *maker, a []string) string { return strconv.Itoa(len(m.fields(a[0]))) }},
		"firstword": {1, 1, false, func(m *maker, a []string) string { return nth(m.fields(a[0]), 0) }},
		"lastword":  {1, 1, false, func(m *maker, a []string) string { l := m.fields(a[0]); return nth(l, len(l)-1) }},
		"dir":       word(func(_ *maker, w string) string { return dirOf(w) }),
		"notdir":    word(func(_ *maker, w string) string { return w[strings.LastIndexByte(w, '/')+1:] }),
		"suffix":    {1, 1, false, func(m *maker, a []string) string { return strings.Join(m.fields(m.mapWords(a[0], suffixOf)), " ") }},
		"basename":  word(func(_ *maker, w string) string { return strings.TrimSuffix(w, suffixOf(w)) }),
		"addsuffix": {2, 2, false, func(m *maker, a []string) string { return m.mapWords(a[1], func(w string) string { return w + a[0] }) }},
		"addprefix": {2, 2, false, func(m *maker, a []string) string { return m.mapWords(a[1], func(w string) string { return a[0] + w }) }},
		"join":      {2, 2, false, (*maker).joinLists},
		"wildcard":  {1, 1, false, func(m *maker, a []string) string { return strings.Join(m.wildcards(m.fields(a[0])), " ") }},
		"realpath": {1, 1, false, func(m *maker, a []string) string {
			return strings.Join(strings.Fields(m.mapWords(a[0], func(w string) string { text, _ := m.p.Resolve(w); return text })), " ") // "" for what is missing
		}},
		"abspath": word(func(m *maker, w string) string { return path.Clean(m.p.Path(w)) }),
		"if":      {2, 3, true, (*maker).choose}, "or": {1, 0, true, (*maker).or}, "and": {1, 0, true, (*maker).and},
		"foreach": {3, 3, true, (*maker).forEach}, "let": {3, 3, true, (*maker).let},
		"call": {1, 0, false, (*maker).callVariable}, "value": {1, 1, false, func(m *maker, a []string) string {
			if v := m.lookup(a[0]); v != nil {
				return v.value
			}
			return ""
		}},
		"eval": {1, 1, false, func(m *maker, a []string) string { m.evalText(a[0]); return "" }},
		"origin": {1, 1, false, func(m *maker, a []string) string {
			if v := m.lookup(a[0]); v != nil {
				return v.origin
			}
			_, ok := m.automaticValue(a[0])
			return when(ok, "automatic") + when(!ok, "undefined")
		}},
		"flavor": {1, 1, false, func(m *maker, a []string) string {
			v := m.lookup(a[0])
			switch {
			case v == nil:
				return "undefined"
			case v.recursive:
				return "recursive"
			}
			return "simple"
		}},
		"shell":   {1, 1, false, func(m *maker, a []string) string { return m.runShell(a[0]) }},
		"error":   {1, 1, false, func(m *maker, a []string) string { m.fail("%s", a[0]); return "" }},
		"warning": {1, 1, false, func(m *maker, a []string) string { m.warnf("%s: %s", m.at, a[0]); return "" }},
		"info":    {1, 1, false, func(m *maker, a []string) string { m.print(a[0] + "\n"); return "" }},
		"file":    {1, 2, false, (*maker).fileFunction},
	}
}

func when(ok bool, text string) string {
	if ok {
		return text
	}
	return ""
}

func nth(list []string, n int) string {
	if n < 0 || n >= len(list) {
		return ""
	}
	return list[n]
}

func dirOf(w string) string {
	if i := strings.LastIndexByte(w, '/'); i >= 0 {
		return w[:i+1]
	}
	return "./"
}

func suffixOf(w string) string {
	if i := strings.LastIndexByte(w, '.'); i > strings.LastIndexByte(w, '/') {
		return w[i:]
	}
	return ""
}

// callFunction calls a function with the arguments in a text.
func (m *maker) callFunction(f function, name, text string, open byte) string {
	args := splitArguments(text, f.max, open)
	if len(args) < f.min {
		m.fail("insufficient number of arguments (%d) to function '%s'", len(args), name)
		return ""
	}
	if !f.raw {
		for i := range args {
			args[i] = m.expand(args[i])
		}
	}
	if m.failed() {
		return ""
	}
	for len(args) < f.max {
		args = append(args, "")
	}
	return f.run(m, args)
}

// splitArguments splits at commas outside brackets, into at most limit parts; 0: any number.
func splitArguments(text string, limit int, open byte) []string {
	end := byte(')')
	if open == '{' {
		end = '}'
	}
	var args []string
	depth, from := 0, 0
	for i := 0; i < len(text) && (limit == 0 || len(args) < limit-1); i++ {
		switch c := text[i]; {
		case c == open:
			depth++
		case c == end:
			depth--
		case c == ',' && depth == 0:
			args = append(args, text[from:i])
			from = i + 1
		}
	}
	return append(args, text[from:])
}

func (m *maker) subst(a []string) string {
	if a[0] == "" {
		return a[2] + a[1]
	}
	n := strings.Count(a[2], a[0])
	m.charge(len(a[2]) + max(0, n*(len(a[1])-len(a[0]))))
	return strings.ReplaceAll(a[2], a[0], a[1])
}

func (m *maker) filter(patterns, text string, want bool) string {
	list := m.fields(patterns)
	var kept []string
	for _, w := range m.fields(text) {
		m.p.Tick(1 + len(list))
		if want == slices.ContainsFunc(list, func(p string) bool { _, ok := matchPattern(p, w); return ok }) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

func (m *maker) number(function, text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		m.fail("non-numeric argument to '%s' function: '%s'", function, text)
	}
	return n
}

func (m *maker) word(a []string) string {
	n := m.number("word", a[0])
	if n == 0 {
		m.fail("first argument to 'word' function must be greater than 0")
	}
	return nth(m.fields(a[1]), n-1)
}

func (m *maker) wordList(a []string) string {
	from, to := m.number("wordlist", a[0]), m.number("wordlist", a[1])
	list := m.fields(a[2])
	if from == 0 {
		m.fail("invalid first argument to 'wordlist' function: '0'")
	}
	if to = min(to, len(list)); m.failed() || from > to {
		return ""
	}
	return strings.Join(list[from-1:to], " ")
}

func (m *maker) joinLists(a []string) string {
	x, y := m.fields(a[0]), m.fields(a[1])
	b := builder{m: m}
	for i := range max(len(x), len(y)) {
		if i > 0 {
			b.add(" ")
		}
		b.add(nth(x, i))
		b.add(nth(y, i))
	}
	return string(b.b)
}

func (m *maker) choose(a []string) string {
	if m.expand(strings.TrimSpace(a[0])) != "" {
		return m.expand(a[1])
	}
	return m.expand(a[2])
}

func (m *maker) or(a []string) string {
	for _, text := range a {
		if text = m.expand(strings.TrimSpace(text)); text != "" {
			return text
		}
	}
	return ""
}

func (m *maker) and(a []string) string {
	last := ""
	for _, text := range a {
		if last = m.expand(strings.TrimSpace(text)); last == "" {
			return ""
		}
	}
	return last
}

// withVariables expands a text while variables have other values.
func (m *maker) withVariables(values map[string]string, text string) string {
	scope := make(map[string]*variable, len(values))
	for name, value := range values {
		scope[name] = &variable{value: value, origin: "automatic"}
	}
	m.scopes = append(m.scopes, scope)
	defer func() { m.scopes = m.scopes[:len(m.scopes)-1] }()
	return m.expand(text)
}

func (m *maker) forEach(a []string) string {
	name := strings.TrimSpace(m.expand(a[0]))
	b := builder{m: m}
	for i, w := range m.fields(m.expand(a[1])) {
		if m.failed() {
			return ""
		}
		m.p.Tick(4)
		if i > 0 {
			b.add(" ")
		}
		b.add(m.withVariables(map[string]string{name: w}, a[2]))
	}
	return string(b.b)
}

func (m *maker) let(a []string) string {
	names, words := m.fields(m.expand(a[0])), m.fields(m.expand(a[1]))
	values := map[string]string{}
	for i, name := range names {
		values[name] = nth(words, i)
		if i == len(names)-1 && len(words) > i {
			values[name] = strings.Join(words[i:], " ")
		}
	}
	return m.withVariables(values, a[2])
}

// callVariable expands a variable with $(1), $(2)… set.
func (m *maker) callVariable(a []string) string {
	name := strings.TrimSpace(a[0])
	if f, ok := functions()[name]; ok && !f.raw {
		args := a[1:]
		for len(args) < max(f.min, f.max) {
			args = append(args, "")
		}
		return f.run(m, args)
	}
	v := m.lookup(name)
	if v == nil {
		return ""
	}
	values := map[string]string{"0": name}
	for i, text := range a[1:] {
		values[strconv.Itoa(i+1)] = text
	}
	for i := len(a); m.lookup(strconv.Itoa(i)) != nil; i++ { // an inner call does not see the outer one's
		values[strconv.Itoa(i)] = ""
	}
	if !v.recursive {
		return v.value
	}
	return m.withVariables(values, v.value)
}

// fileFunction writes to a file, appends to it, or reads it.
func (m *maker) fileFunction(a []string) string {
	spec := strings.TrimSpace(a[0])
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	name, writes := strings.CutPrefix(spec, ">")
	if rest, appends := strings.CutPrefix(name, ">"); writes && appends {
		name, mode = rest, os.O_WRONLY|os.O_CREATE|os.O_APPEND
	}
	if !writes {
		b, err := m.p.ReadFile(strings.TrimSpace(strings.TrimPrefix(spec, "<")))
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(b), "\n")
	}
	name = strings.TrimSpace(name)
	h, err := m.p.OpenFile(name, mode, 0o666)
	if err != nil {
		m.fail("open: %s: %s", name, program.Reason(err))
		return ""
	}
	text := a[1]
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := h.WriteString(text); err != nil {
		m.fail("write: %s: %s", name, program.Reason(err))
	}
	if err := h.Close(); err != nil {
		m.fail("close: %s: %s", name, program.Reason(err))
	}
	return ""
}

// runShell returns the output of a shell command on one line.
func (m *maker) runShell(text string) string {
	_ = m.p.Out().Flush() // the next write reports the error
	if m.depth++; m.depth > maxDepth {
		m.fail("references are nested too deep")
	}
	defer func() { m.depth-- }()
	s, err := m.p.Command(m.shellCommand(text))
	if err != nil {
		m.warnf("%s: %s: %s", m.name, m.valueOf("SHELL"), program.Reason(err))
		m.set(".SHELLSTATUS", &variable{value: "127", origin: "file"})
		return ""
	}
	buffer, f := m.p.Buffer()
	defer buffer.Close()
	s.Stdout = f
	st, err := m.p.Call(s)
	f.Release()
	if err != nil {
		m.fail("fork: %s", program.Reason(err))
		return ""
	}
	out := buffer.Wait()
	m.charge(len(out))
	m.set(".SHELLSTATUS", &variable{value: strconv.Itoa(st.Code), origin: "file"})
	return strings.ReplaceAll(strings.TrimRight(string(out), "\n"), "\n", " ")
}

// shellCommand returns the command that runs a line of a recipe.
func (m *maker) shellCommand(text string) []string {
	list := append([]string{strings.TrimSpace(m.valueOf("SHELL"))}, m.fields(m.valueOf(".SHELLFLAGS"))...)
	return append(list, text)
}

// wildcards expands globs; those without a match give nothing.
func (m *maker) wildcards(patterns []string) []string {
	var all []string
	for _, pattern := range patterns {
		if !strings.ContainsAny(pattern, "*?[~") {
			if _, err := m.p.Stat(pattern); err == nil {
				all = append(all, pattern)
			}
			continue
		}
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = m.p.Getenv("HOME") + "/" + rest
		}
		base := ""
		if strings.HasPrefix(pattern, "/") {
			base, pattern = "/", strings.TrimLeft(pattern, "/")
		}
		all = m.matchFiles(all, base, strings.Split(pattern, "/"))
	}
	return all
}

// matchFiles appends the files below base that match the segments of a pattern.
func (m *maker) matchFiles(all []string, base string, segments []string) []string {
	m.p.Tick(1)
	if len(segments) == 0 {
		m.charge(len(base) + 16)
		return append(all, base)
	}
	join := base
	if base != "" && !strings.HasSuffix(base, "/") {
		join += "/"
	}
	if !strings.ContainsAny(segments[0], "*?[") {
		if _, err := m.p.Stat(join + segments[0]); err != nil && segments[0] != "" {
			return all
		}
		return m.matchFiles(all, join+segments[0], segments[1:])
	}
	dir := base
	if dir == "" {
		dir = "."
	}
	list, err := m.p.ReadDir(dir)
	if err != nil {
		return all
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(segments[0], ".") || len(segments) > 1 && e.Type().IsRegular() {
			continue
		}
		if glob.Match(m.p, segments[0], e.Name()) {
			if len(segments) > 1 && e.Type()&fs.ModeSymlink != 0 {
				if info, err := m.p.Stat(join + e.Name()); err != nil || !info.IsDir() {
					continue
				}
			}
			all = m.matchFiles(all, join+e.Name(), segments[1:])
		}
	}
	return all
}
