package git

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// change is a file that differs between two states; a side without the file has mode 0.
type change struct {
	name     string
	old, new treeEntry
	from     string // the old name of a renamed file
	score    int    // its similarity
	unmerged bool
	paired   bool // two files with different names are compared, which is no rename
}

// letter returns A, M, D, R, T or U.
func (c change) letter() string {
	switch {
	case c.unmerged:
		return "U"
	case c.isRename():
		return "R"
	case c.old.mode == 0:
		return "A"
	case c.new.mode == 0:
		return "D"
	case c.old.mode&0o170000 != c.new.mode&0o170000:
		return "T"
	}
	return "M"
}

func (c change) isRename() bool { return c.from != "" && !c.paired }

// oldName returns the name of the old side.
func (c change) oldName() string { return orDefault(c.from, c.name) }

// compareTrees returns the changes between two states, by name.
func compareTrees(p *kernel.Proc, old, new map[string]treeEntry) []change {
	names := make(map[string]bool, len(old))
	for name := range old {
		names[name] = true
	}
	for name := range new {
		names[name] = true
	}
	p.Alloc(int64(len(names)) * 160)
	var list []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p.Tick(2)
		if old[name] != new[name] {
			list = append(list, change{name: name, old: old[name], new: new[name]})
		}
	}
	return list
}

// isBinary reports whether a text has a zero byte at its beginning.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

// quotePath quotes a name as git does if it has control characters, quotes or bytes outside ASCII.
func (r *repository) quotePath(name string) string {
	ascii := r.conf.get("core.quotepath") != "false"
	plain := true
	for n := range len(name) {
		if c := name[n]; c < ' ' || c == '"' || c == '\\' || c == 0x7f || c >= utf8.RuneSelf && ascii {
			plain = false
		}
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for n := range len(name) {
		c := name[n]
		if at := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); at >= 0 {
			b.WriteString(`\` + string("abtnvfr\"\\"[at]))
		} else if c < ' ' || c == 0x7f || c >= utf8.RuneSelf && ascii {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// patch prints changes in one of git's formats.
type patch struct {
	r         *repository
	stat      bool
	shortStat bool
	numStat   bool
	names     bool
	status    bool
	summary   bool
	raw       bool
	text      bool // hunks, besides the formats above
	ignore    byte // 'w': all white space, 'b': its amount, 'e': at the end of lines
	work      bool // the new side is the working tree
	noRenames bool
	similar   int    // the least mark of a rename; 0: leastSimilar
	letters   string // of --diff-filter
	zero      bool   // names end with a zero byte
	noPrefix  bool
	binary    bool // binary files are printed as patches
	full      bool // names of objects are not abbreviated in patches
	fullRaw   bool // nor in raw lines
	reverse   bool // the sides are exchanged
	words     wordFormat
	context   int
	width     int
	digits    int       // least width of numbers in the statistics
	prefix    string    // of each line
	to        io.Writer // instead of standard output
	shown     func(string) string
	added     int
	removed   int
	statRows  []statRow
	check     bool // added lines with wrong white space are printed
	badSpace  bool // there are such lines
	dirs      *dirStat
	read      func(name string, e treeEntry) ([]byte, error) // instead of readSide
}

// diffOptions are the options of commands that print changes.
const diffOptions = " --stat --stat= --shortstat --numstat --name-only --name-status --summary --raw -p -u --patch --patch-with-stat -U= --unified= -w --ignore-all-space -b --ignore-space-change --ignore-space-at-eol -z --no-prefix -M -M= --find-renames --find-renames= --no-renames --no-color --no-ext-diff --text -a --full-index --no-abbrev --abbrev= --abbrev --binary --relative --diff-filter= -R --word-diff --word-diff= --no-textconv --indent-heuristic "

// newPatch returns the printer that the options of a command select; fallback is used without one.
func (c *call) newPatch(fallback string) (*patch, error) {
	f := &patch{
		r: c.repository, stat: c.has("--stat", "--patch-with-stat"), shortStat: c.has("--shortstat"), numStat: c.has("--numstat"), names: c.has("--name-only"),
		status: c.has("--name-status"), summary: c.has("--summary"), raw: c.has("--raw"), text: c.has("-p", "-u", "--patch", "--patch-with-stat", "-U", "--unified"),
		zero: c.has("-z"), noPrefix: c.has("--no-prefix"), reverse: c.has("-R"), binary: c.has("--binary"), full: c.has("--full-index"), fullRaw: c.has("--no-abbrev"), noRenames: c.has("--no-renames", "-R") || c.conf.get("diff.renames") == "false", context: 3, width: 80,
	}
	switch {
	case c.has("-w", "--ignore-all-space"):
		f.ignore = 'w'
	case c.has("-b", "--ignore-space-change"):
		f.ignore = 'b'
	case c.has("--ignore-space-at-eol"):
		f.ignore = 'e'
	}
	if text := c.flags["-U"] + c.flags["--unified"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, newFatal("unified context: '%s' is not a number", text)
		}
		f.context = n
	}
	if n, err := strconv.Atoi(cutBefore(c.flags["--stat"], ",")); err == nil {
		f.width = n
	}
	f.check = c.has("--check")
	var err error
	if f.dirs, err = c.readDirStat(); err != nil {
		return nil, err
	}
	f.letters = c.flags["--diff-filter"]
	if text := c.flags["-M"] + c.flags["--find-renames"]; text != "" {
		score, err := parseSimilarity(text)
		if err != nil {
			return nil, err
		}
		f.similar = score
	}
	if !f.hasFormat() {
		switch fallback {
		case "patch":
			f.text = true
		case "stat":
			f.stat = true
		case "raw":
			f.raw = true
		}
	}
	if fallback == "raw" { // of a command for programs, which follows no settings
		f.fullRaw, f.noRenames = !c.has("--abbrev"), !c.has("-M", "--find-renames")
	}
	return f, c.readWordDiff(f)
}

// hasFormat reports whether the printer prints anything.
func (f *patch) hasFormat() bool {
	return f.stat || f.shortStat || f.numStat || f.names || f.status || f.summary || f.raw || f.text || f.check || f.dirs != nil
}

// filter applies --diff-filter, for which renames must be known.
func (f *patch) filter(list []change) ([]change, error) {
	letters := f.letters
	if letters == "" {
		return list, nil
	}
	list, err := f.joinRenames(list)
	return slices.DeleteFunc(list, func(ch change) bool {
		if strings.ToLower(letters) == letters {
			return strings.Contains(strings.ToUpper(letters), ch.letter())
		}
		return !strings.Contains(letters, ch.letter())
	}), err
}

// joinRenames joins removed and created files to renames, unless that is switched off.
func (f *patch) joinRenames(list []change) ([]change, error) {
	if f.noRenames {
		return list, nil
	}
	return f.r.findRenames(list, cmp.Or(f.similar, leastSimilar), func(c change) ([]byte, error) { return f.readSide(c.name, c.new, f.work) })
}

// readSide returns the text of a side of a change.
func (f *patch) readSide(name string, e treeEntry, work bool) ([]byte, error) {
	switch {
	case e.mode == 0:
		return nil, nil
	case f.read != nil:
		return f.read(name, e)
	case e.mode == modeRepo:
		return []byte("Subproject commit " + string(e.id) + "\n"), nil
	case work:
		b, _, err := f.r.readWorkFile(name)
		return b, err
	}
	_, b, err := f.r.readObject(e.id)
	return b, err
}

// printAll finds renames, unless they are switched off, and prints all changes.
func (f *patch) printAll(list []change) error {
	list, err := f.joinRenames(list)
	if err != nil {
		return err
	}
	if f.raw {
		for _, c := range list {
			f.printRaw(c)
		}
	}
	if f.names || f.status {
		for _, c := range list {
			f.printName(c)
		}
		return nil
	}
	if err := f.printNumbers(list); err != nil {
		return err
	}
	if f.dirs != nil {
		if err := f.printDirStat(list); err != nil {
			return err
		}
	}
	if f.summary {
		f.printModes(list)
	}
	if f.check {
		return f.checkAll(list)
	}
	if !f.text {
		return nil
	}
	if f.stat || f.shortStat || f.numStat || f.raw || f.summary || f.dirs != nil {
		f.printf("\n")
	}
	for _, c := range list {
		mark := f.r.p.Charged()
		if err := f.printChange(c); err != nil {
			return err
		}
		f.r.p.Free(f.r.p.Charged() - mark)
	}
	return nil
}

// printNumbers prints the statistics.
func (f *patch) printNumbers(list []change) error {
	if !f.stat && !f.shortStat && !f.numStat || len(list) == 0 {
		return nil
	}
	if err := f.countAll(list); err != nil {
		return err
	}
	if f.numStat {
		for _, row := range f.statRows {
			if row.binary {
				f.printf("-\t-\t%s%s", row.name, f.lineEnd())
			} else {
				f.printf("%d\t%d\t%s%s", row.added, row.removed, row.name, f.lineEnd())
			}
		}
	}
	if f.stat {
		f.printStat()
	}
	if f.stat || f.shortStat {
		f.printTotal()
	}
	return nil
}

// countAll fills the rows of the statistics.
func (f *patch) countAll(list []change) error {
	f.statRows, f.added, f.removed = nil, 0, 0
	for _, c := range list {
		mark := f.r.p.Charged()
		if err := f.countChange(c); err != nil {
			return err
		}
		f.r.p.Free(f.r.p.Charged() - mark)
		f.r.p.Alloc(int64(len(c.name)) + 100)
	}
	return nil
}

func (f *patch) lineEnd() string {
	if f.zero {
		return "\x00"
	}
	return "\n"
}

// printf prints to standard output, which reports errors when it is flushed.
func (f *patch) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if f.prefix != "" {
		body := strings.TrimSuffix(text, "\n")
		text = f.prefix + strings.ReplaceAll(body, "\n", "\n"+f.prefix) + text[len(body):]
	}
	_, _ = io.WriteString(f.out(), text)
}

func (f *patch) out() io.Writer {
	if f.to != nil {
		return f.to
	}
	return f.r.p.Out()
}

func (f *patch) show(name string) string {
	if f.shown != nil {
		name = f.shown(name)
	}
	if f.zero {
		return name
	}
	return f.r.quotePath(name)
}

// printRaw prints modes and objects of a change.
func (f *patch) printRaw(c change) {
	short := func(e treeEntry) string { return (e.id + zeroID)[:7].short() }
	zero, separator := zeroID.short(), "\t"
	if f.fullRaw {
		short = func(e treeEntry) string { return string((e.id + zeroID)[:len(zeroID)]) }
		zero = string(zeroID)
	}
	if f.zero {
		separator = "\x00"
	}
	letter := c.letter()
	new := short(c.new)
	if c.isRename() {
		letter = fmt.Sprintf("R%03d", c.score*100/mostSimilar)
	}
	if f.work {
		new = zero
	}
	name := f.show(c.name)
	if c.isRename() {
		name = f.show(c.from) + separator + name
	}
	f.printf(":%06o %06o %s %s %s%s%s%s", c.old.mode, c.new.mode, short(c.old), new, letter, separator, name, f.lineEnd())
}

func (f *patch) printName(c change) {
	tab := "\t"
	if f.zero {
		tab = "\x00"
	}
	switch {
	case f.names && f.read != nil && c.new.mode == 0:
		f.printf("/dev/null%s", f.lineEnd())
	case f.names:
		f.printf("%s%s", f.show(c.name), f.lineEnd())
	case c.isRename():
		f.printf("R%03d%s%s%s%s%s", c.score*100/mostSimilar, tab, f.show(c.from), tab, f.show(c.name), f.lineEnd())
	default:
		f.printf("%s%s%s%s", c.letter(), tab, f.show(c.oldName()), f.lineEnd())
	}
}

// readBoth returns the lines of both sides and the edits between them.
func (f *patch) readBoth(c change) (old, new []byte, a, b [][]byte, edits []edit, binary bool, err error) {
	if old, err = f.readSide(c.oldName(), c.old, f.work && f.reverse); err != nil {
		return old, new, a, b, edits, binary, err
	}
	if new, err = f.readSide(c.name, c.new, f.work && !f.reverse); err != nil {
		return old, new, a, b, edits, binary, err
	}
	if binary = f.isBinaryFile(c.name, old, new); binary {
		return old, new, a, b, edits, binary, err
	}
	a, b = splitLines(f.r.p, old), splitLines(f.r.p, new)
	edits = compareLines(f.r.p, a, b, f.cleaner())
	return old, new, a, b, edits, binary, err
}

// cleaner returns the function that makes lines equal which differ in ignored white space.
func (f *patch) cleaner() func([]byte) []byte {
	switch f.ignore {
	case 'w':
		return func(line []byte) []byte { return bytes.Join(bytes.Fields(line), nil) }
	case 'b':
		return func(line []byte) []byte {
			clean := bytes.Join(bytes.Fields(line), []byte(" "))
			if len(line) > 0 && len(clean) > 0 && (line[0] == ' ' || line[0] == '\t') {
				clean = append([]byte(" "), clean...)
			}
			return clean
		}
	case 'e':
		return func(line []byte) []byte { return bytes.TrimRight(line, " \t\r\n") }
	}
	return nil
}

func (f *patch) printChange(c change) error {
	if c.unmerged {
		f.printf("* Unmerged path %s\n", f.show(c.name))
		return nil
	}
	if c.old.mode != 0 && c.new.mode != 0 && c.old.mode&0o170000 != c.new.mode&0o170000 {
		gone, come := c, c
		gone.new, come.old = treeEntry{}, treeEntry{}
		if err := f.printChange(gone); err != nil {
			return err
		}
		return f.printChange(come)
	}
	old, new, a, b, edits, binary, err := f.readBoth(c)
	if err != nil {
		return err
	}
	if f.ignore != 0 && len(edits) == 0 && !binary && c.old.mode == c.new.mode && c.from == "" {
		return nil
	}
	f.printHead(c, binary && f.binary || f.full)
	from, to := f.sideName("a/", c.oldName(), c.old), f.sideName("b/", c.name, c.new)
	switch {
	case binary && !bytes.Equal(old, new) && f.binary:
		return f.printBinary(old, new)
	case binary && !bytes.Equal(old, new):
		f.printf("Binary files %s and %s differ\n", from, to)
	case len(edits) > 0:
		f.printf("--- %s\n+++ %s\n", from+spaceMark(from), to+spaceMark(to))
		f.printHunks(a, b, edits)
	}
	return nil
}

// spaceMark returns the tab that ends a name with spaces in the lines --- and +++.
func spaceMark(name string) string {
	if strings.Contains(name, " ") {
		return "\t"
	}
	return ""
}

func (f *patch) sideName(prefix, name string, e treeEntry) string {
	if e.mode == 0 {
		return "/dev/null"
	}
	return f.prefixed(prefix, name)
}

func (f *patch) prefixed(prefix, name string) string {
	switch {
	case f.noPrefix:
		prefix = ""
	case f.reverse && prefix != "":
		prefix = map[string]string{"a/": "b/", "b/": "a/"}[prefix]
	}
	if f.shown != nil {
		name = f.shown(name)
	}
	return f.r.quotePath(prefix + name)
}

// printHead prints the lines above the hunks of a file.
func (f *patch) printHead(c change, full bool) {
	f.printf("diff --git %s %s\n", f.prefixed("a/", c.oldName()), f.prefixed("b/", c.name))
	old, new := c.old.id, c.new.id
	mode := ""
	switch {
	case c.old.mode == 0:
		old = zeroID
		f.printf("new file mode %06o\n", c.new.mode)
	case c.new.mode == 0:
		new = zeroID
		f.printf("deleted file mode %06o\n", c.old.mode)
	case c.old.mode != c.new.mode:
		f.printf("old mode %06o\nnew mode %06o\n", c.old.mode, c.new.mode)
	default:
		mode = fmt.Sprintf(" %06o", c.new.mode)
	}
	if c.isRename() {
		f.printf("similarity index %d%%\nrename from %s\nrename to %s\n", c.score*100/mostSimilar, f.show(c.from), f.show(c.name))
	}
	switch {
	case old != new && full:
		f.printf("index %s..%s%s\n", old, new, mode)
	case old != new:
		f.printf("index %s..%s%s\n", old.short(), new.short(), mode)
	}
}

// printHunks prints edits with lines of context.
func (f *patch) printHunks(a, b [][]byte, edits []edit) {
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*f.context {
			n++
		}
		hunk := edits[:n]
		edits = edits[n:]
		a0, a1 := max(0, hunk[0].a0-f.context), min(len(a), hunk[n-1].a1+f.context)
		b0, b1 := max(0, hunk[0].b0-f.context), min(len(b), hunk[n-1].b1+f.context)
		f.printf("@@ -%s +%s @@%s\n", formatSpan(a0, a1), formatSpan(b0, b1), findHeading(f.r.p, a[:a0]))
		at := b0
		if f.words != noWords {
			f.printWordHunk(a, b, b0, b1, hunk)
			continue
		}
		for _, e := range hunk {
			f.printLines(' ', b[at:e.b0])
			f.printLines('-', a[e.a0:e.a1])
			f.printLines('+', b[e.b0:e.b1])
			at = e.b1
		}
		f.printLines(' ', b[at:b1])
	}
}

func formatSpan(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// findHeading returns the last line above a hunk that begins with a letter, _ or $.
func findHeading(p *kernel.Proc, above [][]byte) string {
	for _, line := range slices.Backward(above) {
		p.Tick(1)
		if c := line[0]; c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			return " " + string(bytes.TrimRight(line[:min(len(line), 80)], " \t\r\n"))
		}
	}
	return ""
}

func (f *patch) printLines(sign byte, lines [][]byte) {
	out := f.out()
	head := append([]byte(f.prefix), sign)
	for _, line := range lines {
		_, _ = out.Write(head) // Flush reports the error, as of all writes
		_, _ = out.Write(line)
		if line[len(line)-1] != '\n' {
			_, _ = io.WriteString(out, "\n"+f.prefix+"\\ No newline at end of file\n")
		}
	}
}
