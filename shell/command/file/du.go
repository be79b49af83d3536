package file

import (
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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
	suffix   string // after each number
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

// duSum is the usage of a file or a directory.
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

var duOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "all"},
	{Long: "apparent-size", ID: 1},
	{Short: 'B', Long: "block-size", Arg: option.Required},
	{Short: 'b', Long: "bytes"},
	{Short: 'l', Long: "count-links"},
	{Short: 'L', Long: "dereference"},
	{Short: 'D', Long: "dereference-args"},
	{Short: 'H', ID: 'D'},
	{Long: "exclude", Arg: option.Required, ID: 2},
	{Short: 'X', Long: "exclude-from", Arg: option.Required},
	{Long: "files0-from", Arg: option.Required, ID: 'F'},
	{Short: 'h', Long: "human-readable"},
	{Long: "inodes", ID: 3},
	{Long: "si", ID: 4},
	{Short: 'd', Long: "max-depth", Arg: option.Required},
	{Short: '0', Long: "null"},
	{Short: 'P', Long: "no-dereference"},
	{Short: 'x', Long: "one-file-system"},
	{Short: 'S', Long: "separate-dirs"},
	{Short: 's', Long: "summarize"},
	{Short: 'c', Long: "total"},
	{Short: 't', Long: "threshold", Arg: option.Required},
	{Long: "time", Arg: option.Optional, ID: 5},
	{Long: "time-style", Arg: option.Required, ID: 6},
	{Short: 'k'},
	{Short: 'm'},
}}

func runDu(p *kernel.Proc) int {
	opts, names, ok := duOptions.Parse(p)
	if !ok {
		return 1
	}
	j := duJob{p: p, unit: 1024, depth: -1, eol: '\n', zone: datetime.LocalZone(p), style: "long-iso", seen: map[uint64]bool{}}
	from := ""
	for _, o := range opts {
		if o.Key == 'F' {
			from = o.Value
		} else if !j.applyOption(o) {
			return 1
		}
	}
	switch {
	case j.summary && j.all:
		p.Errorf("cannot both summarize and show all entries")
		option.SuggestHelp(p)
		return 1
	case j.summary && j.depth > 0:
		p.Errorf("warning: summarizing conflicts with --max-depth=%d", j.depth)
		option.SuggestHelp(p)
		return 1
	case j.summary:
		j.depth = 0
	}
	if from != "" {
		if names, ok = stream.ReadNames(p, from, "cannot open "+quoting.QuoteName(from)+" for reading", names); !ok {
			return 1
		}
		var code int
		names, code = stream.DropInvalidNames(p, from, names)
		j.failed = code != 0
	} else if len(names) == 0 {
		names = []string{"."}
	}
	var sum duSum
	for _, name := range names {
		s, _ := j.sumFile(name, 0, nil)
		sum.add(s)
	}
	if j.total {
		j.print(sum, "total")
	}
	return int(number.FromBool(j.failed))
}

func (j *duJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'a':
		j.all = true
	case 1:
		j.apparent = true
	case 'b':
		j.apparent, j.unit, j.human = true, 1, 0
	case 'l':
		j.links = true
	case 'L', 'D', 'P':
		j.follow = byte(o.Key)
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
		j.exclude = append(j.exclude, o.Value)
	default:
		return j.applyValue(o)
	}
	return true
}

func (j *duJob) applyValue(o option.Setting) bool {
	switch o.Key {
	case 'B':
		n, fault := number.ParseSize(o.Value, "eEgGkKmMpPtTyYzZ0")
		if fault != number.Valid || n == 0 {
			j.p.Errorf("invalid %s argument %s", blockName(o), quoting.QuoteWord(o.Value))
			return false
		}
		j.unit, j.human, j.suffix = n, 0, number.UnitSuffix(o.Value)
	case 'd':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 {
			j.p.Errorf("invalid maximum depth %s", quoting.QuoteWord(o.Value))
			option.SuggestHelp(j.p)
			return false
		}
		j.depth = n
	case 't':
		text, minus := strings.CutPrefix(o.Value, "-")
		n, fault := number.ParseSize(text, "kKmMGTPEZY0")
		if fault == number.Invalid || minus && n == 0 {
			j.p.Errorf("invalid %s argument %s", o.Name, quoting.QuoteWord(o.Value))
			return false
		}
		if j.least, j.hasLeast = n, true; minus {
			j.least = -n
		}
	case 'X':
		b, err := j.p.ReadFile(o.Value)
		if err != nil {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(o.Value), program.Reason(err))
			option.SuggestHelp(j.p)
			return false
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				j.exclude = append(j.exclude, line)
			}
		}
	case 5:
		j.clock = 'm'
		if o.HasValue {
			v, ok := option.Choose(j.p, "--time", o.Value, []option.Choice{{Word: "atime", Value: 'a'}, {Word: "access", Value: 'a'}, {Word: "use", Value: 'a'}, {Word: "ctime", Value: 'c'}, {Word: "status", Value: 'c'}})
			j.clock = byte(v)
			return ok
		}
	case 6:
		j.style = o.Value
		if j.clock != 0 && !strings.HasPrefix(o.Value, "+") {
			_, ok := option.Choose(j.p, "time style", o.Value, []option.Choice{{Word: "full-iso", Value: 0}, {Word: "long-iso", Value: 1}, {Word: "iso", Value: 2}})
			return ok
		}
	}
	return true
}

func blockName(o option.Setting) string {
	if strings.HasPrefix(o.Name, "--") {
		return "--block-size"
	}
	return "-B"
}

// isExcluded reports whether a pattern matches a path, or a part of it after a slash.
func (j *duJob) isExcluded(path string) bool {
	for _, pat := range j.exclude {
		for tail := path; ; {
			if glob.Match(j.p, pat, tail) {
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

// sumFile sums up a file and everything below it, and prints it if requested. own is the sum without
// subdirectories.
func (j *duJob) sumFile(path string, level int, up *ancestors) (sum, own duSum) {
	j.p.Tick(4)
	if len(j.exclude) > 0 && j.isExcluded(path) {
		return sum, own
	}
	info, err := j.p.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && (j.follow == 'L' || j.follow == 'D' && level == 0) {
		info, err = j.p.Stat(path)
	}
	if err != nil {
		j.failed = true
		j.p.Errorf("cannot access %s: %s", quoting.QuoteName(path), program.Reason(err))
		return sum, own
	}
	if up.contains(info.Ino()) || j.wasCounted(info, level) {
		return sum, own
	}
	sum = j.sizeOf(info)
	own = sum
	if info.IsDir() {
		list, err := j.p.ReadDir(path)
		if err != nil {
			j.failed = true
			j.p.Errorf("cannot read directory %s: %s", quoting.QuoteName(path), program.Reason(err))
		}
		here := &ancestors{info.Ino(), up}
		for _, d := range list {
			below, _ := j.sumFile(joinName(path, d.Name()), level+1, here)
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

// wasCounted reports whether a file was counted already under another name.
func (j *duJob) wasCounted(info vfs.Info, level int) bool {
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
	text := strconv.FormatInt(number.DivideUp(n, unit), 10) + j.suffix
	if j.human != 0 {
		text = number.FormatHuman(n, j.human)
	}
	if j.clock != 0 {
		text += "\t" + j.formatDate(s.time.In(j.zone))
	}
	_, _ = j.p.Out().WriteString(text + "\t" + name) // Flush reports the error, here and below
	_ = j.p.Out().WriteByte(j.eol)
}

func (j *duJob) formatDate(t time.Time) string {
	switch {
	case strings.HasPrefix(j.style, "+"):
		return datetime.Format(j.p, t, j.style[1:])
	case strings.HasPrefix("full-iso", j.style):
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	case strings.HasPrefix("iso", j.style):
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02 15:04")
}
