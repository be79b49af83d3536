package file

import (
	"bytes"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const installUsage = `Usage: install [OPTION]... [-T] SOURCE DEST
  or:  install [OPTION]... SOURCE... DIRECTORY
  or:  install [OPTION]... -t DIRECTORY SOURCE...
  or:  install [OPTION]... -d DIRECTORY...
Copy files, and set their modes and owners.

      --backup[=CONTROL]  make a backup of each existing destination file
  -b                  like --backup but does not accept an argument
  -c                  (ignored)
  -C, --compare       compare content of source and destination files, and
                        if no change to content, ownership, and permissions,
                        do not modify the destination at all
  -d, --directory     treat all arguments as directory names; create all
                        components of the specified directories
  -D                  create all leading components of DEST except the last,
                        or all components of --target-directory,
                        then copy SOURCE to DEST
  -g, --group=GROUP   set group ownership
  -m, --mode=MODE     set permission mode (as in chmod), instead of rwxr-xr-x
  -o, --owner=OWNER   set ownership
  -p, --preserve-timestamps   apply access/modification times of SOURCE files
  -s, --strip         (ignored)
  -S, --suffix=SUFFIX  override the usual backup suffix
  -t, --target-directory=DIRECTORY  copy all SOURCE arguments into DIRECTORY
  -T, --no-target-directory  treat DEST as a normal file
  -v, --verbose       print the name of each created file or directory
      --help          display this help and exit
`

var installOptions = option.Parser{Options: []option.Option{
	{Short: 'b'},
	{Long: "backup", Arg: option.Optional, ID: 'b'},
	{Short: 'c'},
	{Short: 'C', Long: "compare"},
	{Short: 'd', Long: "directory"},
	{Short: 'D'},
	{Short: 'g', Long: "group", Arg: option.Required},
	{Short: 'm', Long: "mode", Arg: option.Required},
	{Short: 'T', Long: "no-target-directory"},
	{Short: 'o', Long: "owner", Arg: option.Required},
	{Short: 'p', Long: "preserve-timestamps"},
	{Short: 's', Long: "strip"},
	{Long: "strip-program", Arg: option.Required, ID: 's'},
	{Short: 'S', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "target-directory", Arg: option.Required},
	{Short: 'v', Long: "verbose"},
	{Short: 'Z', ID: 's'},
	{Long: "context", Arg: option.Optional, ID: 's'},
	{Long: "preserve-context", ID: 's'},
}}

type installJob struct {
	*copier
	dirs, leading, same bool
	mode                filemode.Change
	uid, gid            int
	times               bool
}

func runInstall(p *kernel.Proc) int {
	opts, names, ok := installOptions.Parse(p)
	if !ok {
		return 1
	}
	mode, _ := filemode.ParseChange("0755")
	j := installJob{copier: &copier{p: p, backup: newBackup(p), follow: 'L', removeDest: true, force: true}, mode: mode, uid: -1, gid: -1}
	for _, o := range opts {
		if !j.applyFlag(o) {
			return 1
		}
	}
	if j.dirs {
		return j.makeDirs(names)
	}
	if j.leading && j.into != "" {
		m := dirMaker{p: p, parents: true, verbose: j.verbose, wording: "creating directory "}
		if !m.makeDirectory(j.into) {
			return 1
		}
	}
	d, ok := j.findDestination(names)
	if !ok {
		return 1
	}
	if j.leading && d.dir == "" {
		m := dirMaker{p: p, parents: true, verbose: j.verbose, wording: "creating directory "}
		if !m.makeParents(d.name) {
			return 1
		}
	}
	for _, from := range d.sources {
		j.installFile(from, d.targetOf(from))
	}
	return int(number.FromBool(j.failed))
}

func (j *installJob) applyFlag(o option.Setting) bool {
	switch o.Key {
	case 'c', 's':
	case 'C':
		j.same = true
	case 'd':
		j.dirs = true
	case 'D':
		j.leading = true
	case 'p':
		j.times = true
	case 'm':
		c, ok := filemode.ParseChange(o.Value)
		if !ok {
			j.p.Errorf("invalid mode %s", quoting.QuoteWord(o.Value))
		}
		j.mode = c
		return ok
	case 'o', 'g':
		owners := account.NewDatabase(j.p)
		look, to, what := owners.UID, &j.uid, "user"
		if o.Key == 'g' {
			look, to, what = owners.GID, &j.gid, "group"
		}
		n, ok := look(o.Value)
		if !ok {
			j.p.Errorf("invalid %s %s", what, quoting.QuoteWord(o.Value))
		}
		*to = n
		return ok
	default:
		return j.applyOption(o)
	}
	return true
}

func (j *installJob) makeDirs(names []string) int {
	if len(names) == 0 {
		j.p.Errorf("missing file operand")
		option.SuggestHelp(j.p)
		return 1
	}
	m := dirMaker{p: j.p, parents: true, verbose: j.verbose, wording: "creating directory "}
	for _, name := range names {
		if !m.makeDirectory(name) {
			j.failed = true
			continue
		}
		j.setModeAndOwner(name, true)
	}
	return int(number.FromBool(j.failed))
}

// setModeAndOwner sets the mode and the owner of a created file.
func (j *installJob) setModeAndOwner(name string, dir bool) {
	if j.uid >= 0 || j.gid >= 0 {
		if err := j.p.Lchown(name, j.uid, j.gid); err != nil {
			j.reportError("cannot change ownership of %s: %s", quoting.QuoteName(name), program.Reason(err))
		}
	}
	base := uint32(0)
	if dir {
		base = filemode.TypeDir
	}
	if err := j.p.Chmod(name, filemode.FromUnix(j.mode.Apply(base&filemode.AllBits, dir, 0))); err != nil {
		j.reportError("cannot change permissions of %s: %s", quoting.QuoteName(name), program.Reason(err))
	}
}

func (j *installJob) installFile(from, to string) {
	if j.same && j.isUnchanged(from, to) {
		return
	}
	info, _, err := j.statSource(from, true)
	if !j.copy(from, to, true, nil) {
		return
	}
	if j.times && err == nil && info.Ino() != 0 {
		if err := j.p.Chtimes(to, info.Atime(), info.ModTime()); err != nil {
			j.reportError("cannot set timestamps for %s: %s", quoting.QuoteName(to), program.Reason(err))
		}
	}
	j.setModeAndOwner(to, false)
}

// isUnchanged reports whether the destination already has the content, mode and owner it would get.
func (j *installJob) isUnchanged(from, to string) bool {
	a, errA := j.p.Lstat(from)
	b, errB := j.p.Lstat(to)
	if errA != nil || errB != nil || !a.Mode().IsRegular() || !b.Mode().IsRegular() || a.Size() != b.Size() {
		return false
	}
	if filemode.ToUnix(b.Mode())&filemode.AllBits != j.mode.Apply(0, false, 0) || j.uid >= 0 && b.Uid() != j.uid || j.gid >= 0 && b.Gid() != j.gid {
		return false
	}
	x, errX := j.p.ReadFile(from)
	y, errY := j.p.ReadFile(to)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
