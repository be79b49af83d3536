package file

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const dfUsage = `Usage: df [OPTION]... [FILE]...
Show information about the file system on which each FILE resides,
or all file systems by default.  A sandbox has one, bounded by its quota.

  -a, --all             (ignored)
  -B, --block-size=SIZE  scale sizes by SIZE before printing them
  -h, --human-readable  print sizes in powers of 1024 (e.g., 1023M)
  -H, --si              print sizes in powers of 1000 (e.g., 1.1G)
  -i, --inodes          list inode information instead of block usage
  -k                    like --block-size=1K
  -l, --local           (ignored)
      --no-sync, --sync  (ignored)
      --output[=FIELD_LIST]  use the output format defined by FIELD_LIST:
                          source, fstype, itotal, iused, iavail, ipcent,
                          size, used, avail, pcent, file and target
  -P, --portability     use the POSIX output format
      --total           produce a grand total
  -t, --type=TYPE       limit listing to file systems of type TYPE
  -T, --print-type      print file system type
  -x, --exclude-type=TYPE   limit listing to file systems not of type TYPE
      --help            display this help and exit
`

var dfOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "all"},
	{Short: 'B', Long: "block-size", Arg: option.Required},
	{Short: 'i', Long: "inodes"},
	{Short: 'h', Long: "human-readable"},
	{Short: 'H', Long: "si"},
	{Short: 'k'},
	{Short: 'l', Long: "local", ID: 'a'},
	{Long: "output", Arg: option.Optional, ID: 'o'},
	{Short: 'P', Long: "portability"},
	{Short: 'T', Long: "print-type"},
	{Long: "sync", ID: 'a'},
	{Long: "no-sync", ID: 'a'},
	{Long: "total", ID: 'c'},
	{Short: 't', Long: "type", Arg: option.Required},
	{Short: 'x', Long: "exclude-type", Arg: option.Required},
	{Short: 'v', ID: 'a'},
	{Short: 'm'},
}}

const dfType = "vfs"

type dfJob struct {
	p       *kernel.Proc
	unit    int64
	human   int64
	suffix  string // after each size
	inodes  bool
	posix   bool
	fields  []string
	total   bool
	sum     vfs.Usage // of the file systems in summed
	summed  map[string]bool
	kinds   []string
	avoided []string
}

func runDf(p *kernel.Proc) int {
	opts, names, ok := dfOptions.Parse(p)
	if !ok {
		return 1
	}
	j := dfJob{p: p, unit: 1024}
	showType, output := false, ""
	for _, o := range opts {
		switch o.Key {
		case 'T':
			showType = true
		case 'o':
			output = "source,fstype,itotal,iused,iavail,ipcent,size,used,avail,pcent,file,target"
			if o.HasValue {
				output = o.Value
			}
		default:
			if !j.applyOption(o) {
				return 1
			}
		}
	}
	switch {
	case output != "":
		j.fields = strings.Split(output, ",")
	case j.inodes:
		j.fields = []string{"source", "itotal", "iused", "iavail", "ipcent", "target"}
	default:
		j.fields = []string{"source", "size", "used", "avail", "pcent", "target"}
	}
	if showType && output == "" {
		j.fields = append([]string{"source", "fstype"}, j.fields[1:]...)
	}
	for _, f := range j.fields {
		if _, ok := dfHeads[f]; !ok {
			p.Errorf("option --output: field %s unknown", quoting.QuoteWord(f))
			option.SuggestHelp(p)
			return 1
		}
	}
	return j.run(names)
}

func (j *dfJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'B':
		n, fault := number.ParseSize(o.Value, "eEgGkKmMpPtTyYzZ0")
		if fault != number.Valid || n == 0 {
			j.p.Errorf("invalid %s argument %s", blockName(o), quoting.QuoteWord(o.Value))
			return false
		}
		j.unit, j.human, j.suffix = n, 0, number.UnitSuffix(o.Value)
	case 'h':
		j.human = 1024
	case 'H':
		j.human = 1000
	case 'k':
		j.unit, j.human = 1024, 0
	case 'm':
		j.unit, j.human = 1<<20, 0
	case 'i':
		j.inodes = true
	case 'P':
		j.posix = true
	case 'c':
		j.total = true
	case 't':
		j.kinds = append(j.kinds, o.Value)
	case 'x':
		j.avoided = append(j.avoided, o.Value)
	}
	return true
}

var dfHeads = map[string]string{
	"source": "Filesystem", "fstype": "Type", "itotal": "Inodes", "iused": "IUsed", "iavail": "IFree", "ipcent": "IUse%",
	"size": "1K-blocks", "used": "Used", "avail": "Available", "pcent": "Use%", "file": "File", "target": "Mounted on",
}

func (j *dfJob) run(names []string) int {
	code := 0
	var rows [][]string
	type shownRow struct{ target, file string }
	shown := []shownRow{}
	for _, name := range names {
		if _, err := j.p.Stat(name); err != nil {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
			continue
		}
		_, target, err := j.p.FS().UsageAt(j.p.Path(name))
		if err != nil {
			target = "/" // a file system of the kernel
		}
		shown = append(shown, shownRow{target, name})
	}
	if len(names) == 0 {
		shown = []shownRow{{"/", "-"}}
		for _, m := range j.p.FS().Mounts() {
			shown = append(shown, shownRow{m.Target, "-"})
		}
	}
	if !j.isWanted() {
		shown = nil
	}
	for _, s := range shown {
		rows = append(rows, j.formatRow("atoll", s.target, s.file))
	}
	if len(rows) == 0 {
		if code == 0 {
			j.p.Errorf("no file systems processed")
		}
		return 1
	}
	if j.total {
		rows = append(rows, j.formatRow("total", "-", "-"))
	}
	j.printTable(append([][]string{j.headings()}, rows...))
	return code
}

func (j *dfJob) isWanted() bool {
	for _, k := range j.avoided {
		if k == dfType {
			return false
		}
	}
	for _, k := range j.kinds {
		if k == dfType {
			return true
		}
	}
	return len(j.kinds) == 0
}

func (j *dfJob) headings() []string {
	var row []string
	for _, f := range j.fields {
		head := dfHeads[f]
		switch {
		case f == "size" && (j.human != 0):
			head = "Size"
		case f == "avail" && j.human != 0:
			head = "Avail"
		case f == "size" && j.posix:
			head = strconv.FormatInt(j.unit, 10) + "-blocks"
		case f == "size" && j.unit != 1024:
			head = strconv.FormatInt(j.unit, 10) + "B-blocks"
			if j.unit > 1024 {
				head = strings.Replace(number.FormatHuman(j.unit, 1024), ".0", "", 1) + "-blocks"
			}
		case f == "pcent" && j.posix:
			head = "Capacity"
		}
		row = append(row, head)
	}
	return row
}

func (j *dfJob) formatRow(source, target, file string) []string {
	u := j.usageOf(target)
	size := func(n int64) string {
		if j.human != 0 {
			return number.FormatHuman(n, j.human)
		}
		return strconv.FormatInt(number.DivideUp(n, j.unit), 10) + j.suffix
	}
	count := func(n int64) string {
		if j.human != 0 {
			return number.FormatHuman(n, j.human)
		}
		return strconv.FormatInt(n, 10)
	}
	free, nodes := max(0, u.Quota.Bytes-u.Bytes), int64(max(0, u.Quota.Nodes-u.Nodes))
	values := map[string]string{
		"source": source, "fstype": dfType, "target": target, "file": file,
		"itotal": count(int64(u.Quota.Nodes)), "iused": count(int64(u.Nodes)), "iavail": count(nodes), "ipcent": formatPercent(int64(u.Nodes), int64(u.Nodes)+nodes),
		"size": size(u.Quota.Bytes), "used": size(u.Bytes), "avail": size(free), "pcent": formatPercent(u.Bytes, u.Bytes+free),
	}
	if source == "total" {
		values["fstype"] = "-"
	}
	row := make([]string, len(j.fields))
	for i, f := range j.fields {
		row[i] = values[f]
	}
	return row
}

// usageOf returns the usage of a file system; for "-" the sum of those printed.
func (j *dfJob) usageOf(target string) vfs.Usage {
	if target == "-" {
		return j.sum
	}
	u := j.p.FS().Usage()
	if target != "/" {
		u, _, _ = j.p.FS().UsageAt(target) // unknown after an error
	}
	if !j.summed[target] {
		if j.summed == nil {
			j.summed = map[string]bool{}
		}
		j.summed[target] = true
		j.sum.Bytes += u.Bytes
		j.sum.Nodes += u.Nodes
		j.sum.Quota.Bytes += u.Quota.Bytes
		j.sum.Quota.Nodes += u.Quota.Nodes
	}
	return u
}

func formatPercent(used, total int64) string {
	if total <= 0 {
		return "-"
	}
	return strconv.FormatInt(number.DivideUp(used*100, total), 10) + "%"
}

// printTable prints rows in columns: words aligned to the left, numbers to the right.
func (j *dfJob) printTable(rows [][]string) {
	least := map[string]int{"source": 14, "size": 5, "used": 5, "avail": 5, "itotal": 5, "iused": 5, "iavail": 5, "pcent": 4, "ipcent": 4, "fstype": 4}
	widths := make([]int, len(j.fields))
	for i, f := range j.fields {
		widths[i] = least[f]
		for _, row := range rows {
			widths[i] = max(widths[i], terminal.TextWidth(row[i]))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteByte(' ')
			}
			gap := strings.Repeat(" ", widths[i]-terminal.TextWidth(cell))
			switch f := j.fields[i]; {
			case f == "source" || f == "fstype" || f == "file" || f == "target":
				b.WriteString(cell)
				if i < len(row)-1 {
					b.WriteString(gap)
				}
			default:
				b.WriteString(gap + cell)
			}
		}
		_, _ = j.p.Out().WriteString(b.String() + "\n") // Flush reports the error
	}
}
