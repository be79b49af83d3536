package make

import (
	"strings"
)

// recipeLine is a line of a recipe.
type recipeLine struct {
	text string
	at   place
}

// rule is a rule of a makefile.
type rule struct {
	targets       []string // patterns in a pattern rule
	prereqs       []string
	orderOnly     []string
	recipe        []recipeLine
	hasRecipe     bool
	double, group bool
	builtin       bool
	stem          string
	at            place
}

// target is a file or a name to make.
type target struct {
	name      string
	prereqs   []string
	orderOnly []string
	rule      *rule   // with the recipe; nil: none
	double    []*rule // double-colon rules
	known     bool    // a rule has it as its target
	phony     bool
	vars      []targetAssignment
	stem      string

	state   int // 0, 1 updating, 2 updated
	failed  bool
	changed bool
	also    []string // made by the same recipe
}

func (t *target) hasRecipe() bool { return t.rule != nil || len(t.double) > 0 }

// targetAssignment is a variable for a target, or for those that match a pattern.
type targetAssignment struct {
	pattern         string
	name, op, value string
	origin          string
	export          bool
	at              place
}

// searchPath is a directive vpath.
type searchPath struct {
	pattern string
	dirs    []string
}

func (m *maker) target(name string) *target {
	t := m.targets[name]
	if t == nil {
		m.p.Alloc(int64(len(name)) + 256)
		t = &target{name: name}
		m.targets[name] = t
	}
	return t
}

// reader reads the text of a makefile.
type reader struct {
	m       *maker
	lines   []string
	at      place
	next    int
	rules   []*rule // of the last rule line: its recipe follows
	conds   []cond
	builtin bool
}

// cond is an open conditional.
type cond struct {
	active, taken, seenElse, outer bool
}

// maxIncludes is how deep makefiles may include others.
const maxIncludes = 50

// readFile reads a makefile. It returns false if there is none.
func (m *maker) readFile(name string) bool {
	b, err := m.p.ReadFile(name)
	if err != nil {
		return false
	}
	if len(m.reading) >= maxIncludes {
		m.fail("makefiles include each other: %s", name)
		return true
	}
	if v := m.vars["MAKEFILE_LIST"]; v != nil {
		m.set("MAKEFILE_LIST", &variable{value: v.value + " " + name, origin: "file"})
	}
	at := m.at
	m.readText(name, string(b))
	if !m.failed() {
		m.at = at
	}
	return true
}

// readText reads the text of a makefile.
func (m *maker) readText(name, text string) {
	m.reading = append(m.reading, name)
	m.p.Alloc(int64(len(text)) + 16*int64(strings.Count(text, "\n")))
	r := &reader{m: m, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), at: place{file: name}, builtin: name == ""}
	r.read()
	m.reading = m.reading[:len(m.reading)-1]
}

// evalText reads a text that $(eval) was given.
func (m *maker) evalText(text string) {
	if m.evalDepth++; m.evalDepth > maxIncludes {
		m.fail("eval is nested too deep")
	}
	at, autos := m.at, m.autos
	r := &reader{m: m, lines: strings.Split(text, "\n"), at: m.at}
	m.p.Alloc(int64(len(text)))
	r.read()
	m.autos, m.evalDepth = autos, m.evalDepth-1
	if !m.failed() {
		m.at = at
	}
}

func (r *reader) active() bool { return len(r.conds) == 0 || r.conds[len(r.conds)-1].active }

// readLine returns the next line with its continuations.
func (r *reader) readLine(recipe bool) (string, bool) {
	if r.next >= len(r.lines) {
		return "", false
	}
	line := r.lines[r.next]
	r.m.at = place{r.at.file, r.at.line + r.next + 1}
	if r.evaluated() {
		r.m.at.line = r.at.line
	}
	r.next++
	if !continues(line) {
		return line, true
	}
	var b strings.Builder
	for continues(line) && r.next < len(r.lines) {
		r.m.p.Tick(1)
		if recipe {
			b.WriteString(line + "\n")
			line = strings.TrimPrefix(r.lines[r.next], r.m.recipePrefix())
		} else {
			b.WriteString(strings.TrimRight(line[:len(line)-1], " \t") + " ")
			line = strings.TrimLeft(r.lines[r.next], " \t")
		}
		r.next++
	}
	if !recipe && continues(line) {
		line = line[:len(line)-1]
	}
	b.WriteString(line)
	return b.String(), true
}

// evaluated reports whether the text comes from $(eval): its lines have the number of the call.
func (r *reader) evaluated() bool { return r.at.line > 0 }

func continues(line string) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// recipePrefix returns the character that begins the lines of recipes.
func (m *maker) recipePrefix() string {
	if v := m.vars[".RECIPEPREFIX"]; v != nil && v.value != "" {
		return v.value[:1]
	}
	return "\t"
}

// read reads all lines.
func (r *reader) read() {
	m := r.m
	for !m.failed() {
		recipe := r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], m.recipePrefix()) && r.rules != nil
		line, ok := r.readLine(recipe)
		if !ok {
			break
		}
		m.p.Tick(1 + len(line)>>5)
		if recipe {
			if r.active() {
				r.addRecipe(line[1:])
			}
			continue
		}
		r.readStatement(line)
		if m.evalDepth == 0 {
			m.release()
		}
	}
	if len(r.conds) > 0 && !m.failed() {
		m.at = place{r.at.file, r.at.line + len(r.lines)}
		m.fail("missing 'endif'")
	}
}

// recipeLineCost is what a recipe line costs beside its text.
const recipeLineCost = 48

// addRecipe adds a line to the recipe of the last rules.
func (r *reader) addRecipe(text string) {
	r.m.p.Alloc(int64(len(text)) + 2*recipeLineCost*int64(len(r.rules)))
	for _, rule := range r.rules {
		r.m.p.Tick(1)
		rule.recipe, rule.hasRecipe = append(rule.recipe, recipeLine{text, r.m.at}), true
	}
}

// stripComment removes a comment; \# is a #.
func stripComment(line string) string {
	if !strings.Contains(line, "#") {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && i+1 < len(line) && line[i+1] == '#' {
			b.WriteByte('#')
			i++
			continue
		}
		if line[i] == '#' {
			break
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// readStatement reads a line that is no recipe.
func (r *reader) readStatement(line string) {
	m := r.m
	text := strings.TrimLeft(line, " \t")
	if text == "" || text[0] == '#' {
		return
	}
	word, rest := cutWord(text)
	if r.readConditional(word, stripComment(rest)) || !r.active() {
		if word == "define" && !r.active() {
			r.readDefinition("", false)
		}
		return
	}
	switch word {
	case "define":
		r.rules = nil
		r.readDefinition(stripComment(rest), true)
		return
	case "endef":
		m.fail("extraneous 'endef'")
		return
	}
	text = strings.TrimRight(stripComment(text), " \t")
	if v, ok := untrimmedValue(line); ok {
		text = v
	}
	if _, _, _, ok := splitAssignment(text); ok && !isDirectiveAssignment(word, text) {
		r.rules = nil
		m.assign(text, "file")
		return
	}
	if r.readDirective(word, strings.TrimSpace(stripComment(rest))) {
		r.rules = nil
		return
	}
	r.readRule(strings.TrimLeft(line, " \t"))
}

// untrimmedValue returns an assignment whose value keeps its blanks at the end.
func untrimmedValue(line string) (string, bool) {
	text := strings.TrimLeft(stripComment(line), " \t")
	_, _, _, ok := splitAssignment(text)
	return text, ok
}

// isDirectiveAssignment reports whether an assignment follows a directive, such as export.
func isDirectiveAssignment(word, text string) bool {
	switch word {
	case "export", "unexport", "override", "private", "include", "-include", "sinclude", "vpath", "undefine":
		rest := strings.TrimLeft(strings.TrimPrefix(text, word), " \t")
		return rest != "" && strings.IndexByte("=:?+!", rest[0]) < 0
	}
	return false
}

func cutWord(text string) (word, rest string) {
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

// readDirective reads a directive; false: the line is none.
func (r *reader) readDirective(word, rest string) bool {
	m := r.m
	switch word {
	case "include", "-include", "sinclude":
		r.include(m.fields(m.expand(rest)), word == "include")
	case "export", "unexport":
		if name, _, _, ok := splitAssignment(rest); ok {
			m.assign(rest, "file")
			m.exports[strings.TrimSpace(m.expand(name))] = word == "export"
			break
		}
		if rest == "" {
			m.exportAll = word == "export"
		}
		for _, name := range m.fields(m.expand(rest)) {
			m.exports[name] = word == "export"
		}
	case "override", "private":
		if after, ok := strings.CutPrefix(rest, "define "); ok {
			r.readDefinition(after, true)
			break
		}
		if after, ok := strings.CutPrefix(rest, "export "); ok {
			rest = after
			name, _, _, _ := splitAssignment(rest)
			m.exports[strings.TrimSpace(m.expand(name))] = true
		}
		origin := "override"
		if word == "private" {
			origin = "file"
		}
		return m.assign(rest, origin)
	case "undefine":
		delete(m.vars, strings.TrimSpace(m.expand(rest)))
	case "vpath":
		list := m.fields(m.expand(rest))
		switch len(list) {
		case 0:
			m.searchPaths = nil
		case 1:
			for i := range m.searchPaths {
				if m.searchPaths[i].pattern == list[0] {
					m.searchPaths[i].dirs = nil
				}
			}
		default:
			m.searchPaths = append(m.searchPaths, searchPath{list[0], strings.FieldsFunc(strings.Join(list[1:], ":"), func(c rune) bool { return c == ':' })})
		}
	case "load", "-load":
		m.fail("load: objects can't be loaded here: use $(shell ...)")
	default:
		return false
	}
	return true
}

func (r *reader) include(names []string, must bool) {
	m := r.m
	for _, name := range names {
		list := []string{name}
		if strings.ContainsAny(name, "*?[") {
			list = m.wildcards(list)
		}
		for _, name := range list {
			found := m.readFile(name)
			for _, dir := range m.includeDirs {
				found = found || m.failed() || !strings.HasPrefix(name, "/") && m.readFile(dir+"/"+name)
			}
			if m.failed() {
				return
			}
			if !found && r.remake(name) {
				found = m.readFile(name)
			}
			if !found && must && !m.failed() {
				m.warnf("%s: %s: No such file or directory", m.at, name)
				m.at = place{}
				m.fail("No rule to make target '%s'", name)
			}
		}
	}
}

// remake makes a makefile that is to be included, if a rule that was read before has it.
func (r *reader) remake(name string) bool {
	m := r.m
	t := m.targets[name]
	if t == nil || !t.hasRecipe() {
		return false
	}
	at := m.at
	m.update(name, nil)
	if !m.failed() {
		m.at = at
	}
	return !t.failed
}

// readDefinition reads up to endef.
func (r *reader) readDefinition(head string, define bool) {
	m := r.m
	name, op := head, "="
	if n, o, _, ok := splitAssignment(head); ok {
		name, op = n, o
	}
	start, depth := m.at, 1
	var b strings.Builder
	for {
		if r.next >= len(r.lines) {
			m.at = start
			m.fail("missing 'endef', unterminated 'define'")
			return
		}
		line := r.lines[r.next]
		r.next++
		m.p.Tick(1)
		word, _ := cutWord(strings.TrimLeft(line, " "))
		switch word {
		case "define":
			depth++
		case "endef":
			depth--
		}
		if depth == 0 {
			break
		}
		m.charge(len(line))
		b.WriteString(line + "\n")
	}
	if !define {
		return
	}
	text := strings.TrimSuffix(b.String(), "\n")
	m.assignTo(nil, strings.TrimSpace(m.expand(name)), op, text, "file")
}

// readConditional handles ifeq and its relatives; false: the line is none.
func (r *reader) readConditional(word, rest string) bool {
	switch word {
	case "ifeq", "ifneq", "ifdef", "ifndef":
		outer := r.active()
		ok := outer && r.evaluate(word, rest)
		r.conds = append(r.conds, cond{active: ok, taken: ok, outer: outer})
	case "else":
		if len(r.conds) == 0 {
			r.m.fail("extraneous 'else'")
			return true
		}
		c := &r.conds[len(r.conds)-1]
		if c.seenElse {
			r.m.fail("only one 'else' per conditional")
			return true
		}
		c.active = c.outer && !c.taken
		if rest = strings.TrimSpace(rest); rest != "" {
			next, arg := cutWord(rest)
			c.active = c.active && r.evaluate(next, arg)
		} else {
			c.seenElse = true
		}
		c.taken = c.taken || c.active
	case "endif":
		if len(r.conds) == 0 {
			r.m.fail("extraneous 'endif'")
			return true
		}
		r.conds = r.conds[:len(r.conds)-1]
	default:
		return false
	}
	return true
}

// evaluate evaluates the condition of a conditional.
func (r *reader) evaluate(word, rest string) bool {
	m := r.m
	rest = strings.TrimSpace(rest)
	switch word {
	case "ifdef", "ifndef":
		v := m.lookup(strings.TrimSpace(m.expand(rest)))
		return (v != nil && v.value != "") == (word == "ifdef")
	case "ifeq", "ifneq":
		a, b, ok := splitCondition(rest)
		if !ok {
			m.fail("invalid syntax in conditional")
			return false
		}
		return (m.expand(a) == m.expand(b)) == (word == "ifeq")
	}
	m.fail("extraneous text after 'else' directive")
	return false
}

// splitCondition splits (a,b), "a" "b" and their mixtures.
func splitCondition(text string) (a, b string, ok bool) {
	if text == "" {
		return "", "", false
	}
	if text[0] == '(' {
		end := matchingBracket(text)
		if end < 0 {
			return "", "", false
		}
		args := splitArguments(text[1:end], 2, '(')
		if len(args) != 2 {
			return "", "", false
		}
		return strings.TrimRight(args[0], " \t"), strings.TrimLeft(args[1], " \t"), true
	}
	for i := range 2 {
		if text == "" || text[0] != '"' && text[0] != '\'' {
			return "", "", false
		}
		end := strings.IndexByte(text[1:], text[0])
		if end < 0 {
			return "", "", false
		}
		if word := text[1 : end+1]; i == 0 {
			a = word
		} else {
			b = word
		}
		text = strings.TrimLeft(text[end+2:], " \t")
	}
	return a, b, true
}
