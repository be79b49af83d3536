package file

import (
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var chownOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "changes"},
	{Short: 'f', Long: "silent"},
	{Long: "quiet", ID: 'f'},
	{Short: 'v', Long: "verbose"},
	{Long: "dereference", ID: 'D'},
	{Short: 'h', Long: "no-dereference"},
	{Long: "from", Arg: option.Required, ID: 'F'},
	{Long: "no-preserve-root", ID: 'N'},
	{Long: "preserve-root", ID: 'G'},
	{Long: "reference", Arg: option.Required, ID: 'r'},
	{Short: 'R', Long: "recursive"},
	{Short: 'H'},
	{Short: 'L'},
	{Short: 'P'},
}}

type chownJob struct {
	p         *kernel.Proc
	owners    *account.Database
	uid, gid  int // -1: unchanged
	from      [2]int
	user      string // as given
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

func runChown(p *kernel.Proc) int {
	opts, names, ok := chownOptions.Parse(p)
	if !ok {
		return 1
	}
	j := chownJob{p: p, owners: account.NewDatabase(p), uid: -1, gid: -1, from: [2]int{-1, -1}, walk: 'P', isChgrp: p.Name() == "chgrp"}
	ref := ""
	for _, o := range opts {
		switch o.Key {
		case 'r':
			ref = o.Value
		case 'F':
			if _, msg := j.parseSpec(o.Value, &j.from[0], &j.from[1]); msg != "" {
				p.Errorf("%s", msg)
				return 1
			}
		default:
			j.applyOption(o.Key)
		}
	}
	need := 2
	if ref != "" {
		need = 1
	}
	if option.ReportMissing(p, names, need) {
		return 1
	}
	if ref != "" {
		info, err := p.Stat(ref)
		if err != nil {
			p.Errorf("failed to get attributes of %s: %s", quoting.QuoteName(ref), program.Reason(err))
			return 1
		}
		j.uid, j.gid = info.Uid(), info.Gid()
		if j.isChgrp {
			j.uid = -1
		}
		j.user, j.group = j.owners.UserNameOrID(info.Uid()), j.owners.GroupNameOrID(info.Gid())
	} else {
		if !j.parseOwner(names[0]) {
			return 1
		}
		names = names[1:]
	}
	for _, name := range names {
		j.changeTree(name, true, nil)
	}
	return int(number.FromBool(j.failed))
}

func (j *chownJob) applyOption(key rune) {
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

func (j *chownJob) parseOwner(s string) bool {
	if j.isChgrp {
		if s == "" {
			return true
		}
		gid, ok := j.owners.GID(s)
		if !ok {
			j.p.Errorf("invalid group: %s", quoting.QuoteWord(s))
			return false
		}
		j.gid, j.group = gid, s
		return true
	}
	login, msg := j.parseSpec(s, &j.uid, &j.gid)
	if msg != "" {
		j.p.Errorf("%s", msg)
		return false
	}
	j.user, j.group, _ = strings.Cut(s, ":")
	if login {
		j.group = j.owners.GroupNameOrID(j.gid)
	}
	return true
}

// parseSpec parses OWNER[:[GROUP]]. login reports that the group is the login group of the owner.
func (j *chownJob) parseSpec(s string, uid, gid *int) (login bool, msg string) {
	user, group, colon := strings.Cut(s, ":")
	if !colon && strings.Contains(s, ".") {
		if _, ok := j.owners.UID(s); !ok {
			user, group, colon = strings.Cut(s, ".")
			j.p.Errorf("warning: '.' should be ':': %s", quoting.QuoteWord(s))
		}
	}
	if user != "" {
		n, ok := j.owners.UID(user)
		if !ok {
			return false, "invalid user: " + quoting.QuoteWord(s)
		}
		*uid = n
	}
	switch {
	case group != "":
		n, ok := j.owners.GID(group)
		if !ok {
			return false, "invalid group: " + quoting.QuoteWord(s)
		}
		*gid = n
	case colon && user != "":
		n, ok := j.owners.LoginGroups[*uid]
		if !ok {
			return false, "invalid spec: " + quoting.QuoteWord(s)
		}
		*gid = n
		return true, ""
	}
	return false, ""
}

func (j *chownJob) reportError(format string, a ...any) {
	j.failed = true
	if !j.quiet {
		j.p.Errorf(format, a...)
	}
}

func (j *chownJob) changeTree(path string, operand bool, up *ancestors) {
	j.p.Tick(2)
	info, err := j.p.Lstat(path)
	if err != nil {
		j.reportError("cannot access %s: %s", quoting.QuoteName(path), program.Reason(err))
		return
	}
	link := info.Mode()&fs.ModeSymlink != 0
	follow := !j.noFollow && (!j.recursive || j.walk == 'L' || j.walk == 'H' && operand)
	if link && follow {
		if info, err = j.p.Stat(path); err != nil {
			j.reportError("cannot dereference %s: %s", quoting.QuoteName(path), program.Reason(err))
			return
		}
	}
	if j.recursive && j.guardRoot && operand {
		if abs, err := j.p.Resolve(path); err == nil && abs == "/" {
			j.reportError("it is dangerous to operate recursively on '/'\n%s: use --no-preserve-root to override this failsafe", j.p.Name())
			return
		}
	}
	j.changeFile(path, info, link && !follow)
	if !j.recursive || !info.IsDir() || up.contains(info.Ino()) {
		return
	}
	list, err := j.p.ReadDir(path)
	if err != nil {
		j.reportError("cannot read directory %s: %s", quoting.QuoteName(path), program.Reason(err))
		return
	}
	for _, d := range list {
		j.changeTree(joinName(path, d.Name()), false, &ancestors{info.Ino(), up})
	}
}

func (j *chownJob) changeFile(path string, info vfs.Info, link bool) {
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
		j.reportError("changing ownership of %s: %s", quoting.QuoteName(path), program.Reason(err))
		return
	}
	changed := j.uid >= 0 && j.uid != info.Uid() || j.gid >= 0 && j.gid != info.Gid()
	if j.report == reportAll || j.report == reportChanges && changed {
		_, _ = j.p.Out().WriteString(j.describeChange(path, info, changed) + "\n") // Flush reports the error
	}
}

func (j *chownJob) describeChange(path string, info vfs.Info, changed bool) string {
	what, was, now := "ownership", j.owners.UserNameOrID(info.Uid()), j.user
	switch {
	case j.uid < 0 && j.gid < 0:
		return "ownership of " + quoting.QuoteName(path) + " retained"
	case j.uid < 0:
		what, was, now = "group", j.owners.GroupNameOrID(info.Gid()), j.group
		if !j.isChgrp {
			what, was, now = "ownership", j.owners.UserNameOrID(info.Uid())+":"+was, ":"+now
		}
	case j.gid >= 0:
		was, now = was+":"+j.owners.GroupNameOrID(info.Gid()), now+":"+j.group
	}
	if changed {
		if what == "group" || j.gid < 0 || j.uid >= 0 {
			return "changed " + what + " of " + quoting.QuoteName(path) + " from " + was + " to " + now
		}
		return "changed " + what + " of " + quoting.QuoteName(path) + " from " + was + " to " + now
	}
	return what + " of " + quoting.QuoteName(path) + " retained as " + was
}
