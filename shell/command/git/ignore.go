package git

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
)

// ignoreRule is a line of a .gitignore.
type ignoreRule struct {
	file                    string // that has the line
	line                    int    // from 1
	text                    string // of the line
	dir, pattern            string
	negated, onlyDirs, base bool
}

// readIgnore returns the rules of a directory; dir is "" or ends with a slash.
func (r *repository) readIgnore(file, dir string) []ignoreRule {
	b, err := r.p.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []ignoreRule
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = trimIgnoreLine(line)
		if line == "" || line[0] == '#' {
			continue
		}
		rule := ignoreRule{dir: dir, file: file, line: n, text: line}
		line, rule.negated = strings.CutPrefix(line, "!")
		line = strings.TrimPrefix(line, `\`) // of a # or ! that is a part of the name
		line, rule.onlyDirs = strings.CutSuffix(line, "/")
		rule.base = !strings.Contains(line, "/")
		rule.pattern = strings.TrimPrefix(line, "/")
		r.p.Alloc(136)
		list = append(list, rule)
	}
	return list
}

// trimIgnoreLine removes the end of a line and spaces that no backslash protects.
func trimIgnoreLine(line string) string {
	line = strings.TrimRight(line, "\r\n")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// isIgnored reports whether the last rule that matches a file ignores it.
func (r *repository) isIgnored(rules []ignoreRule, name string, dir bool) bool {
	rule := r.findRule(rules, name, dir)
	return rule != nil && !rule.negated
}

// findRule returns the last rule that matches a file, or nil.
func (r *repository) findRule(rules []ignoreRule, name string, dir bool) *ignoreRule {
	for n, rule := range slices.Backward(rules) {
		below, ok := strings.CutPrefix(name, rule.dir)
		if !ok || rule.onlyDirs && !dir {
			continue
		}
		matched := false
		if rule.base {
			matched = glob.Match(r.p, rule.pattern, path.Base(name))
		} else {
			matched = matchParts(r.p, strings.Split(rule.pattern, "/"), strings.Split(below, "/"))
		}
		if matched {
			return &rules[n]
		}
	}
	return nil
}

// matchParts matches the parts of a path with those of a pattern; ** stands for any number of parts.
func matchParts(p *kernel.Proc, pattern, parts []string) bool {
	for len(pattern) > 0 {
		p.Tick(1)
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(parts) > 0
			}
			for n := 0; n <= len(parts); n++ {
				if p.Enter() {
					ok := matchParts(p, pattern[1:], parts[n:])
					if p.Leave(); ok {
						return true
					}
				}
			}
			return false
		}
		if len(parts) == 0 || !glob.Match(p, pattern[0], parts[0]) {
			return false
		}
		pattern, parts = pattern[1:], parts[1:]
	}
	return len(parts) == 0
}

// matchGlob matches a name with a pattern whose * matches slashes too.
func matchGlob(p *kernel.Proc, pattern, name string) bool { return glob.Match(p, pattern, name) }

// isBelow reports whether a file is a path or below it.
func isBelow(name, dir string) bool {
	return dir == "" || name == dir || strings.HasPrefix(name, dir+"/")
}

// matchPath reports whether a path of the command line has a file: it is the file, a directory above it, or a
// pattern.
func matchPath(p *kernel.Proc, dir, name string) bool {
	return isBelow(name, dir) || strings.ContainsAny(dir, "*?[") && glob.Match(p, dir, name)
}

// selects reports whether one of the paths has the file and none excludes it (:!PATH); no paths have all.
func selects(p *kernel.Proc, paths []string, name string) bool {
	found, included := false, false
	for _, dir := range paths {
		p.Tick(1)
		if dir, ok := strings.CutPrefix(dir, ":!"); ok {
			if matchPath(p, dir, name) {
				return false
			}
			continue
		}
		included = true
		found = found || matchPath(p, dir, name)
	}
	return found || !included
}

// listOptions selects the files that listWork returns.
type listOptions struct {
	collapse bool // a directory without files of the index is listed as a whole, with a slash
	all      bool // also what rules ignore
	ignored  bool // only what rules ignore
}

// workLister lists the files of the working tree.
type workLister struct {
	r       *repository
	o       listOptions
	x       index
	tracked map[string]bool // directories with files of the index
	list    []string
}

// globalRules returns the rules that apply to the whole repository.
func (r *repository) globalRules() []ignoreRule {
	file := orDefault(r.conf.get("core.excludesfile"), r.p.Getenv("HOME")+"/.config/git/ignore")
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = r.p.Getenv("HOME") + "/" + rest
	}
	return append(r.readIgnore(file, ""), r.readIgnore(r.common+"/info/exclude", "")...)
}

// listWork returns the files of the working tree that no rule ignores, and those that the index has.
func (r *repository) listWork(x index, o listOptions) ([]string, error) {
	w := &workLister{r: r, o: o, x: x, tracked: make(map[string]bool)}
	mark := func(name string) {
		for dir := path.Dir(name); dir != "." && !w.tracked[dir]; dir = path.Dir(dir) {
			r.p.Alloc(int64(len(dir)) + 64)
			w.tracked[dir] = true
		}
	}
	for name := range x {
		mark(name)
	}
	for name := range r.conflicts {
		mark(name)
	}
	_, err := w.walk("", r.globalRules(), false, false)
	slices.Sort(w.list)
	return w.list, err
}

// walk lists a directory. hidden means that a rule ignores it, silent that its files are not listed; found
// reports whether it has a file to list.
func (w *workLister) walk(dir string, rules []ignoreRule, hidden, silent bool) (found bool, err error) {
	r := w.r
	if !r.p.Enter() {
		return false, newFatal("directories are nested too deeply")
	}
	defer r.p.Leave()
	entries, err := r.p.ReadDir(r.root + "/" + dir)
	if err != nil {
		return false, err
	}
	rules = append(slices.Clip(rules), r.readIgnore(r.root+"/"+dir+".gitignore", dir)...)
	for _, e := range entries {
		r.p.Tick(2)
		name := dir + e.Name()
		_, known := w.x[name]
		if _, conflicting := r.conflicts[name]; conflicting {
			known = true
		}
		if name == ".git" {
			continue
		}
		ignored := !known && !w.tracked[name] && (hidden || r.isIgnored(rules, name, e.IsDir()))
		if ignored && !w.o.all && !w.o.ignored {
			continue
		}
		has := false
		if e.IsDir() {
			has, err = w.walkDir(name, rules, known, ignored, silent)
			if err != nil {
				return false, err
			}
		} else if e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0 {
			if has = !w.o.ignored || ignored; has && !silent {
				w.add(name)
			}
		}
		found = found || has
	}
	return found, nil
}

func (w *workLister) add(name string) {
	w.r.p.Alloc(int64(len(name)) + 48)
	w.list = append(w.list, name)
}

// walkDir lists a directory below another one.
func (w *workLister) walkDir(name string, rules []ignoreRule, known, ignored, silent bool) (bool, error) {
	link := known && w.x[name].mode != modeRepo // or a file, in whose place the directory is
	if known && !link || w.isRepository(name) {
		if has := !w.o.ignored || ignored; has && !silent {
			if !known {
				name += "/"
			}
			w.add(name)
		}
		return true, nil
	}
	whole := w.o.collapse && !w.tracked[name] && (!w.o.ignored || ignored)
	has, err := w.walk(name+"/", rules, ignored, whole || silent)
	if err == nil && whole && has && !silent && !link {
		w.add(name + "/")
	}
	return has, err
}

// isRepository reports whether a directory is a repository of its own.
func (w *workLister) isRepository(name string) bool {
	if w.tracked[name] {
		return false
	}
	info, err := w.r.p.Lstat(w.r.root + "/" + name + "/.git")
	return err == nil && (!info.IsDir() || openGitDir(w.r.p, w.r.root+"/"+name+"/.git") != nil)
}

// isIgnoredPath reports whether a rule ignores a path or a directory above it.
func (r *repository) isIgnoredPath(name string) bool {
	rule := r.findIgnoreRule(name)
	return rule != nil && !rule.negated
}

// findIgnoreRule returns the rule that decides about a path: one that ignores a directory above it, or the last one that
// matches it; nil if there is none.
func (r *repository) findIgnoreRule(name string) *ignoreRule {
	rules := r.globalRules()
	dir := ""
	for {
		rules = append(rules, r.readIgnore(r.root+"/"+dir+".gitignore", dir)...)
		rest := name[len(dir):]
		first, _, deeper := strings.Cut(rest, "/")
		info, err := r.p.Lstat(r.root + "/" + dir + first)
		rule := r.findRule(rules, dir+first, deeper || err == nil && info.IsDir())
		if !deeper || rule != nil && !rule.negated {
			return rule
		}
		dir += first + "/"
	}
}
