package file

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/internal/versionsort"
)

// sortEntries sorts entries in the chosen order, then by name.
func (l *lister) sortEntries(list []lsEntry) {
	l.p.Tick(len(list) * 8)
	byName := func(a, b *lsEntry) int { return strings.Compare(a.name, b.name) }
	compare := byName
	switch l.sort {
	case lsUnsorted:
		compare = nil
	case lsByTime:
		compare = func(a, b *lsEntry) int { return l.timeOf(b).Compare(l.timeOf(a)) }
	case lsBySize:
		compare = func(a, b *lsEntry) int { return cmp.Compare(b.info.Size(), a.info.Size()) }
	case lsByExtension:
		compare = func(a, b *lsEntry) int { return strings.Compare(extensionOf(a.name), extensionOf(b.name)) }
	case lsByVersion:
		compare = func(a, b *lsEntry) int { return versionsort.Compare([]byte(a.name), []byte(b.name)) }
	case lsByWidth:
		compare = func(a, b *lsEntry) int {
			return cmp.Compare(terminal.TextWidth(l.quoteName(a.name)), terminal.TextWidth(l.quoteName(b.name)))
		}
	}
	slices.SortStableFunc(list, func(a, b lsEntry) int {
		if l.dirsFirst {
			if x, y := a.leadsToDir(), b.leadsToDir(); x != y {
				return int(number.FromBool(y) - number.FromBool(x))
			}
		}
		c := 0
		if compare != nil {
			if c = compare(&a, &b); c == 0 {
				c = byName(&a, &b)
			}
		}
		if l.reverse {
			return -c
		}
		return c
	})
}

func extensionOf(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[i:]
	}
	return ""
}

func (e *lsEntry) leadsToDir() bool {
	return e.mode&filemode.TypeMask == filemode.TypeDir || e.tmode&filemode.TypeMask == filemode.TypeDir
}

func (l *lister) timeOf(e *lsEntry) time.Time {
	switch l.time {
	case lsCtime:
		return e.info.Ctime()
	case lsAtime:
		return e.info.Atime()
	case lsBirth:
		return e.info.BirthTime()
	}
	return e.info.ModTime()
}

func (l *lister) writeText(s string) { _, _ = l.p.Out().WriteString(s) } // Flush reports the error

// printEntries prints entries in the chosen format.
func (l *lister) printEntries(list []lsEntry) {
	frills := l.newFrills(list)
	switch l.format {
	case lsLong:
		l.printLong(list, frills)
	case lsOne:
		for i := range list {
			l.p.Tick(1)
			l.writeText(frills.formatFor(&list[i]))
			l.name(&list[i])
			_ = l.p.Out().WriteByte(l.eol) // Flush reports the error
		}
	case lsCommas:
		l.printCommas(list, frills)
	default:
		l.printColumns(list, frills)
	}
}

// frills are the columns before a name: the inode and the blocks.
type frills struct {
	l             *lister
	inode, blocks int // widths
	pad           bool
}

func (l *lister) newFrills(list []lsEntry) frills {
	f := frills{l: l, pad: l.format != lsCommas}
	for i := range list {
		if l.inode {
			f.inode = max(f.inode, len(strconv.FormatUint(list[i].info.Ino(), 10)))
		}
		if l.blocks {
			f.blocks = max(f.blocks, len(l.blockCount(list[i].info.Blocks())))
		}
	}
	return f
}

func (f frills) formatFor(e *lsEntry) string {
	s := ""
	put := func(text string, width int) {
		if f.pad {
			s += strings.Repeat(" ", max(0, width-len(text)))
		}
		s += text + " "
	}
	if f.l.inode {
		put(strconv.FormatUint(e.info.Ino(), 10), f.inode)
	}
	if f.l.blocks {
		put(f.l.blockCount(e.info.Blocks()), f.blocks)
	}
	return s
}

// quoteName returns a name as it is printed.
func (l *lister) quoteName(name string) string {
	s := l.quoting.Quote(name, "")
	if !l.question {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if quoting.IsPrintable(s[i:], r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('?')
		}
	}
	return b.String()
}

// name prints a name with its color and its mark.
func (l *lister) name(e *lsEntry) {
	code := ""
	if l.color {
		code = lsColor(e, e.mode)
	}
	l.writeColored(l.quoteName(e.name), code)
	l.writeText(l.markOf(e.mode))
}

func (l *lister) writeColored(s, code string) {
	if code == "" {
		l.writeText(s)
		return
	}
	if !l.colored {
		l.writeText("\x1b[0m")
		l.colored = true
	}
	l.writeText("\x1b[" + code + "m" + s + "\x1b[0m")
}

// lsColor returns the color of a name in the defaults of ls.
func lsColor(e *lsEntry, mode uint32) string {
	switch mode & filemode.TypeMask {
	case filemode.TypeDir:
		switch {
		case mode&filemode.Sticky != 0 && mode&0o002 != 0:
			return "30;42"
		case mode&0o002 != 0:
			return "34;42"
		case mode&filemode.Sticky != 0:
			return "37;44"
		}
		return "01;34"
	case filemode.TypeLink:
		return "01;36"
	case filemode.TypeFIFO:
		return "33"
	case filemode.TypeSocket:
		return "01;35"
	case filemode.TypeChar, filemode.TypeBlock:
		return "01;33"
	}
	switch {
	case mode&filemode.SetUID != 0:
		return "37;41"
	case mode&filemode.SetGID != 0:
		return "30;43"
	case mode&0o111 != 0:
		return "01;32"
	}
	return ""
}

// isColorTerminal reports whether the environment names a terminal with colors.
func isColorTerminal(p *kernel.Proc) bool {
	if p.Getenv("COLORTERM") != "" || p.Getenv("LS_COLORS") != "" {
		return true
	}
	term := p.Getenv("TERM")
	for _, name := range []string{"ansi", "color", "con", "cygwin", "direct", "dtterm", "eterm", "gnome", "hurd", "jfbterm", "konsole", "kterm", "linux", "mlterm", "putty", "rxvt", "screen", "st", "terminator", "tmux", "vt100", "vt220", "xterm", "alacritty"} {
		if strings.HasPrefix(term, name) || len(name) > 4 && strings.HasSuffix(term, name) {
			return true
		}
	}
	return false
}

// markOf returns the character that marks a type of file.
func (l *lister) markOf(mode uint32) string {
	if l.mark == lsNoMark {
		return ""
	}
	switch t := mode & filemode.TypeMask; {
	case t == filemode.TypeDir:
		return "/"
	case l.mark == lsSlash:
	case t == filemode.TypeLink:
		return "@"
	case t == filemode.TypeFIFO:
		return "|"
	case t == filemode.TypeSocket:
		return "="
	case t == filemode.TypeFile && mode&0o111 != 0 && l.mark == lsClassify:
		return "*"
	}
	return ""
}

func (l *lister) nameWidth(e *lsEntry, f frills) int {
	return len(f.formatFor(e)) + terminal.TextWidth(l.quoteName(e.name)) + len(l.markOf(e.mode))
}

func (l *lister) printCommas(list []lsEntry, f frills) {
	at := 0
	for i := range list {
		n := l.nameWidth(&list[i], f)
		if i > 0 {
			if l.width == 0 || at+n+2 < l.width {
				l.writeText(", ")
				at += 2
			} else {
				l.writeText(",\n")
				at = 0
			}
		}
		l.writeText(f.formatFor(&list[i]))
		l.name(&list[i])
		at += n
	}
	if len(list) > 0 {
		_ = l.p.Out().WriteByte(l.eol) // Flush reports the error
	}
}

// printColumns prints entries in columns, down or across.
func (l *lister) printColumns(list []lsEntry, f frills) {
	if len(list) == 0 {
		return
	}
	down := l.format == lsColumns
	widths := make([]int, len(list))
	for i := range list {
		widths[i] = l.nameWidth(&list[i], f)
	}
	if l.width == 0 {
		l.printOneLine(list, f)
		return
	}
	cols := columnsFor(widths, l.width, down, l.p.Tick)
	rows := (len(list) + len(cols) - 1) / len(cols)
	for r := range rows {
		at, target := 0, 0
		for c := range cols {
			i := r*len(cols) + c
			if down {
				i = c*rows + r
			}
			if i >= len(list) {
				break
			}
			l.indentTo(at, target)
			l.writeText(f.formatFor(&list[i]))
			l.name(&list[i])
			at = target + widths[i]
			target += cols[c]
		}
		_ = l.p.Out().WriteByte('\n') // Flush reports the error
	}
}

func (l *lister) printOneLine(list []lsEntry, f frills) {
	for i := range list {
		if i > 0 {
			l.writeText("  ")
		}
		l.writeText(f.formatFor(&list[i]))
		l.name(&list[i])
	}
	l.writeText("\n")
}

// indentTo moves from one column to another, with tabs if possible.
func (l *lister) indentTo(from, to int) {
	for from < to {
		if l.tab != 0 && to/l.tab > (from+1)/l.tab {
			l.writeText("\t")
			from += l.tab - from%l.tab
			continue
		}
		l.writeText(" ")
		from++
	}
}

// columnsFor returns the widths of as many columns as fit in a line.
func columnsFor(widths []int, line int, down bool, tick func(int)) []int {
	most := max(1, min(line/3+int(number.FromBool(line%3 != 0)), len(widths)))
	for n := most; n > 1; n-- {
		cols := make([]int, n)
		rows := (len(widths) + n - 1) / n
		total := 0
		tick(len(widths) >> 2)
		for i, w := range widths {
			c := i % n
			if down {
				c = i / rows
			}
			if c != n-1 {
				w += 2
			}
			if w = max(w, 3); w > cols[c] {
				total += w - cols[c]
				cols[c] = w
			}
			if total >= line {
				break
			}
		}
		for i := range cols {
			if cols[i] == 0 {
				cols[i] = 3
				total += 3
			}
		}
		if total < line {
			return cols
		}
	}
	return []int{0}
}
