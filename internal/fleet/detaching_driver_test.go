package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// detachingDriver is the virtual driver with abilities of real drivers: detached
// commands, network rules and notices outlive the fleet.
type detachingDriver struct {
	*virtual.Driver

	mu     sync.Mutex
	states map[string]*lastingState // by sandbox; guarded by mu
}

// lastingState is the state of a sandbox that outlives the fleet.
type lastingState struct {
	mu        sync.Mutex
	detached  []*detachedCommand // guarded by mu, as all below
	rules     atoll.Network
	set       int // times that rules were set
	refuse    error
	listeners []chan atoll.Notice
}

// detachedCommand is a detached command.
type detachedCommand struct {
	info    atoll.Process
	out     sharedOutput
	in      *io.PipeWriter
	signals chan string
	ended   chan struct{}
	exit    atoll.Exit
	err     error
}

// sharedOutput is output with any number of readers.
type sharedOutput struct {
	mu   sync.Mutex
	data []byte
	more chan struct{}
}

func (b *sharedOutput) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return len(p), nil
}

func (b *sharedOutput) readFrom(at int) ([]byte, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return slices.Clone(b.data[at:]), b.more
}

func newDetachingDriver(dir string) *detachingDriver {
	return &detachingDriver{Driver: &virtual.Driver{Dir: dir}, states: make(map[string]*lastingState)}
}

func (d *detachingDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Detach, ft.Notices, ft.Egress = true, true, true
	return ft, err
}

func (d *detachingDriver) stateOf(id string) *lastingState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.states[id] == nil {
		d.states[id] = &lastingState{}
	}
	return d.states[id]
}

func (d *detachingDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	rules := spec.Network
	spec.Network = atoll.Network{}
	sb, err := d.wrapSandbox(d.Driver.Create(ctx, spec))
	if err == nil {
		r := d.stateOf(sb.ID())
		r.mu.Lock()
		r.rules = rules
		r.mu.Unlock()
	}
	return sb, err
}

func (d *detachingDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.wrapSandbox(d.Driver.Open(ctx, id))
}

// OpenOwned is Open: that of the virtual driver would open a sandbox without this driver's changes.
func (d *detachingDriver) OpenOwned(ctx context.Context, id string, _ atoll.Owner) (atoll.Sandbox, error) {
	return d.Open(ctx, id)
}

func (d *detachingDriver) wrapSandbox(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &detachingSandbox{sb.(*virtual.Sandbox), d.stateOf(sb.ID())}, nil
}

type detachingSandbox struct {
	*virtual.Sandbox
	r *lastingState
}

func (s *detachingSandbox) Detach(ctx context.Context, cmd atoll.Cmd) (atoll.Process, error) {
	e := &detachedCommand{signals: make(chan string), ended: make(chan struct{})}
	in, w := io.Pipe()
	e.in = w
	s.r.mu.Lock()
	e.info = atoll.Process{ID: fmt.Sprintf("inner-%d", len(s.r.detached)), Command: commandText(&cmd, 1<<10), Running: true, Started: time.Now().UTC()}
	s.r.detached = append(s.r.detached, e)
	s.r.mu.Unlock()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &e.out, &e.out
	run, kill := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		for {
			select {
			case sig := <-e.signals:
				if sig == "KILL" {
					kill()
				}
			case <-e.ended:
				return
			}
		}
	}()
	go func() {
		defer kill()
		exit, err := s.Exec(run, cmd)
		if errors.Is(err, context.Canceled) {
			exit.Code, exit.Signal, err = 137, "KILL", nil
		}
		s.r.mu.Lock()
		e.exit, e.err, e.info.Running, e.info.Code = exit, err, false, exit.Code
		s.r.mu.Unlock()
		close(e.ended)
		_ = in.Close()
		s.r.notifyListeners(atoll.Notice{Kind: atoll.NoticeProcessEnded, Process: e.info.ID, Code: exit.Code})
	}()
	return e.info, nil
}

func (s *detachingSandbox) Reattach(ctx context.Context, id string, streams atoll.Cmd) (atoll.Exit, error) {
	s.r.mu.Lock()
	i := slices.IndexFunc(s.r.detached, func(e *detachedCommand) bool { return e.info.ID == id })
	if i < 0 {
		s.r.mu.Unlock()
		return atoll.Exit{}, atoll.ErrNotFound
	}
	e := s.r.detached[i]
	s.r.mu.Unlock()
	if streams.Stdin != nil {
		go func() {
			if _, err := io.Copy(e.in, streams.Stdin); err == nil && ctx.Err() == nil {
				_ = e.in.Close()
			}
		}()
	}
	ended := e.ended
	for at := 0; ; {
		b, more := e.out.readFrom(at)
		if len(b) > 0 && streams.Stdout != nil {
			if _, err := streams.Stdout.Write(b); err != nil {
				return atoll.Exit{}, err
			}
		}
		at += len(b)
		if ended == nil {
			return e.exit, e.err
		}
		select {
		case <-more:
		case sig := <-streams.Signals:
			e.signals <- sig
		case <-ended:
			ended = nil // once more for the rest
		case <-ctx.Done():
			return atoll.Exit{}, ctx.Err()
		}
	}
}

func (s *detachingSandbox) Detached(context.Context) ([]atoll.Process, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var list []atoll.Process
	for _, e := range s.r.detached {
		info := e.info
		kept, _ := e.out.readFrom(0)
		info.Output = int64(len(kept))
		list = append(list, info)
	}
	return list, nil
}

func (s *detachingSandbox) SetNetwork(_ context.Context, n atoll.Network) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.refuse != nil {
		return s.r.refuse
	}
	s.r.rules = n
	s.r.set++
	return nil
}

func (s *detachingSandbox) Connections(context.Context) ([]atoll.Connection, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var list []atoll.Connection
	for _, h := range s.r.rules.Headers {
		list = append(list, atoll.Connection{Host: h.Host, Path: "/?key=" + h.Value})
	}
	return list, nil
}

func (s *detachingSandbox) CheckNetwork(_ context.Context, target string) (atoll.Connection, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return atoll.Connection{Host: target, Allowed: slices.Contains(s.r.rules.Allow, target)}, nil
}

func (s *detachingSandbox) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	c := make(chan atoll.Notice, 1000)
	s.r.mu.Lock()
	s.r.listeners = append(s.r.listeners, c)
	s.r.mu.Unlock()
	if err := f(atoll.Notice{Kind: atoll.NoticeReady}); err != nil {
		return err
	}
	for {
		select {
		case n := <-c:
			if err := f(n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notifyListeners sends a notice to all listeners.
func (r *lastingState) notifyListeners(n atoll.Notice) {
	n.Time = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.listeners {
		c <- n
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *lockedBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *lockedBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
