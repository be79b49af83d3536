package make

import (
	"slices"
	"strings"
)

// splitRule splits a rule at its colon, outside references.
func splitRule(line string) (before, after string, double, group, ok bool) {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
		case c == '$' && i+1 < len(line) && (line[i+1] == '(' || line[i+1] == '{'):
			depth++
			i++
		case depth > 0 && (c == ')' || c == '}'):
			depth--
		case depth > 0 && (c == '(' || c == '{'):
			depth++
		case depth == 0 && c == ':':
			before, after = line[:i], line[i+1:]
			if rest, ok := strings.CutPrefix(after, ":"); ok {
				after, double = rest, true
			}
			if rest, ok := strings.CutSuffix(before, "&"); ok {
				before, group = rest, true
			}
			return before, after, double, group, true
		}
	}
	return "", "", false, false, false
}

// readRule reads a line with a rule, or one with a variable of a target.
func (r *reader) readRule(line string) {
	m := r.m
	head, inline, hasInline := cutRecipe(line)
	if !hasInline {
		head = stripComment(head)
	}
	before, after, double, group, ok := splitRule(head)
	if !ok {
		expanded := m.expand(strings.TrimSpace(stripComment(head)))
		if strings.TrimSpace(expanded) == "" || m.failed() {
			return
		}
		if before, after, double, group, ok = splitRule(expanded); !ok {
			if strings.HasPrefix(line, "    ") || strings.HasPrefix(r.lines[r.next-1], "        ") {
				m.fail("missing separator (did you mean TAB instead of 8 spaces?)")
				return
			}
			m.fail("missing separator")
			return
		}
	}
	if hasInline {
		after = stripComment(after)
	}
	targets := m.expandNames(before)
	if r.readTargetVariable(targets, after+when(hasInline, ";"+inline)) {
		r.rules = nil
		return
	}
	r.addRules(targets, after, double, group)
	if hasInline {
		r.addRecipe(strings.TrimLeft(inline, " \t"))
	}
}

// cutRecipe cuts a recipe after a semicolon off a rule.
func cutRecipe(line string) (head, recipe string, ok bool) {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '$' && i+1 < len(line) && (line[i+1] == '(' || line[i+1] == '{'):
			depth++
			i++
		case depth > 0 && (c == ')' || c == '}'):
			depth--
		case depth == 0 && c == '#' && (i == 0 || line[i-1] != '\\'):
			return line, "", false
		case depth == 0 && c == ';':
			return line[:i], line[i+1:], true
		}
	}
	return line, "", false
}

// expandNames expands a list of names, and the globs among them.
func (m *maker) expandNames(text string) []string {
	var list []string
	for _, name := range m.fields(strings.ReplaceAll(m.expand(text), `\:`, ":")) {
		if strings.ContainsAny(name, "*?[") {
			if found := m.wildcards([]string{name}); len(found) > 0 {
				list = append(list, found...)
				continue
			}
		}
		if name != "./" {
			name = strings.TrimPrefix(name, "./")
		}
		list = append(list, name)
	}
	return list
}

// readTargetVariable reads "target: NAME = VALUE"; false: the line is a rule.
func (r *reader) readTargetVariable(targets []string, text string) bool {
	m := r.m
	text = strings.TrimLeft(text, " \t")
	origin, export := "file", false
	for {
		word, rest := cutWord(text)
		if _, _, _, ok := splitAssignment(rest); !ok || word != "override" && word != "export" && word != "private" {
			break
		}
		switch word {
		case "override":
			origin = "override"
		case "export":
			export = true
		}
		text = rest
	}
	name, op, value, ok := splitAssignment(text)
	if !ok || strings.ContainsAny(name, " \t|") {
		return false
	}
	a := targetAssignment{name: strings.TrimSpace(m.expand(name)), op: op, value: value, origin: origin, export: export, at: m.at}
	if op == ":=" {
		a.value = strings.ReplaceAll(m.expand(value), "$", "$$")
	}
	for _, t := range targets {
		m.p.Alloc(int64(len(a.value)) + 64)
		if strings.Contains(t, "%") {
			a.pattern = t
			m.patternVars = append(m.patternVars, a)
			continue
		}
		to := m.target(t)
		to.vars = append(to.vars, a)
	}
	return true
}

// addRules adds the rules of a line.
func (r *reader) addRules(targets []string, after string, double, group bool) {
	m := r.m
	r.rules = []*rule{}
	pattern := ""
	if middle, rest, _, _, ok := splitRule(after); ok {
		list := m.expandNames(middle)
		if len(list) != 1 {
			m.fail("multiple target patterns")
			return
		}
		if pattern, after = list[0], rest; !strings.Contains(pattern, "%") {
			m.fail("target pattern contains no '%%'")
			return
		}
	}
	if !m.special[".SECONDEXPANSION"] {
		after = strings.ReplaceAll(m.expand(after), "$", "$$")
	} else {
		after = m.expand(after)
	}
	normal, order, _ := strings.Cut(after, "|")
	prereqs, orderOnly := m.prereqNames(normal), m.prereqNames(order)
	if len(targets) == 0 {
		return
	}
	if pattern == "" && strings.Contains(targets[0], "%") {
		rule := &rule{targets: targets, prereqs: prereqs, orderOnly: orderOnly, at: m.at, double: double, builtin: r.builtin}
		m.p.Alloc(256)
		m.patterns = append(m.patterns, rule)
		r.rules = append(r.rules, rule)
		return
	}
	var shared *rule
	for _, name := range targets {
		if r.readSpecial(name, prereqs) {
			continue
		}
		if m.defaultGoal == "" && (name[0] != '.' || strings.Contains(name, "/")) {
			m.defaultGoal = name
			m.set(".DEFAULT_GOAL", &variable{value: name, origin: "file"})
		}
		one := &rule{targets: []string{name}, prereqs: prereqs, orderOnly: orderOnly, at: m.at, double: double, group: group}
		if pattern != "" {
			stem, ok := matchPattern(pattern, name)
			if !ok {
				m.warnf("%s: target '%s' doesn't match the target pattern", m.at, name)
			}
			one.stem = stem
			one.prereqs, one.orderOnly = m.substituteStem(prereqs, stem), m.substituteStem(orderOnly, stem)
		}
		if group {
			if shared != nil {
				one = shared
			} else {
				shared, one.targets = one, targets
			}
		}
		r.addRule(name, one)
		if strings.HasPrefix(name, ".") && pattern == "" && len(prereqs)+len(orderOnly) == 0 {
			m.suffixRules = append(m.suffixRules, one)
		}
	}
}

// addSuffixRules adds the suffix rules among the rules as pattern rules, after those.
func (m *maker) addSuffixRules() {
	for _, r := range m.suffixRules {
		m.p.Tick(1 + len(m.suffixes))
		if suffixes, ok := m.splitSuffixes(r.targets[0]); ok && r.hasRecipe {
			m.p.Alloc(256)
			pattern := *r
			pattern.targets, pattern.prereqs = []string{"%" + suffixes[1]}, []string{"%" + suffixes[0]}
			m.patterns = append(m.patterns, &pattern)
		}
	}
}

// defaultSuffixes are the suffixes that rules may begin with.
const defaultSuffixes = ".out .a .ln .o .c .cc .C .cpp .p .f .F .m .r .y .l .ym .yl .s .S .mod .sym .def .h .info .dvi .tex .texinfo .texi .txinfo .w .ch .web .sh .elc .el"

// splitSuffixes splits the name of a suffix rule, such as .c.o, into the suffixes from and to; that of one suffix makes
// files without.
func (m *maker) splitSuffixes(name string) (suffixes [2]string, ok bool) {
	if !strings.HasPrefix(name, ".") || strings.Contains(name, "/") {
		return suffixes, false
	}
	known := func(s string) bool { return slices.Contains(m.suffixes, s) }
	if from, to, two := strings.Cut(name[1:], "."); two {
		suffixes = [2]string{"." + from, "." + to}
		return suffixes, known(suffixes[0]) && known(suffixes[1])
	}
	return [2]string{name, ""}, known(name)
}

// substituteStem returns the names with the stem in the place of %.
func (m *maker) substituteStem(list []string, stem string) []string {
	m.p.Alloc(16 * int64(len(list)))
	out := make([]string, len(list))
	for i, w := range list {
		m.p.Tick(1)
		if out[i] = w; strings.Contains(w, "%") {
			m.p.Alloc(int64(len(w)+len(stem)) + 16)
			out[i] = strings.Replace(w, "%", stem, 1)
		}
	}
	return out
}

// mentionedCost is what a name costs among those that the makefiles mention.
const mentionedCost = 64

// mention notes a name that the makefiles mention.
func (m *maker) mention(name string) {
	m.p.Tick(1)
	if !m.mentioned[name] {
		m.p.Alloc(mentionedCost)
		m.mentioned[name] = true
	}
}

// prereqNames splits prerequisites; globs are expanded.
func (m *maker) prereqNames(text string) []string {
	if m.special[".SECONDEXPANSION"] && strings.Contains(text, "$") {
		return []string{text}
	}
	var list []string
	for _, name := range m.fields(text) {
		if strings.ContainsAny(name, "*?[") && !strings.Contains(name, "$") {
			if found := m.wildcards([]string{name}); len(found) > 0 {
				list = append(list, found...)
				continue
			}
		}
		if name = strings.TrimPrefix(name, "./"); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// addRule adds a rule to its target. The prerequisites of the rule with the recipe come first: see finishRules.
func (r *reader) addRule(name string, one *rule) {
	m := r.m
	m.p.Alloc(256 + 24*int64(len(one.prereqs)))
	t := m.target(name)
	t.known = true
	m.mention(name)
	for _, list := range [][]string{one.prereqs, one.orderOnly} {
		for _, w := range list {
			m.mention(w)
		}
	}
	if !slices.Contains(r.rules, one) {
		r.rules = append(r.rules, one)
	}
	t.double = append(t.double, one) // sorted out when the target is made
}

// readSpecial handles special targets; false: the name is none.
func (r *reader) readSpecial(name string, prereqs []string) bool {
	m := r.m
	switch name {
	case ".PHONY":
		for _, w := range prereqs {
			m.target(w).phony = true
			m.mention(w)
		}
	case ".EXPORT_ALL_VARIABLES":
		m.exportAll = true
	case ".SILENT", ".IGNORE", ".PRECIOUS", ".SECONDARY", ".INTERMEDIATE":
		if len(prereqs) == 0 {
			m.special[name] = true
		}
		for _, w := range prereqs {
			m.p.Tick(1)
			m.p.Alloc(int64(len(name)+len(w)) + mentionedCost)
			m.special[name+" "+w] = true
		}
	case ".SUFFIXES":
		if len(prereqs) == 0 {
			m.suffixes = nil
		}
		m.p.Alloc(16 * int64(len(prereqs)))
		m.suffixes = append(m.suffixes, prereqs...)
	case ".ONESHELL", ".SECONDEXPANSION", ".DELETE_ON_ERROR", ".POSIX", ".NOTPARALLEL", ".LOW_RESOLUTION_TIME":
		m.special[name] = true
	default:
		return false
	}
	return true
}

// finishRules sorts out the rules of a target: its recipe, and its prerequisites in order, those of the recipe first.
func (m *maker) finishRules(t *target) {
	all := t.double
	t.double = nil
	if len(all) == 0 {
		return
	}
	if all[0].double {
		t.double = all
		return
	}
	for _, one := range all {
		if one.hasRecipe {
			if t.rule != nil && !one.builtin {
				m.warnf("%s: warning: overriding recipe for target '%s'", one.recipe[0].at, t.name)
				m.warnf("%s: warning: ignoring old recipe for target '%s'", t.rule.recipe[0].at, t.name)
			}
			t.rule, t.stem = one, one.stem
		}
	}
	if t.rule != nil {
		t.prereqs, t.orderOnly = append(t.prereqs, t.rule.prereqs...), append(t.orderOnly, t.rule.orderOnly...)
		if t.rule.group {
			t.also = t.rule.targets
		}
	}
	for _, one := range all {
		if one != t.rule {
			t.prereqs, t.orderOnly = append(t.prereqs, one.prereqs...), append(t.orderOnly, one.orderOnly...)
		}
		if t.stem == "" {
			t.stem = one.stem
		}
	}
}
