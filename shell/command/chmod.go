package command

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var chmodOptions = parsing{options: []option{
	{short: 'c', long: "changes"},
	{short: 'f', long: "silent"},
	{long: "quiet", id: 'f'},
	{short: 'v', long: "verbose"},
	{long: "no-preserve-root", id: 'N'},
	{long: "preserve-root", id: 'P'},
	{long: "reference", arg: required, id: 'r'},
	{short: 'R', long: "recursive"},
}}

// verbosity says what a change reports.
type verbosity int

const (
	reportNothing verbosity = iota
	reportChanges
	reportAll
)

type chmodJob struct {
	p         *kernel.Proc
	mode      modeChange
	report    verbosity
	quiet     bool
	recursive bool
	guardRoot bool
	umask     uint32
	failed    bool
	surprise  bool // a mode that begins with - : the mask must not matter
}

func chmod(p *kernel.Proc) int {
	j := chmodJob{p: p, umask: p.Umask()}
	modeText := j.takeDashMode()
	opts, names, ok := chmodOptions.parse(p)
	if !ok {
		return 1
	}
	ref := ""
	for _, o := range opts {
		switch o.key {
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
			ref = o.value
		}
	}
	if modeText == "" && ref == "" && len(names) > 0 {
		modeText, names = names[0], names[1:]
	}
	if len(names) == 0 {
		if modeText == "" {
			p.Errorf("missing operand")
		} else {
			p.Errorf("missing operand after %s", cite(modeText))
		}
		tryHelp(p)
		return 1
	}
	if !j.wanted(modeText, ref) {
		return 1
	}
	for _, name := range names {
		j.file(name, name, true)
	}
	return int(b2i(j.failed))
}

// takeDashMode takes arguments like -w or -x,u+r, which are modes, out of
// the options.
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

func (j *chmodJob) wanted(text, ref string) bool {
	if ref == "" {
		var ok bool
		if j.mode, ok = parseMode(text); !ok {
			j.p.Errorf("invalid mode: %s", cite(text))
			tryHelp(j.p)
		}
		return ok
	}
	info, err := j.p.Stat(ref)
	if err != nil {
		j.p.Errorf("failed to get attributes of %s: %s", quote(ref), why(err))
		return false
	}
	m := unixMode(info.Mode()) & modeBits
	j.mode = modeChange{[]modeStep{{op: '=', who: modeBits, perms: m, exact: true, named: modeBits}}}
	return true
}

// unreached reports a file that can't even be looked at.
func (j *chmodJob) unreached(name, format string, a ...any) {
	j.fail(format, a...)
	if j.report == reportAll {
		j.tell(quote(name) + " could not be accessed")
	}
}

func (j *chmodJob) fail(format string, a ...any) {
	j.failed = true
	if !j.quiet {
		j.p.Errorf(format, a...)
	}
}

// file changes one file, and those below it with -R. path is how it is
// reached, name how it is called.
func (j *chmodJob) file(path, name string, operand bool) {
	j.p.Tick(2)
	info, err := j.p.Lstat(path)
	link := err == nil && info.Mode()&fs.ModeSymlink != 0
	switch {
	case err != nil:
		j.unreached(name, "cannot access %s: %s", quote(name), why(err))
		return
	case link && !operand:
		if j.report == reportAll {
			j.tell("neither symbolic link " + quote(name) + " nor referent has been changed")
		}
		return
	case link:
		if info, err = j.p.Stat(path); err != nil {
			if isMissing(err) {
				j.unreached(name, "cannot operate on dangling symlink %s", quote(name))
			} else {
				j.unreached(name, "cannot access %s: %s", quote(name), why(err))
			}
			return
		}
	}
	if j.recursive && j.guardRoot && operand {
		if path, err := j.p.Resolve(path); err == nil && path == "/" {
			j.fail("it is dangerous to operate recursively on '/'\n%s: use --no-preserve-root to override this failsafe", j.p.Name())
			return
		}
	}
	j.change(path, name, info)
	if !j.recursive || !info.IsDir() || link && !operand {
		return
	}
	list, err := j.p.ReadDir(path)
	if err != nil {
		j.fail("cannot read directory %s: %s", quote(name), why(err))
		return
	}
	for _, d := range list {
		j.file(joinName(path, d.Name()), joinName(name, d.Name()), false)
	}
}

func (j *chmodJob) change(path, name string, info vfs.Info) {
	old := unixMode(info.Mode()) & modeBits
	mode := j.mode.apply(old, info.IsDir(), j.umask)
	err := j.p.Chmod(path, permMode(mode))
	if err != nil {
		j.fail("changing permissions of %s: %s", quote(name), why(err))
	}
	switch {
	case j.report == reportNothing:
	case err != nil:
		j.tell(fmt.Sprintf("failed to change mode of %s from %04o (%s) to %04o (%s)", quote(name), old, modeString(old)[1:], mode, modeString(mode)[1:]))
	case old != mode:
		j.tell(fmt.Sprintf("mode of %s changed from %04o (%s) to %04o (%s)", quote(name), old, modeString(old)[1:], mode, modeString(mode)[1:]))
	case j.report == reportAll:
		j.tell(fmt.Sprintf("mode of %s retained as %04o (%s)", quote(name), mode, modeString(mode)[1:]))
	}
	if err == nil && j.surprise {
		if naive := j.mode.apply(old, info.IsDir(), 0); mode&^naive != 0 {
			j.fail("%s: new permissions are %s, not %s", quotef(name), modeString(mode)[1:], modeString(naive)[1:])
		}
	}
}

func (j *chmodJob) tell(s string) { _, _ = j.p.Out().WriteString(s + "\n") } // shows at the flush
