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
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// Sandbox is a container with atoll's guest agent as process 1.
type Sandbox struct {
	*guest.Link
	d       *Driver
	e       *engine
	id      string
	spec    atoll.Spec
	created time.Time

	changing sync.Mutex // held while the container changes: stop, pause, restore…
	thaw     *thaw      // the act during which it is thawed; nil: none; guarded by changing

	mu       sync.Mutex
	known    atoll.State   // guarded by mu, as all below: the last known state
	fresh    bool          // known was just read: the next connection need not ask
	spare    bool          // the spare container is the current one
	first    net.Conn      // connection to a guest that was just started; nil once it is in use
	swapping chan struct{} // closed when the container was replaced; nil: it is not being replaced
	thawed   int           // commands past their deadline for which the sandbox is thawed
}

var (
	_ atoll.Stopper         = (*Sandbox)(nil)
	_ atoll.Pauser          = (*Sandbox)(nil)
	_ atoll.AbilityReporter = (*Sandbox)(nil)
)

// newHandle returns the handle of a sandbox whose state is not known yet.
func (d *Driver) newHandle(e *engine, id string, spec atoll.Spec) *Sandbox {
	s := &Sandbox{d: d, e: e, id: id, spec: spec}
	link := spec
	link.Env = nil // the guest has it
	s.Link = &guest.Link{ID: id, Connect: s.connectAsRunning, Spec: link, BeforeOp: s.checkOperation}
	s.Reconnects = !e.reachesSockets() // through the engine, which may be restarted
	if !e.canReadLayers() {
		s.CountedDirs = []string{"/"}
	}
	return s
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// Has reports whether the sandbox has an ability; see atoll.AbilityReporter.
func (s *Sandbox) Has(ability any) bool {
	f := s.d.featuresOf(s.e)
	if _, ok := ability.(*atoll.FilePacker); ok {
		return f.Snapshot // it packs what the engine commits
	}
	return f.Has(ability)
}

func (s *Sandbox) mainContainer() string { return containerName(s.id) }

// currentContainer returns the name of the container whose guest answers.
func (s *Sandbox) currentContainer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare {
		return spareName(s.id)
	}
	return s.mainContainer()
}

func (s *Sandbox) hostDir() string { return s.d.sandboxDir(s.id) }

// wrapError adds the operation and the sandbox to an error.
func (s *Sandbox) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// checkState reports why a sandbox in a state can't run commands.
func checkState(state atoll.State) error {
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

// checkOperation reports why the guest can't do an operation. It asks the engine whether a paused
// sandbox was resumed meanwhile, since its guest would not answer. Other errors show when the guest
// is connected to.
func (s *Sandbox) checkOperation(string) error {
	if journal.IsBegun(s.d.actsDir(s.id)) {
		ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
		s.d.recoverIdle(ctx, s.e, s.id)
		cancel()
	}
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	switch known {
	case atoll.Destroyed:
		return checkState(known)
	case atoll.Paused:
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if err := checkState(s.askState(ctx)); err != nil {
			return err
		}
	}
	s.touchDir()
	return nil
}

// askTimeout bounds how long the engine may take to return the state of a sandbox.
const askTimeout = 10 * time.Second

// askState returns the engine's state of a sandbox, or the known one if the engine does not answer.
func (s *Sandbox) askState(ctx context.Context) atoll.State {
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.known != atoll.Destroyed && s.thawed == 0 {
		s.known, s.fresh = stateOf(c.State), false
	}
	return s.known
}

// touchDir records that the sandbox was used now.
func (s *Sandbox) touchDir() {
	now := time.Now()
	_ = os.Chtimes(s.hostDir(), now, now) // only for idle times; a removed sandbox has no directory
}

func (s *Sandbox) setKnown(state atoll.State, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != atoll.Destroyed {
		s.known, s.fresh = state, fresh
	}
}

// keepFirst keeps a connection for the next request.
func (s *Sandbox) keepFirst(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = conn
}

// hangUp closes the connections to the guest. While the container is being replaced they end by
// themselves, with the old one: a new connection then waits for the new container, and holds the
// Link.
func (s *Sandbox) hangUp() {
	s.mu.Lock()
	first, moving := s.first, s.swapping != nil
	s.first = nil
	s.mu.Unlock()
	if first != nil {
		_ = first.Close() // it was not used
	}
	if !moving {
		s.Disconnect()
	}
}

// connectAsRunning connects to the guest if the sandbox runs.
func (s *Sandbox) connectAsRunning(ctx context.Context) (net.Conn, error) {
	if err := s.waitForSwap(ctx); err != nil {
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
		c, err := s.e.inspectContainer(ctx, s.mainContainer())
		if err == nil {
			state := stateOf(c.State)
			s.setKnown(state, false)
			err = checkState(state)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.connectGuest(ctx)
}

// waitForSwap waits until the container is not being replaced.
func (s *Sandbox) waitForSwap(ctx context.Context) error {
	s.mu.Lock()
	moving := s.swapping
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

// beginSwap marks the container as being replaced until the returned function is called.
func (s *Sandbox) beginSwap() (settled func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moving := make(chan struct{})
	s.swapping = moving
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.swapping = nil
		close(moving)
	}
}

// connectGuest opens a stream to the guest.
func (s *Sandbox) connectGuest(ctx context.Context) (net.Conn, error) {
	if s.e.reachesSockets() && (s.spec.Runtime == "" || s.spec.Runtime == s.e.info.DefaultRuntime || s.spec.Runtime == "crun") {
		return dialSocket(ctx, s.hostDir(), "run", socketName)
	}
	return s.connectThroughEngine(ctx)
}

// Exec runs a command; see atoll.Sandbox. The engine freezes the guest too, so at the deadline of a
// command of a paused sandbox the sandbox is thawed until the guest has ended the command.
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
	stop := context.AfterFunc(ctx, func() { thawed <- s.thawForDeadline(context.WithoutCancel(ctx)) })
	exit, err := s.Link.Exec(ctx, cmd)
	if !stop() && <-thawed {
		s.freezeAgain(context.WithoutCancel(ctx))
	}
	return exit, err
}

// Status returns the state of the sandbox now.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	s.d.recoverIdle(ctx, s.e, s.id)
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return atoll.Status{}, s.wrapError("status", err)
	}
	state := stateOf(c.State)
	s.mu.Lock()
	if s.thawed > 0 && state == atoll.Running {
		state = atoll.Paused // it is thawed only for a moment
	}
	s.mu.Unlock()
	s.setKnown(state, false)
	st := sandboxStatus(s.id, &s.spec, state)
	st.Created = createdOf(c.Config.Labels, c.Created)
	st.Active = lastUse(s.hostDir(), st.Created)
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
		if why := s.failure(); why != "" {
			ready.Reason, ready.Message = "start failed", oneLine(why)
		}
	}
	if c.State.OOMKilled && state != atoll.Stopped {
		st.Conditions = append(st.Conditions, atoll.Condition{Type: "memory", Reason: "out_of_memory", Message: "the kernel has ended processes: the limit of memory was reached"})
	}
	return st, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func sandboxStatus(id string, spec *atoll.Spec, state atoll.State) atoll.Status {
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

// stateOf converts the engine's state of a container.
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

// Stop ends all processes; files remain. Stopping a stopped sandbox is not an error.
func (s *Sandbox) Stop(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.runAct(ctx, actStop, actArgs{}, func(*journal.Act) error {
		s.recordFailure(nil)
		return s.killContainer(ctx, s.mainContainer())
	})
	if err == nil {
		s.setKnown(atoll.Stopped, true)
		s.hangUp()
	}
	return s.wrapError("stop", err)
}

// killContainer ends a container's processes and waits until they have exited. A container that does
// not run is not an error.
func (s *Sandbox) killContainer(ctx context.Context, name string) error {
	_, err := s.e.api.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "KILL"})
	if errdefs.IsConflict(err) { // it does not run
		return nil
	}
	if err == nil {
		_, err = s.e.waitContainer(ctx, name)
	}
	return s.e.contextError(ctx, err)
}

// waitContainer waits until a container does not run and returns the exit status of its process 1.
func (e *engine) waitContainer(ctx context.Context, name string) (int64, error) {
	w := e.api.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select { // one of them is sent, also when ctx is done
	case r := <-w.Result:
		return r.StatusCode, nil
	case err := <-w.Error:
		return 0, err
	}
}

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err == nil {
		switch stateOf(c.State) {
		case atoll.Running:
			s.setKnown(atoll.Running, true)
			return nil
		case atoll.Paused:
			err = fmt.Errorf("%w: it is paused, not stopped; resume it", atoll.ErrState)
		default:
			err = s.runAct(ctx, actStart, actArgs{}, func(*journal.Act) error {
				s.recordFailure(nil)
				err := s.bootContainer(ctx, s.mainContainer())
				if err != nil {
					s.recordFailure(err)
				}
				return err
			})
		}
	}
	return s.wrapError("start", err)
}

// Pause freezes all processes. Pausing a paused sandbox is not an error.
func (s *Sandbox) Pause(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.wrapError("pause", s.runAct(ctx, actPause, actArgs{}, func(*journal.Act) error { return s.callPause(ctx) }))
}

func (s *Sandbox) callPause(ctx context.Context) error {
	return s.setPaused(ctx, atoll.Paused, func() error {
		_, err := s.e.api.ContainerPause(ctx, s.mainContainer(), client.ContainerPauseOptions{})
		return err
	})
}

// Resume lets the processes continue. Resuming a running sandbox is not an error.
func (s *Sandbox) Resume(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.wrapError("resume", s.runAct(ctx, actResume, actArgs{}, func(*journal.Act) error { return s.callUnpause(ctx) }))
}

func (s *Sandbox) callUnpause(ctx context.Context) error {
	return s.setPaused(ctx, atoll.Running, func() error {
		_, err := s.e.api.ContainerUnpause(ctx, s.mainContainer(), client.ContainerUnpauseOptions{})
		return err
	})
}

// The engine gets a second, late event of each pause and resume from its runtime. After quick changes
// such an event of an earlier one can reverse for a moment the state that the engine reports and the
// operations that it allows. So an error counts only if it persists.
const (
	stateRetryPause = 50 * time.Millisecond // between two requests
	maxStateRetries = 40                    // at most
)

// setPaused freezes or thaws the sandbox by a call of the engine. An error is ignored if the sandbox
// is in the wanted state already.
func (s *Sandbox) setPaused(ctx context.Context, want atoll.State, call func() error) error {
	for round, there := 0, 0; ; round++ { // there counts how often in a row the state was as wanted
		err := call()
		if err == nil {
			s.setKnown(want, true)
			return nil
		}
		c, ierr := s.e.inspectContainer(ctx, s.mainContainer())
		if ierr != nil {
			return ierr
		}
		state := stateOf(c.State)
		final := state != atoll.Paused && state != atoll.Running || round == maxStateRetries
		switch {
		case state != want && final:
			s.setKnown(state, true)
			return fmt.Errorf("%w: it is %s: %w", atoll.ErrState, state, err)
		case state != want:
			there = 0
		case there == 1 || final:
			s.setKnown(want, true)
			return nil
		default:
			there = 1
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stateRetryPause):
		}
	}
}

// Destroy ends all processes and removes the container, its snapshots and its directory on this
// host. Destroying a sandbox twice is not an error.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	s.known = atoll.Destroyed
	s.mu.Unlock()
	return s.wrapError("destroy", s.destroy(ctx))
}

// destroy removes the sandbox, whatever act on it was interrupted. It does not wait for one in progress, which then
// fails and undoes itself.
func (s *Sandbox) destroy(ctx context.Context) error {
	if s.changing.TryLock() { // no act of this process is in progress but a thaw
		_ = s.endThaw() // the removal is another act
		s.changing.Unlock()
	}
	held, err := s.d.lockActs(s.id, tryLock)
	if err != nil && !errors.Is(err, errBusy) {
		return err
	}
	var act *journal.Act
	if held != nil {
		defer held.Close()
		if act, err = s.beginDestroy(); err != nil {
			return err
		}
	}
	err = s.d.destroySandbox(ctx, s.e, s.id, s.hangUp)
	if act != nil {
		err = errors.Join(err, act.Leave()) // its directory was removed, or the next process goes on
	}
	return err
}

// beginDestroy replaces an act that was interrupted by that of the removal.
func (s *Sandbox) beginDestroy() (*journal.Act, error) {
	act, err := journal.TakeOver(s.d.actsDir(s.id))
	if act != nil {
		err = act.End()
	}
	if err != nil {
		return nil, err
	}
	return journal.Begin(s.d.actsDir(s.id), actDestroy, actArgs{Engine: s.e.host})
}

// removeSandbox removes the containers and images of a sandbox.
func (e *engine) removeSandbox(ctx context.Context, id string) error {
	err := errors.Join(e.removeContainer(ctx, containerName(id)), e.removeContainer(ctx, spareName(id)))
	if err != nil {
		return err
	}
	return e.removeImages(ctx, id)
}

// maxRemovals is how often the removal of a container is tried when those of other processes fail.
const maxRemovals = 5

// removeContainer removes a container with its anonymous volumes, and waits until it was removed. A
// container that does not exist is not an error.
func (e *engine) removeContainer(ctx context.Context, name string) error {
	for n := 1; ; n++ {
		_, err := e.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsConflict(err) { // another request removes it
			err = e.waitRemoved(ctx, name)
			var failed *removalError
			if errors.As(err, &failed) && n < maxRemovals {
				continue
			}
		}
		if errdefs.IsNotFound(err) {
			return nil
		}
		return e.contextError(ctx, err)
	}
}

// removalError reports that the engine could not remove a container for another request. The container is still there.
type removalError struct{ message string }

func (e *removalError) Error() string { return "another request's removal failed: " + e.message }

// waitRemoved waits until a container that another request removes was removed.
func (e *engine) waitRemoved(ctx context.Context, name string) error {
	w := e.api.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select { // one of them is sent, also when ctx is done
	case r := <-w.Result:
		if r.Error != nil {
			return &removalError{r.Error.Message}
		}
		return nil
	case err := <-w.Error:
		return err
	}
}

// OpenFile opens a file for reading. Files of a paused sandbox, whose guest is frozen, are read
// through the engine.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	s.mu.Lock()
	paused := s.known == atoll.Paused
	s.mu.Unlock()
	if !paused {
		return s.Link.OpenFile(ctx, name)
	}
	rc, err := s.readPaused(ctx, name)
	return rc, s.wrapError("read", err)
}
