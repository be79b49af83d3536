package make

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// automatic has the values of the automatic variables of a recipe.
type automatic struct {
	target, stem               string
	prereqs, all, newer, order []string
}

// automaticValue returns the value of an automatic variable; false: the name is no such variable.
func (m *maker) automaticValue(name string) (string, bool) {
	if name == "" || len(name) > 2 || !strings.Contains("@<^+?*|%", name[:1]) || len(name) == 2 && name[1] != 'D' && name[1] != 'F' {
		return "", false
	}
	a := m.autos
	if a == nil {
		return "", true
	}
	var text string
	switch name[0] {
	case '@':
		text = a.target
	case '<':
		text = nth(a.prereqs, 0)
	case '^':
		text = strings.Join(a.prereqs, " ")
	case '+':
		text = strings.Join(a.all, " ")
	case '?':
		text = strings.Join(a.newer, " ")
	case '*':
		text = a.stem
	case '|':
		text = strings.Join(a.order, " ")
	}
	m.charge(len(text))
	if len(name) == 1 {
		return text, true
	}
	return m.mapWords(text, func(w string) string {
		if name[1] == 'F' {
			return w[strings.LastIndexByte(w, '/')+1:]
		}
		if i := strings.LastIndexByte(w, '/'); i > 0 {
			return w[:i]
		} else if i == 0 {
			return "/"
		}
		return "."
	}), true
}

// maxChain is how deep prerequisites may be nested.
const maxChain = 2000

// modified returns the time of a file, and whether there is one.
func (m *maker) modified(name string) (time.Time, bool) {
	info, err := m.p.Stat(name)
	m.p.Tick(1 + (len(m.newFiles)+len(m.oldFiles))>>3)
	switch {
	case slices.Contains(m.newFiles, name):
		return time.Unix(1<<40, 0), true
	case err != nil:
		return time.Time{}, false
	case slices.Contains(m.oldFiles, name):
		return time.Time{}, true
	}
	return info.ModTime(), true
}

// locate returns the path of a file, or of one of its name in a directory of vpath or VPATH.
func (m *maker) locate(name string) string {
	if _, err := m.p.Stat(name); err == nil || strings.HasPrefix(name, "/") {
		return name
	}
	for _, s := range m.searchPaths {
		if _, ok := matchPattern(s.pattern, name); !ok {
			continue
		}
		for _, dir := range s.dirs {
			if _, err := m.p.Stat(dir + "/" + name); err == nil {
				return dir + "/" + name
			}
		}
	}
	if m.lookup("VPATH") != nil {
		for _, dir := range strings.FieldsFunc(m.valueOf("VPATH"), func(c rune) bool { return c == ':' || c == ' ' }) {
			if _, err := m.p.Stat(dir + "/" + name); err == nil {
				return dir + "/" + name
			}
		}
	}
	return name
}

// dependencyCost is what a dependency costs, with its places in the lists of automatic variables while they grow.
const dependencyCost = 256

// dependency is a prerequisite of a target, after its update.
type dependency struct {
	t       *target
	path    string
	time    time.Time
	exists  bool
	ordered bool // order-only
}

// update makes a target up to date; chain has the targets that need it.
func (m *maker) update(name string, chain []*target) *target {
	t := m.target(name)
	if t.state == 2 || m.failed() {
		return t
	}
	if len(chain) > maxChain {
		m.at = place{}
		m.fail("prerequisites are nested too deep: '%s'", name)
		return t
	}
	m.p.Tick(8)
	t.state = 1
	m.finishRules(t)
	pushed := m.pushVariables(t)
	if len(t.double) > 0 {
		m.updateDouble(t, chain)
	} else {
		m.updateSingle(t, chain)
	}
	if pushed {
		m.popVariables()
	}
	t.state = 2
	return t
}

// pushVariables sets the variables of a target and of the patterns that match it, and reports whether there are any.
func (m *maker) pushVariables(t *target) bool {
	var list []targetAssignment
	for _, a := range m.patternVars {
		if _, ok := matchPattern(a.pattern, t.name); ok {
			list = append(list, a)
		}
	}
	if list = append(list, t.vars...); len(list) == 0 {
		return false
	}
	scope := map[string]*variable{}
	m.scopes = append(m.scopes, scope)
	m.autos = &automatic{target: t.name}
	for _, a := range list {
		m.at = a.at
		m.assignTo(scope, a.name, a.op, a.value, a.origin)
		if a.export {
			m.exports[a.name] = true
		}
	}
	m.autos = nil
	return true
}

// popVariables removes the innermost scope, and frees its memory.
func (m *maker) popVariables() {
	last := len(m.scopes) - 1
	for _, v := range m.scopes[last] {
		m.p.Free(v.charged)
	}
	m.scopes = m.scopes[:last]
}

// updateDouble runs each of the double-colon rules that is out of date.
func (m *maker) updateDouble(t *target, chain []*target) {
	for _, one := range t.double {
		deps := m.updatePrereqs(t, one.prereqs, one.orderOnly, chain)
		m.p.Free(dependencyCost * int64(len(deps)))
		if m.failed() || t.failed {
			return
		}
		autos, must := m.compare(t, t.name, deps)
		if must || len(one.prereqs) == 0 {
			m.remake(t, one, autos)
		}
	}
	t.changed = true
}

func (m *maker) updateSingle(t *target, chain []*target) {
	if t.rule == nil && !t.phony {
		if r, stem, prereqs, order, ok := m.searchImplicit(t.name, 0, nil); ok {
			t.rule, t.stem = r, stem
			t.prereqs, t.orderOnly = append(prereqs, t.prereqs...), append(order, t.orderOnly...)
			for _, pattern := range r.targets[1:] {
				t.also = append(t.also, strings.Replace(pattern, "%", stem, 1))
			}
			for _, pattern := range r.targets {
				if name := strings.Replace(pattern, "%", stem, 1); len(r.targets) > 1 && !slices.Contains(t.also, name) {
					t.also = append(t.also, name)
				}
			}
		}
	}
	path := m.locate(t.name)
	before, exists := m.modified(path)
	if t.rule == nil && !t.known && !t.phony && !exists {
		if d := m.targets[".DEFAULT"]; d != nil {
			if d.state == 0 {
				m.finishRules(d)
				d.state = 2
			}
			t.rule = d.rule
		}
		if t.rule == nil {
			m.reportMissing(t, chain)
			return
		}
	}
	deps := m.updatePrereqs(t, t.prereqs, t.orderOnly, chain)
	defer m.p.Free(dependencyCost * int64(len(deps)))
	if m.failed() || t.failed {
		return
	}
	autos, must := m.compare(t, path, deps)
	if t.rule == nil {
		t.changed = !exists || t.phony
		return
	}
	lazy := !exists && len(chain) > 0 && !m.mentioned[t.name] && !m.always
	if lazy && !slices.ContainsFunc(deps, func(d dependency) bool { return d.t.changed || d.t.phony }) && m.staysUnmade(chain, deps) {
		return
	}
	if !must {
		return
	}
	autos.target = t.name
	m.remake(t, t.rule, autos)
	if after, ok := m.modified(t.name); !ok || !after.Equal(before) || !exists || m.dryRun {
		t.changed = true
	}
	if !m.mentioned[t.name] && !exists && len(chain) > 0 && !m.special[".SECONDARY"] && !m.special[".PRECIOUS"] && !m.special[".PRECIOUS "+t.name] && !m.special[".SECONDARY "+t.name] || m.special[".INTERMEDIATE "+t.name] && !exists {
		m.intermediate = append(m.intermediate, t.name)
	}
	for _, name := range t.also {
		if name != t.name {
			other := m.target(name)
			other.state, other.changed, other.failed = 2, t.changed, t.failed
		}
	}
}

// staysUnmade reports whether an intermediate file that is missing is not needed, because the target that needs it is
// newer than what the file would be made of.
func (m *maker) staysUnmade(chain []*target, deps []dependency) bool {
	parent, exists := m.modified(chain[len(chain)-1].name)
	return exists && !chain[len(chain)-1].phony && !slices.ContainsFunc(deps, func(d dependency) bool { return !d.exists || d.time.After(parent) })
}

// reportMissing reports that there is no way to make a target.
func (m *maker) reportMissing(t *target, chain []*target) {
	t.failed = true
	m.status = 2
	text := "No rule to make target '" + t.name + "'"
	if len(chain) > 0 {
		text += ", needed by '" + chain[len(chain)-1].name + "'"
	}
	if m.keepGoing {
		m.warnf("%s: *** %s.", m.name, text)
		return
	}
	m.at = place{}
	m.fail("%s", text)
}

// updatePrereqs updates the prerequisites of a target.
func (m *maker) updatePrereqs(t *target, normal, order []string, chain []*target) []dependency {
	chain = append(slices.Clip(chain), t)
	var deps []dependency
	for i, list := range [][]string{normal, order} {
		for _, text := range list {
			names := []string{text}
			if strings.Contains(text, "$") {
				m.autos = &automatic{target: t.name, stem: t.stem}
				names = m.fields(m.expand(text))
				m.autos = nil
			}
			for _, name := range names {
				if d, ok := m.updatePrereq(t, name, chain); ok {
					d.ordered = i == 1
					m.p.Alloc(dependencyCost)
					deps = append(deps, d)
				}
				if m.failed() {
					return nil
				}
			}
		}
	}
	return deps
}

func (m *maker) updatePrereq(t *target, name string, chain []*target) (dependency, bool) {
	d := m.target(name)
	if d.state == 1 {
		m.warnf("%s: Circular %s <- %s dependency dropped.", m.name, t.name, name)
		return dependency{}, false
	}
	m.update(name, chain)
	if d.failed {
		t.failed = true
	}
	path := m.locate(name)
	when, exists := m.modified(path)
	return dependency{t: d, path: path, time: when, exists: exists}, true
}

// compare compares a target with its prerequisites, and reports whether it must be made.
func (m *maker) compare(t *target, path string, deps []dependency) (*automatic, bool) {
	when, exists := m.modified(path)
	must := m.always || t.phony || !exists
	a := &automatic{target: path, stem: m.stemOf(t)}
	for _, d := range deps {
		if d.ordered {
			m.p.Tick(1 + len(a.order)>>3)
			if !slices.Contains(a.order, d.path) {
				a.order = append(a.order, d.path)
			}
			continue
		}
		newer := !exists || d.time.After(when) || d.t.phony || m.always || (!d.exists || m.dryRun) && d.t.changed
		a.all = append(a.all, d.path)
		m.p.Tick(1 + len(a.prereqs)>>3)
		if !slices.Contains(a.prereqs, d.path) {
			a.prereqs = append(a.prereqs, d.path)
			if newer {
				a.newer = append(a.newer, d.path)
			}
		}
		must = must || newer
	}
	return a, must
}

// stemOf returns the value of $*.
func (m *maker) stemOf(t *target) string {
	if t.stem != "" || t.rule == nil {
		return t.stem
	}
	for _, s := range []string{".o", ".c", ".cc", ".cpp", ".h", ".a", ".s", ".S", ".sh", ".out", ".f", ".p", ".y", ".l", ".tex", ".txt", ".el", ".info"} {
		if s != ".txt" && strings.HasSuffix(t.name, s) {
			return strings.TrimSuffix(t.name, s)
		}
	}
	return ""
}

// candidate is a pattern rule that could make a file.
type candidate struct {
	r         *rule
	stem, dir string
}

// searchImplicit returns the pattern rule that makes a file, and its prerequisites.
func (m *maker) searchImplicit(name string, depth int, used []*rule) (r *rule, stem string, prereqs, order []string, ok bool) {
	var list []candidate
	for _, r := range m.patterns {
		m.p.Tick(1)
		if !r.hasRecipe || slices.Contains(used, r) {
			continue
		}
		for _, pattern := range r.targets {
			if depth > 0 && pattern == "%" {
				continue
			}
			dir, base := "", name
			if i := strings.LastIndexByte(name, '/'); i >= 0 && !strings.Contains(pattern, "/") {
				dir, base = name[:i+1], name[i+1:]
			}
			if stem, ok := matchPattern(pattern, base); ok && stem != "" {
				list = append(list, candidate{r, stem, dir})
				break
			}
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return len(list[i].stem) < len(list[j].stem) })
	for pass := range 2 {
		for _, c := range list {
			if pass == 1 && (depth > 4 || c.r.double) {
				continue
			}
			p, o := m.candidateNames(c, c.r.prereqs), m.candidateNames(c, c.r.orderOnly)
			if m.canMakeAll(p, pass == 1, depth, append(slices.Clip(used), c.r)) {
				return c.r, c.dir + c.stem, p, o, true
			}
		}
	}
	return nil, "", nil, nil, false
}

func (m *maker) candidateNames(c candidate, list []string) []string {
	out := make([]string, 0, len(list))
	for _, w := range list {
		if strings.Contains(w, "%") {
			w = strings.Replace(w, "%", c.stem, 1)
			if c.dir != "" {
				w = c.dir + w
			}
		}
		out = append(out, w)
	}
	return out
}

func (m *maker) canMakeAll(names []string, chained bool, depth int, used []*rule) bool {
	for _, name := range names {
		if strings.Contains(name, "$") || m.mentioned[name] {
			continue
		}
		if _, err := m.p.Stat(m.locate(name)); err == nil {
			continue
		}
		if !chained {
			return false
		}
		if _, _, _, _, ok := m.searchImplicit(name, depth+1, used); !ok {
			return false
		}
	}
	return true
}

// remake runs the recipe of a rule for a target.
func (m *maker) remake(t *target, r *rule, autos *automatic) {
	switch {
	case m.question:
		m.status, t.failed = 1, true
		return
	case m.touch && !t.phony:
		if len(r.recipe) == 0 {
			return
		}
		if !m.silent {
			m.print("touch " + t.name + "\n")
		}
		m.ran++
		m.p.Run("touch", t.name)
		return
	}
	m.autos = autos
	defer func() { m.autos = nil }()
	var lines []recipeLine
	for _, l := range r.recipe {
		m.at = l.at
		text := m.expand(l.text)
		if m.failed() {
			return
		}
		if strings.Contains(l.text, "$(MAKE)") || strings.Contains(l.text, "${MAKE}") {
			text = "+" + text
		}
		lines = append(lines, recipeLine{text, l.at})
	}
	m.at = place{}
	if m.special[".ONESHELL"] && len(lines) > 0 {
		var b strings.Builder
		for i, l := range lines {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(l.text)
		}
		lines = []recipeLine{{b.String(), lines[0].at}}
	}
	for _, l := range lines {
		if !m.runLine(t, l) {
			return
		}
	}
	m.release()
}

// runLine runs the lines of a recipe's line, which a variable may have several of. false: it failed.
func (m *maker) runLine(t *target, l recipeLine) bool {
	parts := []string{l.text}
	if !m.special[".ONESHELL"] {
		parts = splitRecipe(l.text)
	}
	for _, text := range parts {
		if !m.runCommand(t, text, l.at) {
			return false
		}
	}
	return true
}

// splitRecipe splits at line ends that no backslash precedes.
func splitRecipe(text string) []string {
	var parts []string
	from := 0
	for i := range len(text) {
		if text[i] == '\n' && !continues(text[from:i]) {
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

// runCommand runs one command of a recipe.
func (m *maker) runCommand(t *target, text string, at place) bool {
	silent, ignore, always := m.silent || m.special[".SILENT"] || m.special[".SILENT "+t.name], m.ignoreErrors || m.special[".IGNORE"] || m.special[".IGNORE "+t.name], false
	for text != "" && strings.IndexByte("@-+ \t", text[0]) >= 0 {
		switch text[0] {
		case '@':
			silent = true
		case '-':
			ignore = true
		case '+':
			always = true
		}
		text = text[1:]
	}
	if strings.TrimSpace(text) == "" {
		return true
	}
	m.ran++
	if !silent || m.dryRun {
		m.print(text + "\n")
	}
	if m.dryRun && !always {
		return true
	}
	_ = m.p.Out().Flush() // the next write reports the error
	before, _ := m.modified(t.name)
	code, signal := m.start(text)
	if code == 0 {
		return true
	}
	where := m.name + ": "
	message := "[" + at.String() + ": " + t.name + "] " + signal
	if at.file == "" {
		message = "[<builtin>: " + t.name + "] " + signal
	}
	if ignore {
		m.warnf("%s%s (ignored)", where, message)
		return true
	}
	m.warnf("%s*** %s", where, message)
	t.failed, m.status = true, 2
	if after, ok := m.modified(t.name); ok && !t.phony && m.special[".DELETE_ON_ERROR"] && !after.Equal(before) {
		m.warnf("%s*** Deleting file '%s'", where, t.name)
		_ = m.p.Unlink(t.name) // it may be gone
	}
	if !m.keepGoing {
		m.stopped = true
	}
	return false
}

// start runs a command by the shell, and returns its status with its description.
func (m *maker) start(text string) (code int, description string) {
	args := m.shellCommand(text)
	s, err := m.p.Command(args)
	if err != nil {
		m.warnf("%s: %s: %s", m.name, args[0], program.Reason(err))
		return 127, "Error 127"
	}
	s.Env = m.environment()
	st, err := m.p.Call(s)
	if err != nil {
		m.warnf("%s: fork: %s", m.name, program.Reason(err))
		return 126, "Error 126"
	}
	if st.Signal != 0 {
		return 128 + int(st.Signal), st.Signal.Description()
	}
	return st.Code, "Error " + strconv.Itoa(st.Code)
}

// environment returns the environment of recipes.
func (m *maker) environment() []string {
	names := map[string]bool{}
	for i := -1; i < len(m.scopes); i++ {
		vars := m.vars
		if i >= 0 {
			vars = m.scopes[i]
		}
		for name, v := range vars {
			if m.isExported(name, v) {
				names[name] = true
			}
		}
	}
	m.p.Tick(len(names))
	var env []string
	for name := range names {
		env = append(env, name+"="+m.valueOf(name))
	}
	sort.Strings(env)
	if shell, ok := m.p.LookupEnv("SHELL"); ok && !m.exports["SHELL"] {
		env = append(env, "SHELL="+shell)
	}
	flags := m.vars["MAKEFLAGS"].value
	return append(env, "MAKEFLAGS="+flags, "MFLAGS="+when(flags != "" && !strings.HasPrefix(flags, "-") && !strings.HasPrefix(flags, " "), "-")+flags, "MAKELEVEL="+strconv.Itoa(m.level+1))
}

func (m *maker) isExported(name string, v *variable) bool {
	switch name {
	case "MAKEFLAGS", "MAKELEVEL", "SHELL":
		return name == "SHELL" && m.exports[name]
	}
	if export, ok := m.exports[name]; ok {
		return export
	}
	if v.fromEnv || v.origin == "command line" {
		return isShellName(name)
	}
	return m.exportAll && v.origin != "default" && v.origin != "automatic" && isShellName(name) && name != "MAKE" && name != "CURDIR"
}

func isShellName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
