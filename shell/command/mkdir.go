package command

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

func itoa(n int) string { return strconv.Itoa(n) }

const mkdirUsage = `Usage: mkdir [OPTION]... DIRECTORY...
Create the DIRECTORY(ies), if they do not already exist.

  -m, --mode=MODE   set file mode (as in chmod), not a=rwx - umask
  -p, --parents     no error if existing, make parent directories as needed,
                    with their file modes unaffected by any -m option
  -v, --verbose     print a message for each created directory
  -Z, --context     (ignored)
      --help        display this help and exit
`

var mkdirOptions = parsing{options: []option{
	{short: 'm', long: "mode", arg: required}, {short: 'p', long: "parents"}, {short: 'v', long: "verbose"}, {short: 'Z'}, {long: "context", arg: optional, id: 'Z'},
}}

// dirMaker makes directories as mkdir and install -d do.
type dirMaker struct {
	p       *kernel.Proc
	parents bool
	verbose bool
	mode    *modeChange
	wording string // of the message of -v
}

func mkdir(p *kernel.Proc) int {
	opts, names, ok := mkdirOptions.parse(p)
	if !ok {
		return 1
	}
	m := dirMaker{p: p, wording: "created directory "}
	for _, o := range opts {
		switch o.key {
		case 'p':
			m.parents = true
		case 'v':
			m.verbose = true
		case 'm':
			c, ok := parseMode(o.value)
			if !ok {
				p.Errorf("invalid mode %s", cite(o.value))
				return 1
			}
			m.mode = &c
		}
	}
	if missing(p, names, 1) {
		return 1
	}
	code := 0
	for _, name := range names {
		if !m.make(name) {
			code = 1
		}
	}
	return code
}

func (m *dirMaker) make(name string) bool {
	if m.parents && !m.above(name) {
		return false
	}
	err := error(vfs.ENOENT)
	if name != "" {
		err = m.p.Mkdir(name, 0o777)
	}
	if err != nil && m.parents {
		if info, serr := m.p.Stat(name); serr == nil && info.IsDir() {
			return true
		}
	}
	if err == nil && m.mode != nil {
		mask := m.p.Umask()
		mode := m.mode.apply(0o777, true, mask)
		err = m.p.Chmod(name, permMode(mode&^mask|mode&m.mode.touched(mask)))
	}
	if err != nil {
		m.p.Errorf("cannot create directory %s: %s", quote(name), why(err))
		return false
	}
	m.tell(name)
	return true
}

func (m *dirMaker) tell(name string) {
	if m.verbose {
		_, _ = m.p.Out().WriteString(m.p.Name() + ": " + m.wording + quote(name) + "\n") // shows at the flush
	}
}

// above makes the directories that name lies in.
func (m *dirMaker) above(name string) bool {
	dir := strings.TrimRight(name, "/")
	for i := 1; i < len(dir); i++ {
		if dir[i] != '/' || dir[i-1] == '/' {
			continue
		}
		part := dir[:i]
		err := m.p.Mkdir(part, 0o777)
		switch {
		case err == nil:
			if m.p.Umask()&0o300 != 0 { // a parent can always be entered by its owner
				err = m.p.Chmod(part, permMode(0o777&^m.p.Umask()|0o300))
			}
			m.tell(part)
		case errors.Is(err, vfs.EEXIST):
			info, serr := m.p.Stat(part)
			if err = serr; err == nil && !info.IsDir() {
				err = vfs.ENOTDIR
			}
		}
		if err != nil {
			m.p.Errorf("cannot create directory %s: %s", quote(part), why(err))
			return false
		}
	}
	return true
}

const rmdirUsage = `Usage: rmdir [OPTION]... DIRECTORY...
Remove the DIRECTORY(ies), if they are empty.

      --ignore-fail-on-non-empty
                    ignore each failure that is solely because a directory
                    is non-empty
  -p, --parents     remove DIRECTORY and its ancestors; e.g., 'rmdir -p a/b/c'
                    is similar to 'rmdir a/b/c a/b a'
  -v, --verbose     output a diagnostic for every directory processed
      --help        display this help and exit
`

var rmdirOptions = parsing{options: []option{
	{long: "ignore-fail-on-non-empty", id: 'i'}, {short: 'p', long: "parents"}, {short: 'v', long: "verbose"}, {long: "path", id: 'p'},
}}

type dirRemover struct {
	p                       *kernel.Proc
	ignore, parent, verbose bool
}

func rmdir(p *kernel.Proc) int {
	opts, names, ok := rmdirOptions.parse(p)
	if !ok {
		return 1
	}
	r := dirRemover{p: p}
	for _, o := range opts {
		switch o.key {
		case 'i':
			r.ignore = true
		case 'p':
			r.parent = true
		case 'v':
			r.verbose = true
		}
	}
	if missing(p, names, 1) {
		return 1
	}
	code := 0
	for _, name := range names {
		if !r.remove(name) {
			code = 1
		}
	}
	return code
}

func (r *dirRemover) remove(name string) bool {
	for first := true; ; first = false {
		if r.verbose {
			_, _ = r.p.Out().WriteString(r.p.Name() + ": removing directory, " + quote(name) + "\n") // shows at the flush
		}
		if err := r.p.Rmdir(name); err != nil {
			if errors.Is(err, vfs.ENOTEMPTY) && r.ignore {
				return true
			}
			what := ""
			if !first {
				what = "directory "
			}
			if info, serr := r.p.Lstat(strings.TrimRight(name, "/")); serr == nil && info.Mode()&fs.ModeSymlink != 0 && strings.HasSuffix(name, "/") {
				r.p.Errorf("failed to remove %s: Symbolic link not followed", quote(name))
				return false
			}
			r.p.Errorf("failed to remove %s%s: %s", what, quote(name), why(err))
			return false
		}
		name = strings.TrimRight(name, "/")
		i := strings.LastIndexByte(name, '/')
		if !r.parent || i < 0 {
			return true
		}
		if name = strings.TrimRight(name[:i], "/"); name == "" {
			return true
		}
	}
}
