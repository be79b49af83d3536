package command

import (
	"bytes"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var installOptions = parsing{options: []option{
	{short: 'b'},
	{long: "backup", arg: optional, id: 'b'},
	{short: 'c'},
	{short: 'C', long: "compare"},
	{short: 'd', long: "directory"},
	{short: 'D'},
	{short: 'g', long: "group", arg: required},
	{short: 'm', long: "mode", arg: required},
	{short: 'T', long: "no-target-directory"},
	{short: 'o', long: "owner", arg: required},
	{short: 'p', long: "preserve-timestamps"},
	{short: 's', long: "strip"},
	{long: "strip-program", arg: required, id: 's'},
	{short: 'S', long: "suffix", arg: required},
	{short: 't', long: "target-directory", arg: required},
	{short: 'v', long: "verbose"},
	{short: 'Z', id: 's'},
	{long: "context", arg: optional, id: 's'},
	{long: "preserve-context", id: 's'},
}}

type installJob struct {
	*copier
	dirs, leading, same bool
	mode                modeChange
	uid, gid            int
	times               bool
}

func install(p *kernel.Proc) int {
	opts, names, ok := installOptions.parse(p)
	if !ok {
		return 1
	}
	mode, _ := parseMode("0755")
	j := installJob{copier: &copier{p: p, backup: newBackup(p), follow: 'L', removeDest: true, force: true}, mode: mode, uid: -1, gid: -1}
	for _, o := range opts {
		if !j.flag(o) {
			return 1
		}
	}
	if j.dirs {
		return j.makeDirs(names)
	}
	if j.leading && j.into != "" {
		m := dirMaker{p: p, parents: true, verbose: j.verbose, wording: "creating directory "}
		if !m.make(j.into) {
			return 1
		}
	}
	d, ok := j.destination(names)
	if !ok {
		return 1
	}
	if j.leading && d.dir == "" {
		m := dirMaker{p: p, parents: true, verbose: j.verbose, wording: "creating directory "}
		if !m.above(d.name) {
			return 1
		}
	}
	for _, from := range d.sources {
		j.file(from, d.target(from))
	}
	return int(b2i(j.failed))
}

func (j *installJob) flag(o given) bool {
	switch o.key {
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
		c, ok := parseMode(o.value)
		if !ok {
			j.p.Errorf("invalid mode %s", cite(o.value))
		}
		j.mode = c
		return ok
	case 'o', 'g':
		owners := newOwners(j.p)
		look, to, what := owners.uid, &j.uid, "user"
		if o.key == 'g' {
			look, to, what = owners.gid, &j.gid, "group"
		}
		n, ok := look(o.value)
		if !ok {
			j.p.Errorf("invalid %s %s", what, cite(o.value))
		}
		*to = n
		return ok
	default:
		return j.option(o)
	}
	return true
}

func (j *installJob) makeDirs(names []string) int {
	if len(names) == 0 {
		j.p.Errorf("missing file operand")
		tryHelp(j.p)
		return 1
	}
	m := dirMaker{p: j.p, parents: true, verbose: j.verbose, wording: "creating directory "}
	for _, name := range names {
		if !m.make(name) {
			j.failed = true
			continue
		}
		j.finish(name, true)
	}
	return int(b2i(j.failed))
}

// finish sets the mode and the owner of what was made.
func (j *installJob) finish(name string, dir bool) {
	if j.uid >= 0 || j.gid >= 0 {
		if err := j.p.Lchown(name, j.uid, j.gid); err != nil {
			j.fail("cannot change ownership of %s: %s", quote(name), why(err))
		}
	}
	base := uint32(0)
	if dir {
		base = typeDir
	}
	if err := j.p.Chmod(name, permMode(j.mode.apply(base&modeBits, dir, 0))); err != nil {
		j.fail("cannot change permissions of %s: %s", quote(name), why(err))
	}
}

func (j *installJob) file(from, to string) {
	if j.same && j.unchanged(from, to) {
		return
	}
	info, _, err := j.source(from, true)
	if !j.copy(from, to, true, nil) {
		return
	}
	if j.times && err == nil && info.Ino() != 0 {
		if err := j.p.Chtimes(to, info.Atime(), info.ModTime()); err != nil {
			j.fail("cannot set timestamps for %s: %s", quote(to), why(err))
		}
	}
	j.finish(to, false)
}

// unchanged reports whether the destination is already what it would become.
func (j *installJob) unchanged(from, to string) bool {
	a, errA := j.p.Lstat(from)
	b, errB := j.p.Lstat(to)
	if errA != nil || errB != nil || !a.Mode().IsRegular() || !b.Mode().IsRegular() || a.Size() != b.Size() {
		return false
	}
	if unixMode(b.Mode())&modeBits != j.mode.apply(0, false, 0) || j.uid >= 0 && b.Uid() != j.uid || j.gid >= 0 && b.Gid() != j.gid {
		return false
	}
	x, errX := j.p.ReadFile(from)
	y, errY := j.p.ReadFile(to)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
