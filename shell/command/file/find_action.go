package file

import (
	"bufio"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// findFile is an output file of an action.
type findFile struct {
	h *kernel.Handle
	w *bufio.Writer
}

// openOutput opens the file of -fprint and the like, once for each name.
func (q *findParser) openOutput(word string) (*bufio.Writer, bool) {
	name, ok := q.nextArgument(word)
	if !ok {
		return nil, false
	}
	if name == "/dev/stdout" {
		return q.f.p.Out(), true
	}
	if f := q.f.files[name]; f != nil {
		return f.w, true
	}
	h, err := q.f.p.Create(name)
	if err != nil {
		q.reportError("%s: %s", quoting.QuoteWord(name), program.Reason(err))
		return nil, false
	}
	if q.f.files == nil {
		q.f.files = map[string]*findFile{}
	}
	f := &findFile{h, bufio.NewWriterSize(h, 4096)}
	q.f.files[name] = f
	return f.w, true
}

// close flushes and closes the files that openOutput opened.
func (f *finder) close() {
	for name, o := range f.files {
		if err := o.w.Flush(); err != nil {
			f.reportError("%s: %s", quoting.QuoteWord(name), program.Reason(err))
		}
		stream.Close(o.h)
	}
}

// newPrinter returns the action that prints the path and end.
func (f *finder) newPrinter(w *bufio.Writer, end string) findTest {
	if w == nil {
		w = f.p.Out()
	}
	return func(e *findEntry) bool {
		_, _ = w.WriteString(e.path) // Flush reports the error, here and below
		_, _ = w.WriteString(end)
		return true
	}
}

func findPrint(q *findParser, word string) findTest {
	q.acts = true
	end := "\n"
	if strings.HasSuffix(word, "0") {
		end = "\x00"
	}
	var w *bufio.Writer
	if word[1] == 'f' {
		var ok bool
		if w, ok = q.openOutput(word); !ok {
			return nil
		}
	}
	return q.f.newPrinter(w, end)
}

func findPrintf(q *findParser, word string) findTest {
	q.acts = true
	w := q.f.p.Out()
	if word == "-fprintf" {
		var ok bool
		if w, ok = q.openOutput(word); !ok {
			return nil
		}
	}
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	format := q.compileFormat(s)
	if q.failed {
		return nil
	}
	return func(e *findEntry) bool {
		for _, piece := range format {
			_, _ = w.WriteString(piece(e)) // Flush reports the error
		}
		return true
	}
}

func findLs(q *findParser, word string) findTest {
	q.acts = true
	w := q.f.p.Out()
	if word == "-fls" {
		var ok bool
		if w, ok = q.openOutput(word); !ok {
			return nil
		}
	}
	return func(e *findEntry) bool {
		_, _ = w.WriteString(q.f.lsLine(e)) // Flush reports the error
		return true
	}
}

// lsLine returns the line of an entry in the format of ls -dils.
func (f *finder) lsLine(e *findEntry) string {
	var b strings.Builder
	mode := filemode.ToUnix(e.info.Mode())
	b.WriteString(padLeft(strconv.FormatUint(e.info.Ino(), 10), 9) + " ")
	b.WriteString(padLeft(strconv.FormatInt(number.DivideUp(e.info.Blocks(), 2), 10), 6) + " ")
	b.WriteString(filemode.Format(mode) + " " + padLeft(strconv.Itoa(e.info.Nlink()), 3) + " ")
	b.WriteString(padRight(f.owners.UserNameOrID(e.info.Uid()), 8) + " " + padRight(f.owners.GroupNameOrID(e.info.Gid()), 8) + " ")
	if e.info.Mode()&fs.ModeDevice != 0 {
		dev := e.info.Rdev()
		b.WriteString(padLeft(strconv.Itoa(int(dev>>8)), 3) + ", " + padLeft(strconv.Itoa(int(dev&0xff)), 3))
	} else {
		b.WriteString(padLeft(strconv.FormatInt(e.info.Size(), 10), 8))
	}
	t := e.info.ModTime()
	layout := "Jan _2  2006"
	if t.After(f.start.Add(-6*30*24*time.Hour)) && !t.After(f.start.Add(time.Hour)) {
		layout = "Jan _2 15:04"
	}
	b.WriteString(" " + t.In(f.zone).Format(layout) + " " + quoting.Escape.Quote(e.path, ""))
	if e.info.Mode()&fs.ModeSymlink != 0 {
		if target, err := f.p.Readlink(e.path); err == nil {
			b.WriteString(" -> " + quoting.Escape.Quote(target, ""))
		}
	}
	b.WriteByte('\n')
	return b.String()
}

func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len(s)))
}

func findPrune(q *findParser, _ string) findTest {
	q.prunes = true
	return func(*findEntry) bool {
		q.f.pruned = true
		return true
	}
}

func findQuit(q *findParser, _ string) findTest {
	return func(*findEntry) bool {
		q.f.quit = true
		return true
	}
}

func findDelete(q *findParser, _ string) findTest {
	q.acts, q.deletes = true, true
	return func(e *findEntry) bool {
		if e.path == "." {
			return true
		}
		if err := q.f.p.Remove(e.path); err != nil {
			q.f.reportError("cannot delete %s: %s", quoting.QuoteWord(e.path), program.Reason(err))
			return false
		}
		return true
	}
}

// findBatch is an -exec … {} + and the names collected for it.
type findBatch struct {
	f     *finder
	words []string
	inDir bool
	dir   string
	names []string
	size  int
}

// maxBatch is the largest number of bytes of names for one command.
const maxBatch = 128 << 10

func findExec(q *findParser, word string) findTest {
	q.acts = true
	var words []string
	for q.at < len(q.args) {
		a := q.args[q.at]
		q.at++
		if a == ";" {
			if len(words) == 0 {
				return q.reportError("invalid argument `;' to `%s'", word)
			}
			return q.f.runEach(word, words)
		}
		if a == "+" && len(words) > 0 && words[len(words)-1] == "{}" && !strings.HasPrefix(word, "-ok") {
			return q.execPlus(word, words[:len(words)-1])
		}
		words = append(words, a)
	}
	return q.reportError("missing argument to `%s'", word)
}

func (q *findParser) execPlus(word string, words []string) findTest {
	if len(words) == 0 {
		return q.reportError("invalid argument `{}' to `%s'", word)
	}
	for _, w := range words {
		if w == "{}" {
			return q.reportError("Only one instance of {} is supported with %s ... +", word)
		}
		if strings.Contains(w, "{}") {
			return q.reportError("In %s '... {} +' the '{}' must appear by itself, but you specified '%s'", quoting.QuoteWord(word), w)
		}
	}
	b := &findBatch{f: q.f, words: words, inDir: word == "-execdir"}
	q.f.batches = append(q.f.batches, b)
	return b.add
}

// runPlace returns the directory in which a command runs, and the name of the entry for it.
func (e *findEntry) runPlace(inDir bool) (dir, name string) {
	if !inDir {
		return "", e.path
	}
	if e.path == "/" {
		return "/", "/"
	}
	if last := e.name(); last != "." && last != ".." {
		return dirOf(e.path), "./" + last
	}
	return e.path, "./."
}

func (b *findBatch) add(e *findEntry) bool {
	dir, name := e.runPlace(b.inDir)
	if b.size+len(name)+8 > maxBatch || b.inDir && dir != b.dir && len(b.names) > 0 {
		b.flush()
	}
	b.f.p.Alloc(int64(len(name)) + 16)
	b.names, b.dir = append(b.names, name), dir
	b.size += len(name) + 8
	return true
}

func (b *findBatch) flush() {
	if len(b.names) == 0 {
		return
	}
	if !b.f.runCommand(b.dir, append(append([]string(nil), b.words...), b.names...)) {
		b.f.code = 1
	}
	b.f.p.Free(int64(b.size) + int64(len(b.names))*8)
	b.names, b.size = nil, 0
}

func (f *finder) finishBatches() {
	for _, b := range f.batches {
		b.flush()
	}
}

// runEach returns the action that runs a command for every entry.
func (f *finder) runEach(word string, words []string) findTest {
	inDir, asks := strings.HasSuffix(word, "dir"), strings.HasPrefix(word, "-ok")
	return func(e *findEntry) bool {
		dir, name := e.runPlace(inDir)
		args := make([]string, len(words))
		for i, w := range words {
			args[i] = strings.ReplaceAll(w, "{}", name)
		}
		if asks && !askUser(f.p, "< "+strings.Join(words[:1], " ")+" ... "+e.path+" > ? ") {
			return false
		}
		return f.runCommand(dir, args)
	}
}

// runCommand runs a program and reports whether it succeeded.
func (f *finder) runCommand(dir string, args []string) bool {
	_ = f.p.Out().Flush() // the last Flush reports the error
	for _, o := range f.files {
		_ = o.w.Flush() // likewise
	}
	s, err := f.p.Command(args)
	var st kernel.Status
	if err == nil {
		s.Dir = dir
		st, err = f.p.Call(s)
	}
	if err != nil {
		var ce *kernel.CommandError
		f.p.Errorf("%s: %s", quoting.QuoteWord(args[0]), program.Reason(err))
		if !errors.As(err, &ce) {
			f.code = 1
		}
		return false
	}
	return st.Code == 0
}
