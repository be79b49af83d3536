package file

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const realpathUsage = `Usage: realpath [OPTION]... FILE...
Print the resolved absolute file name;
all but the last component must exist

  -e, --canonicalize-existing  all components of the path must exist
  -m, --canonicalize-missing   no path components need exist or be a directory
  -L, --logical                resolve '..' components before symlinks
  -P, --physical               resolve symlinks as encountered (default)
  -q, --quiet                  suppress most error messages
      --relative-to=DIR        print the resolved path relative to DIR
      --relative-base=DIR      print absolute paths unless paths below DIR
  -s, --strip, --no-symlinks   don't expand symlinks
  -z, --zero                   end each output line with NUL, not newline
      --help                   display this help and exit
`

var realpathOptions = option.Parser{Options: []option.Option{
	{Short: 'e', Long: "canonicalize-existing"},
	{Short: 'm', Long: "canonicalize-missing"},
	{Long: "relative-to", Arg: option.Required, ID: 't'},
	{Long: "relative-base", Arg: option.Required, ID: 'b'},
	{Short: 'q', Long: "quiet"},
	{Long: "strip", Short: 's'},
	{Long: "no-symlinks", ID: 's'},
	{Short: 'z', Long: "zero"},
	{Short: 'L', Long: "logical"},
	{Short: 'P', Long: "physical"},
}}

type realpathJob struct {
	canon
	quiet    bool
	eol      string
	to, base string
}

func runRealpath(p *kernel.Proc) int {
	opts, names, ok := realpathOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	j := realpathJob{canon: canon{p: p}, eol: "\n"}
	var to, base string
	for _, o := range opts {
		switch o.Key {
		case 'e':
			j.mode = canonAll
		case 'm':
			j.mode = canonMissing
		case 't':
			to = o.Value
		case 'b':
			base = o.Value
		case 'q':
			j.quiet = true
		case 's':
			j.keep, j.logical = true, false
		case 'z':
			j.eol = "\x00"
		case 'L':
			j.logical, j.keep = true, false
		case 'P':
			j.logical, j.keep = false, false
		}
	}
	if j.keep && !j.logical && j.mode == canonLast {
		j.mode = canonMissing // without links to follow, no part must exist
	}
	if !j.resolveAnchors(to, base) {
		return 1
	}
	code := 0
	for _, name := range names {
		path, err := j.resolvePath(name)
		if err != nil {
			code = 1
			if !j.quiet {
				p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			}
			continue
		}
		_, _ = p.Out().WriteString(j.displayPath(path) + j.eol) // Flush reports the error
	}
	return code
}

// resolveAnchors resolves the directories to which printed paths are relative.
func (j *realpathJob) resolveAnchors(to, base string) bool {
	if to == "" {
		to = base
	}
	c := j.canon
	if c.mode == canonLast {
		c.mode = canonAll
	}
	for _, a := range []struct {
		name string
		path *string
	}{{to, &j.to}, {base, &j.base}} {
		if a.name == "" {
			continue
		}
		path, err := c.resolvePath(a.name)
		if err == nil && j.mode == canonAll {
			if info, serr := j.p.Stat(path); serr == nil && !info.IsDir() {
				j.p.Errorf("%s: Not a directory", quoting.QuoteNameIfNeeded(a.name))
				return false
			}
		}
		if err != nil {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(a.name), program.Reason(err))
			return false
		}
		*a.path = path
	}
	if j.base != "" && !isBelow(j.to, j.base) {
		j.to, j.base = "", ""
	}
	return true
}

// isBelow reports whether an absolute path is dir or below it.
func isBelow(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

func (j *realpathJob) displayPath(path string) string {
	if j.to == "" || j.base != "" && !isBelow(path, j.base) {
		return path
	}
	return relativeTo(path, j.to)
}

// relativeTo returns the relative path from a directory to a path, both absolute.
func relativeTo(path, dir string) string {
	from := strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })
	to := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	n := 0
	for n < len(from) && n < len(to) && from[n] == to[n] {
		n++
	}
	var parts []string
	for range from[n:] {
		parts = append(parts, "..")
	}
	parts = append(parts, to[n:]...)
	if len(parts) == 0 {
		return "."
	}
	return strings.Join(parts, "/")
}
