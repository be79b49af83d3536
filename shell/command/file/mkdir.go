package file

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const mkdirUsage = `Usage: mkdir [OPTION]... DIRECTORY...
Create the DIRECTORY(ies), if they do not already exist.

  -m, --mode=MODE   set file mode (as in chmod), not a=rwx - umask
  -p, --parents     no error if existing, make parent directories as needed,
                    with their file modes unaffected by any -m option
  -v, --verbose     print a message for each created directory
  -Z, --context     (ignored)
      --help        display this help and exit
`

var mkdirOptions = option.Parser{Options: []option.Option{
	{Short: 'm', Long: "mode", Arg: option.Required}, {Short: 'p', Long: "parents"}, {Short: 'v', Long: "verbose"}, {Short: 'Z'}, {Long: "context", Arg: option.Optional, ID: 'Z'},
}}

// dirMaker creates directories for mkdir and install -d.
type dirMaker struct {
	p       *kernel.Proc
	parents bool
	verbose bool
	mode    *filemode.Change
	wording string // of the message of -v
}

func runMkdir(p *kernel.Proc) int {
	opts, names, ok := mkdirOptions.Parse(p)
	if !ok {
		return 1
	}
	m := dirMaker{p: p, wording: "created directory "}
	for _, o := range opts {
		switch o.Key {
		case 'p':
			m.parents = true
		case 'v':
			m.verbose = true
		case 'm':
			c, ok := filemode.ParseChange(o.Value)
			if !ok {
				p.Errorf("invalid mode %s", quoting.QuoteWord(o.Value))
				return 1
			}
			m.mode = &c
		}
	}
	if option.ReportMissing(p, names, 1) {
		return 1
	}
	code := 0
	for _, name := range names {
		if !m.makeDirectory(name) {
			code = 1
		}
	}
	return code
}

func (m *dirMaker) makeDirectory(name string) bool {
	if m.parents && !m.makeParents(name) {
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
		mode := m.mode.Apply(0o777, true, mask)
		err = m.p.Chmod(name, filemode.FromUnix(mode&^mask|mode&m.mode.AffectedBits(mask)))
	}
	if err != nil {
		m.p.Errorf("cannot create directory %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	m.printMade(name)
	return true
}

func (m *dirMaker) printMade(name string) {
	if m.verbose {
		_, _ = m.p.Out().WriteString(m.p.Name() + ": " + m.wording + quoting.QuoteName(name) + "\n") // Flush reports the error
	}
}

// makeParents creates the parent directories of name.
func (m *dirMaker) makeParents(name string) bool {
	dir := strings.TrimRight(name, "/")
	for i := 1; i < len(dir); i++ {
		if dir[i] != '/' || dir[i-1] == '/' {
			continue
		}
		part := dir[:i]
		err := m.p.Mkdir(part, 0o777)
		switch {
		case err == nil:
			if m.p.Umask()&0o300 != 0 { // the owner can always enter a created parent
				err = m.p.Chmod(part, filemode.FromUnix(0o777&^m.p.Umask()|0o300))
			}
			m.printMade(part)
		case errors.Is(err, vfs.EEXIST):
			info, serr := m.p.Stat(part)
			if err = serr; err == nil && !info.IsDir() {
				err = vfs.ENOTDIR
			}
		}
		if err != nil {
			m.p.Errorf("cannot create directory %s: %s", quoting.QuoteName(part), program.Reason(err))
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

var rmdirOptions = option.Parser{Options: []option.Option{
	{Long: "ignore-fail-on-non-empty", ID: 'i'}, {Short: 'p', Long: "parents"}, {Short: 'v', Long: "verbose"}, {Long: "path", ID: 'p'},
}}

type dirRemover struct {
	p                       *kernel.Proc
	ignore, parent, verbose bool
}

func runRmdir(p *kernel.Proc) int {
	opts, names, ok := rmdirOptions.Parse(p)
	if !ok {
		return 1
	}
	r := dirRemover{p: p}
	for _, o := range opts {
		switch o.Key {
		case 'i':
			r.ignore = true
		case 'p':
			r.parent = true
		case 'v':
			r.verbose = true
		}
	}
	if option.ReportMissing(p, names, 1) {
		return 1
	}
	code := 0
	for _, name := range names {
		if !r.removeDirectory(name) {
			code = 1
		}
	}
	return code
}

func (r *dirRemover) removeDirectory(name string) bool {
	for first := true; ; first = false {
		if r.verbose {
			_, _ = r.p.Out().WriteString(r.p.Name() + ": removing directory, " + quoting.QuoteName(name) + "\n") // Flush reports the error
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
				r.p.Errorf("failed to remove %s: Symbolic link not followed", quoting.QuoteName(name))
				return false
			}
			r.p.Errorf("failed to remove %s%s: %s", what, quoting.QuoteName(name), program.Reason(err))
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
