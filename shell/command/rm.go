package command

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const rmUsage = `Usage: rm [OPTION]... [FILE]...
Remove (unlink) the FILE(s).

  -f, --force           ignore nonexistent files and arguments, never prompt
  -i                    prompt before every removal
  -I                    prompt once before removing more than three files, or
                          when removing recursively
      --interactive[=WHEN]  prompt according to WHEN: never, once (-I), or
                          always (-i); without WHEN, prompt always
      --one-file-system  (there is only one)
      --no-preserve-root  do not treat '/' specially
      --preserve-root[=all]  do not remove '/' (default)
  -r, -R, --recursive   remove directories and their contents recursively
  -d, --dir             remove empty directories
  -v, --verbose         explain what is being done
      --help            display this help and exit

By default, rm does not remove directories.  '/', '.' and '..' are never
removed.
`

var rmOptions = parsing{options: []option{
	{short: 'f', long: "force"},
	{short: 'i'},
	{short: 'I'},
	{long: "interactive", arg: optional, id: 'A'},
	{long: "one-file-system", id: 'O'},
	{long: "no-preserve-root", id: 'N'},
	{long: "preserve-root", arg: optional, id: 'P'},
	{short: 'r', long: "recursive"},
	{short: 'R', id: 'r'},
	{short: 'd', long: "dir"},
	{short: 'v', long: "verbose"},
}}

type remover struct {
	p         *kernel.Proc
	force     bool
	ask       bool
	once      bool
	recursive bool
	dirs      bool
	verbose   bool
	failed    bool
}

func rm(p *kernel.Proc) int {
	opts, names, ok := rmOptions.parse(p)
	if !ok {
		return 1
	}
	r := remover{p: p}
	for _, o := range opts {
		switch o.key {
		case 'f':
			r.force, r.ask, r.once = true, false, false
		case 'i':
			r.force, r.ask, r.once = false, true, false
		case 'I':
			r.force, r.ask, r.once = false, false, true
		case 'A':
			v := 2
			if o.has {
				if v, ok = choose(p, "--interactive", o.value, []choice{{"never", 0}, {"no", 0}, {"none", 0}, {"once", 1}, {"always", 2}, {"yes", 2}}); !ok {
					return 1
				}
			}
			r.ask, r.once = v == 2, v == 1
		case 'r':
			r.recursive = true
		case 'd':
			r.dirs = true
		case 'v':
			r.verbose = true
		}
	}
	if len(names) == 0 {
		if r.force {
			return 0
		}
		return int(b2i(missing(p, names, 1)))
	}
	if r.once && (r.recursive || len(names) > 3) && !r.onceAsked(len(names)) {
		return 0
	}
	for _, name := range names {
		r.operand(name)
	}
	return int(b2i(r.failed))
}

func (r *remover) onceAsked(n int) bool {
	what := "arguments"
	if n == 1 {
		what = "argument"
	}
	if r.recursive {
		what += " recursively"
	}
	return confirm(r.p, "rm: remove "+itoa(n)+" "+what+"? ")
}

func (r *remover) fail(format string, a ...any) {
	r.failed = true
	r.p.Errorf(format, a...)
}

func (r *remover) operand(name string) {
	if r.recursive {
		if last := lastName(name); last == "." || last == ".." {
			r.fail("refusing to remove '.' or '..' directory: skipping %s", quote(name))
			return
		}
	}
	info, err := r.p.Lstat(name)
	if err != nil {
		if r.force && (isMissing(err) || errors.Is(err, vfs.ENOTDIR)) {
			return
		}
		r.fail("cannot remove %s: %s", quote(name), why(err))
		return
	}
	if abs, err := r.p.Resolve(name); err == nil && abs == "/" && info.IsDir() && r.recursive {
		same := ""
		if name != "/" {
			same = " (same as '/')"
		}
		r.fail("it is dangerous to operate recursively on %s%s\nrm: use --no-preserve-root to override this failsafe", quote(name), same)
		return
	}
	r.remove(name, info.Mode(), info.Size())
}

// remove removes a name and reports whether it is gone.
func (r *remover) remove(name string, mode fs.FileMode, size int64) bool {
	r.p.Tick(2)
	if mode.IsDir() {
		return r.directory(name)
	}
	if r.ask && !confirm(r.p, "rm: remove "+describeFile(mode, size)+" "+quote(name)+"? ") {
		return false
	}
	if err := r.p.Unlink(name); err != nil {
		r.fail("cannot remove %s: %s", quote(name), why(err))
		return false
	}
	if r.verbose {
		_, _ = r.p.Out().WriteString("removed " + quote(name) + "\n") // shows at the flush
	}
	return true
}

// describeFile names the type of a file as prompts and stat do.
func describeFile(mode fs.FileMode, size int64) string {
	switch {
	case mode.IsRegular() && size == 0:
		return "regular empty file"
	case mode.IsRegular():
		return "regular file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeCharDevice != 0:
		return "character special file"
	case mode&fs.ModeDevice != 0:
		return "block special file"
	}
	return "weird file"
}

func (r *remover) directory(name string) bool {
	if !r.recursive && !r.dirs {
		r.fail("cannot remove %s: Is a directory", quote(name))
		return false
	}
	list, err := r.p.ReadDir(name)
	if err != nil {
		r.fail("cannot remove %s: %s", quote(name), why(err))
		return false
	}
	empty := true
	if len(list) > 0 {
		if !r.recursive {
			r.fail("cannot remove %s: Directory not empty", quote(name))
			return false
		}
		if r.ask && !confirm(r.p, "rm: descend into directory "+quote(name)+"? ") {
			return false
		}
		for _, d := range list {
			size := int64(0)
			if info, err := d.Info(); r.ask && err == nil {
				size = info.Size()
			}
			if !r.remove(joinName(strings.TrimRight(name, "/"), d.Name()), d.Type(), size) {
				empty = false
			}
		}
	}
	if !empty {
		return false
	}
	if r.ask && !confirm(r.p, "rm: remove directory "+quote(name)+"? ") {
		return false
	}
	if err := r.p.Rmdir(name); err != nil {
		r.fail("cannot remove %s: %s", quote(name), why(err))
		return false
	}
	if r.verbose {
		_, _ = r.p.Out().WriteString("removed directory " + quote(name) + "\n") // shows at the flush
	}
	return true
}
