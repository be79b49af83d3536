package search

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Exit statuses of diff, cmp and patch.
const (
	diffSame = iota
	diffDiffer
	diffTrouble
)

// diffFile is one file to compare.
type diffFile struct {
	name   string
	info   vfs.Info
	mode   fs.FileMode
	absent bool // compared as an empty file
	time   time.Time
}

// statFile returns a file to compare with its mode and time.
func (d *diffRun) statFile(name string) (*diffFile, error) {
	f := &diffFile{name: name}
	if name == "-" {
		f.mode = d.p.Stdin.Mode()
		f.time = d.p.Now()
		if file := d.p.Stdin.File(); file != nil {
			if info, err := file.Stat(); err == nil {
				f.time = info.ModTime()
			}
		}
		return f, nil
	}
	stat := d.p.Stat
	if d.noFollow {
		stat = d.p.Lstat
	}
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	f.info, f.mode, f.time = info, info.Mode(), info.ModTime()
	return f, nil
}

func (d *diffRun) reportError(name string, err error) int {
	d.p.Errorf("%s: %s", name, program.Reason(err))
	return diffTrouble
}

// compareOperands compares the two operands and returns the exit status.
func (d *diffRun) compareOperands(a, b string) int {
	x, errA := d.statFile(a)
	y, errB := d.statFile(b)
	if errA == nil && errB == nil && x.mode.IsDir() != y.mode.IsDir() {
		switch {
		case a == "-" || b == "-":
			d.p.Errorf("cannot compare '-' to a directory")
			return diffTrouble
		case x.mode.IsDir():
			a = strings.TrimRight(a, "/") + "/" + path.Base(b)
			x, errA = d.statFile(a)
		default:
			b = strings.TrimRight(b, "/") + "/" + path.Base(a)
			y, errB = d.statFile(b)
		}
	}
	missing := func(err error) bool { return errors.Is(err, vfs.ENOENT) }
	if missing(errA) && errB == nil && (d.absentAsEmpty || d.absentFirstAsEmpty) {
		x, errA = &diffFile{name: a, absent: true, mode: y.mode, time: time.Unix(0, 0)}, nil
	}
	if missing(errB) && errA == nil && d.absentAsEmpty {
		y, errB = &diffFile{name: b, absent: true, mode: x.mode, time: time.Unix(0, 0)}, nil
	}
	status := diffSame
	if errA != nil {
		status = d.reportError(a, errA)
	}
	if errB != nil {
		status = d.reportError(b, errB)
	}
	if status != diffSame {
		return status
	}
	return d.compare(x, y, 0)
}

// compare compares two files or directories.
func (d *diffRun) compare(x, y *diffFile, depth int) int {
	switch {
	case x.mode.IsDir() && y.mode.IsDir():
		if depth > 0 && !d.recurse {
			d.printMessage("Common subdirectories: " + x.name + " and " + y.name)
			return diffSame
		}
		return d.compareTrees(x, y, depth)
	case x.mode.IsDir() || y.mode.IsDir() || x.mode.Type() != y.mode.Type() && depth > 0 && (x.mode.Type()|y.mode.Type())&fs.ModeSymlink != 0:
		d.printMessage("File " + x.name + " is a " + describeKind(x) + " while file " + y.name + " is a " + describeKind(y))
		return diffDiffer
	case x.mode&fs.ModeSymlink != 0:
		return d.compareLinks(x, y)
	}
	sides := d.form == formSide && !d.brief
	if !sides && !x.absent && !y.absent && x.name != "-" && y.name != "-" && x.info.Ino() == y.info.Ino() || !sides && x.name == "-" && y.name == "-" {
		return d.reportIdentical(x, y)
	}
	return d.compareContents(x, y, depth)
}

func describeKind(f *diffFile) string {
	switch {
	case f.mode.IsDir():
		return "directory"
	case f.mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case !f.mode.IsRegular():
		return "fifo"
	case !f.absent && f.info.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}

// compareLinks compares the targets of two symbolic links.
func (d *diffRun) compareLinks(x, y *diffFile) int {
	a, errA := d.p.Readlink(x.name)
	b, errB := d.p.Readlink(y.name)
	if err := errors.Join(errA, errB); err != nil {
		return d.reportError(x.name, err)
	}
	if a == b {
		return diffSame
	}
	d.printMessage("Symbolic links " + x.name + " and " + y.name + " differ")
	return diffDiffer
}

func (d *diffRun) printMessage(s string) { _, _ = d.p.Out().WriteString(s + "\n") } // Flush reports the error

func (d *diffRun) reportIdentical(x, y *diffFile) int {
	if d.reportSame {
		d.printMessage("Files " + d.labelOf(x, 0) + " and " + d.labelOf(y, 1) + " are identical")
	}
	return diffSame
}

func (d *diffRun) labelOf(f *diffFile, i int) string {
	if i < len(d.labels) {
		return d.labels[i]
	}
	return f.name
}

// compareTrees compares the entries of two directories.
func (d *diffRun) compareTrees(x, y *diffFile, depth int) int {
	if depth > maxTree {
		return d.reportError(x.name, vfs.ELOOP)
	}
	var lists [2][]string
	for i, f := range []*diffFile{x, y} {
		if f.absent {
			continue
		}
		names, err := d.listNames(f.name)
		if err != nil {
			return d.reportError(f.name, err)
		}
		lists[i] = names
	}
	all := slices.Concat(lists[0], lists[1])
	slices.Sort(all)
	status := diffSame
	for _, name := range slices.Compact(all) {
		d.p.Tick(1)
		_, inX := slices.BinarySearch(lists[0], name)
		_, inY := slices.BinarySearch(lists[1], name)
		status = max(status, d.compareEntry(x, y, name, inX, inY, depth))
	}
	return status
}

// listNames returns the entries of a directory to compare, sorted.
func (d *diffRun) listNames(dir string) ([]string, error) {
	entries, err := d.p.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if !slices.ContainsFunc(d.exclude, func(pat string) bool { return glob.Match(d.p, pat, e.Name()) }) {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	return list, nil
}

// compareEntry compares an entry of two directories; inX and inY report where it exists.
func (d *diffRun) compareEntry(x, y *diffFile, name string, inX, inY bool, depth int) int {
	pathOf := func(f *diffFile) string { return strings.TrimRight(f.name, "/") + "/" + name }
	if !inX && !d.absentAsEmpty && !d.absentFirstAsEmpty || !inY && !d.absentAsEmpty {
		dir := x.name
		if !inX {
			dir = y.name
		}
		d.printMessage("Only in " + dir + ": " + name)
		return diffDiffer
	}
	var files [2]*diffFile
	for i, f := range []*diffFile{x, y} {
		if !(inX && i == 0 || inY && i == 1) {
			continue
		}
		found, err := d.statFile(pathOf(f))
		if err != nil {
			return d.reportError(pathOf(f), err)
		}
		files[i] = found
	}
	if files[0] == nil {
		files[0] = &diffFile{name: pathOf(x), absent: true, mode: files[1].mode, time: time.Unix(0, 0)}
	}
	if files[1] == nil {
		files[1] = &diffFile{name: pathOf(y), absent: true, mode: files[0].mode, time: time.Unix(0, 0)}
	}
	return d.compare(files[0], files[1], depth+1)
}

// read returns the content of a file.
func (d *diffRun) read(f *diffFile) ([]byte, error) {
	if f.absent {
		return nil, nil
	}
	in, err := stream.Open(d.p, f.name)
	if err != nil {
		return nil, err
	}
	defer stream.Close(in)
	return d.p.ReadAll(in)
}

// compareContents compares two files that are not directories.
func (d *diffRun) compareContents(x, y *diffFile, depth int) int {
	var data [2][]byte
	for i, f := range []*diffFile{x, y} {
		var err error
		if data[i], err = d.read(f); err != nil {
			return d.reportError(f.name, err)
		}
		if d.fold.cr {
			data[i] = bytes.ReplaceAll(data[i], []byte("\r\n"), []byte("\n"))
		}
	}
	defer d.p.Free(int64(cap(data[0]) + cap(data[1])))
	loose := !d.fold.isExact() || d.blank || len(d.ignore) > 0
	same := bytes.Equal(data[0], data[1])
	switch {
	case same:
		if d.form == formSide && !d.brief {
			break
		}
		return d.reportIdentical(x, y)
	case !d.text && (isBinary(data[0]) || isBinary(data[1])):
		kind := "Binary files "
		if d.brief {
			kind = "Files "
		}
		d.printMessage(kind + d.labelOf(x, 0) + " and " + d.labelOf(y, 1) + " differ")
		return diffDiffer
	case d.brief && !loose:
		return d.reportDifferent(x, y)
	}
	return d.compareTexts(x, y, data, depth)
}

func (d *diffRun) reportDifferent(x, y *diffFile) int {
	d.printMessage("Files " + d.labelOf(x, 0) + " and " + d.labelOf(y, 1) + " differ")
	return diffDiffer
}

// isBinary reports whether data does not look like text.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 32<<10)], 0) >= 0
}

// compareTexts compares two files line by line.
func (d *diffRun) compareTexts(x, y *diffFile, data [2][]byte, depth int) int {
	pair := &diffPair{diffRun: d, a: newDiffText(d.p, data[0]), b: newDiffText(d.p, data[1])}
	defer d.p.Free(pair.a.cost + pair.b.cost)
	list := findChanges(d.p, pair.a, pair.b, d.fold, d.minimal, d.horizon)
	defer d.p.Free(48 * int64(len(list)))
	counts := pair.markIgnored(list)
	if d.form == formSide && !d.brief {
		if depth > 0 {
			d.printMessage(d.formatCommand(x, y))
		}
		pair.print(list)
	}
	if !counts {
		return d.reportIdentical(x, y)
	}
	if d.brief {
		return d.reportDifferent(x, y)
	}
	if d.form == formSide {
		return diffDiffer
	}
	if depth > 0 {
		d.printMessage(d.formatCommand(x, y))
	}
	for i, f := range []*diffFile{x, y} {
		pair.names[i] = d.labelOf(f, i)
		if i >= len(d.labels) {
			pair.names[i] = quoteHeaderName(f.name) + "\t" + f.time.In(datetime.LocalZone(d.p)).Format("2006-01-02 15:04:05.000000000 -0700")
		}
	}
	pair.print(list)
	return diffDiffer
}

// formatCommand returns the line that precedes the differences of two files in a tree.
func (d *diffRun) formatCommand(x, y *diffFile) string {
	words := []string{"diff"}
	words = append(words, d.options...)
	return strings.Join(append(words, shellWord(x.name), shellWord(y.name)), " ")
}

// quoteHeaderName returns the name of a file for a header, quoted if patch could not parse it.
func quoteHeaderName(name string) string {
	for _, c := range []byte(name) {
		if c <= ' ' && c != ' ' || c == '"' || c == '\\' || c == 0x7f {
			return quoting.C.Quote(name, "")
		}
	}
	if strings.Contains(name, " ") {
		return quoting.C.Quote(name, "")
	}
	return name
}
