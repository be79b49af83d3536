package command

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var treeOptions = parsing{options: []option{
	{short: 'a'},
	{short: 'd'},
	{short: 'l'},
	{short: 'f'},
	{short: 'x'},
	{short: 'L', arg: required},
	{short: 'R', id: 'x'},
	{short: 'P', arg: required},
	{short: 'I', arg: required},
	{long: "ignore-case", id: 1},
	{long: "matchdirs", id: 2},
	{long: "prune", id: 3},
	{long: "filelimit", arg: required, id: 4},
	{long: "noreport", id: 5},
	{short: 'o', arg: required},
	{short: 'q'},
	{short: 'N'},
	{short: 'Q'},
	{short: 'p'},
	{short: 'u'},
	{short: 'g'},
	{short: 's'},
	{short: 'h'},
	{long: "si", id: 6},
	{long: "du", id: 7},
	{short: 'D'},
	{long: "timefmt", arg: required, id: 8},
	{short: 'F'},
	{long: "inodes", id: 9},
	{short: 'v'},
	{short: 't'},
	{short: 'c'},
	{short: 'U'},
	{short: 'r'},
	{long: "sort", arg: required, id: 10},
	{long: "dirsfirst", id: 11},
	{long: "filesfirst", id: 12},
	{short: 'i'},
	{short: 'C'},
	{short: 'n'},
	{short: 'J'},
	{short: 'A', id: 'x'},
	{short: 'S', id: 'x'},
	{long: "charset", arg: required, id: 13},
}}

type treeJob struct {
	p      *kernel.Proc
	owners *owners
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

// treeNode is a file, and what lies in it once that was read.
type treeNode struct {
	name, path string
	info       vfs.Info
	target     string
	tmode      uint32
	kids       []*treeNode
	problem    string
	size       int64
}

func tree(p *kernel.Proc) int {
	opts, names, ok := treeOptions.parse(p)
	if !ok {
		return 1
	}
	j := treeJob{p: p, owners: newOwners(p), zone: zoneOf(p), base: 1024}
	output := ""
	for _, o := range opts {
		if o.key == 'o' {
			output = o.value
		} else if msg := j.option(o); msg != "" {
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
		j.root(name, i == len(names)-1)
	}
	j.report()
	if output != "" {
		if err := p.WriteFile(output, []byte(j.out.String()), 0o666); err != nil {
			p.Errorf("invalid filename '%s'", output)
			return 1
		}
		return 0
	}
	_, _ = p.Out().WriteString(j.out.String()) // shows at the flush
	return 2 * int(b2i(j.failed))
}

func (j *treeJob) option(o given) string {
	flags := map[rune]*bool{
		'a': &j.all, 'd': &j.dirsOnly, 'l': &j.follow, 'f': &j.full, 1: &j.fold, 2: &j.matchDirs, 3: &j.prune, 5: &j.noReport, 'q': &j.question, 'Q': &j.quote,
		'p': &j.mode, 'u': &j.user, 'g': &j.group, 's': &j.size, 'h': &j.human, 7: &j.du, 'D': &j.date, 'F': &j.mark, 9: &j.inode, 'r': &j.reverse,
		11: &j.dirsFirst, 12: &j.filesFirst, 'i': &j.flat, 'C': &j.color, 'J': &j.json,
	}
	if f := flags[o.key]; f != nil {
		*f = true
		j.size = j.size || o.key == 'h' || o.key == 7
		return ""
	}
	switch o.key {
	case 'L', 4:
		n, err := strconv.Atoi(o.value)
		if err != nil || n <= 0 {
			return "Invalid level, must be greater than 0."
		}
		if o.key == 'L' {
			j.depth = n
		} else {
			j.limit = n
		}
	case 'P':
		j.include = append(j.include, strings.Split(o.value, "|")...)
	case 'I':
		j.exclude = append(j.exclude, strings.Split(o.value, "|")...)
	case 6:
		j.size, j.human, j.base = true, true, 1000
	case 8:
		j.date, j.timeFormat = true, o.value
	case 'v', 't', 'c', 'U':
		j.sort = o.key
	case 10:
		sorts := map[string]rune{"name": 0, "version": 'v', "size": 's', "mtime": 't', "ctime": 'c', "none": 'U'}
		s, ok := sorts[o.value]
		if !ok {
			return "Sort type '" + o.value + "' not valid, should be one of: name,version,size,mtime,ctime,none"
		}
		j.sort = s
	case 13:
		j.ascii = !strings.EqualFold(o.value, "utf-8") && !strings.EqualFold(o.value, "utf8")
	}
	return ""
}

func (j *treeJob) root(name string, last bool) {
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
		j.out.WriteString(j.title(n) + "  [error opening dir]\n")
		return
	}
	j.read(n, 1, nil)
	if j.prune {
		j.cut(n)
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
	j.out.WriteString(j.title(n) + "\n")
	j.branches(n, "")
}

func treeComma(last bool) string {
	if last {
		return ""
	}
	return ","
}

// read fills in what lies in a directory.
func (j *treeJob) read(n *treeNode, level int, up *above) {
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
	here := &above{n.info.Ino(), up}
	for _, d := range list {
		j.p.Tick(4)
		k := &treeNode{name: d.Name(), path: joinName(n.path, d.Name())}
		if k.info, err = j.p.Lstat(k.path); err != nil || !j.look(k) {
			continue
		}
		j.p.Alloc(400 + int64(len(k.path)))
		dir := k.info.IsDir()
		if k.info.Mode()&fs.ModeSymlink != 0 && j.follow && k.tmode&typeMask == typeDir {
			if to, err := j.p.Stat(k.path); err == nil {
				if here.holds(to.Ino()) {
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
	j.order(n.kids)
}

// look decides whether a name is shown.
func (j *treeJob) look(k *treeNode) bool {
	dir := k.info.IsDir()
	if k.info.Mode()&fs.ModeSymlink != 0 {
		k.target, _ = j.p.Readlink(k.path) // it is a link
		if to, err := j.p.Stat(k.path); err == nil {
			k.tmode = unixMode(to.Mode())
			dir = to.IsDir()
		}
	}
	switch {
	case !j.all && strings.HasPrefix(k.name, "."), j.dirsOnly && !dir:
		return false
	case j.matches(j.exclude, k, dir):
		return false
	case len(j.include) > 0 && (!k.info.IsDir() || j.matchDirs) && !j.matches(j.include, k, dir):
		return k.info.IsDir() && !j.matchDirs
	}
	return true
}

func (j *treeJob) matches(patterns []string, k *treeNode, dir bool) bool {
	name := k.name
	for _, pat := range patterns {
		if j.fold {
			pat, name = strings.ToLower(pat), strings.ToLower(name)
		}
		if rest, ok := strings.CutSuffix(pat, "/"); ok && dir {
			pat = rest
		}
		if wildcard(j.p, pat, name) {
			return true
		}
	}
	return false
}

func (j *treeJob) order(list []*treeNode) {
	slices.SortStableFunc(list, func(a, b *treeNode) int {
		if x, y := a.info.IsDir(), b.info.IsDir(); x != y && (j.dirsFirst || j.filesFirst) {
			return int(b2i(x == j.filesFirst) - b2i(y == j.filesFirst))
		}
		c := 0
		switch j.sort {
		case 'v':
			c = compareVersions([]byte(a.name), []byte(b.name))
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

// cut drops directories with nothing in them.
func (j *treeJob) cut(n *treeNode) {
	n.kids = slices.DeleteFunc(n.kids, func(k *treeNode) bool {
		if !k.info.IsDir() {
			return false
		}
		j.cut(k)
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

// title returns a node as it is shown, with what was asked for before it.
func (j *treeJob) title(n *treeNode) string {
	name := n.name
	if j.full {
		name = n.path
	}
	switch {
	case j.quote:
		name = quoteC.of(name, "")
	case j.question:
		name = strings.Map(func(r rune) rune {
			if printable(string(r), r) {
				return r
			}
			return '?'
		}, name)
	}
	mode := unixMode(n.info.Mode())
	if j.color {
		if code := lsColor(nil, mode); code != "" {
			name = "\x1b[" + code + "m" + name + "\x1b[0m"
		}
	}
	s := j.details(n, mode) + name
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

func (j *treeJob) details(n *treeNode, mode uint32) string {
	var parts []string
	if j.inode {
		parts = append(parts, fmt.Sprintf("%7d", n.info.Ino()))
	}
	if j.mode {
		parts = append(parts, modeString(mode))
	}
	if j.user {
		parts = append(parts, fmt.Sprintf("%-8.32s", j.owners.userOr(n.info.Uid())))
	}
	if j.group {
		parts = append(parts, fmt.Sprintf("%-8.32s", j.owners.groupOr(n.info.Gid())))
	}
	if j.size {
		size := n.info.Size()
		if j.du {
			size = n.size
		}
		if j.human {
			parts = append(parts, fmt.Sprintf("%4s", humanSize(size, j.base)))
		} else {
			parts = append(parts, fmt.Sprintf("%11d", size))
		}
	}
	if j.date {
		parts = append(parts, j.when(n.info.ModTime()))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, " ") + "]  "
}

func (j *treeJob) when(t time.Time) string {
	if j.timeFormat != "" {
		return formatDate(j.p, t.In(j.zone), j.timeFormat)
	}
	l := lister{now: j.p.Now(), zone: j.zone}
	return l.date(t)
}

// branches draws what lies in a directory.
func (j *treeJob) branches(n *treeNode, indent string) {
	tee, last, bar := "├── ", "└── ", "│   "
	if j.ascii {
		tee, last, bar = "|-- ", "`-- ", "|   "
	}
	for i, k := range n.kids {
		j.p.Tick(4)
		j.count(k)
		end := i == len(n.kids)-1
		lead, deeper := tee, bar
		if end {
			lead, deeper = last, "    "
		}
		line := indent + lead
		if j.flat {
			line = ""
		}
		line += j.title(k)
		if k.problem != "" {
			line += "  [" + k.problem + "]"
		}
		j.p.Alloc(int64(2 * len(line)))
		j.out.WriteString(line + "\n")
		j.branches(k, indent+deeper)
	}
}

func (j *treeJob) count(k *treeNode) {
	if k.info.IsDir() || k.tmode&typeMask == typeDir {
		j.dirs++
	} else {
		j.files++
	}
}

func (j *treeJob) report() {
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

// jsonText quotes a string for JSON.
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
		line += fmt.Sprintf(`,"mode":"%04o","prot":"%s"`, unixMode(n.info.Mode())&modeBits, modeString(unixMode(n.info.Mode())))
	}
	if j.size {
		line += fmt.Sprintf(`,"size":%d`, n.info.Size())
	}
	if j.date {
		line += `,"time":` + jsonText(j.when(n.info.ModTime()))
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
			j.count(k)
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
