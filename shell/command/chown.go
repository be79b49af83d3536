package command

import (
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const chownUsage = `Usage: chown [OPTION]... [OWNER][:[GROUP]] FILE...
  or:  chown [OPTION]... --reference=RFILE FILE...
Change the owner and/or group of each FILE to OWNER and/or GROUP.

` + chownCommon

const chgrpUsage = `Usage: chgrp [OPTION]... GROUP FILE...
  or:  chgrp [OPTION]... --reference=RFILE FILE...
Change the group of each FILE to GROUP.

` + chownCommon

const chownCommon = `  -c, --changes          like verbose but report only when a change is made
  -f, --silent, --quiet  suppress most error messages
  -v, --verbose          output a diagnostic for every file processed
      --dereference      affect the referent of each symbolic link (default)
  -h, --no-dereference   affect symbolic links instead of any referenced file
      --from=CURRENT_OWNER:CURRENT_GROUP
                         change only files whose owner and group match
      --no-preserve-root  do not treat '/' specially (the default)
      --preserve-root    fail to operate recursively on '/'
      --reference=RFILE  use RFILE's owner and group
  -R, --recursive        operate on files and directories recursively
  -H                     with -R, follow a command line link to a directory
  -L                     with -R, follow every link to a directory
  -P                     with -R, follow no links (default)
      --help             display this help and exit
`

var chownOptions = parsing{options: []option{
	{short: 'c', long: "changes"},
	{short: 'f', long: "silent"},
	{long: "quiet", id: 'f'},
	{short: 'v', long: "verbose"},
	{long: "dereference", id: 'D'},
	{short: 'h', long: "no-dereference"},
	{long: "from", arg: required, id: 'F'},
	{long: "no-preserve-root", id: 'N'},
	{long: "preserve-root", id: 'G'},
	{long: "reference", arg: required, id: 'r'},
	{short: 'R', long: "recursive"},
	{short: 'H'},
	{short: 'L'},
	{short: 'P'},
}}

type chownJob struct {
	p         *kernel.Proc
	owners    *owners
	uid, gid  int // -1: as it is
	from      [2]int
	user      string // as they were given
	group     string
	report    verbosity
	quiet     bool
	noFollow  bool
	recursive bool
	walk      rune
	guardRoot bool
	failed    bool
	isChgrp   bool
}

func chown(p *kernel.Proc) int {
	opts, names, ok := chownOptions.parse(p)
	if !ok {
		return 1
	}
	j := chownJob{p: p, owners: newOwners(p), uid: -1, gid: -1, from: [2]int{-1, -1}, walk: 'P', isChgrp: p.Name() == "chgrp"}
	ref := ""
	for _, o := range opts {
		switch o.key {
		case 'r':
			ref = o.value
		case 'F':
			if _, msg := j.spec(o.value, &j.from[0], &j.from[1]); msg != "" {
				p.Errorf("%s", msg)
				return 1
			}
		default:
			j.option(o.key)
		}
	}
	need := 2
	if ref != "" {
		need = 1
	}
	if missing(p, names, need) {
		return 1
	}
	if ref != "" {
		info, err := p.Stat(ref)
		if err != nil {
			p.Errorf("failed to get attributes of %s: %s", quote(ref), why(err))
			return 1
		}
		j.uid, j.gid = info.Uid(), info.Gid()
		if j.isChgrp {
			j.uid = -1
		}
		j.user, j.group = j.owners.userOr(info.Uid()), j.owners.groupOr(info.Gid())
	} else {
		if !j.wanted(names[0]) {
			return 1
		}
		names = names[1:]
	}
	for _, name := range names {
		j.file(name, true, nil)
	}
	return int(b2i(j.failed))
}

func (j *chownJob) option(key rune) {
	switch key {
	case 'c':
		j.report = reportChanges
	case 'v':
		j.report = reportAll
	case 'f':
		j.quiet = true
	case 'D':
		j.noFollow = false
	case 'h':
		j.noFollow = true
	case 'N', 'G':
		j.guardRoot = key == 'G'
	case 'R':
		j.recursive = true
	default:
		j.walk = key
	}
}

func (j *chownJob) wanted(s string) bool {
	if j.isChgrp {
		if s == "" {
			return true
		}
		gid, ok := j.owners.gid(s)
		if !ok {
			j.p.Errorf("invalid group: %s", cite(s))
			return false
		}
		j.gid, j.group = gid, s
		return true
	}
	login, msg := j.spec(s, &j.uid, &j.gid)
	if msg != "" {
		j.p.Errorf("%s", msg)
		return false
	}
	j.user, j.group, _ = strings.Cut(s, ":")
	if login {
		j.group = j.owners.groupOr(j.gid)
	}
	return true
}

// spec reads OWNER[:[GROUP]]; login says that the group is the owner's own.
func (j *chownJob) spec(s string, uid, gid *int) (login bool, msg string) {
	user, group, colon := strings.Cut(s, ":")
	if !colon && strings.Contains(s, ".") {
		if _, ok := j.owners.uid(s); !ok {
			user, group, colon = strings.Cut(s, ".")
			j.p.Errorf("warning: '.' should be ':': %s", cite(s))
		}
	}
	if user != "" {
		n, ok := j.owners.uid(user)
		if !ok {
			return false, "invalid user: " + cite(s)
		}
		*uid = n
	}
	switch {
	case group != "":
		n, ok := j.owners.gid(group)
		if !ok {
			return false, "invalid group: " + cite(s)
		}
		*gid = n
	case colon && user != "":
		n, ok := j.owners.first[*uid]
		if !ok {
			return false, "invalid spec: " + cite(s)
		}
		*gid = n
		return true, ""
	}
	return false, ""
}

func (j *chownJob) fail(format string, a ...any) {
	j.failed = true
	if !j.quiet {
		j.p.Errorf(format, a...)
	}
}

func (j *chownJob) file(path string, operand bool, up *above) {
	j.p.Tick(2)
	info, err := j.p.Lstat(path)
	if err != nil {
		j.fail("cannot access %s: %s", quote(path), why(err))
		return
	}
	link := info.Mode()&fs.ModeSymlink != 0
	follow := !j.noFollow && (!j.recursive || j.walk == 'L' || j.walk == 'H' && operand)
	if link && follow {
		if info, err = j.p.Stat(path); err != nil {
			j.fail("cannot dereference %s: %s", quote(path), why(err))
			return
		}
	}
	if j.recursive && j.guardRoot && operand {
		if abs, err := j.p.Resolve(path); err == nil && abs == "/" {
			j.fail("it is dangerous to operate recursively on '/'\n%s: use --no-preserve-root to override this failsafe", j.p.Name())
			return
		}
	}
	j.change(path, info, link && !follow)
	if !j.recursive || !info.IsDir() || up.holds(info.Ino()) {
		return
	}
	list, err := j.p.ReadDir(path)
	if err != nil {
		j.fail("cannot read directory %s: %s", quote(path), why(err))
		return
	}
	for _, d := range list {
		j.file(joinName(path, d.Name()), false, &above{info.Ino(), up})
	}
}

func (j *chownJob) change(path string, info vfs.Info, link bool) {
	if j.from[0] >= 0 && j.from[0] != info.Uid() || j.from[1] >= 0 && j.from[1] != info.Gid() {
		return
	}
	target := path
	var err error
	if !link {
		target, err = j.p.Resolve(path)
	}
	if err == nil {
		err = j.p.Lchown(target, j.uid, j.gid)
	}
	if err != nil {
		j.fail("changing ownership of %s: %s", quote(path), why(err))
		return
	}
	changed := j.uid >= 0 && j.uid != info.Uid() || j.gid >= 0 && j.gid != info.Gid()
	if j.report == reportAll || j.report == reportChanges && changed {
		_, _ = j.p.Out().WriteString(j.describe(path, info, changed) + "\n") // shows at the flush
	}
}

func (j *chownJob) describe(path string, info vfs.Info, changed bool) string {
	what, was, now := "ownership", j.owners.userOr(info.Uid()), j.user
	switch {
	case j.uid < 0 && j.gid < 0:
		return "ownership of " + quote(path) + " retained"
	case j.uid < 0:
		what, was, now = "group", j.owners.groupOr(info.Gid()), j.group
		if !j.isChgrp {
			what, was, now = "ownership", j.owners.userOr(info.Uid())+":"+was, ":"+now
		}
	case j.gid >= 0:
		was, now = was+":"+j.owners.groupOr(info.Gid()), now+":"+j.group
	}
	if changed {
		if what == "group" || j.gid < 0 || j.uid >= 0 {
			return "changed " + what + " of " + quote(path) + " from " + was + " to " + now
		}
		return "changed " + what + " of " + quote(path) + " from " + was + " to " + now
	}
	return what + " of " + quote(path) + " retained as " + was
}
