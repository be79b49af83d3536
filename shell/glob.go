package shell

import (
	"io/fs"
	"slices"
	"sort"
	"strings"
)

// globField appends the names that a pattern matches. If there are none, it
// applies failglob and nullglob, or appends the word itself.
func (in *interp) globField(out []string, pat, plain string) []string {
	g := globber{in: in, flags: in.globFlags()}
	g.walkPattern("", pat)
	list := g.dropIgnored(g.found)
	if len(list) == 0 {
		switch {
		case in.shopts&shFailglob != 0:
			in.errorf("no match: %s", plain)
			in.abortArith()
		case in.shopts&shNullglob != 0:
			return out
		}
		return append(out, plain)
	}
	sort.Strings(list)
	list = slices.Compact(list)
	in.chargeWork(len(list))
	for _, s := range list {
		in.chargeSmall(len(s) + 16)
	}
	return append(out, list...)
}

func (in *interp) globFlags() patFlags {
	flags := in.patFlags() &^ patFold
	if in.shopts&shNocaseglob != 0 {
		flags |= patFold
	}
	return flags
}

// globber collects the names that a pattern matches.
type globber struct {
	in        *interp
	flags     patFlags
	found     []string
	depth     int
	wildcards int // number of patterns that the current path has matched
}

// maxGlobDepth limits how deep ** descends.
const maxGlobDepth = 256

// walkPattern matches the components of pat below dir, which ends in a slash
// or is empty for the current directory.
func (g *globber) walkPattern(dir, pat string) {
	for strings.HasPrefix(pat, "/") {
		dir += "/"
		pat = pat[1:]
	}
	if pat == "" {
		g.addExisting(dir, true)
		return
	}
	comp, rest, more := cutComponent(pat)
	if more {
		rest = "/" + rest
	}
	switch {
	case comp == "**" && g.in.shopts&shGlobstar != 0:
		g.matchGlobstar(dir, rest, true)
	case !hasPattern(comp, g.flags&patExt != 0):
		name := dir + unquotePattern(comp)
		if !more {
			g.addExisting(name, false)
		} else if !hasPattern(rest, g.flags&patExt != 0) || g.isDir(name) {
			g.walkPattern(name, rest)
		}
	default:
		g.matchComponent(dir, comp, rest)
	}
}

// cutComponent splits a pattern at its first slash.
func cutComponent(pat string) (comp, rest string, more bool) {
	for i := 0; i < len(pat); i++ {
		switch pat[i] {
		case '\\':
			if i+1 < len(pat) && pat[i+1] != '/' {
				i++
			}
		case '/':
			return pat[:i], pat[i+1:], true
		}
	}
	return pat, "", false
}

// matchComponent matches a component against the names in a directory.
func (g *globber) matchComponent(dir, comp, rest string) {
	p := g.in.compilePattern(comp, g.flags)
	dots := g.in.shopts&shDotglob != 0 || startsWithDot(p.nodes)
	for _, e := range g.readDir(dir) {
		name := e.Name()
		g.in.chargeWork(1)
		if name[0] == '.' && !dots || !p.matchAll(g.in, name) {
			continue
		}
		switch {
		case rest == "":
			g.found = append(g.found, dir+name)
			g.in.chargeSmall(len(dir) + len(name) + 32)
		case g.entersDir(e, dir+name):
			g.wildcards++
			g.walkPattern(dir+name, rest)
			g.wildcards--
		}
	}
	if g.in.shopts&shGlobskipdots == 0 && startsWithDot(p.nodes) {
		for _, name := range []string{".", ".."} {
			if p.matchAll(g.in, name) {
				g.walkPattern(dir+name, rest)
			}
		}
	}
}

// startsWithDot reports whether a pattern begins with a literal dot, so that
// it may match hidden names.
func startsWithDot(nodes []patNode) bool {
	if len(nodes) == 0 {
		return false
	}
	n := &nodes[0]
	switch {
	case n.op == patChar:
		return n.r == '.'
	case n.op != patGroup || n.kind == '!':
		return false
	}
	for _, alt := range n.alts {
		if startsWithDot(alt) {
			return true
		}
	}
	return (n.kind == '?' || n.kind == '*') && startsWithDot(nodes[1:])
}

// matchGlobstar matches ** : the directory itself and everything beneath it.
func (g *globber) matchGlobstar(dir, rest string, top bool) {
	for rest == "/**" || strings.HasPrefix(rest, "/**/") {
		rest = rest[3:]
	}
	if g.depth++; g.depth > maxGlobDepth {
		g.depth--
		return
	}
	switch {
	case rest == "" && top && dir != "" && g.wildcards > 0:
		g.found = append(g.found, strings.TrimSuffix(dir, "/"))
	case rest == "" && top && dir != "":
		g.found = append(g.found, dir)
	case rest != "" && (!top || dir != "" || rest != "/"):
		g.wildcards++
		g.walkPattern(dir, strings.TrimPrefix(rest, "/"))
		g.wildcards--
	}
	for _, e := range g.readDir(dir) {
		name := e.Name()
		g.in.chargeWork(2)
		if name[0] == '.' && g.in.shopts&shDotglob == 0 {
			continue
		}
		if rest == "" {
			g.found = append(g.found, dir+name)
			g.in.chargeSmall(len(dir) + len(name) + 32)
		}
		if e.IsDir() {
			g.matchGlobstar(dir+name+"/", rest, false)
		} else if rest == "/" && top && e.Type()&fs.ModeSymlink != 0 && g.isDir(dir+name) {
			g.found = append(g.found, dir+name+"/")
		}
	}
	g.depth--
}

func (g *globber) readDir(dir string) []fs.DirEntry {
	if dir == "" {
		dir = "."
	}
	list, err := g.in.p.ReadDir(dir)
	if err != nil {
		return nil
	}
	return list
}

func (g *globber) entersDir(e fs.DirEntry, name string) bool {
	if e.Type()&fs.ModeSymlink != 0 {
		return g.isDir(name)
	}
	return e.IsDir()
}

func (g *globber) isDir(name string) bool {
	info, err := g.in.p.Stat(name)
	return err == nil && info.IsDir()
}

// addExisting adds a name without wildcards if the file exists.
func (g *globber) addExisting(name string, dir bool) {
	if dir {
		if g.isDir(name) {
			g.found = append(g.found, name)
		}
		return
	}
	if _, err := g.in.p.Lstat(name); err == nil {
		g.found = append(g.found, name)
	}
}

// dropIgnored removes the names that match GLOBIGNORE.
func (g *globber) dropIgnored(list []string) []string {
	v, _ := g.in.get("GLOBIGNORE")
	if v == "" {
		return list
	}
	var pats []*pattern
	for _, s := range splitPatterns(v) {
		pats = append(pats, g.in.compilePattern(s, g.flags))
	}
	return slices.DeleteFunc(list, func(name string) bool {
		base := name[strings.LastIndexByte(name, '/')+1:]
		if base == "." || base == ".." {
			return true
		}
		return slices.ContainsFunc(pats, func(p *pattern) bool { return p.matchAll(g.in, name) })
	})
}

// splitPatterns splits a list of patterns at its colons, except those in
// brackets or after a backslash.
func splitPatterns(s string) []string {
	var list []string
	start, bracket := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '[':
			bracket = strings.IndexByte(s[i:], ']') > 0
		case c == ']':
			bracket = false
		case c == ':' && !bracket:
			list = append(list, s[start:i])
			start = i + 1
		}
	}
	return append(list, s[start:])
}

// globNames returns the names that a pattern matches.
func (in *interp) globNames(pat string) []string {
	g := globber{in: in, flags: in.globFlags()}
	g.walkPattern("", pat)
	return g.found
}

// globMatch reports whether a pattern matches s.
func (in *interp) globMatch(pat, s string) bool {
	return in.compilePattern(pat, in.patFlags()).matchAll(in, s)
}
