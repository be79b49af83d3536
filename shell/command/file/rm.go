package file

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var rmOptions = option.Parser{Options: []option.Option{
	{Short: 'f', Long: "force"},
	{Short: 'i'},
	{Short: 'I'},
	{Long: "interactive", Arg: option.Optional, ID: 'A'},
	{Long: "one-file-system", ID: 'O'},
	{Long: "no-preserve-root", ID: 'N'},
	{Long: "preserve-root", Arg: option.Optional, ID: 'P'},
	{Short: 'r', Long: "recursive"},
	{Short: 'R', ID: 'r'},
	{Short: 'd', Long: "dir"},
	{Short: 'v', Long: "verbose"},
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

func runRm(p *kernel.Proc) int {
	opts, names, ok := rmOptions.Parse(p)
	if !ok {
		return 1
	}
	r := remover{p: p}
	for _, o := range opts {
		switch o.Key {
		case 'f':
			r.force, r.ask, r.once = true, false, false
		case 'i':
			r.force, r.ask, r.once = false, true, false
		case 'I':
			r.force, r.ask, r.once = false, false, true
		case 'A':
			v := 2
			if o.HasValue {
				if v, ok = option.Choose(p, "--interactive", o.Value, []option.Choice{{Word: "never", Value: 0}, {Word: "no", Value: 0}, {Word: "none", Value: 0}, {Word: "once", Value: 1}, {Word: "always", Value: 2}, {Word: "yes", Value: 2}}); !ok {
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
		return int(number.FromBool(option.ReportMissing(p, names, 1)))
	}
	if r.once && (r.recursive || len(names) > 3) && !r.onceAsked(len(names)) {
		return 0
	}
	for _, name := range names {
		r.removeOperand(name)
	}
	return int(number.FromBool(r.failed))
}

func (r *remover) onceAsked(n int) bool {
	what := "arguments"
	if n == 1 {
		what = "argument"
	}
	if r.recursive {
		what += " recursively"
	}
	return askUser(r.p, "rm: remove "+strconv.Itoa(n)+" "+what+"? ")
}

func (r *remover) reportError(format string, a ...any) {
	r.failed = true
	r.p.Errorf(format, a...)
}

func (r *remover) removeOperand(name string) {
	if r.recursive {
		if last := lastName(name); last == "." || last == ".." {
			r.reportError("refusing to remove '.' or '..' directory: skipping %s", quoting.QuoteName(name))
			return
		}
	}
	info, err := r.p.Lstat(name)
	if err != nil {
		if r.force && (isMissing(err) || errors.Is(err, vfs.ENOTDIR)) {
			return
		}
		r.reportError("cannot remove %s: %s", quoting.QuoteName(name), program.Reason(err))
		return
	}
	if abs, err := r.p.Resolve(name); err == nil && abs == "/" && info.IsDir() && r.recursive {
		same := ""
		if name != "/" {
			same = " (same as '/')"
		}
		r.reportError("it is dangerous to operate recursively on %s%s\nrm: use --no-preserve-root to override this failsafe", quoting.QuoteName(name), same)
		return
	}
	r.removeName(name, info.Mode(), info.Size())
}

// removeName removes a file and reports whether it is removed.
func (r *remover) removeName(name string, mode fs.FileMode, size int64) bool {
	r.p.Tick(2)
	if mode.IsDir() {
		return r.removeDirectory(name)
	}
	if r.ask && !askUser(r.p, "rm: remove "+describeFile(mode, size)+" "+quoting.QuoteName(name)+"? ") {
		return false
	}
	if err := r.p.Unlink(name); err != nil {
		r.reportError("cannot remove %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	if r.verbose {
		_, _ = r.p.Out().WriteString("removed " + quoting.QuoteName(name) + "\n") // Flush reports the error
	}
	return true
}

// describeFile returns the type of a file as prompts and stat print it.
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

func (r *remover) removeDirectory(name string) bool {
	if !r.recursive && !r.dirs {
		r.reportError("cannot remove %s: Is a directory", quoting.QuoteName(name))
		return false
	}
	list, err := r.p.ReadDir(name)
	if err != nil {
		r.reportError("cannot remove %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	empty := true
	if len(list) > 0 {
		if !r.recursive {
			r.reportError("cannot remove %s: Directory not empty", quoting.QuoteName(name))
			return false
		}
		if r.ask && !askUser(r.p, "rm: descend into directory "+quoting.QuoteName(name)+"? ") {
			return false
		}
		for _, d := range list {
			size := int64(0)
			if info, err := d.Info(); r.ask && err == nil {
				size = info.Size()
			}
			if !r.removeName(joinName(strings.TrimRight(name, "/"), d.Name()), d.Type(), size) {
				empty = false
			}
		}
	}
	if !empty {
		return false
	}
	if r.ask && !askUser(r.p, "rm: remove directory "+quoting.QuoteName(name)+"? ") {
		return false
	}
	if err := r.p.Rmdir(name); err != nil {
		r.reportError("cannot remove %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	if r.verbose {
		_, _ = r.p.Out().WriteString("removed directory " + quoting.QuoteName(name) + "\n") // Flush reports the error
	}
	return true
}
