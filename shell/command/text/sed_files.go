package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// sedOutput is a destination of lines. A line that came without a newline gets one when another
// line follows.
type sedOutput struct {
	w       *bufio.Writer
	delim   byte
	h       *kernel.Handle // nil: standard output or standard error
	missing bool
}

func (o *sedOutput) writeLine(text []byte, ended bool) {
	o.write(text)
	if ended {
		_ = o.w.WriteByte(o.delim) // Flush reports the error, as of all writes
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

// openFiles creates the files that the w commands write.
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
			r.p.Errorf("couldn't open file %s: %s", name, program.Reason(err))
			return false
		}
		r.p.Alloc(4096)
		r.files[name] = &sedOutput{delim: r.delim, w: bufio.NewWriter(h), h: h}
	}
	return true
}

// closeFiles flushes and closes the written files and reports whether any write failed.
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
			r.p.Errorf("couldn't write to %s: %s", name, program.Reason(err))
			failed = true
		}
	}
	return failed
}

// flushQueue prints the output that a, r and R have queued.
func (r *sedRun) flushQueue() {
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

// copyFile prints a file unchanged; an unreadable file prints nothing.
func (r *sedRun) copyFile(name string) {
	in := r.p.Stdin
	if name != "/dev/stdin" {
		h, err := r.p.Open(name)
		if err != nil {
			return
		}
		defer stream.Close(h)
		in = h
	}
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
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

// readLine queues the next line of a file, for the R command.
func (r *sedRun) readLine(name string) {
	l, known := r.reads[name]
	if !known {
		if r.reads == nil {
			r.reads = map[string]*stream.LineReader{}
		}
		in := r.p.Stdin
		var err error
		if name != "/dev/stdin" {
			in, err = r.p.Open(name)
		}
		if err == nil {
			r.p.Alloc(stream.ChunkSize)
			l = stream.NewLineReader(r.p, in, r.delim)
		}
		r.reads[name] = l
	}
	if l == nil {
		return
	}
	if line := l.Next(); line != nil {
		r.p.Alloc(int64(len(line)))
		r.queueAppend(sedAppend{text: bytes.Clone(line)})
	}
}

// sedInput reads the input files one after the other.
type sedInput struct {
	r     *sedRun
	names []string
	name  string // of the file being read
	h     *kernel.Handle
	lines *stream.LineReader

	edited *sedOutput // output of -i
	temp   string
	target string
	shown  *sedOutput
}

// next returns the next line of all files, and false at the end of the last one.
func (in *sedInput) next() ([]byte, bool) {
	for {
		if in.h == nil && !in.open() {
			return nil, false
		}
		if line := in.lines.Next(); line != nil {
			in.r.number++
			return line, true
		}
		in.close()
	}
}

// open opens the next readable file and reports whether there is one.
func (in *sedInput) open() bool {
	for len(in.names) > 0 && !in.r.halted {
		name := in.names[0]
		in.names = in.names[1:]
		h, err := stream.Open(in.r.p, name)
		if in.r.inPlace && err != nil && errors.Is(err, vfs.EISDIR) {
			in.r.p.Errorf("couldn't edit %s: not a regular file", name)
			in.r.code = sedPanic
			continue
		}
		if err != nil && errors.Is(err, vfs.EISDIR) {
			in.r.stopWithError(sedPanic, "read error on %s: %s", name, program.Reason(err))
			return false
		}
		if err != nil {
			in.r.p.Errorf("can't read %s: %s", name, program.Reason(err))
			in.r.code = sedBadInput
			continue
		}
		in.name, in.h = name, h
		in.lines.Reset(h)
		if in.r.separate {
			in.r.number = 0
			in.r.resetForFile()
		}
		if in.r.inPlace && !in.beginEdit(name) {
			in.closeHandle()
			continue
		}
		return true
	}
	return false
}

// resetForFile resets the state for a file that is edited separately: ranges, the hold space and
// the files of R.
func (r *sedRun) resetForFile() {
	r.hold.reset()
	r.hold.ended = true
	for _, l := range r.reads {
		if l != nil {
			l.Close()
			r.p.Free(stream.ChunkSize)
		}
	}
	clear(r.reads)
	for i := range r.script.commands {
		c := &r.script.commands[i]
		c.active = c.initialRange()
	}
}

func (in *sedInput) closeHandle() {
	stream.Close(in.h)
	in.h = nil
}

// close closes the current file, reports a read error and completes its edit.
func (in *sedInput) close() {
	if err := in.lines.Err(); err != nil {
		in.r.p.Errorf("read error on %s: %s", in.name, program.Reason(err))
		in.r.code = sedPanic
	}
	in.closeHandle()
	in.endEdit()
}

// atEnd reports whether no line follows. It may move the buffer that holds a borrowed pattern
// space, so it copies that first.
func (in *sedInput) atEnd() bool {
	for {
		if in.h != nil {
			if in.lines.Buffered() > 0 {
				return false
			}
			in.r.space.copyBorrowed(in.r.p)
			if in.lines.HasMore() {
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

// isLast reports whether the current line is the last one: of all files, or with -s and -i of its
// own file.
func (in *sedInput) isLast() bool {
	if !in.r.separate {
		return in.atEnd()
	}
	if in.h == nil || in.lines.Buffered() > 0 {
		return in.h == nil
	}
	in.r.space.copyBorrowed(in.r.p)
	return !in.lines.HasMore()
}

// returnUnread seeks standard input back over the bytes that were read ahead, so that another
// program can continue there, and closes the files.
func (in *sedInput) returnUnread() {
	if in.h != nil {
		if unread := in.lines.Buffered(); unread > 0 && in.h.Fd() == 0 {
			_, _ = in.h.Seek(-int64(unread), io.SeekCurrent) // fails for a pipe
		}
		in.closeHandle()
	}
	in.endEdit()
	in.lines.Close()
}

// beginEdit redirects the output to a temporary file beside the edited one.
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
		in.r.stopWithError(sedPanic, "couldn't open temporary file %s: %s", in.temp, program.Reason(err))
		return false
	}
	_ = p.Chmod(in.temp, in.h.Mode().Perm()) // a wrong mode is better than no content
	in.shown = in.r.out
	in.edited = &sedOutput{delim: in.r.delim, w: bufio.NewWriterSize(h, 32<<10), h: h}
	in.r.out = in.edited
	return true
}

// endEdit replaces the edited file by the temporary one.
func (in *sedInput) endEdit() {
	if in.edited == nil {
		return
	}
	p := in.r.p
	err := in.edited.w.Flush()
	err = errors.Join(err, in.edited.h.Close())
	in.edited, in.r.out = nil, in.shown
	if err != nil {
		_ = p.Unlink(in.temp) // an unused file
		in.r.stopWithError(sedPanic, "couldn't flush %s: %s", in.target, program.Reason(err))
		return
	}
	if in.r.suffix != "" {
		if err := p.Rename(in.target, backupName(in.target, in.r.suffix)); err != nil {
			in.r.stopWithError(sedPanic, "cannot rename %s: %s", in.target, program.Reason(err))
			return
		}
	}
	if err := p.Rename(in.temp, in.target); err != nil {
		in.r.stopWithError(sedPanic, "cannot rename %s: %s", in.temp, program.Reason(err))
	}
}

// backupName returns the name of a backup file: each * in the suffix stands for the base name, and
// a slash in it leads to another directory.
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
