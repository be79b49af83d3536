package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Sandbox is a container with atoll's guest as process 1.
type Sandbox struct {
	*guest.Link
	d       *Driver
	e       *engine
	id      string
	spec    atoll.Spec
	created time.Time

	turn sync.Mutex // held by what changes the container: stop, pause, restore…

	mu     sync.Mutex
	known  atoll.State   // guarded by mu, as all below: what it was when we last knew
	fresh  bool          // known is of a moment ago: the next connection need not ask
	spare  bool          // its container is the one that takes its place
	first  net.Conn      // to a guest that was started just now; nil once it is in use
	moving chan struct{} // closed when one container has taken the place of another; nil: none does
	frozen int           // commands past their deadline that wait for the freezer to open
}

var (
	_ atoll.Stopper = (*Sandbox)(nil)
	_ atoll.Pauser  = (*Sandbox)(nil)
	_ atoll.Chooser = (*Sandbox)(nil)
)

// sandbox returns the handle of a sandbox, whose state is not known yet.
func (d *Driver) sandbox(e *engine, id string, spec atoll.Spec) *Sandbox {
	s := &Sandbox{d: d, e: e, id: id, spec: spec}
	link := spec
	link.Env = nil // the guest has it
	s.Link = &guest.Link{ID: id, Reach: s.reach, Spec: link, Before: s.before}
	if !e.layers() {
		s.Counted = []string{"/"}
	}
	return s
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// Has reports whether the sandbox has an ability; see atoll.Chooser.
func (s *Sandbox) Has(ability any) bool {
	f := s.d.features(s.e)
	return f.Has(ability)
}

func (s *Sandbox) name() string { return containerName(s.id) }

// current is the name of the container whose guest is to be reached.
func (s *Sandbox) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare {
		return spareName(s.id)
	}
	return s.name()
}

func (s *Sandbox) dir() string { return s.d.sandboxDir(s.id) }

// fail wraps an error of an operation.
func (s *Sandbox) fail(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// refusal says why a sandbox in a state takes no commands.
func refusal(state atoll.State) error {
	switch state {
	case atoll.Destroyed:
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	case atoll.Paused:
		return fmt.Errorf("%w: it is paused; resume it first", atoll.ErrState)
	case atoll.Running:
		return nil
	}
	return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
}

// before is asked before each operation of the guest. Whether a paused sandbox
// was resumed meanwhile the engine is asked: its guest would not answer. All
// else shows when it is connected to.
func (s *Sandbox) before(string) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	switch known {
	case atoll.Destroyed:
		return refusal(known)
	case atoll.Paused:
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		if err := refusal(s.ask(ctx)); err != nil {
			return err
		}
	}
	s.touch()
	return nil
}

// askTime is how long the engine may take to say what state a sandbox is in.
const askTime = 10 * time.Second

// ask returns the state that the engine says a sandbox is in, or what was known
// when it does not answer.
func (s *Sandbox) ask(ctx context.Context) atoll.State {
	c, err := s.e.inspect(ctx, s.name())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.known != atoll.Destroyed && s.frozen == 0 {
		s.known, s.fresh = stateOf(c.State), false
	}
	return s.known
}

// touch remembers that the sandbox was used now.
func (s *Sandbox) touch() {
	now := time.Now()
	_ = os.Chtimes(s.dir(), now, now) // it tells idle sandboxes; one that is gone has none
}

func (s *Sandbox) learn(state atoll.State, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != atoll.Destroyed {
		s.known, s.fresh = state, fresh
	}
}

// keep keeps a connection for who needs the next.
func (s *Sandbox) keep(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = conn
}

// hangUp ends the connections to the guest. While the container is being
// replaced they end by themselves, with the old one: whoever makes the next
// waits for the new one, and holds the Link.
func (s *Sandbox) hangUp() {
	s.mu.Lock()
	first, moving := s.first, s.moving != nil
	s.first = nil
	s.mu.Unlock()
	if first != nil {
		_ = first.Close() // nobody has used it
	}
	if !moving {
		s.HangUp()
	}
}

// reach makes a connection to the guest.
func (s *Sandbox) reach(ctx context.Context) (net.Conn, error) {
	if err := s.still(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	first, fresh := s.first, s.fresh && s.known == atoll.Running
	s.first, s.fresh = nil, false
	s.mu.Unlock()
	if first != nil {
		return first, nil
	}
	if !fresh {
		c, err := s.e.inspect(ctx, s.name())
		if err == nil {
			state := stateOf(c.State)
			s.learn(state, false)
			err = refusal(state)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.connect(ctx)
}

// still waits until the container is not being replaced.
func (s *Sandbox) still(ctx context.Context) error {
	s.mu.Lock()
	moving := s.moving
	s.mu.Unlock()
	if moving == nil {
		return nil
	}
	select {
	case <-moving:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// move says that the container is being replaced, until the function that it
// returns is called.
func (s *Sandbox) move() (settled func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moving := make(chan struct{})
	s.moving = moving
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moving = nil
		close(moving)
	}
}

// connect makes a stream on which the guest greets.
func (s *Sandbox) connect(ctx context.Context) (net.Conn, error) {
	if s.e.direct() && (s.spec.Runtime == "" || s.spec.Runtime == s.e.info.DefaultRuntime || s.spec.Runtime == "crun") {
		return dialSocket(ctx, s.dir(), "run", socketName)
	}
	return s.pipe(ctx)
}

// Exec runs a command; see atoll.Sandbox. The engine's freezer holds the guest
// too, so at the deadline of a command of a paused sandbox it is opened for the
// moment that the guest takes to end the command.
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	for _, d := range []time.Duration{cmd.Timeout, s.spec.Timeouts.Exec, atoll.DefaultExecTimeout} {
		if d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
			defer cancel()
		}
		if d != 0 {
			break
		}
	}
	cmd.Timeout = -1
	thawed := make(chan bool, 1)
	stop := context.AfterFunc(ctx, func() { thawed <- s.thaw(context.WithoutCancel(ctx)) })
	exit, err := s.Link.Exec(ctx, cmd)
	if !stop() && <-thawed {
		s.freeze(context.WithoutCancel(ctx))
	}
	return exit, err
}

// thaw opens the freezer of a paused sandbox until freeze is called as often.
func (s *Sandbox) thaw(ctx context.Context) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.ask(ctx) != atoll.Paused { // another process may have paused it
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == 0 {
		_, err := s.e.api.ContainerUnpause(ctx, s.name(), client.ContainerUnpauseOptions{})
		if err != nil {
			return false // it was ended, or another process resumed it
		}
	}
	s.frozen++
	return true
}

// freeze takes back a thaw.
func (s *Sandbox) freeze(ctx context.Context) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen--
	if s.frozen == 0 && s.known == atoll.Paused {
		_, _ = s.e.api.ContainerPause(ctx, s.name(), client.ContainerPauseOptions{}) // what is gone needs none
	}
}

// Status returns the facts of this moment.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	c, err := s.e.inspect(ctx, s.name())
	if err != nil {
		return atoll.Status{}, s.fail("status", err)
	}
	state := stateOf(c.State)
	s.mu.Lock()
	if s.frozen > 0 && state == atoll.Running {
		state = atoll.Paused // for a moment it is not
	}
	s.mu.Unlock()
	s.learn(state, false)
	st := status(s.id, &s.spec, state)
	st.Created = createdOf(c.Config.Labels, c.Created)
	st.Active = lastUse(s.dir(), st.Created)
	ready := &st.Conditions[0]
	ready.Since = parseTime(c.State.StartedAt)
	if state == atoll.Stopped {
		ready.Since = parseTime(c.State.FinishedAt)
		if c.State.OOMKilled {
			ready.Reason, ready.Message = "out_of_memory", "the kernel ended it: it had reached its limit of memory; start it"
		} else if c.State.ExitCode != 0 && c.State.ExitCode != 137 {
			ready.Reason, ready.Message = "ended", fmt.Sprintf("process 1 ended with status %d; start it", c.State.ExitCode)
		}
		if c.State.Error != "" {
			ready.Reason, ready.Message = "failed", oneLine(c.State.Error)
		}
	}
	if c.State.OOMKilled && state != atoll.Stopped {
		st.Conditions = append(st.Conditions, atoll.Condition{Type: "memory", Reason: "out_of_memory", Message: "the kernel has ended processes: the limit of memory was reached"})
	}
	return st, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func status(id string, spec *atoll.Spec, state atoll.State) atoll.Status {
	ready := atoll.Condition{Type: "ready", True: state == atoll.Running, Reason: string(state)}
	switch state {
	case atoll.Stopped:
		ready.Message = "start it first"
	case atoll.Paused:
		ready.Message = "resume it first"
	}
	return atoll.Status{
		ID: id, Name: spec.Name, Driver: "docker", State: state, Labels: spec.Labels, Isolation: isolation,
		Conditions: []atoll.Condition{ready},
	}
}

// stateOf reads the engine's state of a container.
func stateOf(s *container.State) atoll.State {
	switch {
	case s.Paused:
		return atoll.Paused
	case s.Running:
		return atoll.Running
	}
	return stateOfWord(string(s.Status))
}

func stateOfWord(word string) atoll.State {
	switch word {
	case "running":
		return atoll.Running
	case "paused":
		return atoll.Paused
	case "restarting":
		return atoll.Starting
	}
	return atoll.Stopped // created, exited
}

// Stop ends what runs; files stay. Stopping what is stopped is fine.
func (s *Sandbox) Stop(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	err := s.kill(ctx, s.name())
	if err == nil {
		s.learn(atoll.Stopped, true)
		s.hangUp()
	}
	return s.fail("stop", err)
}

// kill ends a container's processes and waits until they are gone. One that
// doesn't run is fine.
func (s *Sandbox) kill(ctx context.Context, name string) error {
	_, err := s.e.api.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "KILL"})
	if errdefs.IsConflict(err) { // it does not run
		return nil
	}
	if err == nil {
		_, err = s.e.wait(ctx, name, container.WaitConditionNotRunning)
	}
	return s.e.cause(ctx, err)
}

// wait waits for a container and returns the exit status of its process 1.
func (e *engine) wait(ctx context.Context, name string, until container.WaitCondition) (int64, error) {
	w := e.api.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: until})
	select { // one of them comes, when ctx is done too
	case r := <-w.Result:
		return r.StatusCode, nil
	case err := <-w.Error:
		return 0, err
	}
}

// Start switches a stopped sandbox on.
func (s *Sandbox) Start(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	c, err := s.e.inspect(ctx, s.name())
	if err == nil {
		switch stateOf(c.State) {
		case atoll.Running:
			s.learn(atoll.Running, true)
			return nil
		case atoll.Paused:
			err = fmt.Errorf("%w: it is paused, not stopped; resume it", atoll.ErrState)
		default:
			err = s.boot(ctx, s.name())
		}
	}
	return s.fail("start", err)
}

// Pause freezes all processes. Pausing what is paused is fine.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.fail("pause", s.turnTo(ctx, atoll.Paused, func() error {
		_, err := s.e.api.ContainerPause(ctx, s.name(), client.ContainerPauseOptions{})
		return err
	}))
}

// Resume lets the processes go on. Resuming what runs is fine.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.fail("resume", s.turnTo(ctx, atoll.Running, func() error {
		_, err := s.e.api.ContainerUnpause(ctx, s.name(), client.ContainerUnpauseOptions{})
		return err
	}))
}

// The engine hears of each pause and resume a second time, from its runtime, and
// after quick ones the word of an older one may turn round for a moment what it
// says and what it lets be done: so a refusal is believed only if it stays.
const (
	behind  = 50 * time.Millisecond // between two questions
	behinds = 40                    // at most
)

// turnTo freezes or thaws by a call of the engine. A refusal means nothing when
// the sandbox is in that state already.
func (s *Sandbox) turnTo(ctx context.Context, want atoll.State, call func() error) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	for round, there := 0, 0; ; round++ { // there: how often in a row it was as wanted
		err := call()
		if err == nil {
			s.learn(want, true)
			return nil
		}
		c, ierr := s.e.inspect(ctx, s.name())
		if ierr != nil {
			return ierr
		}
		state := stateOf(c.State)
		final := state != atoll.Paused && state != atoll.Running || round == behinds
		switch {
		case state != want && final:
			s.learn(state, true)
			return fmt.Errorf("%w: it is %s: %w", atoll.ErrState, state, err)
		case state != want:
			there = 0
		case there == 1 || final:
			s.learn(want, true)
			return nil
		default:
			there = 1
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(behind):
		}
	}
}

// Destroy ends what runs and removes the container, its snapshots and this
// host's side of it.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	s.known = atoll.Destroyed
	s.mu.Unlock()
	err := s.e.removeAll(ctx, s.id)
	s.hangUp()
	if err == nil {
		err = gate.Open(s.gateDir()).Ended(ctx)
	}
	if err == nil {
		err = os.RemoveAll(s.dir())
	}
	return s.fail("destroy", err)
}

// removeAll removes the containers and images of a sandbox.
func (e *engine) removeAll(ctx context.Context, id string) error {
	err := errors.Join(e.remove(ctx, containerName(id)), e.remove(ctx, spareName(id)))
	if err != nil {
		return err
	}
	return e.removeImages(ctx, id)
}

// remove removes a container with its anonymous volumes, and waits until it is
// gone. One that is not there is fine.
func (e *engine) remove(ctx context.Context, name string) error {
	_, err := e.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) { // somebody else is at it
		_, err = e.wait(ctx, name, container.WaitConditionRemoved)
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return e.cause(ctx, err)
}

// OpenFile opens a file for reading; of a paused sandbox too, whose guest
// stands still, through the engine.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	s.mu.Lock()
	paused := s.known == atoll.Paused
	s.mu.Unlock()
	if !paused {
		return s.Link.OpenFile(ctx, name)
	}
	rc, err := s.readPaused(ctx, name)
	return rc, s.fail("read", err)
}
