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

// What of detached commands a guest keeps.
const (
	mostDetached = 64                     // running
	mostEnded    = 32                     // that have ended; then the oldest goes
	mostKept     = atoll.DefaultMaxOutput // bytes of each stream
	mostText     = 1 << 10                // bytes of a command's text
)

// keeper has the detached commands of a guest.
type keeper struct {
	mu   sync.Mutex
	list []*detached // guarded by mu; oldest first
}

// detached is a command that goes on without a host.
type detached struct {
	*command
	timeout time.Duration

	mu    sync.Mutex
	news  sync.Cond     // of what mu guards
	info  atoll.Process // guarded by mu
	kept  [2]ring       // guarded by mu
	cause error         // guarded by mu; why it was ended, if it was
}

// processOperations adds those that this file has.
func (s *Server) processOperations(ops map[Op]handler) {
	ops[OpDetach] = s.detach
	ops[OpAttach] = s.attach
	ops[OpSignal] = s.signal
	ops[OpDetached] = func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { reply(st, s.keeper.infos(), nil) }
}

// detach starts a command for a host that then leaves it.
func (s *Server) detach(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	cmd, err := q.command()
	if err != nil {
		reply(st, nil, err)
		return
	}
	d := &detached{timeout: cmd.Timeout}
	d.news.L = &d.mu
	d.info = atoll.Process{
		ID: q.Command.Process, Command: textOf(&cmd), Running: true, Detached: true, TTY: cmd.TTY != nil, Started: time.Now(),
	}
	if d.info.ID == "" {
		var b [6]byte
		_, _ = rand.Read(b[:]) // never fails
		d.info.ID = "p" + hex.EncodeToString(b[:])
	}
	for i := range d.kept {
		d.kept[i].most = int(min(cmp.Or(cmd.MaxOutput, mostKept), mostKept))
	}
	err = s.keeper.add(d, func() error { return s.launch(d, &cmd) })
	d.mu.Lock() // it runs already
	info := d.info
	d.mu.Unlock()
	reply(st, &info, err)
}

// launch starts the command.
func (s *Server) launch(d *detached, cmd *atoll.Cmd) error {
	var err error
	d.command, err = s.run(cmd, true)
	var not *notStarted
	switch {
	case errors.As(err, &not):
		_, _ = d.kept[min(1, len(d.kept)-1)].Write([]byte(not.Text)) // it takes all
		d.end(End{Code: not.Code}, nil)
	case err != nil:
		return err
	default:
		go d.keep()
	}
	return nil
}

// keep keeps what the command writes until it has ended.
func (d *detached) keep() {
	var expired *time.Timer
	if d.timeout > 0 {
		expired = time.AfterFunc(d.timeout, d.kill)
	}
	var pumps sync.WaitGroup
	for i, f := range d.outs {
		pumps.Go(func() {
			_ = pump(f, func(b []byte) error { // a ring takes everything
				d.mu.Lock()
				defer d.mu.Unlock()
				_, _ = d.kept[i].Write(b[frameSize:]) // likewise
				d.info.Output += int64(len(b) - frameSize)
				d.news.Broadcast()
				return nil
			})
		})
	}
	end := d.await()
	pumps.Wait()
	var cause error
	if expired != nil && !expired.Stop() {
		cause = fmt.Errorf("%w after %v", atoll.ErrTimeout, d.timeout)
	}
	d.close()
	d.end(end, cause)
	d.s.notify(atoll.Notice{Kind: atoll.NoticeProcessEnded, Process: d.info.ID, Command: d.info.Command, PID: d.pid, Code: end.Code})
}

func (d *detached) end(e End, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info.Running, d.info.Ended, d.info.Code, d.info.Signal, d.cause = false, time.Now(), e.Code, e.Signal, cause
	if cause != nil {
		d.info.Error = cause.Error()
	}
	d.news.Broadcast()
}

// add makes a command known, if it can be started.
func (k *keeper) add(d *detached, start func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	running, ended := 0, 0
	for _, o := range k.list {
		info := o.see()
		if info.ID == d.info.ID {
			return fmt.Errorf("%w: process %q", atoll.ErrExists, info.ID)
		}
		if info.Running {
			running++
		} else {
			ended++
		}
	}
	if running >= mostDetached {
		return fmt.Errorf("%w: %d detached commands run", atoll.ErrQuota, running)
	}
	if err := start(); err != nil {
		return err
	}
	k.list = slices.DeleteFunc(append(k.list, d), func(o *detached) bool {
		if ended < mostEnded || o.see().Running {
			return false
		}
		ended--
		return true
	})
	return nil
}

func (k *keeper) find(id string) *detached {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.list {
		if d.info.ID == id { // it never changes
			return d
		}
	}
	return nil
}

func (k *keeper) infos() []atoll.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]atoll.Process, len(k.list))
	for i, d := range k.list {
		list[i] = d.see()
	}
	return list
}

func (d *detached) see() atoll.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

// attach joins a host to a detached command.
func (s *Server) attach(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var id string
	if err := q.Into(&id); err != nil {
		answer(st, err)
		return
	}
	d := s.keeper.find(id)
	if d == nil {
		answer(st, fmt.Errorf("%w: process %q", atoll.ErrNotFound, id))
		return
	}
	answer(st, nil)
	v := &visit{execution: execution{command: d.command, st: st}, d: d}
	var late sync.WaitGroup
	if d.command == nil {
		v.command = &command{process: &process{s: s, done: true}} // it never was one
	}
	if q.Input && v.in != nil {
		v.stdin = wire.NewPipe(stdinWindow, v.acknowledge)
		late.Go(v.feed)
	}
	v.leave = v.left
	late.Go(v.listen)
	if v.follow() == nil {
		v.exit(v.end())
	}
	_ = st.Close() // so that listen ends
	late.Wait()
}

// signal sends a signal to a detached command, unless that has ended.
func (s *Server) signal(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var b signalBody
	err := q.Into(&b)
	if err == nil {
		switch d := s.keeper.find(b.Process); {
		case d == nil:
			err = fmt.Errorf("%w: process %q", atoll.ErrNotFound, b.Process)
		case d.command != nil: // else it never was one
			d.command.signal(b.Signal)
		}
	}
	answer(st, err)
}

// visit is a host at a detached command.
type visit struct {
	execution
	d    *detached
	gone bool // guarded by d.mu
	lost bool // some output was not kept
	at   [2]int64
}

// left says that the host is gone.
func (v *visit) left() {
	if v.stdin != nil {
		v.stdin.Stop()
	}
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	v.gone = true
	v.d.news.Broadcast()
}

// follow sends what is kept, and what comes, until the command has ended.
func (v *visit) follow() error {
	buf := make([]byte, frameSize+pumpSize)
	for {
		stream, n, more := v.next(buf[frameSize:])
		if n > 0 {
			if err := v.sendIn([]Frame{FrameStdout, FrameStderr}[stream], buf[:frameSize+n]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// next waits for output that this host has not seen; false: there is no more.
func (v *visit) next(b []byte) (stream, n int, more bool) {
	d := v.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for i := range d.kept {
			var lost bool
			n, v.at[i], lost = d.kept[i].read(v.at[i], b)
			v.lost = v.lost || lost
			if n > 0 {
				return i, n, !v.gone
			}
		}
		if v.gone || !d.info.Running {
			return 0, 0, false
		}
		d.news.Wait()
	}
}

func (v *visit) end() End {
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	return End{Code: v.d.info.Code, Signal: v.d.info.Signal, Truncated: v.lost, Problem: wire.ProblemOf(v.d.cause)}
}

// ring keeps the last bytes that are written to it.
type ring struct {
	most  int
	buf   []byte // once it has its full length, byte i of all is at i modulo that
	total int64
}

// Write takes everything.
func (r *ring) Write(p []byte) (int, error) {
	n := len(p)
	if drop := len(p) - r.most; drop > 0 {
		if missing := r.most - len(r.buf); missing > 0 { // what is there is gone anyway
			r.buf = append(r.buf, make([]byte, missing)...)
		}
		r.total += int64(drop)
		p = p[drop:]
	}
	if room := min(r.most-len(r.buf), len(p)); room > 0 {
		r.buf = append(r.buf, p[:room]...)
		r.total += int64(room)
		p = p[room:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.total%int64(r.most):], p)
		r.total += int64(k)
		p = p[k:]
	}
	return n, nil
}

// read copies what comes at an offset of all that was written, or later if that
// is not kept, and says where it ends.
func (r *ring) read(at int64, b []byte) (n int, next int64, lost bool) {
	if oldest := r.total - int64(len(r.buf)); at < oldest {
		at, lost = oldest, true
	}
	if at >= r.total {
		return 0, at, lost
	}
	from := at
	if len(r.buf) == r.most {
		from = at % int64(r.most)
	}
	n = copy(b[:min(int64(len(b)), r.total-at)], r.buf[from:])
	return n, at + int64(n), lost
}

// textOf is a command as shell text, for people.
func textOf(cmd *atoll.Cmd) string {
	text := cmd.Shell
	if text == "" {
		var b strings.Builder
		for _, a := range cmd.Args {
			if b.Len() > mostText {
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
	return strings.ToValidUTF8(text[:min(len(text), mostText)], "\ufffd")
}
