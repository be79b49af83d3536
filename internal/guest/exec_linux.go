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

// command is a process with its streams, as a host sees it.
type command struct {
	*process
	pty  *pty       // nil: pipes
	in   *os.File   // what the command reads; nil: nothing
	outs []*os.File // what it writes: output and errors, or what the terminal shows
}

// run starts a command with streams. input says that there is something to
// read; a terminal always can be typed on.
func (s *Server) run(cmd *atoll.Cmd, input bool) (*command, error) {
	c := &command{}
	files, err := c.open(cmd, input)
	if err == nil {
		c.process, err = s.start(cmd, files, c.pty != nil)
	}
	if c.pty != nil {
		c.pty.handOver()
	} else {
		for _, fd := range files {
			_ = unix.Close(fd) // they are the command's
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// open makes the streams and returns the command's ends.
func (c *command) open(cmd *atoll.Cmd, input bool) (files []int, err error) {
	if cmd.TTY != nil {
		if c.pty, err = openPty(cmd.TTY.Size); err != nil {
			return nil, fmt.Errorf("%w: a terminal: %w", atoll.ErrUnavailable, err)
		}
		c.in, c.outs = c.pty.File, []*os.File{c.pty.File}
		return []int{c.pty.slave, c.pty.slave, c.pty.slave}, nil
	}
	if input {
		fd, ours, err := pipe(1)
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
		fd, ours, err := pipe(0)
		if err != nil {
			return files, err
		}
		c.outs, files = append(c.outs, ours), append(files, fd)
	}
	return files, nil
}

// pipe returns a pipe, of which one end is ours.
func pipe(our int) (theirs int, ours *os.File, err error) {
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
		_ = c.in.Close() // the command's end tells of errors
	}
	for _, f := range c.outs {
		_ = f.Close() // nothing was written
	}
}

// signal sends a signal, on a terminal to its foreground.
func (c *command) signal(name string) {
	if sig, ok := signalOf(name); ok && c.pty != nil && sig != unix.SIGKILL {
		if pgid, err := c.pty.foreground(); err == nil && pgid > 0 {
			_ = unix.Kill(-pgid, sig) // it may have ended
			return
		}
	}
	c.process.signal(name)
}

// pump gives what comes from a stream to f until all of its writers have
// ended, or, once late is closed, it is empty. f's error ends it.
func pump(r *os.File, f func(b []byte) error) error {
	buf := buffers.Get().(*[frameSize + maxFrame]byte) //nolint:forcetypeassert // it holds no others
	defer buffers.Put(buf)
	for full := 0; ; {
		n, err := r.Read(buf[frameSize : frameSize+pumpSize])
		if n == pumpSize {
			if full++; full == 4 {
				widen(r)
			}
		}
		if n > 0 {
			if err := f(buf[:frameSize+n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return rest(r, buf, f)
		default: // io.EOF; EIO of a terminal that nobody has open
			return nil
		}
	}
}

// widen makes a pipe that carries much hold more, so that its ends take fewer
// turns.
func widen(r *os.File) {
	if raw, err := r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }) // a terminal has none; a user may have no more
	}
}

// pumpSize is what one read takes: with its heads, a frame of it is one message
// of the multiplexer.
const pumpSize = maxFrame - 64

// rest pumps what is in a stream now.
func rest(r *os.File, buf *[frameSize + maxFrame]byte, f func(b []byte) error) error {
	raw, err := r.SyscallConn()
	if err != nil {
		return err
	}
	for {
		n := 0
		var inner error
		err := raw.Control(func(fd uintptr) { n, inner = syscall.Read(int(fd), buf[frameSize:frameSize+pumpSize]) })
		if err != nil || inner != nil || n <= 0 {
			return nil // empty, or ended
		}
		if err := f(buf[:frameSize+n]); err != nil {
			return err
		}
	}
}

// lateOutput is how long the streams of a command that has ended, with all that
// it started, stay open for who holds them nevertheless.
const lateOutput = time.Second

// await waits for the command's end, ends what it left, and lets its streams
// run dry. Others are pumping them.
func (c *command) await() End {
	<-c.ended
	end := c.process.end()
	c.finish()
	for _, f := range c.outs {
		_ = f.SetReadDeadline(time.Now().Add(lateOutput)) // pipes and terminals have them
	}
	return end
}

// execution is a command of a host that waits for it.
type execution struct {
	*command
	st *yamux.Stream

	leave func()     // called when the host is gone
	mu    sync.Mutex // held while a frame is written
	stdin *wire.Pipe // what the host has sent for the command; nil: nothing
}

// exec runs a command for the host.
func (s *Server) exec(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	cmd, err := q.command()
	if err != nil {
		answer(st, err)
		return
	}
	x := &execution{st: st}
	x.command, err = s.run(&cmd, q.Input)
	var not *notStarted
	switch {
	case errors.As(err, &not):
		answer(st, nil)
		f := FrameStderr
		if cmd.TTY != nil {
			f = FrameStdout
		}
		x.send(f, []byte(not.Text))
		x.exit(End{Code: not.Code})
		return
	case err != nil:
		answer(st, err)
		return
	}
	answer(st, nil)
	x.serve(&cmd)
}

// command returns the command of a request.
func (q *Request) command() (atoll.Cmd, error) {
	if q.Command == nil {
		return atoll.Cmd{}, fmt.Errorf("%w: no command", atoll.ErrInvalid)
	}
	cmd := q.Command.Cmd()
	if err := cmd.Check(); err != nil {
		return cmd, err
	}
	if cmd.Session {
		return cmd, fmt.Errorf("%w: lasting shells by this driver", atoll.ErrUnsupported)
	}
	return cmd, nil
}

// serve carries the streams until the end.
func (x *execution) serve(cmd *atoll.Cmd) {
	var late sync.WaitGroup
	if x.in != nil {
		x.stdin = wire.NewPipe(stdinWindow, x.acknowledge)
		late.Go(x.feed)
	}
	x.leave = x.kill
	late.Go(x.listen)
	var expired *time.Timer
	if cmd.Timeout > 0 {
		// The host ends it at this time; it may be gone, or paused us.
		expired = time.AfterFunc(cmd.Timeout+hostFirst, x.kill)
	}
	var pumps sync.WaitGroup
	for i, f := range x.outs {
		frame := []Frame{FrameStdout, FrameStderr}[i]
		pumps.Go(func() {
			if err := pump(f, func(b []byte) error { return x.sendIn(frame, b) }); err != nil {
				x.kill() // the host is gone
			}
		})
	}
	end := x.await()
	pumps.Wait()
	if expired != nil && !expired.Stop() {
		end.Problem = wire.ProblemOf(fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
	}
	x.exit(end)
	_ = x.st.Close() // so that listen ends
	if x.stdin != nil {
		x.stdin.Stop()
		_ = x.in.SetWriteDeadline(time.Now()) // so that feed ends
	}
	late.Wait()
	x.close()
}

// hostFirst is how much longer than the host the guest waits for a deadline.
const hostFirst = time.Second

// acknowledge says that the command has taken of its input.
func (x *execution) acknowledge(n int) {
	x.send(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// listen takes the host's frames until the channel ends.
func (x *execution) listen() {
	defer x.leave()
	if x.stdin != nil {
		defer x.stdin.End(io.ErrUnexpectedEOF)
	}
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(x.st, &buf)
		if err != nil || !x.take(f, p) {
			return
		}
	}
}

// take does what a frame says; false: the host breaks the protocol.
func (x *execution) take(f Frame, p []byte) bool {
	switch f {
	case FrameStdin:
		switch {
		case x.stdin == nil:
		case len(p) == 0:
			x.stdin.End(nil)
		default:
			return x.stdin.Offer(p)
		}
	case FrameKill:
		go x.kill() // it may take a while; others hear of its end
	case FrameSignal:
		x.signal(string(p))
	case FrameResize:
		var size atoll.Size
		if x.pty != nil && json.Unmarshal(p, &size) == nil {
			_ = x.pty.resize(size) // a wish
		}
	default:
		return false
	}
	return true
}

// feed gives the command what the host has sent for it.
func (x *execution) feed() {
	defer x.stdin.Stop()
	_, err := io.Copy(onlyWriter{x.in}, onlyReader{x.stdin})
	switch {
	case err != nil: // one end is gone
	case x.pty == nil:
		_ = x.in.Close() // the command sees the end
	default:
		_, _ = x.in.Write([]byte{4}) // ^D: a terminal has no other end
	}
}

// These hide the methods by which io.Copy would do it another way.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func (x *execution) send(f Frame, p []byte) {
	_ = x.sendIn(f, append(make([]byte, frameSize, frameSize+len(p)), p...)) // a host that is gone needs none
}

// sendIn sends a frame whose payload begins at frameSize of b.
func (x *execution) sendIn(f Frame, b []byte) error {
	appendFrame(b[:0], f, len(b)-frameSize)
	x.mu.Lock()
	defer x.mu.Unlock()
	_, err := x.st.Write(b)
	return err
}

// exit says how the command has ended. What the sandbox's own end has ended has
// no status: the host learns from the connection what became of it.
func (x *execution) exit(e End) {
	if x.command != nil && x.s.quitting.Load() {
		_ = x.st.Reset() // a host that is gone needs none
		return
	}
	b, _ := json.Marshal(e) // can't fail
	x.send(FrameExit, b)
}
