package git

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkAll is git diff --check: it prints the added lines with wrong white space or markers of conflicts.
func (f *patch) checkAll(list []change) error {
	for _, ch := range list {
		if ch.unmerged || ch.new.mode == 0 {
			continue
		}
		mark := f.r.p.Charged()
		_, _, _, b, edits, binary, err := f.readBoth(ch)
		if err != nil {
			return err
		}
		if !binary {
			f.checkLines(f.show(ch.name), b, edits)
		}
		f.r.p.Free(f.r.p.Charged() - mark)
	}
	return nil
}

// checkLines checks the added lines of a file.
func (f *patch) checkLines(name string, lines [][]byte, edits []edit) {
	report := func(n int, text string) {
		f.badSpace = true
		f.printf("%s:%d: %s\n", name, n+1, text)
	}
	for _, e := range edits {
		for n := e.b0; n < e.b1; n++ {
			f.r.p.Tick(1)
			line := bytes.TrimSuffix(lines[n], []byte("\n"))
			if isConflictMarker(line) {
				report(n, "leftover conflict marker")
			}
			if text := describeSpaces(line); text != "" {
				report(n, text+".")
				f.printf("+%s\n", line)
			}
		}
	}
	if len(edits) == 0 {
		return
	}
	last := edits[len(edits)-1]
	blank := len(lines)
	for blank > 0 && len(bytes.TrimSpace(lines[blank-1])) == 0 {
		f.r.p.Tick(1)
		blank--
	}
	if last.b1 == len(lines) && max(blank, last.b0) < last.b1 && blank < len(lines) {
		report(max(blank, last.b0), "new blank line at EOF.")
	}
}

// isConflictMarker reports whether a line is a marker of a merge.
func isConflictMarker(line []byte) bool {
	if len(line) < 7 || !strings.ContainsRune("=><|", rune(line[0])) {
		return false
	}
	for _, c := range line[:7] {
		if c != line[0] {
			return false
		}
	}
	return len(line) == 7 || line[7] == ' ' || line[7] == '\t' || line[7] == '\r'
}

// describeSpaces returns the wrong white space of a line, or "".
func describeSpaces(line []byte) string {
	var list []string
	text := bytes.TrimRight(line, " \t\r")
	if len(text) < len(line) {
		list = append(list, "trailing whitespace")
	}
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	if bytes.Contains(indent, []byte(" \t")) {
		list = append(list, "space before tab in indent")
	}
	return strings.Join(list, ", ")
}

// dirStat is what --dirstat prints: the share of the changes in each directory.
type dirStat struct {
	permille   int // the least share that is printed
	mode       string
	cumulative bool
}

// readDirStat reads the value of --dirstat; without the option it returns nil.
func (c *call) readDirStat() (*dirStat, error) {
	if !c.has("--dirstat") {
		return nil, nil
	}
	d := &dirStat{permille: 30, mode: "changes"}
	for word := range strings.SplitSeq(c.flags["--dirstat"], ",") {
		switch word {
		case "":
		case "changes", "lines", "files":
			d.mode = word
		case "cumulative":
			d.cumulative = true
		case "noncumulative":
			d.cumulative = false
		default:
			n, err := strconv.ParseFloat(word, 64)
			if err != nil || n < 0 || n > 100 {
				return nil, newFatal("Failed to parse --dirstat/-X option parameter:\n  Unknown dirstat parameter '%s'", word)
			}
			d.permille = int(n*10 + 0.000001)
		}
	}
	return d, nil
}

// dirChange is how much of a file has changed.
type dirChange struct {
	name   string
	amount int
}

// printDirStat prints the directories with the largest changes.
func (f *patch) printDirStat(list []change) error {
	var files []dirChange
	total := 0
	for _, ch := range list {
		f.r.p.Tick(1)
		f.r.p.Alloc(int64(len(ch.name)) + 32)
		amount, err := f.measureChange(ch)
		if err != nil {
			return err
		}
		if amount > 0 {
			files, total = append(files, dirChange{f.show(ch.name), amount}), total+amount
		}
	}
	if total == 0 {
		return nil
	}
	slices.SortFunc(files, func(a, b dirChange) int { return strings.Compare(a.name, b.name) })
	f.sumDir(&files, "", total)
	return nil
}

// measureChange returns how many bytes, lines or files a change is.
func (f *patch) measureChange(ch change) (int, error) {
	if ch.unmerged {
		return 0, nil
	}
	if f.dirs.mode == "files" {
		return 1, nil
	}
	mark := f.r.p.Charged()
	defer func() { f.r.p.Free(f.r.p.Charged() - mark) }()
	old, new, a, b, edits, binary, err := f.readBoth(ch)
	if err != nil {
		return 0, err
	}
	amount := 0
	if f.dirs.mode == "lines" {
		if binary {
			return max(1, (len(old)+63)/64+(len(new)+63)/64), nil
		}
		for _, e := range edits {
			amount += e.a1 - e.a0 + e.b1 - e.b0
		}
		return amount, nil
	}
	if binary {
		return max(1, len(old)+len(new)), nil
	}
	counts := make(map[string]int) // lines that only one side has, as often
	for _, line := range a {
		f.r.p.Tick(1)
		f.r.p.Alloc(int64(len(line)) + 32)
		counts[string(line)]++
	}
	for _, line := range b {
		f.r.p.Tick(1)
		f.r.p.Alloc(int64(len(line)) + 32)
		counts[string(line)]--
	}
	for line, n := range counts {
		amount += max(n, -n) * len(line)
	}
	return max(1, amount), nil
}

// sumDir prints the share of a directory, and returns its sum without what was printed of it.
func (f *patch) sumDir(files *[]dirChange, base string, total int) int {
	sum, sources := 0, 0
	for len(*files) > 0 && strings.HasPrefix((*files)[0].name, base) {
		f.r.p.Tick(1)
		first := (*files)[0]
		if at := strings.IndexByte(first.name[len(base):], '/'); at >= 0 {
			sum += f.sumDir(files, first.name[:len(base)+at+1], total)
			sources++
			continue
		}
		sum += first.amount
		sources += 2
		*files = (*files)[1:]
	}
	if base == "" || sources == 1 || sum == 0 {
		return sum
	}
	if share := sum * 1000 / total; share >= f.dirs.permille {
		f.printf("%s\n", fmt.Sprintf("%4d.%d%% %s", share/10, share%10, base))
		if !f.dirs.cumulative {
			return 0
		}
	}
	return sum
}
