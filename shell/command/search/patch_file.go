package search

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

func (r *patchRun) isAbsent(name string) bool {
	_, err := r.p.Stat(name)
	return errors.Is(err, vfs.ENOENT) || errors.Is(err, vfs.ENOTDIR)
}

// stripName removes leading components of a name. It returns "" if the name has too few.
func (r *patchRun) stripName(name string) string {
	strip := r.strip
	if rest, own := strings.CutPrefix(name, "\x00"); own {
		name = rest
		if strip > 0 {
			strip--
		}
	}
	if strip < 0 {
		return path.Base(name)
	}
	for range strip {
		i := strings.IndexByte(name, '/')
		if i < 0 {
			return ""
		}
		name = strings.TrimLeft(name[i:], "/")
	}
	return name
}

// candidateNames returns the names in the patch, without those that lead out of the directory.
func (r *patchRun) candidateNames(f *patchFile) []string {
	var list []string
	feared := ""
	for i, name := range f.names {
		if name == "" || i == 2 && len(list) > 0 {
			continue
		}
		if name = r.stripName(name); name == "" {
			continue
		}
		if path.IsAbs(name) || name == ".." || strings.HasPrefix(path.Clean(name), "../") {
			if name != feared {
				r.printMessage("Ignoring potentially dangerous file name " + name + "\n")
			}
			feared = name
			continue
		}
		list = append(list, name)
	}
	return list
}

// chooseFile returns the file to patch: among the existing candidates the one with the fewest
// components and the shortest name.
func (r *patchRun) chooseFile(f *patchFile) string {
	if r.target != "" {
		return r.target
	}
	list := r.candidateNames(f)
	best := ""
	for _, name := range list {
		if !r.isAbsent(name) && (best == "" || isBetterName(name, best)) {
			best = name
		}
	}
	if best == "" && (f.creates || f.deletes) {
		for _, name := range list {
			if best == "" || r.countMissingDirs(name) < r.countMissingDirs(best) {
				best = name
			}
		}
	}
	return best
}

// isBetterName reports whether a is preferred to b as the name of the file to patch.
func isBetterName(a, b string) bool {
	if x, y := strings.Count(a, "/"), strings.Count(b, "/"); x != y {
		return x < y
	}
	if x, y := len(path.Base(a)), len(path.Base(b)); x != y {
		return x < y
	}
	return len(a) < len(b)
}

// countMissingDirs returns how many directories must be created for a name.
func (r *patchRun) countMissingDirs(name string) int {
	n := 0
	for dir := path.Dir(name); dir != "." && dir != "/" && r.isAbsent(dir); dir = path.Dir(dir) {
		n++
	}
	return n
}

// locateFiles sets the files to read and to write and reports whether they were found.
func (w *patchWork) locateFiles() bool {
	f := w.f
	if (f.renamed || f.copied) && w.target == "" {
		if w.strip == 0 {
			w.printMessage("Cannot rename file without two valid file names\n")
			return false
		}
		w.in, w.out = w.stripName(f.names[0]), w.stripName(f.names[1])
		how := map[bool]string{true: "renamed", false: "copied"}[f.renamed]
		w.note = " (" + how + " from " + shellWord(w.in) + ")"
		if w.isAbsent(w.in) && !w.isAbsent(w.out) {
			w.note = " (already " + how + " from " + shellWord(w.in) + ")"
			w.in = w.out
		}
		return true
	}
	w.in = w.chooseFile(f)
	w.out = w.in
	if w.in == "" {
		w.reportNotFound()
		return false
	}
	if w.output != "" {
		w.out = w.output
		w.note = " (read from " + shellWord(w.in) + ")"
	}
	return true
}

// reportNotFound reports that the file to patch can't be found.
func (w *patchWork) reportNotFound() {
	hint := "you used the wrong -p or --strip option?"
	if w.strip < 0 {
		hint = "you should have used the -p or --strip option?"
	}
	text := fmt.Sprintf("can't find file to patch at input line %d\nPerhaps %s\n", w.f.leading[1]+1, hint)
	if len(w.f.text) > 0 {
		text += "The text leading up to this was:\n--------------------------\n"
		for _, line := range w.f.text {
			text += "|" + string(line) + "\n"
		}
		text += "--------------------------\n"
	}
	if w.force || w.batch {
		w.printMessage(text + "No file to patch.  Skipping patch.\n")
		return
	}
	w.printMessage(text + "File to patch: \nSkip this patch? [y] \nSkipping patch.\n")
}

// finishFile writes the patched file and the rejected hunks.
func (w *patchWork) finishFile() {
	if w.target != "" && !w.exists && len(w.rejects) > 0 && !w.f.creates {
		w.stopWithError("Can't reopen file " + w.in + " : No such file or directory")
		return
	}
	data := w.joinResult()
	applied := len(w.f.hunks) - len(w.rejects)
	gone := len(data) == 0 && (w.f.deletes || w.empty)
	if w.f.deletes && !gone && applied > 0 {
		w.printMessage("Not deleting file " + shellWord(w.out) + " as content differs from patch\n")
		w.status = max(w.status, 1)
	}
	if !w.dry && !w.skip {
		if err := w.save(data, gone); err != nil {
			w.stopWithError("Can't create file " + w.out + " : " + program.Reason(err))
			return
		}
	}
	if w.setTime && !w.dry && !gone && !w.skip {
		w.restoreTime()
	}
	if len(w.rejects) > 0 {
		w.saveRejects()
	}
}

// restoreTime sets the time of the file to that in the patch, if the old file has the time that the
// patch expects.
func (w *patchWork) restoreTime() {
	fresh, ok := parseHeadTime(w.f.heads[1])
	if !ok {
		return
	}
	old, known := parseHeadTime(w.f.heads[0])
	switch {
	case !w.force && w.exists && !w.f.creates && !(known && old.Equal(w.before)):
		w.printMessage("Not setting time of file " + shellWord(w.out) + " (time mismatch)\n")
	case !w.force && (w.mismatch || len(w.rejects) > 0):
		w.printMessage("Not setting time of file " + shellWord(w.out) + " (contents mismatch)\n")
	default:
		if err := w.p.Chtimes(w.out, fresh, fresh); err != nil {
			w.stopWithError("Can't set timestamp on file " + w.out + " : " + program.Reason(err))
		}
	}
}

// parseHeadTime parses the time in a header line of a patch.
func parseHeadTime(head string) (time.Time, bool) {
	_, date, dated := strings.Cut(head, "\t")
	t, err := time.Parse("2006-01-02 15:04:05 -0700", date)
	return t, dated && err == nil
}

// save writes the patched file, or removes it if gone is set, after a backup if one is needed.
func (w *patchWork) save(data []byte, gone bool) error {
	if w.output == "" && (w.backup || w.mismatch && w.patchStyle.mismatch) && !w.made[w.out] {
		if err := w.backUpOriginal(); err != nil {
			return err
		}
	}
	w.made[w.out] = true
	if w.output == "-" {
		_, err := w.p.Stdout.Write(data)
		return err
	}
	if gone {
		err := w.p.Unlink(w.out)
		for dir := path.Dir(w.out); err == nil && dir != "." && dir != "/"; dir = path.Dir(dir) {
			if w.p.Rmdir(dir) != nil {
				break
			}
		}
		return err
	}
	if dir := path.Dir(w.out); w.isAbsent(dir) {
		if err := w.p.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o666)
	info, err := w.p.Stat(w.in)
	known := err == nil
	private := w.output != "" && w.isAbsent(w.out)
	if err := w.p.WriteFile(w.out, data, mode); err != nil {
		return err
	}
	switch {
	case w.f.mode != 0 && !w.f.reversed:
		err = w.p.Chmod(w.out, fs.FileMode(w.f.mode)&0o777)
	case private:
		err = w.p.Chmod(w.out, 0o600)
	case known && w.in != w.out:
		err = w.p.Chmod(w.out, info.Mode().Perm())
	default:
		err = nil
	}
	if err == nil && w.f.renamed && w.in != w.out {
		err = w.p.Unlink(w.in)
	}
	return err
}

// backUpOriginal backs up the original file.
func (w *patchWork) backUpOriginal() error {
	name := w.backupName(w.out)
	if dir := path.Dir(name); w.isAbsent(dir) {
		if err := w.p.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	data, err := w.p.ReadFile(w.out)
	if err != nil {
		return w.p.WriteFile(name, nil, 0o666)
	}
	defer w.p.Free(int64(cap(data)))
	if err := w.p.WriteFile(name, data, 0o666); err != nil {
		return err
	}
	info, err := w.p.Stat(w.out)
	if err != nil {
		return err
	}
	return errors.Join(w.p.Chmod(name, info.Mode().Perm()), w.p.Chtimes(name, info.Atime(), info.ModTime()))
}

// backupName returns the name of a file's backup.
func (w *patchWork) backupName(name string) string {
	switch {
	case w.prefix != "" || w.base != "":
		dir, base := path.Split(name)
		return w.prefix + dir + w.base + base
	case w.numbered == "numbered" || w.numbered == "t" || (w.numbered == "existing" || w.numbered == "nil") && !w.isAbsent(name+".~1~"):
		for n := 1; ; n++ {
			if made := name + ".~" + strconv.Itoa(n) + "~"; w.isAbsent(made) {
				return made
			}
			w.p.Tick(1)
		}
	}
	return name + w.suffix
}

// saveRejects reports how many hunks failed and saves them.
func (w *patchWork) saveRejects() {
	w.status = max(w.status, 1)
	verb := "FAILED"
	if w.skip {
		verb = "ignored"
	}
	n := len(w.f.hunks)
	text := fmt.Sprintf("%d out of %d hunk%s %s", len(w.rejects), n, pluralSuffix(n), verb)
	if w.dry || w.patchStyle.rejects == "-" {
		w.printMessage(text + "\n")
		return
	}
	name := w.out + ".rej"
	if w.patchStyle.rejects != "" {
		name = w.patchStyle.rejects
	}
	_, _ = w.p.Out().WriteString(text + " -- saving rejects to file " + shellWord(name) + "\n") // Flush reports the error, even with -s
	flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if w.made[name] {
		flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	w.made[name] = true
	h, err := w.p.OpenFile(name, flag, 0o666)
	if err == nil {
		_, err = h.WriteString(w.formatRejects())
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		w.stopWithError("Can't create file " + name + " : " + program.Reason(err))
	}
}

// formatRejects returns the failed hunks as a patch.
func (w *patchWork) formatRejects() string {
	unified := w.f.kind == patchUnified
	if w.unified != 0 {
		unified = w.unified > 0
	}
	marks := [2]string{"*** ", "--- "}
	if unified {
		marks = [2]string{"--- ", "+++ "}
	}
	var b strings.Builder
	for i, mark := range marks {
		name := w.stripName(w.f.names[i])
		if w.f.names[i] == "" {
			name = w.out
		}
		b.WriteString(mark + name)
		if _, date, dated := strings.Cut(w.f.heads[i], "\t"); dated {
			b.WriteString("\t" + date)
		}
		b.WriteByte('\n')
	}
	for i, h := range w.rejects {
		if unified {
			h.writeUnified(&b, w.moved[i])
		} else {
			h.writeContext(&b, w.moved[i])
		}
	}
	w.p.Alloc(int64(b.Cap()))
	return b.String()
}

// formatRange returns the start and the length of one side of a hunk.
func formatRange(from, n, moved int) string {
	from += moved
	switch n {
	case 0:
		return strconv.Itoa(from-1) + ",0"
	case 1:
		return strconv.Itoa(from)
	}
	return strconv.Itoa(from) + "," + strconv.Itoa(n)
}

func (h *patchHunk) writeUnified(b *strings.Builder, moved int) {
	fmt.Fprintf(b, "@@ -%s +%s @@%s\n", formatRange(h.from, len(h.linesWithout('+')), moved), formatRange(h.to, len(h.linesWithout('-')), moved), h.function)
	for _, l := range h.lines {
		b.WriteByte(l.op)
		l.write(b)
	}
}

func (l patchLine) write(b *strings.Builder) {
	b.Write(l.text)
	b.WriteByte('\n')
	if l.cut {
		b.WriteString("\\ No newline at end of file\n")
	}
}

// writeContext writes a hunk in context format.
func (h *patchHunk) writeContext(b *strings.Builder, moved int) {
	both := h.markReplaced()
	b.WriteString("***************" + h.function + "\n")
	for _, side := range []struct {
		without byte
		from    int
		fence   string
		own     byte
	}{{'+', h.from + moved, "***", '-'}, {'-', h.to + moved, "---", '+'}} {
		list := h.linesWithout(side.without)
		lines := strconv.Itoa(side.from + len(list) - 1)
		if len(list) > 1 {
			lines = strconv.Itoa(side.from) + "," + lines
		}
		b.WriteString(side.fence + " " + lines + " " + side.fence + side.fence[:1] + "\n")
		for i, l := range h.lines {
			switch {
			case l.op == side.without:
				continue
			case l.op != ' ' && both[i]:
				b.WriteString("! ")
			default:
				b.WriteString(string(l.op) + " ")
			}
			l.write(b)
		}
	}
}

// markReplaced returns, for each line, whether it belongs to a change that both removes and adds lines.
func (h *patchHunk) markReplaced() []bool {
	both := make([]bool, len(h.lines))
	for i := 0; i < len(h.lines); {
		j, minus, plus := i, false, false
		for j < len(h.lines) && h.lines[j].op != ' ' {
			minus = minus || h.lines[j].op == '-'
			plus = plus || h.lines[j].op == '+'
			j++
		}
		for k := i; k < j; k++ {
			both[k] = minus && plus
		}
		i = max(j, i+1)
	}
	return both
}
