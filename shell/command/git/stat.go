package git

import (
	"fmt"
	"slices"
	"strings"
)

// statRow is the statistics of a file: its changed lines, or the sizes of a binary file.
type statRow struct {
	name           string
	added, removed int
	binary         bool
	unmerged       bool
}

// countChange adds a change to the statistics.
func (f *patch) countChange(c change) error {
	row := statRow{name: f.show(c.name), unmerged: c.unmerged}
	if c.from != "" {
		row.name = f.show(formatRename(c.from, c.name))
	}
	if f.read != nil && c.from == "" {
		switch {
		case c.old.mode == 0:
			row.name = "/dev/null => " + row.name
		case c.new.mode == 0:
			row.name += " => /dev/null"
		}
	}
	if c.unmerged {
		f.statRows = append(f.statRows, row)
		return nil
	}
	var err error
	var old, new []byte
	var edits []edit
	if c.old.id != c.new.id || c.old.mode == 0 || c.new.mode == 0 {
		old, new, _, _, edits, row.binary, err = f.readBoth(c)
	}
	if err != nil {
		return err
	}
	for _, e := range edits {
		row.added, row.removed = row.added+e.b1-e.b0, row.removed+e.a1-e.a0
	}
	if f.ignore != 0 && !row.binary && len(edits) == 0 && c.from == "" && c.old.mode == c.new.mode {
		return nil
	}
	f.added, f.removed = f.added+row.added, f.removed+row.removed
	if row.binary {
		row.added, row.removed = len(new), len(old)
	}
	f.statRows = append(f.statRows, row)
	return nil
}

// scaleBar returns the length of a part of a bar.
func scaleBar(n, width, most int) int {
	if n == 0 {
		return 0
	}
	return 1 + n*(width-1)/most
}

// printStat prints a line with a bar for each file.
func (f *patch) printStat() {
	names, most, digits, bars := 0, 0, f.digits, 0
	for _, row := range f.statRows {
		names = max(names, len(row.name))
		switch {
		case row.binary:
			bars = max(bars, 14+len(fmt.Sprint(row.added))+len(fmt.Sprint(row.removed)))
			digits = 3 // as wide as Bin
		case !row.unmerged:
			most = max(most, row.added+row.removed)
		}
	}
	digits = max(digits, len(fmt.Sprint(most)))
	width := max(f.width-len(f.prefix), 22+digits)
	bar := max(most, bars-4)
	if names+digits+6+bar > width {
		if bar > width*3/8-digits-6 {
			bar = max(width*3/8-digits-6, 6)
		}
		if names > width-digits-6-bar {
			names = width - digits - 6 - bar
		} else {
			bar = width - digits - 6 - names
		}
	}
	for _, row := range f.statRows {
		f.printStatRow(row, names, digits, bar, most)
	}
}

func (f *patch) printStatRow(row statRow, names, digits, bar, most int) {
	name := row.name
	if len(name) > names {
		name = name[len(name)-max(names-3, 0):]
		if at := strings.IndexByte(name, '/'); at >= 0 {
			name = name[at:]
		}
		name = "..." + name
	}
	add, del := row.added, row.removed
	switch {
	case row.unmerged:
		f.printf(" %-*s | Unmerged\n", names, name)
		return
	case row.binary && add+del == 0:
		f.printf(" %-*s | %*s\n", names, name, digits, "Bin")
		return
	case row.binary:
		f.printf(" %-*s | %*s %d -> %d bytes\n", names, name, digits, "Bin", del, add)
		return
	}
	if bar <= most {
		total := scaleBar(add+del, bar, most)
		if total < 2 && add > 0 && del > 0 {
			total = 2
		}
		if add < del {
			add = scaleBar(add, bar, most)
			del = total - add
		} else {
			del = scaleBar(del, bar, most)
			add = total - del
		}
	}
	text := strings.Repeat("+", add) + strings.Repeat("-", del)
	if text != "" {
		text = " " + text
	}
	f.printf(" %-*s | %*d%s\n", names, name, digits, row.added+row.removed, text)
}

// printTotal prints the last line of the statistics.
func (f *patch) printTotal() {
	if len(f.statRows) == 0 {
		return
	}
	plural := func(n int, one, sign string) string {
		if n != 1 {
			one += "s"
		}
		return fmt.Sprintf("%d %s%s", n, one, sign)
	}
	files := len(slices.DeleteFunc(slices.Clone(f.statRows), func(row statRow) bool { return row.unmerged }))
	text := " " + plural(files, "file", "") + " changed"
	if f.added > 0 || f.removed == 0 {
		text += ", " + plural(f.added, "insertion", "(+)")
	}
	if f.removed > 0 || f.added == 0 {
		text += ", " + plural(f.removed, "deletion", "(-)")
	}
	if files == 0 {
		text = " 0 files changed"
	}
	f.printf("%s\n", text)
}

// printModes prints the files that were created, removed or renamed, or that changed their mode.
func (f *patch) printModes(list []change) {
	for _, c := range list {
		switch {
		case c.from != "":
			f.printf(" rename %s (%d%%)\n", f.show(formatRename(c.from, c.name)), c.score*100/mostSimilar)
			if c.old.mode != c.new.mode {
				f.printf(" mode change %06o => %06o\n", c.old.mode, c.new.mode)
			}
		case c.old.mode == 0:
			f.printf(" create mode %06o %s\n", c.new.mode, f.show(c.name))
		case c.new.mode == 0:
			f.printf(" delete mode %06o %s\n", c.old.mode, f.show(c.name))
		case c.old.mode != c.new.mode:
			f.printf(" mode change %06o => %06o %s\n", c.old.mode, c.new.mode, f.show(c.name))
		}
	}
}
