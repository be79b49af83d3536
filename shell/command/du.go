package command

import (
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const duUsage = `Usage: du [OPTION]... [FILE]...
  or:  du [OPTION]... --files0-from=F
Summarize device usage of the set of FILEs, recursively for directories.

  -0, --null            end each output line with NUL, not newline
  -a, --all             write counts for all files, not just directories
      --apparent-size   print apparent sizes rather than device usage
  -B, --block-size=SIZE  scale sizes by SIZE before printing them
  -b, --bytes           equivalent to '--apparent-size --block-size=1'
  -c, --total           produce a grand total
  -D, -H, --dereference-args  dereference only symlinks that are listed on the
                          command line
  -d, --max-depth=N     print the total for a directory (or file, with --all)
                          only if it is N or fewer levels below the argument
      --files0-from=F   summarize the NUL-terminated file names in file F
  -h, --human-readable  print sizes in human readable format (e.g., 1K 234M 2G)
      --inodes          list inode usage information instead of block usage
  -k                    like --block-size=1K
  -L, --dereference     dereference all symbolic links
  -l, --count-links     count sizes many times if hard linked
  -m                    like --block-size=1M
  -P, --no-dereference  don't follow any symbolic links (this is the default)
  -S, --separate-dirs   for directories do not include size of subdirectories
      --si              like -h, but use powers of 1000 not 1024
  -s, --summarize       display only a total for each argument
  -t, --threshold=SIZE  exclude entries smaller than SIZE if positive,
                          or entries greater than SIZE if negative
      --time[=WORD]     show time of the last modification, or atime, ctime
      --time-style=STYLE  full-iso, long-iso, iso, or +FORMAT
  -X, --exclude-from=FILE  exclude files that match any pattern in FILE
      --exclude=PATTERN    exclude files that match PATTERN
  -x, --one-file-system    (there is only one)
      --help            display this help and exit
`

type duJob struct {
	p        *kernel.Proc
	all      bool
	apparent bool
	unit     int64
	human    int64
	suffix   string // behind each number
	total    bool
	follow   byte
	depth    int // -1: any
	inodes   bool
	links    bool
	separate bool
	summary  bool
	least    int64
	hasLeast bool
	clock    byte // 0 none, else m a c
	style    string
	exclude  []string
	eol      byte
	zone     *time.Location
	seen     map[uint64]bool
	failed   bool
}

// duSum is what a file or a directory takes.
type duSum struct {
	size, nodes int64
	time        time.Time
}

func (s *duSum) add(o duSum) {
	s.size += o.size
	s.nodes += o.nodes
	if o.time.After(s.time) {
		s.time = o.time
	}
}

var duOptions = parsing{options: []option{
	{short: 'a', long: "all"},
	{long: "apparent-size", id: 1},
	{short: 'B', long: "block-size", arg: required},
	{short: 'b', long: "bytes"},
	{short: 'l', long: "count-links"},
	{short: 'L', long: "dereference"},
	{short: 'D', long: "dereference-args"},
	{short: 'H', id: 'D'},
	{long: "exclude", arg: required, id: 2},
	{short: 'X', long: "exclude-from", arg: required},
	{long: "files0-from", arg: required, id: 'F'},
	{short: 'h', long: "human-readable"},
	{long: "inodes", id: 3},
	{long: "si", id: 4},
	{short: 'd', long: "max-depth", arg: required},
	{short: '0', long: "null"},
	{short: 'P', long: "no-dereference"},
	{short: 'x', long: "one-file-system"},
	{short: 'S', long: "separate-dirs"},
	{short: 's', long: "summarize"},
	{short: 'c', long: "total"},
	{short: 't', long: "threshold", arg: required},
	{long: "time", arg: optional, id: 5},
	{long: "time-style", arg: required, id: 6},
	{short: 'k'},
	{short: 'm'},
}}

func du(p *kernel.Proc) int {
	opts, names, ok := duOptions.parse(p)
	if !ok {
		return 1
	}
	j := duJob{p: p, unit: 1024, depth: -1, eol: '\n', zone: zoneOf(p), style: "long-iso", seen: map[uint64]bool{}}
	from := ""
	for _, o := range opts {
		if o.key == 'F' {
			from = o.value
		} else if !j.option(o) {
			return 1
		}
	}
	switch {
	case j.summary && j.all:
		p.Errorf("cannot both summarize and show all entries")
		tryHelp(p)
		return 1
	case j.summary && j.depth > 0:
		p.Errorf("warning: summarizing conflicts with --max-depth=%d", j.depth)
		tryHelp(p)
		return 1
	case j.summary:
		j.depth = 0
	}
	if from != "" {
		if names, ok = names0(p, from, "cannot open "+quote(from)+" for reading", names); !ok {
			return 1
		}
		var code int
		names, code = checkNames0(p, from, names)
		j.failed = code != 0
	} else if len(names) == 0 {
		names = []string{"."}
	}
	var sum duSum
	for _, name := range names {
		s, _ := j.file(name, 0, nil)
		sum.add(s)
	}
	if j.total {
		j.print(sum, "total")
	}
	return int(b2i(j.failed))
}

func (j *duJob) option(o given) bool {
	switch o.key {
	case 'a':
		j.all = true
	case 1:
		j.apparent = true
	case 'b':
		j.apparent, j.unit, j.human = true, 1, 0
	case 'l':
		j.links = true
	case 'L', 'D', 'P':
		j.follow = byte(o.key)
	case 'h':
		j.human = 1024
	case 4:
		j.human = 1000
	case 3:
		j.inodes = true
	case 'k':
		j.unit, j.human = 1024, 0
	case 'm':
		j.unit, j.human = 1<<20, 0
	case '0':
		j.eol = 0
	case 'S':
		j.separate = true
	case 's':
		j.summary = true
	case 'c':
		j.total = true
	case 2:
		j.exclude = append(j.exclude, o.value)
	default:
		return j.valued(o)
	}
	return true
}

func (j *duJob) valued(o given) bool {
	switch o.key {
	case 'B':
		n, fault := parseSize(o.value, "eEgGkKmMpPtTyYzZ0")
		if fault != sizeFine || n == 0 {
			j.p.Errorf("invalid %s argument %s", blockName(o), cite(o.value))
			return false
		}
		j.unit, j.human, j.suffix = n, 0, unitSuffix(o.value)
	case 'd':
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 {
			j.p.Errorf("invalid maximum depth %s", cite(o.value))
			tryHelp(j.p)
			return false
		}
		j.depth = n
	case 't':
		text, minus := strings.CutPrefix(o.value, "-")
		n, fault := parseSize(text, "kKmMGTPEZY0")
		if fault == sizeBad || minus && n == 0 {
			j.p.Errorf("invalid %s argument %s", o.name, cite(o.value))
			return false
		}
		if j.least, j.hasLeast = n, true; minus {
			j.least = -n
		}
	case 'X':
		b, err := j.p.ReadFile(o.value)
		if err != nil {
			j.p.Errorf("%s: %s", quotef(o.value), why(err))
			tryHelp(j.p)
			return false
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				j.exclude = append(j.exclude, line)
			}
		}
	case 5:
		j.clock = 'm'
		if o.has {
			v, ok := choose(j.p, "--time", o.value, []choice{{"atime", 'a'}, {"access", 'a'}, {"use", 'a'}, {"ctime", 'c'}, {"status", 'c'}})
			j.clock = byte(v)
			return ok
		}
	case 6:
		j.style = o.value
		if j.clock != 0 && !strings.HasPrefix(o.value, "+") {
			_, ok := choose(j.p, "time style", o.value, []choice{{"full-iso", 0}, {"long-iso", 1}, {"iso", 2}})
			return ok
		}
	}
	return true
}

func blockName(o given) string {
	if strings.HasPrefix(o.name, "--") {
		return "--block-size"
	}
	return "-B"
}

// excluded matches a name, or the parts of its end, with the patterns.
func (j *duJob) excluded(path string) bool {
	for _, pat := range j.exclude {
		for tail := path; ; {
			if wildcard(j.p, pat, tail) {
				return true
			}
			_, after, ok := strings.Cut(tail, "/")
			if !ok {
				break
			}
			tail = after
		}
	}
	return false
}

// file sums up a file and all below it, and prints what is asked for. own is
// without subdirectories.
func (j *duJob) file(path string, level int, up *above) (sum, own duSum) {
	j.p.Tick(4)
	if len(j.exclude) > 0 && j.excluded(path) {
		return sum, own
	}
	info, err := j.p.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && (j.follow == 'L' || j.follow == 'D' && level == 0) {
		info, err = j.p.Stat(path)
	}
	if err != nil {
		j.failed = true
		j.p.Errorf("cannot access %s: %s", quote(path), why(err))
		return sum, own
	}
	if up.holds(info.Ino()) || j.counted(info, level) {
		return sum, own
	}
	sum = j.sizeOf(info)
	own = sum
	if info.IsDir() {
		list, err := j.p.ReadDir(path)
		if err != nil {
			j.failed = true
			j.p.Errorf("cannot read directory %s: %s", quote(path), why(err))
		}
		here := &above{info.Ino(), up}
		for _, d := range list {
			below, _ := j.file(joinName(path, d.Name()), level+1, here)
			sum.add(below)
			if !d.IsDir() {
				own.add(below)
			}
		}
	}
	if (info.IsDir() || j.all || level == 0) && (j.depth < 0 || level <= j.depth) {
		if j.separate {
			j.print(own, path)
		} else {
			j.print(sum, path)
		}
	}
	return sum, own
}

// counted reports whether a file was counted already under another name.
func (j *duJob) counted(info vfs.Info, level int) bool {
	if j.links && !info.IsDir() || info.Nlink() < 2 && level > 0 && j.follow == 0 {
		return false
	}
	if j.seen[info.Ino()] {
		return true
	}
	j.p.Alloc(32)
	j.seen[info.Ino()] = true
	return false
}

func (j *duJob) sizeOf(info vfs.Info) duSum {
	s := duSum{size: info.Blocks() * 512, nodes: 1, time: info.ModTime()}
	if j.apparent {
		s.size = info.Size()
	}
	switch j.clock {
	case 'a':
		s.time = info.Atime()
	case 'c':
		s.time = info.Ctime()
	}
	return s
}

func (j *duJob) print(s duSum, name string) {
	n, unit := s.size, j.unit
	if j.inodes {
		n, unit = s.nodes, 1
	}
	if j.hasLeast && (j.least >= 0 && n < j.least || j.least < 0 && n > -j.least) {
		return
	}
	text := strconv.FormatInt(inUnits(n, unit), 10) + j.suffix
	if j.human != 0 {
		text = humanSize(n, j.human)
	}
	if j.clock != 0 {
		text += "\t" + j.date(s.time.In(j.zone))
	}
	_, _ = j.p.Out().WriteString(text + "\t" + name) // shows at the flush, as below
	_ = j.p.Out().WriteByte(j.eol)
}

func (j *duJob) date(t time.Time) string {
	switch {
	case strings.HasPrefix(j.style, "+"):
		return formatDate(j.p, t, j.style[1:])
	case strings.HasPrefix("full-iso", j.style):
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	case strings.HasPrefix("iso", j.style):
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02 15:04")
}
