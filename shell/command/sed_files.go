package command

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// sedOutput is what lines are written to. A line that came without a newline
// gets one when another follows.
type sedOutput struct {
	w       *bufio.Writer
	delim   byte
	h       *kernel.Handle // nil: standard output or standard error
	missing bool
}

func (o *sedOutput) line(text []byte, ended bool) {
	o.write(text)
	if ended {
		_ = o.w.WriteByte(o.delim) // shows at the flush, as all writes
		return
	}
	o.missing = true
}

func (o *sedOutput) write(text []byte) {
	if o.missing {
		_ = o.w.WriteByte(o.delim)
		o.missing = false
	}
	_, _ = o.w.Write(text)
}

func (o *sedOutput) flush() { _ = o.w.Flush() }

// openFiles creates the files that w writes.
func (r *sedRun) openFiles() bool {
	r.files = map[string]*sedOutput{"/dev/stdout": r.out}
	for i := range r.script.commands {
		cmd := &r.script.commands[i]
		name := cmd.file
		if cmd.subst != nil {
			name = cmd.subst.file
		} else if cmd.name != 'w' && cmd.name != 'W' {
			continue
		}
		if name == "" || r.files[name] != nil {
			continue
		}
		if name == "/dev/stderr" {
			r.files[name] = &sedOutput{delim: r.delim, w: bufio.NewWriterSize(r.p.Stderr, 16)}
			continue
		}
		h, err := r.p.Create(name)
		if err != nil {
			r.p.Errorf("couldn't open file %s: %s", name, why(err))
			return false
		}
		r.p.Alloc(4096)
		r.files[name] = &sedOutput{delim: r.delim, w: bufio.NewWriter(h), h: h}
	}
	return true
}

// closeFiles reports whether something written has been lost.
func (r *sedRun) closeFiles() (failed bool) {
	for name, o := range r.files {
		if o == r.out {
			continue
		}
		err := o.w.Flush()
		if o.h != nil {
			err = errors.Join(err, o.h.Close())
		}
		if err != nil {
			r.p.Errorf("couldn't write to %s: %s", name, why(err))
			failed = true
		}
	}
	return failed
}

// dump prints what a, r and R have put off.
func (r *sedRun) dump() {
	for _, a := range r.queue {
		if a.file == "" {
			r.out.write(a.text)
			continue
		}
		r.copyFile(a.file)
	}
	r.p.Free(64 * int64(len(r.queue)))
	r.queue = r.queue[:0]
}

// copyFile prints a file as it is; one that can't be read is nothing.
func (r *sedRun) copyFile(name string) {
	in := r.p.Stdin
	if name != "/dev/stdin" {
		h, err := r.p.Open(name)
		if err != nil {
			return
		}
		defer closeInput(h)
		in = h
	}
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	for {
		n, err := in.Read(b[:])
		if n > 0 {
			r.out.write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// readLine queues the next line of a file, for R.
func (r *sedRun) readLine(name string) {
	l, known := r.reads[name]
	if !known {
		if r.reads == nil {
			r.reads = map[string]*lines{}
		}
		in := r.p.Stdin
		var err error
		if name != "/dev/stdin" {
			in, err = r.p.Open(name)
		}
		if err == nil {
			r.p.Alloc(chunk)
			l = newLines(r.p, in, r.delim)
		}
		r.reads[name] = l
	}
	if l == nil {
		return
	}
	if line := l.next(); line != nil {
		r.p.Alloc(int64(len(line)))
		r.append(sedAppend{text: bytes.Clone(line)})
	}
}

// sedInput is the row of input files.
type sedInput struct {
	r     *sedRun
	names []string
	name  string // of the file being read
	h     *kernel.Handle
	lines *lines

	edited *sedOutput // with -i
	temp   string
	target string
	shown  *sedOutput
}

// next returns the next line of all files.
func (in *sedInput) next() ([]byte, bool) {
	for {
		if in.h == nil && !in.open() {
			return nil, false
		}
		if line := in.lines.next(); line != nil {
			in.r.number++
			return line, true
		}
		in.close()
	}
}

// open opens the next file that can be read.
func (in *sedInput) open() bool {
	for len(in.names) > 0 && !in.r.halted {
		name := in.names[0]
		in.names = in.names[1:]
		h, err := open(in.r.p, name)
		if in.r.inPlace && err != nil && errors.Is(err, vfs.EISDIR) {
			in.r.p.Errorf("couldn't edit %s: not a regular file", name)
			in.r.code = sedPanic
			continue
		}
		if err != nil && errors.Is(err, vfs.EISDIR) {
			in.r.fatal(sedPanic, "read error on %s: %s", name, why(err))
			return false
		}
		if err != nil {
			in.r.p.Errorf("can't read %s: %s", name, why(err))
			in.r.code = sedBadInput
			continue
		}
		in.name, in.h = name, h
		in.lines.reset(h)
		if in.r.separate {
			in.r.number = 0
			in.r.restart()
		}
		if in.r.inPlace && !in.beginEdit(name) {
			in.drop()
			continue
		}
		return true
	}
	return false
}

// restart begins anew for a file of its own: ranges, the hold space and the
// files of R.
func (r *sedRun) restart() {
	r.hold.reset()
	r.hold.ended = true
	for _, l := range r.reads {
		if l != nil {
			l.close()
			r.p.Free(chunk)
		}
	}
	clear(r.reads)
	for i := range r.script.commands {
		c := &r.script.commands[i]
		c.active = c.initial()
	}
}

func (in *sedInput) drop() {
	closeInput(in.h)
	in.h = nil
}

// close ends a file.
func (in *sedInput) close() {
	if err := in.lines.failed(); err != nil {
		in.r.p.Errorf("read error on %s: %s", in.name, why(err))
		in.r.code = sedPanic
	}
	in.drop()
	in.endEdit()
}

// atEnd reports whether no line follows. It may move the buffer that a
// borrowed pattern space lies in, so that one is copied first.
func (in *sedInput) atEnd() bool {
	for {
		if in.h != nil {
			if in.lines.at < in.lines.end {
				return false
			}
			in.r.space.keep(in.r.p)
			if in.lines.more() {
				return false
			}
		}
		if len(in.names) == 0 {
			return true
		}
		if in.h != nil {
			in.close()
		}
		if !in.open() {
			return true
		}
	}
}

// isLast reports whether the current line is the last one: of all files, or of
// its own when they are separate.
func (in *sedInput) isLast() bool {
	if !in.r.separate {
		return in.atEnd()
	}
	if in.h == nil || in.lines.at < in.lines.end {
		return in.h == nil
	}
	in.r.space.keep(in.r.p)
	return !in.lines.more()
}

// more reports whether the stream has another line, reading if need be.
func (l *lines) more() bool {
	for l.at == l.end && l.err == nil {
		l.fill()
	}
	return l.at < l.end
}

// finish gives back what was read too much, so that another program can go on
// there, and closes the files.
func (in *sedInput) finish() {
	if in.h != nil {
		if unread := in.lines.end - in.lines.at; unread > 0 && in.h.Fd() == 0 {
			_, _ = in.h.Seek(-int64(unread), io.SeekCurrent) // a pipe can't
		}
		in.drop()
	}
	in.endEdit()
	in.lines.close()
}

// beginEdit sends the output to a temporary file beside the one edited.
func (in *sedInput) beginEdit(name string) bool {
	p := in.r.p
	target := name
	if in.r.follow {
		if real, err := p.Resolve(name); err == nil {
			target = real
		}
	}
	if !in.h.Mode().IsRegular() {
		p.Errorf("couldn't edit %s: not a regular file", name)
		in.r.code = sedPanic
		return false
	}
	in.target = target
	in.temp = path.Join(path.Dir(target), ".sed"+strings.ReplaceAll(path.Base(target), "/", "")+"~new")
	h, err := p.Create(in.temp)
	if err != nil {
		in.r.fatal(sedPanic, "couldn't open temporary file %s: %s", in.temp, why(err))
		return false
	}
	_ = p.Chmod(in.temp, in.h.Mode().Perm()) // the content counts more than its mode
	in.shown = in.r.out
	in.edited = &sedOutput{delim: in.r.delim, w: bufio.NewWriterSize(h, 32<<10), h: h}
	in.r.out = in.edited
	return true
}

// endEdit puts the new file in the place of the old one.
func (in *sedInput) endEdit() {
	if in.edited == nil {
		return
	}
	p := in.r.p
	err := in.edited.w.Flush()
	err = errors.Join(err, in.edited.h.Close())
	in.edited, in.r.out = nil, in.shown
	if err != nil {
		_ = p.Unlink(in.temp) // it is of no use
		in.r.fatal(sedPanic, "couldn't flush %s: %s", in.target, why(err))
		return
	}
	if in.r.suffix != "" {
		if err := p.Rename(in.target, backupName(in.target, in.r.suffix)); err != nil {
			in.r.fatal(sedPanic, "cannot rename %s: %s", in.target, why(err))
			return
		}
	}
	if err := p.Rename(in.temp, in.target); err != nil {
		in.r.fatal(sedPanic, "cannot rename %s: %s", in.temp, why(err))
	}
}

// backupName returns the name of a backup: * in the suffix stands for the
// name, and a slash for another directory.
func backupName(name, suffix string) string {
	dir, base := path.Split(name)
	if !strings.Contains(suffix, "*") {
		return name + suffix
	}
	made := strings.ReplaceAll(suffix, "*", base)
	if strings.Contains(made, "/") {
		return made
	}
	return dir + made
}
