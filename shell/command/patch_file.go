package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

func (r *patchRun) absent(name string) bool {
	_, err := r.p.Stat(name)
	return errors.Is(err, vfs.ENOENT) || errors.Is(err, vfs.ENOTDIR)
}

// stripped drops leading components of a name; "" means that none is left.
func (r *patchRun) stripped(name string) string {
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

// candidates returns the names that the patch gives, those that lead out of
// the directory left out.
func (r *patchRun) candidates(f *patchFile) []string {
	var list []string
	feared := ""
	for i, name := range f.names {
		if name == "" || i == 2 && len(list) > 0 {
			continue
		}
		if name = r.stripped(name); name == "" {
			continue
		}
		if path.IsAbs(name) || name == ".." || strings.HasPrefix(path.Clean(name), "../") {
			if name != feared {
				r.say("Ignoring potentially dangerous file name " + name + "\n")
			}
			feared = name
			continue
		}
		list = append(list, name)
	}
	return list
}

// choose returns the file that a patch is for: of those that exist the one
// with the fewest components and the shortest name.
func (r *patchRun) choose(f *patchFile) string {
	if r.target != "" {
		return r.target
	}
	list := r.candidates(f)
	best := ""
	for _, name := range list {
		if !r.absent(name) && (best == "" || shorter(name, best)) {
			best = name
		}
	}
	if best == "" && (f.creates || f.deletes) {
		for _, name := range list {
			if best == "" || r.missing(name) < r.missing(best) {
				best = name
			}
		}
	}
	return best
}

func shorter(a, b string) bool {
	if x, y := strings.Count(a, "/"), strings.Count(b, "/"); x != y {
		return x < y
	}
	if x, y := len(path.Base(a)), len(path.Base(b)); x != y {
		return x < y
	}
	return len(a) < len(b)
}

// missing counts the directories that would have to be made for a name.
func (r *patchRun) missing(name string) int {
	n := 0
	for dir := path.Dir(name); dir != "." && dir != "/" && r.absent(dir); dir = path.Dir(dir) {
		n++
	}
	return n
}

// locate finds the files to read and to write.
func (w *patchWork) locate() bool {
	f := w.f
	if (f.renamed || f.copied) && w.target == "" {
		if w.strip == 0 {
			w.say("Cannot rename file without two valid file names\n")
			return false
		}
		w.in, w.out = w.stripped(f.names[0]), w.stripped(f.names[1])
		how := map[bool]string{true: "renamed", false: "copied"}[f.renamed]
		w.note = " (" + how + " from " + shellWord(w.in) + ")"
		if w.absent(w.in) && !w.absent(w.out) {
			w.note = " (already " + how + " from " + shellWord(w.in) + ")"
			w.in = w.out
		}
		return true
	}
	w.in = w.choose(f)
	w.out = w.in
	if w.in == "" {
		w.lost()
		return false
	}
	if w.output != "" {
		w.out = w.output
		w.note = " (read from " + shellWord(w.in) + ")"
	}
	return true
}

// lost says that the file to patch can't be found.
func (w *patchWork) lost() {
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
		w.say(text + "No file to patch.  Skipping patch.\n")
		return
	}
	w.say(text + "File to patch: \nSkip this patch? [y] \nSkipping patch.\n")
}

// finish writes what came out, and what was rejected.
func (w *patchWork) finish() {
	if w.target != "" && !w.exists && len(w.rejects) > 0 && !w.f.creates {
		w.fatal("Can't reopen file " + w.in + " : No such file or directory")
		return
	}
	data := w.content()
	applied := len(w.f.hunks) - len(w.rejects)
	gone := len(data) == 0 && (w.f.deletes || w.empty)
	if w.f.deletes && !gone && applied > 0 {
		w.say("Not deleting file " + shellWord(w.out) + " as content differs from patch\n")
		w.status = max(w.status, 1)
	}
	if !w.dry && !w.skip {
		if err := w.save(data, gone); err != nil {
			w.fatal("Can't create file " + w.out + " : " + why(err))
			return
		}
	}
	if w.setTime && !w.dry && !gone && !w.skip {
		w.stamp()
	}
	if len(w.rejects) > 0 {
		w.reject()
	}
}

// stamp gives the file the time that the patch names, if the old file has the
// one that belongs to it.
func (w *patchWork) stamp() {
	fresh, ok := headTime(w.f.heads[1])
	if !ok {
		return
	}
	old, known := headTime(w.f.heads[0])
	switch {
	case !w.force && w.exists && !w.f.creates && !(known && old.Equal(w.before)):
		w.say("Not setting time of file " + shellWord(w.out) + " (time mismatch)\n")
	case !w.force && (w.mismatch || len(w.rejects) > 0):
		w.say("Not setting time of file " + shellWord(w.out) + " (contents mismatch)\n")
	default:
		if err := w.p.Chtimes(w.out, fresh, fresh); err != nil {
			w.fatal("Can't set timestamp on file " + w.out + " : " + why(err))
		}
	}
}

// headTime reads the time in a header line of a patch.
func headTime(head string) (time.Time, bool) {
	_, date, dated := strings.Cut(head, "\t")
	t, err := time.Parse("2006-01-02 15:04:05 -0700", date)
	return t, dated && err == nil
}

// save writes the patched file, or removes it, after a backup where one is
// due.
func (w *patchWork) save(data []byte, gone bool) error {
	if w.output == "" && (w.backup || w.mismatch && w.patchStyle.mismatch) && !w.made[w.out] {
		if err := w.saveOld(); err != nil {
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
	if dir := path.Dir(w.out); w.absent(dir) {
		if err := w.p.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o666)
	info, err := w.p.Stat(w.in)
	known := err == nil
	private := w.output != "" && w.absent(w.out)
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

// saveOld keeps the file as it was.
func (w *patchWork) saveOld() error {
	name := w.backupName(w.out)
	if dir := path.Dir(name); w.absent(dir) {
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

// backupName returns the name of a backup.
func (w *patchWork) backupName(name string) string {
	switch {
	case w.prefix != "" || w.base != "":
		dir, base := path.Split(name)
		return w.prefix + dir + w.base + base
	case w.numbered == "numbered" || w.numbered == "t" || (w.numbered == "existing" || w.numbered == "nil") && !w.absent(name+".~1~"):
		for n := 1; ; n++ {
			if made := name + ".~" + strconv.Itoa(n) + "~"; w.absent(made) {
				return made
			}
			w.p.Tick(1)
		}
	}
	return name + w.suffix
}

// reject says how many hunks failed and saves them.
func (w *patchWork) reject() {
	w.status = max(w.status, 1)
	verb := "FAILED"
	if w.skip {
		verb = "ignored"
	}
	n := len(w.f.hunks)
	text := fmt.Sprintf("%d out of %d hunk%s %s", len(w.rejects), n, plural(n), verb)
	if w.dry || w.patchStyle.rejects == "-" {
		w.say(text + "\n")
		return
	}
	name := w.out + ".rej"
	if w.patchStyle.rejects != "" {
		name = w.patchStyle.rejects
	}
	_, _ = w.p.Out().WriteString(text + " -- saving rejects to file " + shellWord(name) + "\n") // shows at the flush, even with -s
	flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if w.made[name] {
		flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	w.made[name] = true
	h, err := w.p.OpenFile(name, flag, 0o666)
	if err == nil {
		_, err = h.WriteString(w.rejected())
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		w.fatal("Can't create file " + name + " : " + why(err))
	}
}

// rejected writes the hunks that failed as a patch.
func (w *patchWork) rejected() string {
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
		name := w.stripped(w.f.names[i])
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

// place writes where one side of a hunk begins and how long it is.
func place(from, n, moved int) string {
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
	fmt.Fprintf(b, "@@ -%s +%s @@%s\n", place(h.from, len(h.side('+')), moved), place(h.to, len(h.side('-')), moved), h.function)
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

func (h *patchHunk) writeContext(b *strings.Builder, moved int) {
	both := h.changedBoth()
	b.WriteString("***************" + h.function + "\n")
	for _, side := range []struct {
		without byte
		from    int
		fence   string
		own     byte
	}{{'+', h.from + moved, "***", '-'}, {'-', h.to + moved, "---", '+'}} {
		list := h.side(side.without)
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

// changedBoth tells, for each line, whether it belongs to a change that takes
// lines away and brings others.
func (h *patchHunk) changedBoth() []bool {
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
