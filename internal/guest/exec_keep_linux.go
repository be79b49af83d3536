package guest

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxKept limits the commands that a guest keeps at once, running or not.
const maxKept = 4096

// keptRegistry holds the foreground commands of a guest by their ids.
type keptRegistry struct {
	mu          sync.Mutex
	list        map[string]*keptCommand // guarded by mu
	ended       list.List               // guarded by mu; of commands that have ended and have no host
	endedOutput int64                   // guarded by mu; bytes of their output
}

func (r *keptRegistry) add(k *keptCommand) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case k.id == "":
		return fmt.Errorf("%w: a command that is kept needs an id", atoll.ErrInvalid)
	case r.list[k.id] != nil:
		return fmt.Errorf("%w: command %q", atoll.ErrExists, k.id)
	case len(r.list) >= maxKept:
		return fmt.Errorf("%w: %d commands run", atoll.ErrQuota, len(r.list))
	}
	if r.list == nil {
		r.list = make(map[string]*keptCommand)
	}
	r.list[k.id] = k
	return nil
}

func (r *keptRegistry) removeCommand(k *keptCommand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropEnded(k)
	delete(r.list, k.id)
}

func (r *keptRegistry) find(id string) *keptCommand {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[id]
}

// keptCommand is a foreground command that goes on for KeepTime when the connection of its host
// is lost. Its output and its end are stored, then sent: execution.mu is held for both. Output
// that no host has received makes the command wait.
type keptCommand struct {
	execution
	id      string
	started chan struct{} // closed when it has been started, or could not be

	output [2]ring        // guarded by execution.mu
	result *CommandResult // guarded by execution.mu; nil: it runs

	state    sync.Mutex    // may be locked while execution.mu is held, not the other way round
	changed  sync.Cond     // signals changes of the fields below
	current  *yamux.Stream // guarded by state, as all below: channel of the host; nil: the connection is lost
	ended    bool          // the result is set
	written  [2]int64      // bytes of output that were read from the command
	received [2]int64      // bytes of output that a host has
	input    resumeReply   // bytes of standard input
	expiry   *time.Timer   // while the connection is lost
	linger   bool          // a host that has the end may still lose it: it is immutable
	gone     bool          // no host will come any more

	storedBytes int64         // size of its output, once it has ended
	endedElem   *list.Element // in keptRegistry.ended; guarded by keptRegistry.mu
}

// execKept handles OpExec of a command that is kept.
func (s *Server) execKept(h *host, st *yamux.Stream, q *Request, cmd *atoll.Cmd) {
	k := &keptCommand{id: q.Command.Process, linger: q.Linger, execution: execution{st: st}, current: st, started: make(chan struct{})}
	k.changed.L = &k.state
	for i := range k.output {
		k.output[i].limit = keptOutput
	}
	if err := s.kept.add(k); err != nil {
		sendAnswer(st, err)
		return
	}
	err := k.start(s, cmd, q.Input)
	var not *startFailure
	switch {
	case errors.As(err, &not):
		sendAnswer(st, nil)
		k.sendFailure(cmd, not)
		return
	case err != nil:
		sendAnswer(st, err)
		return
	}
	sendAnswer(st, nil)
	go k.run(s, cmd.Timeout) // it may outlive this channel
	k.serveHost(h, st)
}

// start starts the command. One that could not be started is not kept.
func (k *keptCommand) start(s *Server, cmd *atoll.Cmd, input bool) (err error) {
	defer close(k.started)
	if k.command, err = s.startCommand(cmd, input); err != nil {
		s.kept.removeCommand(k)
		return err
	}
	if k.in != nil {
		k.stdin = wire.NewPipe(stdinWindow, k.ackInput)
	}
	return nil
}

// run copies the streams until the command has ended, and keeps its end until a host has it.
func (k *keptCommand) run(s *Server, timeout time.Duration) {
	defer s.scheduleTidy()
	defer s.kept.removeCommand(k)
	var late sync.WaitGroup
	if k.stdin != nil {
		late.Go(k.copyStdin)
	}
	var expired *time.Timer
	if timeout > 0 { // the host kills the command at its deadline, if it can
		expired = time.AfterFunc(timeout+deadlineGrace, k.kill)
	}
	var pumps sync.WaitGroup
	for i, f := range k.outs {
		pumps.Go(func() {
			_ = copyOutput(f, func(b []byte) error { return k.sendOutput(i, b) }) // fails when no host will come
		})
	}
	end := k.waitForEnd()
	pumps.Wait()
	if expired != nil && !expired.Stop() {
		end.Problem = wire.ProblemOf(fmt.Errorf("%w after %v", atoll.ErrTimeout, timeout))
	}
	k.setResult(&end)
	if k.stdin != nil {
		k.stdin.CloseReader()
		_ = k.in.SetWriteDeadline(time.Now()) // ends copyStdin
	}
	late.Wait()
	k.close()
	k.waitForHost()
}

// sendOutput stores and sends output that begins at b[frameHeadSize]. It overwrites the bytes
// before it.
func (k *keptCommand) sendOutput(stream int, b []byte) error {
	n := int64(len(b) - frameHeadSize)
	if !k.waitForRoom(stream, n) {
		return errNoHost
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.output[stream].Write(b[frameHeadSize:]) // never fails
	appendFrameHead(b[:0], []Frame{FrameStdout, FrameStderr}[stream], int(n))
	k.send(b)
	return nil
}

// errNoHost reports that no host will ask for the output of a command.
var errNoHost = errors.New("no host is connected")

// waitForRoom waits until there is room for n bytes of output that no host has received, and takes
// it. It returns false when no host will come any more.
func (k *keptCommand) waitForRoom(stream int, n int64) bool {
	k.state.Lock()
	defer k.state.Unlock()
	for !k.gone && k.written[stream] > k.received[stream] && k.written[stream]+n > k.received[stream]+sendWindow {
		k.changed.Wait()
	}
	k.written[stream] += n
	return !k.gone
}

// send sends a frame to the host, if one is connected. The caller holds execution.mu.
func (k *keptCommand) send(frame []byte) {
	k.state.Lock()
	st := k.current
	k.state.Unlock()
	if st == nil {
		return
	}
	if _, err := st.Write(frame); err != nil {
		k.loseHost(st)
	}
}

// ackInput acknowledges n bytes of input that the command has read.
func (k *keptCommand) ackInput(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Lock()
	k.input.Read += int64(n)
	k.state.Unlock()
	k.send(binary.BigEndian.AppendUint32(appendFrameHead(nil, FrameAck, 4), uint32(n))) //nolint:gosec // at most stdinWindow
}

// setResult stores the end of the command and sends it.
func (k *keptCommand) setResult(end *CommandResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.result = end
	k.state.Lock()
	k.ended = true
	k.storedBytes = int64(len(k.output[0].buf) + len(k.output[1].buf))
	st := k.current
	if st == nil && !k.gone {
		k.s.kept.addEnded(k)
	}
	k.state.Unlock()
	if st == nil {
		return
	}
	k.st = st
	k.sendResult()
}

// sendResult sends the end of the command on k.st. The caller holds execution.mu.
func (k *keptCommand) sendResult() {
	if k.s.shuttingDown.Load() {
		_ = k.st.Reset() // the host learns the cause from the end of the connection
		return
	}
	if writeJSONFrame(k.st, FrameExit, k.result) != nil {
		k.loseHost(k.st)
	}
}

// serveHost handles the frames of a host until it has the end of the command or its channel ends.
func (k *keptCommand) serveHost(h *host, st *yamux.Stream) {
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(st, &buf)
		switch {
		case err != nil:
			k.endHost(h, st, err)
			return
		case f == FrameLeave:
			k.loseHost(st)
			return
		case f == FrameReceived:
			if k.countReceived(st, p) != nil {
				k.endHost(h, st, errWire)
				return
			}
		case !k.takeFrame(st, f, p):
			k.endHost(h, st, errWire)
			return
		}
	}
}

// takeFrame handles a frame of the current host. It returns false if the host violates the protocol.
func (k *keptCommand) takeFrame(st *yamux.Stream, f Frame, p []byte) bool {
	if f != FrameStdin {
		return !k.isCurrent(st) || k.handleFrame(f, p)
	}
	k.state.Lock()
	defer k.state.Unlock() // with the input, so that the next host continues behind it
	if k.current != st {
		return true // another host has the command
	}
	k.input.Received += int64(len(p))
	return k.handleFrame(f, p)
}

// isCurrent reports whether a channel is the one of the command's host.
func (k *keptCommand) isCurrent(st *yamux.Stream) bool {
	k.state.Lock()
	defer k.state.Unlock()
	return k.current == st
}

// countReceived records what a host has received.
func (k *keptCommand) countReceived(st *yamux.Stream, p []byte) error {
	received, err := parseOffsets(p)
	if err != nil {
		return err
	}
	k.state.Lock()
	defer k.state.Unlock()
	if k.current != st {
		return nil
	}
	for i, n := range received {
		if n > k.written[i] {
			return errWire
		}
		k.received[i] = max(k.received[i], n)
	}
	k.changed.Broadcast()
	return nil
}

// endHost handles the end of a host's channel: the host has everything, its connection was lost,
// or it has given up, which kills the command.
func (k *keptCommand) endHost(h *host, st *yamux.Stream, err error) {
	k.state.Lock()
	ours, ended := k.current == st, k.ended
	k.state.Unlock()
	switch {
	case !ours:
	case ended && err == io.EOF: //nolint:errorlint // the error of a lost connection wraps an EOF, too
		// It has closed the channel in order; the connection may have ended since.
		if !k.linger {
			k.giveUp()
			return
		}
		k.loseHost(st)
	case h.mux.IsClosed():
		k.loseHost(st)
	default:
		k.giveUp()
		k.kill()
	}
}

// loseHost makes the command wait for another host.
func (k *keptCommand) loseHost(st *yamux.Stream) {
	k.state.Lock()
	defer k.state.Unlock()
	if k.current != st {
		return
	}
	k.current = nil
	k.expiry = time.AfterFunc(KeepTime, k.expire)
	k.changed.Broadcast()
	if k.ended {
		k.s.kept.addEnded(k)
	}
}

// Limits on the commands that have ended and have no host. The first ones are forgotten: hosts that
// exit right after a command leave one each time.
const (
	maxEndedKept   = 256
	maxEndedOutput = 32 << 20 // bytes of their output
)

// addEnded adds a command that has ended and has no host.
func (r *keptRegistry) addEnded(k *keptCommand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.endedElem != nil || r.list[k.id] != k {
		return
	}
	k.endedElem = r.ended.PushBack(k)
	r.endedOutput += k.storedBytes
	for r.ended.Len() > maxEndedKept || r.endedOutput > maxEndedOutput {
		oldest := r.ended.Front().Value.(*keptCommand) //nolint:forcetypeassert // the list has no others
		r.dropEnded(oldest)
		go oldest.giveUp() // it locks the command
	}
}

// removeEnded removes a command to which a host is connected again.
func (r *keptRegistry) removeEnded(k *keptCommand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropEnded(k)
}

// dropEnded removes a command from the list of those without a host. The caller holds mu.
func (r *keptRegistry) dropEnded(k *keptCommand) {
	if k.endedElem == nil {
		return
	}
	r.ended.Remove(k.endedElem)
	k.endedElem = nil
	r.endedOutput -= k.storedBytes
}

// expire ends a command that no host has taken over in time.
func (k *keptCommand) expire() {
	k.state.Lock()
	if k.current != nil { // one has, at the last instant
		k.state.Unlock()
		return
	}
	k.gone = true
	k.changed.Broadcast()
	k.state.Unlock()
	k.kill()
}

// giveUp records that no host will come any more.
func (k *keptCommand) giveUp() {
	k.state.Lock()
	defer k.state.Unlock()
	k.gone = true
	k.changed.Broadcast()
}

// waitForHost waits until a host has the end of the command, or until none will come.
func (k *keptCommand) waitForHost() {
	k.state.Lock()
	defer k.state.Unlock()
	for !k.gone {
		k.changed.Wait()
	}
	if k.expiry != nil {
		k.expiry.Stop()
	}
}

// resumeCommand handles OpResume.
func (s *Server) resumeCommand(h *host, st *yamux.Stream, q *Request) {
	var body resumeBody
	if err := q.DecodeBody(&body); err != nil {
		sendAnswer(st, err)
		return
	}
	k := s.kept.find(body.Command)
	if k != nil {
		<-k.started // its connection may have been lost before
		k = s.kept.find(body.Command)
	}
	if k == nil {
		sendAnswer(st, fmt.Errorf("%w: command %q: it has ended, or was never started", atoll.ErrNotFound, body.Command))
		return
	}
	reply, err := k.takeOver(st, &body.Received)
	sendReply(st, reply, err)
	if err != nil {
		k.mu.Unlock()
		return
	}
	k.sendMissing(body.Received)
	k.mu.Unlock()
	k.serveHost(h, st)
}

// takeOver makes a channel the one of the command's host, which has received a part of the output. It replaces negative numbers
// in received by those of the output so far. It returns with execution.mu locked, so that nothing is sent before what is missing.
func (k *keptCommand) takeOver(st *yamux.Stream, received *[2]int64) (reply resumeReply, err error) {
	k.state.Lock()
	former := k.current
	k.state.Unlock()
	if former != nil {
		k.loseHost(former) // if the new host is refused, the command waits for another one
		_ = former.Reset() // so that no writer waits for it with the lock
	}
	k.mu.Lock()
	if received[0] < 0 && received[1] < 0 {
		*received = [2]int64{k.output[0].total, k.output[1].total}
		reply.Output = received
	}
	for i := range received {
		r := &k.output[i]
		if oldest := r.total - int64(len(r.buf)); received[i] < oldest || received[i] > r.total {
			return resumeReply{}, fmt.Errorf("%w: output from byte %d on: bytes %d to %d are kept", atoll.ErrUnavailable, received[i], oldest, r.total)
		}
	}
	k.state.Lock()
	defer k.state.Unlock()
	if k.gone {
		return resumeReply{}, fmt.Errorf("%w: command %q has ended", atoll.ErrNotFound, k.id)
	}
	if k.expiry != nil {
		k.expiry.Stop()
		k.expiry = nil
	}
	k.s.kept.removeEnded(k)
	k.current, k.st, k.received = st, st, *received
	k.changed.Broadcast()
	reply.Received, reply.Read = k.input.Received, k.input.Read
	return reply, nil
}

// sendMissing sends the output that the host does not have, and the end. The caller holds
// execution.mu.
func (k *keptCommand) sendMissing(received [2]int64) {
	buf := make([]byte, frameHeadSize+readSize)
	for i := range received {
		for at := received[i]; ; {
			var n int
			n, at, _ = k.output[i].read(at, buf[frameHeadSize:])
			if n == 0 {
				break
			}
			appendFrameHead(buf[:0], []Frame{FrameStdout, FrameStderr}[i], n)
			k.send(buf[:frameHeadSize+n])
		}
	}
	if k.result != nil {
		k.sendResult()
	}
}
