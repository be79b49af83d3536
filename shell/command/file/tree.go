package file

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/versionsort"
	"github.com/atoll-sandbox/atoll/vfs"
)

const treeUsage = `Usage: tree [OPTION]... [DIRECTORY]...
List the contents of directories in a tree-like format.

  -a             all files are listed
  -d             list directories only
  -l             follow symbolic links like directories
  -f             print the full path prefix for each file
  -x             (there is only one file system)
  -L LEVEL       descend only LEVEL directories deep
  -R             (ignored)
  -P PATTERN     list only those files that match the pattern given
  -I PATTERN     do not list files that match the given pattern
      --ignore-case   ignore case when pattern matching
      --matchdirs     include directory names in -P pattern matching
      --prune         prune empty directories from the output
      --filelimit N   do not descend dirs with more than N files in them
      --noreport      turn off file/directory count at end of tree listing
  -o FILE        output to FILE instead of standard output
  -q, -N         print non-printable characters as '?', or as they are
  -Q             quote filenames with double quotes
  -p             print the protections for each file
  -u, -g         display file owner or UID number, group owner or GID number
  -s, -h         print the size in bytes, or in a human readable way
      --si, --du      as -h by powers of 1000; sizes of directories by content
  -D             print the date of last modification
      --timefmt FMT   print and format time according to FMT
  -F             append '/', '=', '*', '@' or '|' as per ls -F
      --inodes        print inode number of each file
  -v, -t, -c, -U, -r   sort by version, time, status change, not, in reverse
      --sort=X        sort by name, version, size, mtime or ctime
      --dirsfirst, --filesfirst   list directories before, after files
  -i             don't print indentation lines
  -C, -n         turn colorization on, off
  -J             print out a JSON representation of the tree
      --help          display this help and exit

Patterns may be joined by |.
`

var treeOptions = option.Parser{Options: []option.Option{
	{Short: 'a'},
	{Short: 'd'},
	{Short: 'l'},
	{Short: 'f'},
	{Short: 'x'},
	{Short: 'L', Arg: option.Required},
	{Short: 'R', ID: 'x'},
	{Short: 'P', Arg: option.Required},
	{Short: 'I', Arg: option.Required},
	{Long: "ignore-case", ID: 1},
	{Long: "matchdirs", ID: 2},
	{Long: "prune", ID: 3},
	{Long: "filelimit", Arg: option.Required, ID: 4},
	{Long: "noreport", ID: 5},
	{Short: 'o', Arg: option.Required},
	{Short: 'q'},
	{Short: 'N'},
	{Short: 'Q'},
	{Short: 'p'},
	{Short: 'u'},
	{Short: 'g'},
	{Short: 's'},
	{Short: 'h'},
	{Long: "si", ID: 6},
	{Long: "du", ID: 7},
	{Short: 'D'},
	{Long: "timefmt", Arg: option.Required, ID: 8},
	{Short: 'F'},
	{Long: "inodes", ID: 9},
	{Short: 'v'},
	{Short: 't'},
	{Short: 'c'},
	{Short: 'U'},
	{Short: 'r'},
	{Long: "sort", Arg: option.Required, ID: 10},
	{Long: "dirsfirst", ID: 11},
	{Long: "filesfirst", ID: 12},
	{Short: 'i'},
	{Short: 'C'},
	{Short: 'n'},
	{Short: 'J'},
	{Short: 'A', ID: 'x'},
	{Short: 'S', ID: 'x'},
	{Long: "charset", Arg: option.Required, ID: 13},
}}

type treeJob struct {
	p      *kernel.Proc
	owners *account.Database
	zone   *time.Location

	all, dirsOnly, follow, full          bool
	depth, limit                         int
	include, exclude                     []string
	fold, matchDirs, prune, noReport     bool
	question, quote, mode, user, group   bool
	size, human, du, date, mark, inode   bool
	base                                 int64
	timeFormat                           string
	sort                                 rune
	reverse, dirsFirst, filesFirst, flat bool
	color, json, ascii                   bool

	out         strings.Builder
	dirs, files int
	failed      bool
}

// treeNode is a file and, once read, its entries.
type treeNode struct {
	name, path string
	info       vfs.Info
	target     string
	tmode      uint32
	kids       []*treeNode
	problem    string
	size       int64
}

func runTree(p *kernel.Proc) int {
	opts, names, ok := treeOptions.Parse(p)
	if !ok {
		return 1
	}
	j := treeJob{p: p, owners: account.NewDatabase(p), zone: datetime.LocalZone(p), base: 1024}
	output := ""
	for _, o := range opts {
		if o.Key == 'o' {
			output = o.Value
		} else if msg := j.applyOption(o); msg != "" {
			p.Errorf("%s", msg)
			return 1
		}
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	if j.json {
		j.out.WriteString("[\n")
	}
	for i, name := range names {
		j.walkRoot(name, i == len(names)-1)
	}
	j.printReport()
	if output != "" {
		if err := p.WriteFile(output, []byte(j.out.String()), 0o666); err != nil {
			p.Errorf("invalid filename '%s'", output)
			return 1
		}
		return 0
	}
	_, _ = p.Out().WriteString(j.out.String()) // Flush reports the error
	return 2 * int(number.FromBool(j.failed))
}

func (j *treeJob) applyOption(o option.Setting) string {
	flags := map[rune]*bool{
		'a': &j.all, 'd': &j.dirsOnly, 'l': &j.follow, 'f': &j.full, 1: &j.fold, 2: &j.matchDirs, 3: &j.prune, 5: &j.noReport, 'q': &j.question, 'Q': &j.quote,
		'p': &j.mode, 'u': &j.user, 'g': &j.group, 's': &j.size, 'h': &j.human, 7: &j.du, 'D': &j.date, 'F': &j.mark, 9: &j.inode, 'r': &j.reverse,
		11: &j.dirsFirst, 12: &j.filesFirst, 'i': &j.flat, 'C': &j.color, 'J': &j.json,
	}
	if f := flags[o.Key]; f != nil {
		*f = true
		j.size = j.size || o.Key == 'h' || o.Key == 7
		return ""
	}
	switch o.Key {
	case 'L', 4:
		n, err := strconv.Atoi(o.Value)
		if err != nil || n <= 0 {
			return "Invalid level, must be greater than 0."
		}
		if o.Key == 'L' {
			j.depth = n
		} else {
			j.limit = n
		}
	case 'P':
		j.include = append(j.include, strings.Split(o.Value, "|")...)
	case 'I':
		j.exclude = append(j.exclude, strings.Split(o.Value, "|")...)
	case 6:
		j.size, j.human, j.base = true, true, 1000
	case 8:
		j.date, j.timeFormat = true, o.Value
	case 'v', 't', 'c', 'U':
		j.sort = o.Key
	case 10:
		sorts := map[string]rune{"name": 0, "version": 'v', "size": 's', "mtime": 't', "ctime": 'c', "none": 'U'}
		s, ok := sorts[o.Value]
		if !ok {
			return "Sort type '" + o.Value + "' not valid, should be one of: name,version,size,mtime,ctime,none"
		}
		j.sort = s
	case 13:
		j.ascii = !strings.EqualFold(o.Value, "utf-8") && !strings.EqualFold(o.Value, "utf8")
	}
	return ""
}

func (j *treeJob) walkRoot(name string, last bool) {
	info, err := j.p.Stat(name)
	n := &treeNode{name: name, path: name, info: info}
	switch {
	case err != nil, !info.IsDir():
		n.problem = "error opening dir"
		j.failed = true
		if j.json {
			j.out.WriteString("  {\"type\":\"directory\",\"name\":" + jsonText(name) + ",\"contents\":[{\"error\": \"opening dir\"}]}" + treeComma(last) + "\n")
			return
		}
		j.out.WriteString(j.formatTitle(n) + "  [error opening dir]\n")
		return
	}
	j.read(n, 1, nil)
	if j.prune {
		j.pruneEmpty(n)
	}
	if j.du {
		j.sum(n)
	}
	j.p.Alloc(int64(len(name)) + 64)
	if len(n.kids) > 0 {
		j.dirs++
	}
	if j.json {
		j.jsonNode(n, 1, last)
		return
	}
	j.out.WriteString(j.formatTitle(n) + "\n")
	j.drawBranches(n, "")
}

func treeComma(last bool) string {
	if last {
		return ""
	}
	return ","
}

// read reads the entries of a directory.
func (j *treeJob) read(n *treeNode, level int, up *ancestors) {
	if j.depth > 0 && level > j.depth {
		return
	}
	list, err := j.p.ReadDir(n.path)
	if err != nil {
		n.problem = "error opening dir"
		return
	}
	if j.limit > 0 && len(list) > j.limit {
		n.problem = strconv.Itoa(len(list)) + " entries exceeds filelimit, not opening dir"
		return
	}
	here := &ancestors{n.info.Ino(), up}
	for _, d := range list {
		j.p.Tick(4)
		k := &treeNode{name: d.Name(), path: joinName(n.path, d.Name())}
		if k.info, err = j.p.Lstat(k.path); err != nil || !j.isShown(k) {
			continue
		}
		j.p.Alloc(400 + int64(len(k.path)))
		dir := k.info.IsDir()
		if k.info.Mode()&fs.ModeSymlink != 0 && j.follow && k.tmode&filemode.TypeMask == filemode.TypeDir {
			if to, err := j.p.Stat(k.path); err == nil {
				if here.contains(to.Ino()) {
					k.problem = "recursive, not followed"
				} else {
					k.info, dir = to, true
				}
			}
		}
		if dir && k.problem == "" {
			j.read(k, level+1, here)
		}
		n.kids = append(n.kids, k)
	}
	j.sortNodes(n.kids)
}

// isShown reports whether an entry is printed.
func (j *treeJob) isShown(k *treeNode) bool {
	dir := k.info.IsDir()
	if k.info.Mode()&fs.ModeSymlink != 0 {
		k.target, _ = j.p.Readlink(k.path) // it is a link
		if to, err := j.p.Stat(k.path); err == nil {
			k.tmode = filemode.ToUnix(to.Mode())
			dir = to.IsDir()
		}
	}
	switch {
	case !j.all && strings.HasPrefix(k.name, "."), j.dirsOnly && !dir:
		return false
	case j.matchesAny(j.exclude, k, dir):
		return false
	case len(j.include) > 0 && (!k.info.IsDir() || j.matchDirs) && !j.matchesAny(j.include, k, dir):
		return k.info.IsDir() && !j.matchDirs
	}
	return true
}

func (j *treeJob) matchesAny(patterns []string, k *treeNode, dir bool) bool {
	name := k.name
	for _, pat := range patterns {
		if j.fold {
			pat, name = strings.ToLower(pat), strings.ToLower(name)
		}
		if rest, ok := strings.CutSuffix(pat, "/"); ok && dir {
			pat = rest
		}
		if glob.Match(j.p, pat, name) {
			return true
		}
	}
	return false
}

func (j *treeJob) sortNodes(list []*treeNode) {
	slices.SortStableFunc(list, func(a, b *treeNode) int {
		if x, y := a.info.IsDir(), b.info.IsDir(); x != y && (j.dirsFirst || j.filesFirst) {
			return int(number.FromBool(x == j.filesFirst) - number.FromBool(y == j.filesFirst))
		}
		c := 0
		switch j.sort {
		case 'v':
			c = versionsort.Compare([]byte(a.name), []byte(b.name))
		case 't':
			c = a.info.ModTime().Compare(b.info.ModTime())
		case 'c':
			c = a.info.Ctime().Compare(b.info.Ctime())
		case 's':
			c = cmp.Compare(b.info.Size(), a.info.Size())
		}
		if c == 0 {
			c = strings.Compare(a.name, b.name)
		}
		if j.reverse && j.sort != 'U' {
			return -c
		}
		return c
	})
}

// pruneEmpty removes empty directories.
func (j *treeJob) pruneEmpty(n *treeNode) {
	n.kids = slices.DeleteFunc(n.kids, func(k *treeNode) bool {
		if !k.info.IsDir() {
			return false
		}
		j.pruneEmpty(k)
		return len(k.kids) == 0
	})
}

func (j *treeJob) sum(n *treeNode) int64 {
	n.size = n.info.Size()
	for _, k := range n.kids {
		n.size += j.sum(k)
	}
	return n.size
}

// formatTitle returns the name of a node as printed, with its details before it.
func (j *treeJob) formatTitle(n *treeNode) string {
	name := n.name
	if j.full {
		name = n.path
	}
	switch {
	case j.quote:
		name = quoting.C.Quote(name, "")
	case j.question:
		name = strings.Map(func(r rune) rune {
			if quoting.IsPrintable(string(r), r) {
				return r
			}
			return '?'
		}, name)
	}
	mode := filemode.ToUnix(n.info.Mode())
	if j.color {
		if code := lsColor(nil, mode); code != "" {
			name = "\x1b[" + code + "m" + name + "\x1b[0m"
		}
	}
	s := j.formatDetails(n, mode) + name
	marks := lister{mark: lsClassify}
	if n.target != "" {
		s += " -> " + n.target
		mode = n.tmode
	}
	if j.mark {
		s += marks.markOf(mode)
	}
	return s
}

func (j *treeJob) formatDetails(n *treeNode, mode uint32) string {
	var parts []string
	if j.inode {
		parts = append(parts, fmt.Sprintf("%7d", n.info.Ino()))
	}
	if j.mode {
		parts = append(parts, filemode.Format(mode))
	}
	if j.user {
		parts = append(parts, fmt.Sprintf("%-8.32s", j.owners.UserNameOrID(n.info.Uid())))
	}
	if j.group {
		parts = append(parts, fmt.Sprintf("%-8.32s", j.owners.GroupNameOrID(n.info.Gid())))
	}
	if j.size {
		size := n.info.Size()
		if j.du {
			size = n.size
		}
		if j.human {
			parts = append(parts, fmt.Sprintf("%4s", number.FormatHuman(size, j.base)))
		} else {
			parts = append(parts, fmt.Sprintf("%11d", size))
		}
	}
	if j.date {
		parts = append(parts, j.formatTime(n.info.ModTime()))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, " ") + "]  "
}

func (j *treeJob) formatTime(t time.Time) string {
	if j.timeFormat != "" {
		return datetime.Format(j.p, t.In(j.zone), j.timeFormat)
	}
	l := lister{now: j.p.Now(), zone: j.zone}
	return l.formatDate(t)
}

// drawBranches prints the entries of a directory.
func (j *treeJob) drawBranches(n *treeNode, indent string) {
	tee, last, bar := "├── ", "└── ", "│   "
	if j.ascii {
		tee, last, bar = "|-- ", "`-- ", "|   "
	}
	for i, k := range n.kids {
		j.p.Tick(4)
		j.countNode(k)
		end := i == len(n.kids)-1
		lead, deeper := tee, bar
		if end {
			lead, deeper = last, "    "
		}
		line := indent + lead
		if j.flat {
			line = ""
		}
		line += j.formatTitle(k)
		if k.problem != "" {
			line += "  [" + k.problem + "]"
		}
		j.p.Alloc(int64(2 * len(line)))
		j.out.WriteString(line + "\n")
		j.drawBranches(k, indent+deeper)
	}
}

func (j *treeJob) countNode(k *treeNode) {
	if k.info.IsDir() || k.tmode&filemode.TypeMask == filemode.TypeDir {
		j.dirs++
	} else {
		j.files++
	}
}

func (j *treeJob) printReport() {
	if j.json {
		if j.noReport {
			j.out.WriteString("]\n")
			return
		}
		fmt.Fprintf(&j.out, ",\n  {\"type\":\"report\",\"directories\":%d", j.dirs)
		if !j.dirsOnly {
			fmt.Fprintf(&j.out, ",\"files\":%d", j.files)
		}
		j.out.WriteString("}\n]\n")
		return
	}
	if j.noReport {
		return
	}
	plural := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.Itoa(n) + " " + many
	}
	line := plural(j.dirs, "directory", "directories")
	if !j.dirsOnly {
		line += ", " + plural(j.files, "file", "files")
	}
	j.out.WriteString("\n" + line + "\n")
}

// jsonText returns s as a JSON string.
func jsonText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (j *treeJob) jsonNode(n *treeNode, level int, last bool) {
	j.p.Tick(4)
	pad := strings.Repeat("  ", level)
	kind := describeFile(n.info.Mode(), 1)
	switch {
	case n.info.Mode().IsRegular():
		kind = "file"
	case n.info.Mode()&fs.ModeSymlink != 0:
		kind = "link"
	}
	name := n.name
	if j.full {
		name = n.path
	}
	line := pad + `{"type":"` + kind + `","name":` + jsonText(name)
	if n.target != "" {
		line += `,"target":` + jsonText(n.target)
	}
	if j.mode {
		line += fmt.Sprintf(`,"mode":"%04o","prot":"%s"`, filemode.ToUnix(n.info.Mode())&filemode.AllBits, filemode.Format(filemode.ToUnix(n.info.Mode())))
	}
	if j.size {
		line += fmt.Sprintf(`,"size":%d`, n.info.Size())
	}
	if j.date {
		line += `,"time":` + jsonText(j.formatTime(n.info.ModTime()))
	}
	j.p.Alloc(int64(2 * len(line)))
	j.out.WriteString(line)
	if n.info.IsDir() {
		j.out.WriteString(`,"contents":[`)
		if n.problem != "" {
			j.out.WriteString(`{"error": ` + jsonText(n.problem) + "}")
		}
		for i, k := range n.kids {
			if i == 0 {
				j.out.WriteByte('\n')
			}
			j.countNode(k)
			j.jsonNode(k, level+1, i == len(n.kids)-1)
			j.out.WriteByte('\n')
		}
		if len(n.kids) > 0 {
			j.out.WriteString(pad)
		}
		j.out.WriteByte(']')
	}
	j.out.WriteString("}" + treeComma(last))
	if level == 1 && !last {
		j.out.WriteByte('\n')
	}
}
