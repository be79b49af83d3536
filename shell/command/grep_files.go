package command

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// files searches the operands and returns grep's exit status.
func (g *grepRun) files(operands []string) int {
	switch {
	case len(operands) == 0 && g.recurse:
		g.tree(".", "", 0)
	case len(operands) == 0:
		g.search("-", "-", false)
	default:
		several := len(operands) > 1
		for _, name := range operands {
			g.operand(name, several)
			if g.done() {
				break
			}
		}
	}
	switch {
	case g.quiet && g.selected:
		return 0
	case g.failed:
		return 2
	case g.selected:
		return 0
	}
	return 1
}

// done reports whether nothing that follows can change the outcome.
func (g *grepRun) done() bool { return g.quiet && g.selected }

func (g *grepRun) complain(name string, err error) {
	g.failed = true
	if !g.silent {
		g.p.Errorf("%s: %s", name, why(err))
	}
}

// operand searches what the command line names.
func (g *grepRun) operand(name string, several bool) {
	if name == "-" {
		g.search(name, name, several)
		return
	}
	info, err := g.p.Stat(name)
	if err != nil {
		g.complain(name, err)
		return
	}
	switch {
	case info.IsDir() && g.recurse:
		if !g.left(name, true) {
			g.tree(name, strings.TrimRight(name, "/")+"/", 0)
		}
	case info.IsDir():
		if !g.skipDirs {
			if _, err := open(g.p, name); err != nil {
				g.complain(name, err)
			}
		}
	case g.skipSpecial && !info.Mode().IsRegular(), g.left(name, false):
	default:
		g.search(name, name, several)
	}
}

// maxTree bounds how deep grep -r goes.
const maxTree = 1024

// tree searches the files below a directory; prefix stands before their names.
func (g *grepRun) tree(dir, prefix string, depth int) {
	entries, err := g.p.ReadDir(dir)
	if err != nil {
		g.complain(dir, err)
		return
	}
	for _, e := range entries {
		if g.done() || depth > maxTree {
			return
		}
		g.p.Tick(1)
		g.entry(prefix+e.Name(), e.Type(), depth)
	}
}

func (g *grepRun) entry(path string, mode fs.FileMode, depth int) {
	if mode&fs.ModeSymlink != 0 {
		if !g.follow {
			return
		}
		info, err := g.p.Stat(path)
		if err != nil {
			g.complain(path, err)
			return
		}
		if mode = info.Mode(); mode.IsDir() && g.loops(path) {
			return
		}
	}
	switch {
	case mode.IsDir():
		if !g.left(path, true) {
			g.tree(path, path+"/", depth+1)
		}
	case mode&fs.ModeType != 0 && !g.follow, mode&fs.ModeType != 0 && g.skipSpecial, g.left(path, false):
	default:
		g.search(path, path, true)
	}
}

// loops reports, with a warning, whether a directory lies above itself.
func (g *grepRun) loops(path string) bool {
	real, err := g.p.Resolve(path)
	if err != nil {
		g.complain(path, err)
		return true
	}
	above, err := g.p.Resolve(path[:strings.LastIndexByte("/"+path, '/')])
	if err != nil || above+"/" != real+"/" && !strings.HasPrefix(above+"/", strings.TrimRight(real, "/")+"/") {
		return false
	}
	if !g.silent {
		g.p.Errorf("warning: %s: recursive directory loop", path)
	}
	return true
}

// left reports whether the patterns of names leave a file out.
func (g *grepRun) left(path string, dir bool) bool {
	included, any := false, false
	for _, k := range g.globs {
		if k.dir != dir {
			continue
		}
		hit := globName(g.p, k.pattern, path)
		if k.include {
			any, included = true, included || hit
		} else if hit {
			return true
		}
	}
	return any && !included
}

// globName reports whether a pattern matches a name, or what follows one of
// its slashes.
func globName(p *kernel.Proc, pattern, name string) bool {
	pattern = strings.TrimRight(pattern, "/")
	name = strings.TrimRight(name, "/")
	for {
		if wildcard(p, pattern, name) {
			return true
		}
		i := strings.IndexByte(name, '/')
		if i < 0 {
			return false
		}
		name = name[i+1:]
	}
}

// search searches one file.
func (g *grepRun) search(name, shown string, several bool) {
	in, err := open(g.p, name)
	if err != nil {
		g.complain(name, err)
		return
	}
	defer closeInput(in)
	if g.list == 0 && !g.quiet && !g.count && g.max != 0 && in.Same(g.p.Stdout) && selfCopy(in, g.p.Stdout) {
		g.failed = true
		if !g.silent {
			g.p.Errorf("%s: input file is also the output", quotef(name))
		}
		return
	}
	f := &grepFile{grepRun: g, in: in, name: shown, named: g.names > 0 || g.names == 0 && several, out: g.p.Out()}
	if name == "-" && g.label != "" {
		f.name = g.label
	}
	n, err := f.look()
	if err != nil {
		g.complain(f.display(), err)
	}
	g.selected = g.selected || n > 0
	f.summary(n)
}

// summary prints what -c, -l and -L say about a file.
func (f *grepFile) summary(n int64) {
	if f.quiet {
		return
	}
	if f.count && f.list == 0 && (n > 0 || !f.lenient) {
		if f.named {
			f.mark("\x1b[35m\x1b[K", f.display())
			if f.nulls {
				_ = f.out.WriteByte(0) // shows at the flush, as all writes
			} else {
				f.mark("\x1b[36m\x1b[K", ":")
			}
		}
		_, _ = f.out.WriteString(strconv.FormatInt(n, 10) + "\n")
	}
	if f.list != 0 && (n > 0) == (f.list > 0) {
		f.mark("\x1b[35m\x1b[K", f.display())
		end := byte('\n')
		if f.nulls {
			end = 0
		}
		_ = f.out.WriteByte(end)
	}
}
