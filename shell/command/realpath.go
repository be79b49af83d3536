package command

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var realpathOptions = parsing{options: []option{
	{short: 'e', long: "canonicalize-existing"},
	{short: 'm', long: "canonicalize-missing"},
	{long: "relative-to", arg: required, id: 't'},
	{long: "relative-base", arg: required, id: 'b'},
	{short: 'q', long: "quiet"},
	{long: "strip", short: 's'},
	{long: "no-symlinks", id: 's'},
	{short: 'z', long: "zero"},
	{short: 'L', long: "logical"},
	{short: 'P', long: "physical"},
}}

type realpathJob struct {
	canon
	quiet    bool
	eol      string
	to, base string
}

func realpath(p *kernel.Proc) int {
	opts, names, ok := realpathOptions.parse(p)
	if !ok || missing(p, names, 1) {
		return 1
	}
	j := realpathJob{canon: canon{p: p}, eol: "\n"}
	var to, base string
	for _, o := range opts {
		switch o.key {
		case 'e':
			j.mode = canonAll
		case 'm':
			j.mode = canonMissing
		case 't':
			to = o.value
		case 'b':
			base = o.value
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
		j.mode = canonMissing // without links to follow, nothing has to be there
	}
	if !j.anchors(to, base) {
		return 1
	}
	code := 0
	for _, name := range names {
		path, err := j.path(name)
		if err != nil {
			code = 1
			if !j.quiet {
				p.Errorf("%s: %s", quotef(name), why(err))
			}
			continue
		}
		_, _ = p.Out().WriteString(j.shown(path) + j.eol) // shows at the flush
	}
	return code
}

// anchors resolves the directories that paths are shown relative to.
func (j *realpathJob) anchors(to, base string) bool {
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
		path, err := c.path(a.name)
		if err == nil && j.mode == canonAll {
			if info, serr := j.p.Stat(path); serr == nil && !info.IsDir() {
				j.p.Errorf("%s: Not a directory", quotef(a.name))
				return false
			}
		}
		if err != nil {
			j.p.Errorf("%s: %s", quotef(a.name), why(err))
			return false
		}
		*a.path = path
	}
	if j.base != "" && !below(j.to, j.base) {
		j.to, j.base = "", ""
	}
	return true
}

// below reports whether an absolute path is a directory or lies in it.
func below(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

func (j *realpathJob) shown(path string) string {
	if j.to == "" || j.base != "" && !below(path, j.base) {
		return path
	}
	return relativeTo(path, j.to)
}

// relativeTo returns the way from a directory to a path, both absolute.
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
