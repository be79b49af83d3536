package search

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// searchOperands searches the operands and returns grep's exit status.
func (g *grepRun) searchOperands(operands []string) int {
	switch {
	case len(operands) == 0 && g.recurse:
		g.searchTree(".", "", 0)
	case len(operands) == 0:
		g.searchFile("-", "-", false)
	default:
		several := len(operands) > 1
		for _, name := range operands {
			g.searchOperand(name, several)
			if g.isDone() {
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

// isDone reports whether the rest of the search can't change the outcome.
func (g *grepRun) isDone() bool { return g.quiet && g.selected }

func (g *grepRun) reportError(name string, err error) {
	g.failed = true
	if !g.silent {
		g.p.Errorf("%s: %s", name, program.Reason(err))
	}
}

// searchOperand searches an operand of the command line.
func (g *grepRun) searchOperand(name string, several bool) {
	if name == "-" {
		g.searchFile(name, name, several)
		return
	}
	info, err := g.p.Stat(name)
	if err != nil {
		g.reportError(name, err)
		return
	}
	switch {
	case info.IsDir() && g.recurse:
		if !g.isExcluded(name, true) {
			g.searchTree(name, strings.TrimRight(name, "/")+"/", 0)
		}
	case info.IsDir():
		if !g.skipDirs {
			if _, err := stream.Open(g.p, name); err != nil {
				g.reportError(name, err)
			}
		}
	case g.skipSpecial && !info.Mode().IsRegular(), g.isExcluded(name, false):
	default:
		g.searchFile(name, name, several)
	}
}

// maxTree is the largest depth of directories that grep -r searches.
const maxTree = 1024

// searchTree searches the files below a directory; prefix is prepended to their names.
func (g *grepRun) searchTree(dir, prefix string, depth int) {
	entries, err := g.p.ReadDir(dir)
	if err != nil {
		g.reportError(dir, err)
		return
	}
	for _, e := range entries {
		if g.isDone() || depth > maxTree {
			return
		}
		g.p.Tick(1)
		g.searchEntry(prefix+e.Name(), e.Type(), depth)
	}
}

// searchEntry searches an entry of a directory.
func (g *grepRun) searchEntry(path string, mode fs.FileMode, depth int) {
	if mode&fs.ModeSymlink != 0 {
		if !g.follow {
			return
		}
		info, err := g.p.Stat(path)
		if err != nil {
			g.reportError(path, err)
			return
		}
		if mode = info.Mode(); mode.IsDir() && g.isLoop(path) {
			return
		}
	}
	switch {
	case mode.IsDir():
		if !g.isExcluded(path, true) {
			g.searchTree(path, path+"/", depth+1)
		}
	case mode&fs.ModeType != 0 && !g.follow, mode&fs.ModeType != 0 && g.skipSpecial, g.isExcluded(path, false):
	default:
		g.searchFile(path, path, true)
	}
}

// isLoop reports whether a directory contains itself through a link, and warns of it.
func (g *grepRun) isLoop(path string) bool {
	real, err := g.p.Resolve(path)
	if err != nil {
		g.reportError(path, err)
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

// isExcluded reports whether --include, --exclude or --exclude-dir exclude a file.
func (g *grepRun) isExcluded(path string, dir bool) bool {
	included, any := false, false
	for _, k := range g.globs {
		if k.dir != dir {
			continue
		}
		hit := matchGlobName(g.p, k.pattern, path)
		if k.include {
			any, included = true, included || hit
		} else if hit {
			return true
		}
	}
	return any && !included
}

// matchGlobName reports whether a pattern matches a name, or the part of it after one of its slashes.
func matchGlobName(p *kernel.Proc, pattern, name string) bool {
	pattern = strings.TrimRight(pattern, "/")
	name = strings.TrimRight(name, "/")
	for {
		if glob.Match(p, pattern, name) {
			return true
		}
		i := strings.IndexByte(name, '/')
		if i < 0 {
			return false
		}
		name = name[i+1:]
	}
}

// searchFile searches one file; shown is its name in the output.
func (g *grepRun) searchFile(name, shown string, several bool) {
	in, err := stream.Open(g.p, name)
	if err != nil {
		g.reportError(name, err)
		return
	}
	defer stream.Close(in)
	if g.list == 0 && !g.quiet && !g.count && g.max != 0 && in.SameFile(g.p.Stdout) && stream.IsSelfCopy(in, g.p.Stdout) {
		g.failed = true
		if !g.silent {
			g.p.Errorf("%s: input file is also the output", quoting.QuoteNameIfNeeded(name))
		}
		return
	}
	f := &grepFile{grepRun: g, in: in, name: shown, named: g.names > 0 || g.names == 0 && several, out: g.p.Out()}
	if name == "-" && g.label != "" {
		f.name = g.label
	}
	n, err := f.searchLines()
	if err != nil {
		g.reportError(f.displayName(), err)
	}
	g.selected = g.selected || n > 0
	f.printSummary(n)
}

// printSummary prints the output of -c, -l and -L for a file with n selected lines.
func (f *grepFile) printSummary(n int64) {
	if f.quiet {
		return
	}
	if f.count && f.list == 0 && (n > 0 || !f.lenient) {
		if f.named {
			f.printColored("\x1b[35m\x1b[K", f.displayName())
			if f.nulls {
				_ = f.out.WriteByte(0) // Flush reports the error, as of all writes
			} else {
				f.printColored("\x1b[36m\x1b[K", ":")
			}
		}
		_, _ = f.out.WriteString(strconv.FormatInt(n, 10) + "\n")
	}
	if f.list != 0 && (n > 0) == (f.list > 0) {
		f.printColored("\x1b[35m\x1b[K", f.displayName())
		end := byte('\n')
		if f.nulls {
			end = 0
		}
		_ = f.out.WriteByte(end)
	}
}
