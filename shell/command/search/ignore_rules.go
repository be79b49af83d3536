package search

import (
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
)

// ignoreRule is a line of an ignore file, or a glob of rg.
type ignoreRule struct {
	base     string   // directory of the ignore file; empty: names as given
	segments []string // of the pattern; ** stands for any number of directories
	anywhere bool     // the pattern is a base name, at any depth
	dirs     bool     // only directories
	negated  bool
}

// newIgnoreRule parses a pattern; ok is false for a comment or an empty line.
func newIgnoreRule(line, base string) (r ignoreRule, ok bool) {
	line = strings.TrimRight(line, " \t\r\n")
	if line == "" || line[0] == '#' {
		return r, false
	}
	r.base = base
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirs = strings.CutSuffix(line, "/")
	r.anywhere = !strings.Contains(line, "/")
	r.segments = strings.Split(strings.TrimPrefix(line, "/"), "/")
	return r, line != ""
}

// matchesFile reports whether the rule matches a file.
func (r ignoreRule) matchesFile(p *kernel.Proc, name string, dir bool) bool {
	if r.dirs && !dir {
		return false
	}
	if r.base != "" {
		rest, below := strings.CutPrefix(name, strings.TrimSuffix(r.base, "/")+"/")
		if !below {
			return false
		}
		name = rest
	}
	if r.anywhere {
		return slices.ContainsFunc(expandBraces(r.segments[0]), func(pat string) bool { return glob.Match(p, pat, path.Base(name)) })
	}
	return matchSegments(p, r.segments, strings.Split(strings.TrimPrefix(name, "./"), "/"))
}

// matchSegments matches a path with a pattern, segment by segment.
func matchSegments(p *kernel.Proc, pattern, name []string) bool {
	star, from := -1, 0 // the pattern after the last **, and the name where it was tried
	i, j := 0, 0
	for j < len(name) {
		p.Tick(1)
		switch {
		case i < len(pattern) && pattern[i] == "**":
			if i++; i == len(pattern) {
				return true
			}
			star, from = i, j
		case i < len(pattern) && slices.ContainsFunc(expandBraces(pattern[i]), func(pat string) bool { return glob.Match(p, pat, name[j]) }):
			i++
			j++
		case star >= 0:
			from++
			i, j = star, from
		default:
			return false
		}
	}
	return i == len(pattern)
}

// expandBraces returns the alternatives of a pattern with one {a,b} in it.
func expandBraces(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	end := strings.IndexByte(pattern, '}')
	if open < 0 || end < open {
		return []string{pattern}
	}
	var list []string
	for alt := range strings.SplitSeq(pattern[open+1:end], ",") {
		list = append(list, pattern[:open]+alt+pattern[end+1:])
	}
	return list
}

// ignoreRules are the rules that apply in a directory, those of the nearest directory last.
type ignoreRules struct {
	list  []ignoreRule
	git   bool   // inside a git repository
	own   string // the ignore file of the program
	noVCS bool   // leave .gitignore out
}

// loadParentRules returns the rules of the parents of dir.
func (r *rgRun) loadParentRules(dir string) ignoreRules {
	rules := ignoreRules{own: ".rgignore"}
	if r.noIgnore {
		return rules
	}
	return rules.withParents(r.p, dir)
}

// withParents returns the rules extended by those in the ignore files of all parents of a directory.
func (s ignoreRules) withParents(p *kernel.Proc, dir string) ignoreRules {
	abs := p.Path(dir)
	for i := 1; i < len(abs); i++ {
		if abs[i] == '/' {
			s = s.withDirectory(p, abs[:i])
		}
	}
	return s
}

// withDirectory returns the rules extended by those in the ignore files of a directory.
func (s ignoreRules) withDirectory(p *kernel.Proc, dir string) ignoreRules {
	dir = p.Path(dir)
	next := ignoreRules{list: slices.Clip(s.list), git: s.git, own: s.own, noVCS: s.noVCS}
	if _, err := p.Lstat(dir + "/.git"); err == nil {
		next.git = true
	}
	for _, name := range []string{".gitignore", ".ignore", s.own} {
		if name == ".gitignore" && (!next.git || next.noVCS) {
			continue
		}
		b, err := p.ReadFile(dir + "/" + name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if rule, ok := newIgnoreRule(line, dir); ok {
				p.Tick(1)
				next.list = append(next.list, rule)
			}
		}
		p.Alloc(int64(len(b)))
	}
	return next
}

// isIgnored reports whether a file is ignored: the last rule that matches decides.
func (s ignoreRules) isIgnored(p *kernel.Proc, abs string, dir bool) bool {
	for _, r := range slices.Backward(s.list) {
		if r.matchesFile(p, abs, dir) {
			return !r.negated
		}
	}
	return false
}
