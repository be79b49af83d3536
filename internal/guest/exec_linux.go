package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// command is a process with its streams to the host.
type command struct {
	*process
	pty  *pty       // nil: the streams are pipes
	in   *os.File   // standard input; nil: none
	outs []*os.File // standard output and standard error, or the output of the terminal
}

// startCommand starts a command with streams. Without input, its standard input is empty; a
// terminal always has input.
func (s *Server) startCommand(cmd *atoll.Cmd, input bool) (*command, error) {
	c := &command{}
	files, err := c.openStreams(cmd, input)
	if err == nil {
		c.process, err = s.start(cmd, files, c.pty != nil)
	}
	if c.pty != nil {
		c.pty.closeSlave()
	} else {
		for _, fd := range files {
			_ = unix.Close(fd) // the command has its own copies
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// openStreams opens the streams and returns the command's ends.
func (c *command) openStreams(cmd *atoll.Cmd, input bool) (files []int, err error) {
	if cmd.TTY != nil {
		if c.pty, err = openPty(cmd.TTY.Size); err != nil {
			return nil, fmt.Errorf("%w: a terminal: %w", atoll.ErrUnavailable, err)
		}
		c.in, c.outs = c.pty.File, []*os.File{c.pty.File}
		return []int{c.pty.slave, c.pty.slave, c.pty.slave}, nil
	}
	if input {
		fd, ours, err := newPipe(1)
		if err != nil {
			return files, err
		}
		c.in, files = ours, append(files, fd)
	} else {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return files, err
		}
		files = append(files, fd)
	}
	for range 2 {
		fd, ours, err := newPipe(0)
		if err != nil {
			return files, err
		}
		c.outs, files = append(c.outs, ours), append(files, fd)
	}
	return files, nil
}

// newPipe returns a new pipe. The end with index our (0 reads, 1 writes) is the guest's.
func newPipe(our int) (theirs int, ours *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, nil, err
	}
	if err := unix.SetNonblock(p[our], true); err != nil {
		return 0, nil, err
	}
	return p[1-our], os.NewFile(uintptr(p[our]), "pipe"), nil
}

func (c *command) close() {
	if c.in != nil && c.pty == nil {
		_ = c.in.Close() // a write error is of no interest after the command's end
	}
	for _, f := range c.outs {
		_ = f.Close() // only read
	}
}

// sendSignal sends a signal to the command, or to the foreground group of its terminal.
func (c *command) sendSignal(name string) {
	if sig, ok := parseSignal(name); ok && c.pty != nil && sig != unix.SIGKILL {
		if pgid, err := c.pty.foregroundGroup(); err == nil && pgid > 0 {
			_ = unix.Kill(-pgid, sig) // the group may have ended
			return
		}
	}
	c.process.sendSignal(name)
}

// copyOutput calls f with the output of a stream until all its writers have ended, or until it
// is empty after its read deadline. It returns early with the error of f.
func copyOutput(r *os.File, f func(b []byte) error) error {
	buf := buffers.Get().(*[frameHeadSize + maxFrame]byte) //nolint:forcetypeassert // the pool has no other type
	defer buffers.Put(buf)
	for full := 0; ; {
		n, err := r.Read(buf[frameHeadSize : frameHeadSize+readSize])
		if n == readSize {
			if full++; full == 4 {
				growPipe(r)
			}
		}
		if n > 0 {
			if err := f(buf[:frameHeadSize+n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return drainStream(r, buf, f)
		default: // io.EOF, or EIO of a terminal without open descriptors
			return nil
		}
	}
}

// growPipe enlarges the buffer of a pipe with much output, so that its ends switch less often.
func growPipe(r *os.File) {
	if raw, err := r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }) // fails for a terminal, or past the user's limit
	}
}

// readSize is the size of one read. A frame of this size fits in one message of the multiplexer.
const readSize = maxFrame - 64

// drainStream calls f with the data that a stream holds now.
func drainStream(r *os.File, buf *[frameHeadSize + maxFrame]byte, f func(b []byte) error) error {
	raw, err := r.SyscallConn()
	if err != nil {
		return err
	}
	for {
		n := 0
		var inner error
		err := raw.Control(func(fd uintptr) { n, inner = syscall.Read(int(fd), buf[frameHeadSize:frameHeadSize+readSize]) })
		if err != nil || inner != nil || n <= 0 {
			return nil // empty, or at its end
		}
		if err := f(buf[:frameHeadSize+n]); err != nil {
			return err
		}
	}
}

// lateOutputTimeout is how long the streams of a command stay open after its end, in case a
// process outside of its tree still holds them.
const lateOutputTimeout = time.Second

// waitForEnd waits for the command's end, kills the processes it left, and sets a deadline for
// the goroutines that copy its streams.
func (c *command) waitForEnd() CommandResult {
	<-c.ended
	end := c.process.buildEnd()
	c.killRemaining()
	for _, f := range c.outs {
		_ = f.SetReadDeadline(time.Now().Add(lateOutputTimeout)) // pipes and terminals support deadlines
	}
	return end
}

// execution is a command with a host that waits for its end.
type execution struct {
	*command
	st *yamux.Stream

	onHostGone func()     // called when the host has disconnected
	mu         sync.Mutex // held while a frame is written
	stdin      *wire.Pipe // standard input from the host; nil: none
}

// exec handles OpExec.
func (s *Server) exec(_ context.Context, h *host, st *yamux.Stream, q *Request) {
	cmd, err := q.parseCommand()
	if err != nil {
		sendAnswer(st, err)
		return
	}
	if q.Keep {
		s.execKept(h, st, q, &cmd)
		return
	}
	x := &execution{st: st}
	x.command, err = s.startCommand(&cmd, q.Input)
	var not *startFailure
	switch {
	case errors.As(err, &not):
		sendAnswer(st, nil)
		x.sendFailure(&cmd, not)
		return
	case err != nil:
		sendAnswer(st, err)
		return
	}
	sendAnswer(st, nil)
	x.runStreams(&cmd)
}

// sendFailure sends why a command could not be started, as a shell would print it.
func (x *execution) sendFailure(cmd *atoll.Cmd, why *startFailure) {
	f := FrameStderr
	if cmd.TTY != nil {
		f = FrameStdout
	}
	x.sendFrame(f, []byte(why.Text))
	x.sendExit(CommandResult{Code: why.Code})
}

// parseCommand returns the command of a request.
func (q *Request) parseCommand() (atoll.Cmd, error) {
	if q.Command == nil {
		return atoll.Cmd{}, fmt.Errorf("%w: no command", atoll.ErrInvalid)
	}
	cmd := q.Command.Cmd()
	if err := cmd.Check(); err != nil {
		return cmd, err
	}
	if cmd.Session {
		return cmd, fmt.Errorf("%w: persistent shells by this driver", atoll.ErrUnsupported)
	}
	return cmd, nil
}

// runStreams copies the streams until the command has ended, and sends its End.
func (x *execution) runStreams(cmd *atoll.Cmd) {
	var late sync.WaitGroup
	if x.in != nil {
		x.stdin = wire.NewPipe(stdinWindow, x.ackStdin)
		late.Go(x.copyStdin)
	}
	x.onHostGone = x.kill
	late.Go(x.handleFrames)
	var expired *time.Timer
	if cmd.Timeout > 0 {
		// The host kills the command at its deadline. This is for a host that has
		// disconnected, or a guest that was paused.
		expired = time.AfterFunc(cmd.Timeout+deadlineGrace, x.kill)
	}
	var pumps sync.WaitGroup
	for i, f := range x.outs {
		frame := []Frame{FrameStdout, FrameStderr}[i]
		pumps.Go(func() {
			if err := copyOutput(f, func(b []byte) error { return x.sendPrefixedFrame(frame, b) }); err != nil {
				x.kill() // the host has disconnected
			}
		})
	}
	end := x.waitForEnd()
	pumps.Wait()
	if expired != nil && !expired.Stop() {
		end.Problem = wire.ProblemOf(fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
	}
	x.sendExit(end)
	_ = x.st.Close() // ends handleFrames
	if x.stdin != nil {
		x.stdin.CloseReader()
		_ = x.in.SetWriteDeadline(time.Now()) // ends copyStdin
	}
	late.Wait()
	x.close()
}

// deadlineGrace is how much longer than the host the guest waits for a deadline.
const deadlineGrace = time.Second

// ackStdin acknowledges n bytes of input that the command has read.
func (x *execution) ackStdin(n int) {
	x.sendFrame(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// handleFrames handles the host's frames until the channel ends.
func (x *execution) handleFrames() {
	defer x.onHostGone()
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
func (x *execution) handleFrame(f Frame, p []byte) bool {
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
		go x.kill() // may take a while; waitForEnd notices the end
	case FrameSignal:
		x.sendSignal(string(p))
	case FrameResize:
		var size atoll.Size
		if x.pty != nil && json.Unmarshal(p, &size) == nil {
			_ = x.pty.setSize(size) // best effort
		}
	default:
		return false
	}
	return true
}

// copyStdin copies input from the host to the command.
func (x *execution) copyStdin() {
	defer x.stdin.CloseReader()
	_, err := io.Copy(onlyWriter{x.in}, onlyReader{x.stdin})
	switch {
	case err != nil: // one end is closed
	case x.pty == nil:
		_ = x.in.Close() // the command sees the end
	default:
		_, _ = x.in.Write([]byte{4}) // ^D ends the input of a terminal
	}
}

// These types hide the methods with which io.Copy would bypass Read and Write.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func (x *execution) sendFrame(f Frame, p []byte) {
	_ = x.sendPrefixedFrame(f, append(make([]byte, frameHeadSize, frameHeadSize+len(p)), p...)) // fails if the host has disconnected
}

// sendPrefixedFrame sends a frame whose payload begins at b[frameHeadSize]. It overwrites the
// bytes before it.
func (x *execution) sendPrefixedFrame(f Frame, b []byte) error {
	appendFrameHead(b[:0], f, len(b)-frameHeadSize)
	x.mu.Lock()
	defer x.mu.Unlock()
	_, err := x.st.Write(b)
	return err
}

// sendExit sends the end of the command. If the sandbox itself is being stopped there is no exit
// status; the host then learns the cause from the end of the connection.
func (x *execution) sendExit(e CommandResult) {
	if x.command != nil && x.s.shuttingDown.Load() {
		_ = x.st.Reset() // fails if the host has disconnected
		return
	}
	b, _ := json.Marshal(e) // can't fail
	x.sendFrame(FrameExit, b)
}
