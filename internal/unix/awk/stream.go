package awk

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
)

// stream is a file or a command that is open under a name.
type stream struct {
	name   string
	kind   kind // of the operator that opened it
	r      *reader
	w      *bufio.Writer
	direct bool // unbuffered
	s      *Stream
}

// maxStreams is the maximum number of open files and commands.
const maxStreams = 1000

// streamKey returns the key of a stream in the map of open streams.
func streamKey(op kind, name string) string {
	switch op {
	case tPipe:
		return "|" + name
	case tPipeAnd:
		return "&" + name
	case tLT:
		return "<" + name
	}
	return ">" + name
}

// writerFor returns the stream of a redirected print; it opens it if needed.
func (in *interp) writerFor(op kind, name string, line int) *stream {
	if name == "" {
		in.fatal(line, "expression for `%s' redirection has null string value", opText(op))
	}
	key := streamKey(op, name)
	if st := in.streams[key]; st != nil {
		return st
	}
	st := &stream{name: name, kind: op}
	switch {
	case op == tPipe || op == tPipeAnd:
		in.flushAll()
		s, err := in.openCommand(name, map[kind]Mode{tPipe: WriteTo, tPipeAnd: Both}[op])
		if err != nil {
			in.fatal(line, "cannot open pipe `%s' for output: %s", name, reasonOf(err))
		}
		st.s = s
		st.w = bufio.NewWriterSize(s.W, 4<<10)
		if s.R != nil {
			st.r = in.newReader(s.R, nil)
		}
	case name == "/dev/stdout" || name == "-":
		st.w = in.out
	case name == "/dev/stderr":
		st.w = bufio.NewWriterSize(in.cfg.Stderr, 256)
		st.direct = true
	default:
		in.openFile(st, line)
	}
	in.addStream(key, st, line)
	return st
}

// opText returns the text of a redirection operator.
func opText(op kind) string {
	switch op {
	case tAppend:
		return ">>"
	case tPipe:
		return "|"
	case tPipeAnd:
		return "|&"
	case tLT:
		return "<"
	}
	return ">"
}

// openFile opens a file for writing.
func (in *interp) openFile(st *stream, line int) {
	err := error(fs.ErrPermission)
	var w io.WriteCloser
	if in.cfg.OpenWrite != nil {
		w, err = in.cfg.OpenWrite(st.name, st.kind == tAppend)
	}
	if err != nil {
		in.fatal(line, "cannot redirect to `%s': %s", st.name, reasonOf(err))
	}
	st.s = &Stream{W: w, Close: func() (int, error) { return 0, w.Close() }}
	st.w = bufio.NewWriterSize(w, 16<<10)
}

// streamCost is the charge in bytes for an open stream.
const streamCost = 24 << 10

// addStream adds an open stream.
func (in *interp) addStream(key string, st *stream, line int) {
	if len(in.streams) >= maxStreams {
		in.fatal(line, "too many open files")
	}
	in.charge(streamCost)
	in.streams[key] = st
	in.open = append(in.open, st)
}

// openCommand starts a command.
func (in *interp) openCommand(name string, m Mode) (*Stream, error) {
	if in.cfg.Command == nil {
		return nil, fs.ErrPermission
	}
	return in.cfg.Command(name, m)
}

// readerFor returns the reader of a getline, or nil if it can't be opened.
func (in *interp) readerFor(op kind, name string) *reader {
	key := streamKey(op, name)
	if st := in.streams[key]; st != nil {
		if st.w != nil {
			_ = st.w.Flush() // if the command has exited, reading reports it
		}
		return st.r
	}
	st := &stream{name: name, kind: op}
	if op == tLT {
		r, err := in.openRead(name)
		in.setErrno(err)
		if err != nil {
			return nil
		}
		st.r = r
		st.s = &Stream{}
	} else {
		in.flushAll()
		s, err := in.openCommand(name, map[kind]Mode{tPipe: ReadFrom, tPipeAnd: Both}[op])
		in.setErrno(err)
		if err != nil {
			return nil
		}
		st.s = s
		st.r = in.newReader(s.R, nil)
		if s.W != nil {
			st.w = bufio.NewWriterSize(s.W, 4<<10)
		}
	}
	in.addStream(key, st, 0)
	return st.r
}

// setErrno sets ERRNO if err isn't nil.
func (in *interp) setErrno(err error) {
	if err == nil {
		return
	}
	*in.errno = strValue(reasonOf(err))
}

// write writes to a redirection.
func (in *interp) write(st *stream, b []byte, line int) {
	_, err := st.w.Write(b)
	if err == nil && st.direct {
		err = st.w.Flush()
	}
	if err != nil {
		in.writeFailed(st, err, line)
	}
}

// writeFailed discards further output of a stream and ends the program.
func (in *interp) writeFailed(st *stream, err error, line int) {
	name := "standard output"
	if st != nil && st.w != in.out {
		name = "\"" + st.name + "\""
		st.w = bufio.NewWriter(io.Discard)
	} else {
		in.out.Reset(io.Discard)
	}
	in.fatal(line, "print to %s failed: %s", name, reasonOf(err))
}

// flushAll flushes all buffered output.
func (in *interp) flushAll() {
	_ = in.out.Flush() // a later write reports the error
	for _, st := range in.open {
		if st.w != nil {
			_ = st.w.Flush()
		}
	}
}

// closeNamed closes the streams of that name and returns the result of awk's close.
func (in *interp) closeNamed(name, how string) float64 {
	status := -1.0
	for i := 0; i < len(in.open); i++ {
		st := in.open[i]
		if st.name != name {
			continue
		}
		if how == "to" && st.s != nil && st.s.CloseWrite != nil {
			_ = st.w.Flush()
			_ = st.s.CloseWrite()
			st.w = nil
			return 0
		}
		in.open = append(in.open[:i], in.open[i+1:]...)
		i--
		delete(in.streams, streamKey(st.kind, name))
		status = float64(in.closeStream(st))
	}
	return status
}

// closeStream closes one stream and returns its status.
func (in *interp) closeStream(st *stream) int {
	in.charge(-streamCost)
	var errs [2]error
	if st.w != nil {
		errs[0] = st.w.Flush()
	}
	n := 0
	if st.r != nil {
		n, _ = in.closeReader(st.r)
	}
	if st.s != nil && st.s.Close != nil {
		n, errs[1] = st.s.Close()
	}
	if errors.Join(errs[:]...) != nil && st.kind != tPipe && st.kind != tPipeAnd {
		return -1
	}
	return n
}

// finishRun closes all streams and returns the exit status.
func (in *interp) finishRun() int {
	in.freeTemp(0)
	for in.isUnfinished() {
		in.runGuarded(in.closeAll)
	}
	in.flushCharges()
	in.regexes.releaseRegexes()
	in.out.Reset(nil)
	writers.Put(in.out)
	if in.bud != nil && in.allocs > 0 {
		in.bud.Free(in.allocs)
	}
	return in.status & 0xff
}

// isUnfinished reports whether a stream is open or output is buffered.
func (in *interp) isUnfinished() bool { return len(in.open) > 0 || in.out.Buffered() > 0 }

// closeAll closes all streams and the main input.
func (in *interp) closeAll() {
	for len(in.open) > 0 {
		st := in.open[0]
		in.open = in.open[1:]
		in.closeStream(st)
	}
	if err := in.out.Flush(); err != nil {
		in.writeFailed(nil, err, 0)
	}
	if in.main != nil {
		_, _ = in.closeReader(in.main)
		in.main = nil
	}
}
