package file

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const chmodUsage = `Usage: chmod [OPTION]... MODE[,MODE]... FILE...
  or:  chmod [OPTION]... OCTAL-MODE FILE...
  or:  chmod [OPTION]... --reference=RFILE FILE...
Change the mode of each FILE to MODE.
With --reference, change the mode of each FILE to that of RFILE.

  -c, --changes          like verbose but report only when a change is made
  -f, --silent, --quiet  suppress most error messages
  -v, --verbose          output a diagnostic for every file processed
      --no-preserve-root  do not treat '/' specially (the default)
      --preserve-root    fail to operate recursively on '/'
      --reference=RFILE  use RFILE's mode instead of MODE values
  -R, --recursive        change files and directories recursively
      --help             display this help and exit

Each MODE is of the form '[ugoa]*([-+=]([rwxXst]*|[ugo]))+|[-+=][0-7]+'.
`

var chmodOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "changes"},
	{Short: 'f', Long: "silent"},
	{Long: "quiet", ID: 'f'},
	{Short: 'v', Long: "verbose"},
	{Long: "no-preserve-root", ID: 'N'},
	{Long: "preserve-root", ID: 'P'},
	{Long: "reference", Arg: option.Required, ID: 'r'},
	{Short: 'R', Long: "recursive"},
}}

// verbosity is which changes are printed.
type verbosity int

const (
	reportNothing verbosity = iota
	reportChanges
	reportAll
)

type chmodJob struct {
	p         *kernel.Proc
	mode      filemode.Change
	report    verbosity
	quiet     bool
	recursive bool
	guardRoot bool
	umask     uint32
	failed    bool
	surprise  bool // a mode that begins with -: an effect of the umask is an error
}

func runChmod(p *kernel.Proc) int {
	j := chmodJob{p: p, umask: p.Umask()}
	modeText := j.takeDashMode()
	opts, names, ok := chmodOptions.Parse(p)
	if !ok {
		return 1
	}
	ref := ""
	for _, o := range opts {
		switch o.Key {
		case 'c':
			j.report = reportChanges
		case 'v':
			j.report = reportAll
		case 'f':
			j.quiet = true
		case 'R':
			j.recursive = true
		case 'P':
			j.guardRoot = true
		case 'N':
			j.guardRoot = false
		case 'r':
			ref = o.Value
		}
	}
	if modeText == "" && ref == "" && len(names) > 0 {
		modeText, names = names[0], names[1:]
	}
	if len(names) == 0 {
		if modeText == "" {
			p.Errorf("missing operand")
		} else {
			p.Errorf("missing operand after %s", quoting.QuoteWord(modeText))
		}
		option.SuggestHelp(p)
		return 1
	}
	if !j.parseMode(modeText, ref) {
		return 1
	}
	for _, name := range names {
		j.changeTree(name, name, true)
	}
	return int(number.FromBool(j.failed))
}

// takeDashMode removes arguments like -w or -x,u+r, which are modes, from the options and returns the
// mode.
func (j *chmodJob) takeDashMode() string {
	var modes []string
	args := j.p.Args[:1:1]
	rest := j.p.Args[1:]
	for i, a := range rest {
		if a == "--" {
			args = append(args, rest[i:]...)
			break
		}
		if len(a) > 1 && a[0] == '-' && strings.IndexByte("rwxXstugoa,+=01234567-", a[1]) >= 0 && a[1] != '-' {
			modes = append(modes, a)
			continue
		}
		args = append(args, a)
	}
	j.p.Args = args
	j.surprise = len(modes) > 0
	return strings.Join(modes, ",")
}

func (j *chmodJob) parseMode(text, ref string) bool {
	if ref == "" {
		var ok bool
		if j.mode, ok = filemode.ParseChange(text); !ok {
			j.p.Errorf("invalid mode: %s", quoting.QuoteWord(text))
			option.SuggestHelp(j.p)
		}
		return ok
	}
	info, err := j.p.Stat(ref)
	if err != nil {
		j.p.Errorf("failed to get attributes of %s: %s", quoting.QuoteName(ref), program.Reason(err))
		return false
	}
	m := filemode.ToUnix(info.Mode()) & filemode.AllBits
	j.mode = filemode.Change{Steps: []filemode.Step{{Op: '=', Scope: filemode.AllBits, Perms: m, Numeric: true, Explicit: filemode.AllBits}}}
	return true
}

// reportUnreached reports a file that can't be accessed.
func (j *chmodJob) reportUnreached(name, format string, a ...any) {
	j.reportError(format, a...)
	if j.report == reportAll {
		j.printLine(quoting.QuoteName(name) + " could not be accessed")
	}
}

func (j *chmodJob) reportError(format string, a ...any) {
	j.failed = true
	if !j.quiet {
		j.p.Errorf(format, a...)
	}
}

// changeTree changes one file and, with -R, those below it. path is how the file is opened, name how it
// is printed.
func (j *chmodJob) changeTree(path, name string, operand bool) {
	j.p.Tick(2)
	info, err := j.p.Lstat(path)
	link := err == nil && info.Mode()&fs.ModeSymlink != 0
	switch {
	case err != nil:
		j.reportUnreached(name, "cannot access %s: %s", quoting.QuoteName(name), program.Reason(err))
		return
	case link && !operand:
		if j.report == reportAll {
			j.printLine("neither symbolic link " + quoting.QuoteName(name) + " nor referent has been changed")
		}
		return
	case link:
		if info, err = j.p.Stat(path); err != nil {
			if isMissing(err) {
				j.reportUnreached(name, "cannot operate on dangling symlink %s", quoting.QuoteName(name))
			} else {
				j.reportUnreached(name, "cannot access %s: %s", quoting.QuoteName(name), program.Reason(err))
			}
			return
		}
	}
	if j.recursive && j.guardRoot && operand {
		if path, err := j.p.Resolve(path); err == nil && path == "/" {
			j.reportError("it is dangerous to operate recursively on '/'\n%s: use --no-preserve-root to override this failsafe", j.p.Name())
			return
		}
	}
	j.changeFile(path, name, info)
	if !j.recursive || !info.IsDir() || link && !operand {
		return
	}
	list, err := j.p.ReadDir(path)
	if err != nil {
		j.reportError("cannot read directory %s: %s", quoting.QuoteName(name), program.Reason(err))
		return
	}
	for _, d := range list {
		j.changeTree(joinName(path, d.Name()), joinName(name, d.Name()), false)
	}
}

func (j *chmodJob) changeFile(path, name string, info vfs.Info) {
	old := filemode.ToUnix(info.Mode()) & filemode.AllBits
	mode := j.mode.Apply(old, info.IsDir(), j.umask)
	err := j.p.Chmod(path, filemode.FromUnix(mode))
	if err != nil {
		j.reportError("changing permissions of %s: %s", quoting.QuoteName(name), program.Reason(err))
	}
	switch {
	case j.report == reportNothing:
	case err != nil:
		j.printLine(fmt.Sprintf("failed to change mode of %s from %04o (%s) to %04o (%s)", quoting.QuoteName(name), old, filemode.Format(old)[1:], mode, filemode.Format(mode)[1:]))
	case old != mode:
		j.printLine(fmt.Sprintf("mode of %s changed from %04o (%s) to %04o (%s)", quoting.QuoteName(name), old, filemode.Format(old)[1:], mode, filemode.Format(mode)[1:]))
	case j.report == reportAll:
		j.printLine(fmt.Sprintf("mode of %s retained as %04o (%s)", quoting.QuoteName(name), mode, filemode.Format(mode)[1:]))
	}
	if err == nil && j.surprise {
		if naive := j.mode.Apply(old, info.IsDir(), 0); mode&^naive != 0 {
			j.reportError("%s: new permissions are %s, not %s", quoting.QuoteNameIfNeeded(name), filemode.Format(mode)[1:], filemode.Format(naive)[1:])
		}
	}
}

func (j *chmodJob) printLine(s string) { _, _ = j.p.Out().WriteString(s + "\n") } // Flush reports the error
