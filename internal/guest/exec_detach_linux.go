package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Limits on the detached commands of a guest.
const (
	maxDetached    = 64                     // running
	maxEnded       = 32                     // ended; the oldest is then removed
	maxKeptOutput  = atoll.DefaultMaxOutput // bytes of each stream
	maxCommandText = 1 << 10                // bytes of a command's text
)

// detachedRegistry holds the detached commands of a guest.
type detachedRegistry struct {
	mu   sync.Mutex
	list []*detached // guarded by mu; oldest first
}

// detached is a command that runs without a host.
type detached struct {
	*command
	timeout time.Duration

	mu      sync.Mutex
	changed sync.Cond     // signals changes of the fields below
	info    atoll.Process // guarded by mu
	output  [2]ring       // guarded by mu
	cause   error         // guarded by mu; why it was killed, if it was
}

// processOperations adds the handlers of detached commands.
func (s *Server) processOperations(ops map[Op]handler) {
	ops[OpDetach] = s.detachCommand
	ops[OpAttach] = s.attachHost
	ops[OpSignal] = s.signalDetached
	ops[OpDetached] = func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) {
		sendReply(st, s.detached.listProcesses(), nil)
	}
}

// detachCommand handles OpDetach.
func (s *Server) detachCommand(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	cmd, err := q.parseCommand()
	if err != nil {
		sendReply(st, nil, err)
		return
	}
	d := &detached{timeout: cmd.Timeout}
	d.changed.L = &d.mu
	d.info = atoll.Process{
		ID: q.Command.Process, Command: commandText(&cmd), Running: true, Detached: true, TTY: cmd.TTY != nil, Started: time.Now(),
	}
	if d.info.ID == "" {
		var b [6]byte
		_, _ = rand.Read(b[:]) // never fails
		d.info.ID = "p" + hex.EncodeToString(b[:])
	}
	for i := range d.output {
		d.output[i].limit = int(min(cmp.Or(cmd.MaxOutput, maxKeptOutput), maxKeptOutput))
	}
	err = s.detached.add(d, func() error { return s.launchDetached(d, &cmd) })
	d.mu.Lock() // the command runs already
	info := d.info
	d.mu.Unlock()
	sendReply(st, &info, err)
}

// launchDetached starts the command and the goroutine that collects its output.
func (s *Server) launchDetached(d *detached, cmd *atoll.Cmd) error {
	var err error
	d.command, err = s.startCommand(cmd, true)
	var not *startFailure
	switch {
	case errors.As(err, &not):
		_, _ = d.output[min(1, len(d.output)-1)].Write([]byte(not.Text)) // a ring never fails
		d.setEnd(CommandResult{Code: not.Code}, nil)
	case err != nil:
		return err
	default:
		go d.collectOutput()
	}
	return nil
}

// collectOutput stores the command's output until the command has ended.
func (d *detached) collectOutput() {
	var expired *time.Timer
	if d.timeout > 0 {
		expired = time.AfterFunc(d.timeout, d.kill)
	}
	var pumps sync.WaitGroup
	for i, f := range d.outs {
		pumps.Go(func() {
			_ = copyOutput(f, func(b []byte) error { // a ring never fails
				d.mu.Lock()
				defer d.mu.Unlock()
				_, _ = d.output[i].Write(b[frameHeadSize:]) // never fails
				d.info.Output += int64(len(b) - frameHeadSize)
				d.changed.Broadcast()
				return nil
			})
		})
	}
	end := d.waitForEnd()
	pumps.Wait()
	var cause error
	if expired != nil && !expired.Stop() {
		cause = fmt.Errorf("%w after %v", atoll.ErrTimeout, d.timeout)
	}
	d.close()
	d.setEnd(end, cause)
	d.s.notifyHosts(atoll.Notice{Kind: atoll.NoticeProcessEnded, Process: d.info.ID, Command: d.info.Command, PID: d.pid, Code: end.Code})
}

func (d *detached) setEnd(e CommandResult, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info.Running, d.info.Ended, d.info.Code, d.info.Signal, d.cause = false, time.Now(), e.Code, e.Signal, cause
	if cause != nil {
		d.info.Error = cause.Error()
	}
	d.changed.Broadcast()
}

// add starts a command and adds it to the registry.
func (k *detachedRegistry) add(d *detached, start func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	running, ended := 0, 0
	for _, o := range k.list {
		info := o.currentInfo()
		if info.ID == d.info.ID {
			return fmt.Errorf("%w: process %q", atoll.ErrExists, info.ID)
		}
		if info.Running {
			running++
		} else {
			ended++
		}
	}
	if running >= maxDetached {
		return fmt.Errorf("%w: %d detached commands run", atoll.ErrQuota, running)
	}
	if err := start(); err != nil {
		return err
	}
	k.list = slices.DeleteFunc(append(k.list, d), func(o *detached) bool {
		if ended < maxEnded || o.currentInfo().Running {
			return false
		}
		ended--
		return true
	})
	return nil
}

func (k *detachedRegistry) find(id string) *detached {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.list {
		if d.info.ID == id { // immutable
			return d
		}
	}
	return nil
}

func (k *detachedRegistry) listProcesses() []atoll.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]atoll.Process, len(k.list))
	for i, d := range k.list {
		list[i] = d.currentInfo()
	}
	return list
}

func (d *detached) currentInfo() atoll.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

// attachHost handles OpAttach.
func (s *Server) attachHost(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var id string
	if err := q.DecodeBody(&id); err != nil {
		sendAnswer(st, err)
		return
	}
	d := s.detached.find(id)
	if d == nil {
		sendAnswer(st, fmt.Errorf("%w: process %q", atoll.ErrNotFound, id))
		return
	}
	sendAnswer(st, nil)
	v := &attachment{execution: execution{command: d.command, st: st}, d: d}
	var late sync.WaitGroup
	if d.command == nil {
		v.command = &command{process: &process{s: s, done: true}} // it could not be started
	}
	if q.Input && v.in != nil {
		v.stdin = wire.NewPipe(stdinWindow, v.ackStdin)
		late.Go(v.copyStdin)
	}
	v.onHostGone = v.markHostGone
	late.Go(v.handleFrames)
	if v.sendOutput() == nil {
		v.sendExit(v.buildEnd())
	}
	_ = st.Close() // ends handleFrames
	late.Wait()
}

// signalDetached handles OpSignal. A signal to a command that has ended is ignored.
func (s *Server) signalDetached(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var b signalBody
	err := q.DecodeBody(&b)
	if err == nil {
		switch d := s.detached.find(b.Process); {
		case d == nil:
			err = fmt.Errorf("%w: process %q", atoll.ErrNotFound, b.Process)
		case d.command != nil: // nil: it could not be started
			d.command.sendSignal(b.Signal)
		}
	}
	sendAnswer(st, err)
}

// attachment is a host that is attached to a detached command.
type attachment struct {
	execution
	d        *detached
	hostGone bool // guarded by d.mu
	lost     bool // part of the output was dropped
	offsets  [2]int64
}

// markHostGone records that the host has disconnected.
func (v *attachment) markHostGone() {
	if v.stdin != nil {
		v.stdin.CloseReader()
	}
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	v.hostGone = true
	v.d.changed.Broadcast()
}

// sendOutput sends the stored output and all later output until the command has ended.
func (v *attachment) sendOutput() error {
	buf := make([]byte, frameHeadSize+readSize)
	for {
		stream, n, more := v.nextOutput(buf[frameHeadSize:])
		if n > 0 {
			if err := v.sendPrefixedFrame([]Frame{FrameStdout, FrameStderr}[stream], buf[:frameHeadSize+n]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// nextOutput waits for output that was not sent to this host yet. It returns false after the end.
func (v *attachment) nextOutput(b []byte) (stream, n int, more bool) {
	d := v.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for i := range d.output {
			var lost bool
			n, v.offsets[i], lost = d.output[i].read(v.offsets[i], b)
			v.lost = v.lost || lost
			if n > 0 {
				return i, n, !v.hostGone
			}
		}
		if v.hostGone || !d.info.Running {
			return 0, 0, false
		}
		d.changed.Wait()
	}
}

func (v *attachment) buildEnd() CommandResult {
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	return CommandResult{Code: v.d.info.Code, Signal: v.d.info.Signal, Truncated: v.lost, Problem: wire.ProblemOf(v.d.cause)}
}

// ring is a ring buffer of the last bytes written to it.
type ring struct {
	limit int
	buf   []byte // at full length, byte i of the whole output is at index i modulo limit
	total int64
}

// Write stores p. It never fails.
func (r *ring) Write(p []byte) (int, error) {
	n := len(p)
	if drop := len(p) - r.limit; drop > 0 {
		if missing := r.limit - len(r.buf); missing > 0 { // p replaces the whole content
			r.buf = append(r.buf, make([]byte, missing)...)
		}
		r.total += int64(drop)
		p = p[drop:]
	}
	if room := min(r.limit-len(r.buf), len(p)); room > 0 {
		r.buf = append(r.buf, p[:room]...)
		r.total += int64(room)
		p = p[room:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.total%int64(r.limit):], p)
		r.total += int64(k)
		p = p[k:]
	}
	return n, nil
}

// read copies output from an offset of the whole output, or from the oldest stored byte if that
// one was dropped. It returns the next offset, and whether output was dropped.
func (r *ring) read(at int64, b []byte) (n int, next int64, lost bool) {
	if oldest := r.total - int64(len(r.buf)); at < oldest {
		at, lost = oldest, true
	}
	if at >= r.total {
		return 0, at, lost
	}
	from := at
	if len(r.buf) == r.limit {
		from = at % int64(r.limit)
	}
	n = copy(b[:min(int64(len(b)), r.total-at)], r.buf[from:])
	return n, at + int64(n), lost
}

// commandText returns a command as shell text for display.
func commandText(cmd *atoll.Cmd) string {
	text := cmd.Shell
	if text == "" {
		var b strings.Builder
		for _, a := range cmd.Args {
			if b.Len() > maxCommandText {
				break
			}
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
				a = strconv.Quote(a)
			}
			b.WriteString(a)
		}
		text = b.String()
	}
	return strings.ToValidUTF8(text[:min(len(text), maxCommandText)], "\ufffd")
}
