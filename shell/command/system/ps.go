package system

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
)

const psUsage = `Usage: ps [options]
Report the processes of the sandbox.

  -A, -e, a, x       all processes
  -f, -F, -l, u      more columns
  -o, o FORMAT       columns of your own: pid ppid pgid sid uid user comm args
                       cmd stat s tty time etime etimes %cpu %mem rss vsz ni
                       pri start lstart; name=TITLE changes a title
  -p, p LIST         by process number
  -C LIST            by name
  -u, -U, U LIST     by user
  -g LIST            by process group
      --ppid LIST    by parent
  h, --no-headers    without titles
      --sort KEY     order by a column, downward after a minus
      --help         display this help and exit
`

// psColumn is a column of ps: its title and its width, negative for text aligned to the left.
type psColumn struct {
	title string
	width int
	value func(p, q *kernel.Proc) string
}

var psColumns = map[string]psColumn{
	"pid":     {"PID", 7, func(_, q *kernel.Proc) string { return strconv.Itoa(q.PID()) }},
	"ppid":    {"PPID", 7, func(_, q *kernel.Proc) string { return strconv.Itoa(q.PPID()) }},
	"pgid":    {"PGID", 7, func(_, q *kernel.Proc) string { return strconv.Itoa(q.Group()) }},
	"sid":     {"SID", 7, func(_, q *kernel.Proc) string { return strconv.Itoa(q.Group()) }},
	"uid":     {"UID", 5, fixedText("0")},
	"user":    {"USER", -8, fixedText("root")},
	"comm":    {"COMMAND", -15, func(_, q *kernel.Proc) string { return q.Name() }},
	"cmd":     {"CMD", -27, func(_, q *kernel.Proc) string { return q.Cmdline() }},
	"args":    {"COMMAND", -27, func(_, q *kernel.Proc) string { return q.Cmdline() }},
	"s":       {"S", -1, func(_, q *kernel.Proc) string { return string(q.State()) }},
	"stat":    {"STAT", -4, func(_, q *kernel.Proc) string { return string(q.State()) }},
	"tty":     {"TTY", -8, psTerminal},
	"time":    {"TIME", 8, fixedText("00:00:00")},
	"bsdtime": {"TIME", 6, fixedText("0:00")},
	"etime":   {"ELAPSED", 11, func(p, q *kernel.Proc) string { return psElapsed(p.Now().Sub(q.Started())) }},
	"etimes":  {"ELAPSED", 7, func(p, q *kernel.Proc) string { return strconv.Itoa(int(p.Now().Sub(q.Started()).Seconds())) }},
	"%cpu":    {"%CPU", 4, fixedText("0.0")},
	"c":       {"C", 2, fixedText("0")},
	"%mem":    {"%MEM", 4, fixedText("0.0")},
	"rss":     {"RSS", 5, fixedText("0")},
	"vsz":     {"VSZ", 6, fixedText("0")},
	"ni":      {"NI", 3, fixedText("0")},
	"pri":     {"PRI", 3, fixedText("19")},
	"start":   {"START", 5, psStart},
	"stime":   {"STIME", 5, psStart},
	"lstart": {"STARTED", 24, func(p, q *kernel.Proc) string {
		return datetime.Format(p, q.Started().In(datetime.LocalZone(p)), "%a %b %e %H:%M:%S %Y")
	}},
}

var psAliases = map[string]string{
	"command": "args", "ucmd": "comm", "ucomm": "comm", "state": "s", "pcpu": "%cpu", "pmem": "%mem", "cpu": "%cpu", "mem": "%mem", "tt": "tty",
	"tname": "tty", "pgrp": "pgid", "sess": "sid", "session": "sid", "euid": "uid", "ruid": "uid", "euser": "user", "ruser": "user", "uname": "user",
	"nice": "ni", "start_time": "start", "bsdstart": "start", "cputime": "time", "rssize": "rss", "vsize": "vsz", "size": "vsz", "gid": "uid", "group": "user", "fname": "comm",
}

func fixedText(s string) func(p, q *kernel.Proc) string {
	return func(*kernel.Proc, *kernel.Proc) string { return s }
}

func psTerminal(_, q *kernel.Proc) string {
	if y := q.Terminal(); y != nil {
		return strings.TrimPrefix(y.Name(), "/dev/")
	}
	return "?"
}

func psStart(p, q *kernel.Proc) string {
	return datetime.Format(p, q.Started().In(datetime.LocalZone(p)), "%H:%M")
}

func psElapsed(d time.Duration) string {
	s := int(max(0, d.Seconds()))
	text := fmt.Sprintf("%02d:%02d", s/60%60, s%60)
	if s >= 3600 {
		text = fmt.Sprintf("%02d:%s", s/3600%24, text)
	}
	if s >= 86400 {
		text = fmt.Sprintf("%d-%s", s/86400, text)
	}
	return text
}

// psJob is the state of one run of ps.
type psJob struct {
	p       *kernel.Proc
	all     bool
	columns []psColumn
	picks   []func(q *kernel.Proc) bool
	bare    bool
	sort    string
}

func runPs(p *kernel.Proc) int {
	job := &psJob{p: p}
	args := p.Args[1:]
	for len(args) > 0 {
		used, ok := job.parseArgument(args)
		if !ok {
			_, _ = p.Stderr.WriteString("\nUsage:\n ps [options]\n\n Try 'ps --help' for more information.\n") // best effort
			return 1
		}
		args = args[used:]
	}
	if job.columns == nil {
		job.setColumns("pid", "tty", "time", "=CMD comm")
	}
	return job.print()
}

// setColumns sets the columns; "=TITLE name" gives one another title.
func (job *psJob) setColumns(names ...string) {
	job.columns = nil
	job.add(names...)
}

func (job *psJob) add(names ...string) {
	for _, n := range names {
		title, rest, ok := strings.Cut(strings.TrimPrefix(n, "="), " ")
		if !ok {
			title, rest = "", n
		}
		c := psColumns[rest]
		if ok {
			c.title = title
		}
		job.columns = append(job.columns, c)
	}
}

// parseArgument parses one argument and those it requires.
func (job *psJob) parseArgument(args []string) (used int, ok bool) {
	a := args[0]
	if name, isLong := strings.CutPrefix(a, "--"); isLong {
		return job.parseLong(name, args[1:])
	}
	unix := strings.HasPrefix(a, "-")
	letters := strings.TrimPrefix(a, "-")
	if !unix && strings.Trim(letters, "0123456789,") == "" {
		return 1, job.addSelection('p', letters)
	}
	for i := range len(letters) {
		c := letters[i]
		if strings.IndexByte("oOpCuUgGtT", c) < 0 || !unix && (c == 'u' || c == 'g' || c == 'T') || c == 'T' {
			if !job.applyFlag(c, unix) {
				return 0, false
			}
			continue
		}
		value, used := letters[i+1:], 1
		if value == "" {
			if len(args) < 2 {
				return 0, false
			}
			value, used = args[1], 2
		}
		return used, job.addSelection(c, value)
	}
	return 1, true
}

func (job *psJob) parseLong(name string, rest []string) (used int, ok bool) {
	name, value, has := strings.Cut(name, "=")
	used = 1
	need := func() bool {
		if !has && len(rest) > 0 {
			value, has, used = rest[0], true, 2
		}
		return has
	}
	switch name {
	case "no-headers", "no-heading", "noheader", "noheaders":
		job.bare = true
		return 1, true
	case "forest", "headers", "deselect", "cumulative":
		return 1, true
	case "sort":
		ok = need()
		job.sort = value
		return used, ok
	case "format":
		return used, need() && job.addSelection('o', value)
	case "pid":
		return used, need() && job.addSelection('p', value)
	case "ppid":
		return used, need() && job.addSelection('P', value)
	case "user", "User":
		return used, need() && job.addSelection('u', value)
	}
	return 0, false
}

func (job *psJob) applyFlag(c byte, unix bool) bool {
	switch {
	case strings.IndexByte("Aeaxdg", c) >= 0:
		job.all = true
	case c == 'f' && unix:
		job.setColumns("=UID user", "pid", "ppid", "c", "stime", "tty", "time", "cmd")
	case c == 'F':
		job.setColumns("=UID user", "pid", "ppid", "c", "=SZ vsz", "rss", "stime", "tty", "time", "cmd")
	case c == 'l':
		job.setColumns("s", "uid", "pid", "ppid", "c", "pri", "ni", "=SZ vsz", "tty", "time", "=CMD comm")
	case c == 'j':
		job.setColumns("pid", "pgid", "sid", "tty", "time", "=CMD comm")
	case c == 'u' && !unix:
		job.setColumns("user", "pid", "%cpu", "%mem", "vsz", "rss", "tty", "stat", "start", "bsdtime", "args")
	case c == 'h' && !unix:
		job.bare = true
	case strings.IndexByte("wfLmHTcynMNr", c) >= 0:
	default:
		return false
	}
	if !unix && job.columns == nil && (c == 'a' || c == 'x') {
		job.setColumns("pid", "tty", "stat", "bsdtime", "args")
	}
	return true
}

// addSelection applies an option with a list: of columns, or of processes to print.
func (job *psJob) addSelection(c byte, value string) bool {
	list := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	if c == 'o' || c == 'O' {
		return job.format(value)
	}
	var numbers []int
	for _, w := range list {
		n, err := strconv.Atoi(w)
		if err != nil && strings.IndexByte("pPgG", c) >= 0 {
			job.p.Errorf("error: process ID list syntax error")
			return false
		}
		numbers = append(numbers, n)
	}
	var keep func(q *kernel.Proc) bool
	switch c {
	case 'p':
		keep = func(q *kernel.Proc) bool { return slices.Contains(numbers, q.PID()) }
	case 'P':
		keep = func(q *kernel.Proc) bool { return slices.Contains(numbers, q.PPID()) }
	case 'g', 'G':
		keep = func(q *kernel.Proc) bool { return slices.Contains(numbers, q.Group()) }
	case 'C':
		keep = func(q *kernel.Proc) bool { return slices.Contains(list, q.Name()) }
	case 't':
		keep = func(*kernel.Proc) bool { return false }
	default:
		keep = func(*kernel.Proc) bool { return slices.Contains(list, "root") || slices.Contains(list, "0") }
	}
	job.picks = append(job.picks, keep)
	return true
}

// format parses the columns of -o. A title may follow: pid=NUMBER.
func (job *psJob) format(s string) bool {
	if len(job.columns) > 0 && job.columns[0].title == "USER" {
		job.columns = nil
	}
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, title, has := strings.Cut(w, "=")
		if a := psAliases[strings.ToLower(name)]; a != "" {
			name = a
		}
		c, ok := psColumns[strings.ToLower(name)]
		if !ok {
			job.p.Errorf("error: unknown user-defined format specifier %q", name)
			return false
		}
		if has {
			c.title = title
		}
		job.columns = append(job.columns, c)
	}
	return true
}

func (job *psJob) selectProcesses() []*kernel.Proc {
	var list []*kernel.Proc
	for _, q := range job.p.Kernel().Procs() {
		keep := len(job.picks) == 0 || job.all
		for _, f := range job.picks {
			keep = keep || f(q)
		}
		if keep {
			list = append(list, q)
		}
	}
	key, down := strings.CutPrefix(job.sort, "-")
	key = strings.TrimPrefix(key, "+")
	if a := psAliases[key]; a != "" {
		key = a
	}
	if c, ok := psColumns[key]; ok {
		slices.SortStableFunc(list, func(a, b *kernel.Proc) int {
			x, y := c.value(job.p, a), c.value(job.p, b)
			d := strings.Compare(x, y)
			if c.width > 0 {
				d = len(x) - len(y)
				if d == 0 {
					d = strings.Compare(x, y)
				}
			}
			if down {
				return -d
			}
			return d
		})
	}
	return list
}

func (job *psJob) print() int {
	list := job.selectProcesses()
	titled := false
	for _, c := range job.columns {
		titled = titled || c.title != ""
	}
	if !job.bare && titled {
		job.printRow(func(c psColumn) string { return c.title })
	}
	for _, q := range list {
		job.p.Tick(4)
		job.printRow(func(c psColumn) string { return c.value(job.p, q) })
	}
	if len(list) == 0 {
		return 1
	}
	return 0
}

func (job *psJob) printRow(cell func(psColumn) string) {
	var b strings.Builder
	for i, c := range job.columns {
		if i > 0 {
			b.WriteByte(' ')
		}
		text := cell(c)
		switch {
		case c.width < 0 && i == len(job.columns)-1:
			b.WriteString(text)
		case c.width < 0:
			b.WriteString(number.Pad(text, c.width))
		default:
			b.WriteString(number.Pad(text, c.width))
		}
	}
	_, _ = job.p.Out().WriteString(b.String() + "\n") // Flush reports the error
}
