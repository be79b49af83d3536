package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// ServedSandbox is what a [SandboxServer] serves.
type ServedSandbox interface {
	Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error)
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, path string) (io.ReadCloser, error)
	atoll.DirFS
	atoll.Watcher
	atoll.Terminals
	atoll.TerminalAttacher
}

// SandboxServer is the guest's end of the wire protocol for a sandbox of this process, whose
// operations are methods instead of system calls.
type SandboxServer struct {
	Sandbox ServedSandbox

	Calls Calls // further operations
}

// Calls are operations that have no body besides their request and response.
type Calls map[Op]Call

// Call maps a request to the value that is the body of the response.
type Call func(ctx context.Context, q *Request) (any, error)

// handle is the handler of a call.
func (f Call) handle(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	v, err := f(ctx, q)
	sendReply(st, v, err)
}

// CallServer is an end of the wire protocol that answers calls only, for two processes of one
// sandbox.
type CallServer struct {
	Calls Calls

	// Streams are operations whose body is a stream in both directions. An error of open is
	// the response. The stream is closed when the function that open returns has returned.
	Streams map[Op]func(ctx context.Context, q *Request) (serve func(net.Conn), err error)

	// Otherwise, if not nil, returns the server for other operations, or nil if there is none
	// yet.
	Otherwise func() *CallServer
}

// ServeConn serves the other end until its connection ends. It closes conn.
func (s *CallServer) ServeConn(conn net.Conn) {
	serveHost(conn, keepVersion-1, hostLimits{streams: guestStreams, large: 2}, s.findOperation, func() {})
}

// findOperation returns the handler of an operation; nil: there is none.
func (s *CallServer) findOperation(op Op) handler {
	if f := s.Calls[op]; f != nil {
		return f.handle
	}
	if open := s.Streams[op]; open != nil {
		return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
			serve, err := open(ctx, q)
			sendAnswer(st, err)
			if err == nil {
				serve(st)
			}
		}
	}
	if s.Otherwise != nil {
		if other := s.Otherwise(); other != nil {
			return other.findOperation(op)
		}
	}
	return nil
}

// ServeConn serves one host until its connection ends. It closes conn.
func (s *SandboxServer) ServeConn(conn net.Conn) {
	ops := map[Op]handler{
		OpReady:  func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { sendAnswer(st, nil) },
		OpOffer:  func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { sendAnswer(st, nil) },
		OpExec:   s.exec,
		OpRead:   s.serveDownload(s.Sandbox.OpenFile),
		OpExport: s.serveDownload(s.Sandbox.Export),
		OpList:   s.serveDownload(s.openList),
		OpWrite: s.serveUpload(func(ctx context.Context, r *fileRequest, name string, content io.Reader) error {
			return s.Sandbox.WriteFile(ctx, name, content, r.Perm)
		}),
		OpImport: s.serveUpload(func(ctx context.Context, _ *fileRequest, name string, content io.Reader) error {
			return s.Sandbox.Import(ctx, name, content)
		}),
		OpStat: s.serveFile(s.statFile),
		OpMkdir: s.serveFile(func(ctx context.Context, r *fileRequest, name string) (any, error) {
			return nil, s.Sandbox.Mkdir(ctx, name, r.Perm)
		}),
		OpRemove: s.serveFile(func(ctx context.Context, _ *fileRequest, name string) (any, error) {
			return nil, s.Sandbox.Remove(ctx, name)
		}),
		OpWatch: s.watch,
	}
	terminalOperations(ops, s.Sandbox, func() bool { return false })
	for op, f := range s.Calls {
		ops[op] = f.handle
	}
	serveHost(conn, keepVersion-1, hostLimits{}, func(op Op) handler { return ops[op] }, func() {})
}

// parsePath returns the body of a request about a file, and its path.
func (q *Request) parsePath() (*fileRequest, string, error) {
	var r fileRequest
	if err := q.DecodeBody(&r); err != nil {
		return nil, "", err
	}
	name := string(r.Path)
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return nil, "", fmt.Errorf("%w: a path that is not absolute", atoll.ErrInvalid)
	}
	return &r, path.Clean(name), nil
}

// serveFile returns the handler of an operation on a file that has no body besides its answer.
func (s *SandboxServer) serveFile(f func(ctx context.Context, r *fileRequest, name string) (any, error)) handler {
	return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := q.parsePath()
		var v any
		if err == nil {
			v, err = f(ctx, r, name)
		}
		sendReply(st, v, err)
	}
}

func (s *SandboxServer) statFile(ctx context.Context, _ *fileRequest, name string) (any, error) {
	info, err := s.Sandbox.StatFile(ctx, name)
	if err != nil {
		return nil, err
	}
	return newFileInfo(info), nil
}

func newFileInfo(info fs.FileInfo) fileInfo {
	i := fileInfo{Name: []byte(info.Name()), Size: info.Size(), Mode: info.Mode(), Time: info.ModTime().UnixNano()}
	if l, ok := info.(interface{ Linkname() string }); ok {
		i.Target = []byte(l.Linkname())
	}
	return i
}

// openList returns the entries of a directory, as readList reads them.
func (s *SandboxServer) openList(ctx context.Context, name string) (io.ReadCloser, error) {
	list, err := s.Sandbox.ReadDir(ctx, name)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		enc := json.NewEncoder(w)
		for _, info := range list {
			if err := enc.Encode(newFileInfo(info)); err != nil {
				return // the reader was closed
			}
		}
		_ = w.Close() // never fails
	}()
	return r, nil
}

// serveDownload returns the handler of an operation that sends bytes.
func (s *SandboxServer) serveDownload(open func(ctx context.Context, name string) (io.ReadCloser, error)) handler {
	return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, name, err := q.parsePath()
		var r io.ReadCloser
		if err == nil {
			r, err = open(ctx, name)
		}
		sendAnswer(st, err)
		if err != nil {
			return
		}
		d := newDataWriter(st)
		_, err = d.ReadFrom(r)
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		_ = d.finishStream(err) // fails if the host has disconnected
	}
}

// serveUpload returns the handler of an operation that receives bytes.
func (s *SandboxServer) serveUpload(f func(ctx context.Context, r *fileRequest, name string, content io.Reader) error) handler {
	return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := q.parsePath()
		sendAnswer(st, err)
		if err != nil {
			return
		}
		content := &dataReader{r: st}
		err = f(ctx, r, name, content)
		if err == nil {
			_, err = io.Copy(io.Discard, content) // the stream must be complete
		}
		if writeDone(st, err) == nil && err != nil {
			_, _ = io.Copy(io.Discard, st) // wait until the host has read the error: closing first would discard it
		}
	}
}

// watch handles OpWatch. A host that has lost its connection can't resume the watch, since this
// process ends with it: stamps are always 0.
func (s *SandboxServer) watch(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	_, name, err := q.parsePath()
	if err != nil {
		sendAnswer(st, err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, st) // ends when the host closes the channel
		cancel()
	}()
	d := newDataWriter(st)
	events, begun := watchEventWriter{w: d}, false
	err = s.Sandbox.Watch(ctx, name, func(e atoll.FileEvent) error {
		if !begun {
			begun = true
			sendAnswer(st, nil)
		}
		out := watchEvent{dir: e.Dir, path: strings.TrimPrefix(strings.TrimPrefix(e.Path, name), "/")}
		for kind, op := range watchEventOps {
			if op == e.Op {
				out.kind = kind
			}
		}
		if err := events.write(out); err != nil {
			return err
		}
		return d.flush()
	})
	if !begun {
		sendAnswer(st, err)
		return
	}
	_ = d.finishStream(err) // fails if the host has disconnected
}

// exec handles OpExec.
func (s *SandboxServer) exec(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	if q.Command == nil {
		sendAnswer(st, fmt.Errorf("%w: no command", atoll.ErrInvalid))
		return
	}
	cmd := q.Command.Cmd()
	if err := cmd.Check(); err != nil {
		sendAnswer(st, err)
		return
	}
	sendAnswer(st, nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &servedCommand{st: st, cancel: cancel}
	cmd.Stdout, cmd.Stderr = frameWriter{x, FrameStdout}, frameWriter{x, FrameStderr}
	if q.Input {
		x.stdin = wire.NewPipe(stdinWindow, func(n int) { _ = x.sendFrame(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n))) })
		cmd.Stdin = x.stdin
	}
	if cmd.TTY != nil {
		x.sizes = make(chan atoll.Size, 1)
		cmd.TTY.Resize = x.sizes
	}
	if q.Command.Signals {
		x.signals = make(chan string, maxSignals)
		cmd.Signals = x.signals
	}
	var receiving sync.WaitGroup
	receiving.Go(x.receiveFrames)
	exit, err := s.Sandbox.Exec(ctx, cmd)
	b, _ := json.Marshal(CommandResult{Code: exit.Code, Signal: exit.Signal, Truncated: exit.Truncated, Problem: wire.ProblemOf(err)}) // can't fail
	_ = x.sendFrame(FrameExit, b)                                                                                                      // fails if the host has disconnected
	_ = st.Close()                                                                                                                     // ends receiveFrames
	if x.stdin != nil {
		x.stdin.CloseReader()
	}
	receiving.Wait()
}

// servedCommand is a command with a host that waits for its end.
type servedCommand struct {
	st      *yamux.Stream
	cancel  context.CancelFunc // kills the command
	stdin   *wire.Pipe         // nil: no input
	sizes   chan atoll.Size    // nil: no terminal
	signals chan string        // nil: the host sends none

	sending sync.Mutex // held while a frame is written
}

func (x *servedCommand) sendFrame(f Frame, p []byte) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	return writeFrame(x.st, f, p)
}

// frameWriter sends output of a command to the host.
type frameWriter struct {
	x *servedCommand
	f Frame
}

// Write sends p in frames.
func (w frameWriter) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, maxData)
		if err := w.x.sendFrame(w.f, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// receiveFrames handles the host's frames until the channel ends.
func (x *servedCommand) receiveFrames() {
	defer x.cancel()
	if x.stdin != nil {
		defer x.stdin.CloseWriter(io.ErrUnexpectedEOF)
	}
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(x.st, &buf)
		if err != nil || !x.handleFrame(f, p) {
			return
		}
	}
}

// handleFrame handles one frame. It returns false if the host violates the protocol.
func (x *servedCommand) handleFrame(f Frame, p []byte) bool {
	switch f {
	case FrameStdin:
		switch {
		case x.stdin == nil:
		case len(p) == 0:
			x.stdin.CloseWriter(nil)
		default:
			return x.stdin.TryWrite(p)
		}
	case FrameKill:
		x.cancel()
	case FrameSignal:
		x.passSignal(string(p))
	case FrameResize:
		var size atoll.Size
		if json.Unmarshal(p, &size) == nil {
			x.passSize(size)
		}
	default:
		return false
	}
	return true
}

// maxSignals is the number of signals that wait for a command.
const maxSignals = 64

// passSignal passes a signal on. A command that has not received maxSignals earlier ones loses it.
func (x *servedCommand) passSignal(name string) {
	select {
	case x.signals <- name: // blocks if it is nil
	default:
	}
}

// passSize passes the newest size on.
func (x *servedCommand) passSize(size atoll.Size) {
	for x.sizes != nil {
		select {
		case x.sizes <- size:
			return
		default:
		}
		select {
		case <-x.sizes: // an older one that was not received yet
		default:
		}
	}
}
