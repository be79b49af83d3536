package virtual

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// RunWorker runs the process of a sealed sandbox, cmd/atoll-worker, until its parent has closed the
// connections that the process has inherited. Its sandbox has the commands besides the usual ones.
func RunWorker(commands []program.Command) error {
	calls, err := inheritConn(parentFD)
	if err != nil {
		return err
	}
	served, err := inheritConn(sandboxFD)
	if err != nil {
		return err
	}
	w := &worker{driver: &Driver{LimitHeap: true, Commands: commands, idle: idleList{keepLoaded: true}}}
	if err := w.prepare(); err != nil {
		return err
	}
	ctx := context.Background()
	if w.parent, err = guest.Connect(ctx, calls, guest.Options{}); err != nil {
		return err
	}
	if err := w.parent.Call(ctx, callStart, nil, &w.config); err != nil {
		return nil // the parent needs no more workers
	}
	dirs := w.keepMounts()
	err = seal.Process(seal.Options{Dirs: dirs, Memory: w.config.Memory})
	if err == nil {
		err = w.makeSandbox(ctx)
	}
	if err != nil {
		return w.parent.Call(ctx, callFailed, wire.ProblemOf(err), nil)
	}
	server := guest.SandboxServer{Sandbox: w.sandbox, Calls: w.calls()}
	server.ServeConn(served)
	return nil
}

// inheritConn returns the connection that this process has inherited as a descriptor.
func inheritConn(fd uintptr) (net.Conn, error) {
	f := os.NewFile(fd, "connection")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: atoll runs this program by itself: %w", fd, err)
	}
	return conn, nil
}

// worker is the process of one sealed sandbox.
type worker struct {
	driver  *Driver
	parent  *guest.Client
	config  workerConfig
	base    *sharedBase // of the image of this program
	sandbox *Sandbox
}

// prepare does what needs system calls that a sealed process can't make, and what takes long.
func (w *worker) prepare() error {
	runtime.GOMAXPROCS(min(runtime.NumCPU(), maxWorkerCPUs)) // a number that was set is not adjusted by reading files
	debug.SetMaxThreads(maxWorkerThreads)
	_ = time.Now().Local().String() // loads the time zone
	im, err := w.driver.loadImage()
	if err == nil {
		w.base, err = im.newBase()
	}
	return err
}

// Limits of a worker's process.
const (
	maxWorkerCPUs    = 4
	maxWorkerThreads = seal.MaxThreads - 8 // the runtime reports it, before the kernel refuses a thread
)

// keepMounts replaces the sources of the mounts by their paths once this process is sealed, and
// returns what it has to keep.
func (w *worker) keepMounts() []seal.Dir {
	var dirs []seal.Dir
	for i := range w.config.Spec.Mounts {
		m := &w.config.Spec.Mounts[i]
		dirs = append(dirs, seal.Dir{Source: m.Source, ReadOnly: m.ReadOnly})
		m.Source = seal.Path(i)
	}
	return dirs
}

// makeSandbox makes or opens the sandbox.
func (w *worker) makeSandbox(ctx context.Context) error {
	c := &w.config
	if c.Policy {
		w.driver.Policy = w.askParent
	}
	w.driver.runPython = parentPython(w.parent)
	w.driver.network = func(atoll.Network) (kernel.Network, error) {
		if !c.Network {
			return nil, nil
		}
		return &parentNetwork{w.parent}, nil
	}
	own := w.openStorage()
	if c.Exists {
		w.sandbox = w.driver.newStoredSandbox(c.ID, own)
		w.sandbox.spec = c.Spec
		return w.driver.register(w.sandbox)
	}
	s, err := w.newSandbox(own)
	if err != nil {
		return err
	}
	s.created, s.active = c.Created, c.Created
	w.sandbox = s
	if err := w.driver.setUpSandbox(s); err != nil || !c.Stored {
		return err
	}
	return s.saveFirst(own)
}

// openStorage returns the storage of the sandbox. The parent has the image if it is of the same version.
func (w *worker) openStorage() *parentStorage {
	p := &parentStorage{parent: w.parent, mounts: w.config.Spec.Mounts}
	if w.base.root == w.config.Base {
		p.base = w.base
	}
	return p
}

// newSandbox makes the sandbox from the image or from what a fork begins with.
func (w *worker) newSandbox(own storage) (*Sandbox, error) {
	c := &w.config
	if c.Forked == nil {
		return w.driver.newSandbox(c.ID, c.Spec, nil)
	}
	im, err := w.driver.loadImage()
	if err != nil {
		return nil, err
	}
	files, err := vfs.Load(own, c.Forked.Tree, w.driver.fileOptions(im, c.Spec))
	if err != nil {
		return nil, err
	}
	state, err := loadSession(own, c.Forked.Session)
	if err != nil {
		return nil, err
	}
	s, err := w.driver.newSandbox(c.ID, c.Spec, files)
	if err != nil {
		return nil, err
	}
	return s, s.sh.Restore(state)
}

// askParent lets the parent decide about a command.
func (w *worker) askParent(ctx context.Context, c shell.Call) error {
	return w.parent.Call(ctx, callPolicy, policyCall{c}, nil)
}

// parentNetwork sends requests through the parent, which applies the rules and connects.
type parentNetwork struct{ parent *guest.Client }

// RoundTrip sends a request to the parent and returns its response.
func (n *parentNetwork) RoundTrip(req *http.Request) (*http.Response, error) {
	st, err := n.parent.OpenStream(req.Context(), callRequest, requestTarget{Scheme: req.URL.Scheme, Host: req.URL.Host})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), func() { _ = st.Close() })
	end := func() {
		stop()
		_ = st.Close() // the exchange is complete, or has failed
	}
	sent := make(chan error, 1)
	go func() { sent <- req.Write(st) }()
	resp, err := http.ReadResponse(bufio.NewReader(st), req)
	if err != nil {
		end()
		return nil, errors.Join(context.Cause(req.Context()), err)
	}
	if problem := resp.Header.Get(problemHeader); problem != "" {
		end()
		_ = resp.Body.Close() // it is empty
		return nil, parseProblem(problem)
	}
	resp.Body = &exchangeBody{ReadCloser: resp.Body, end: end}
	return resp, nil
}

// calls returns the parent's operations besides those of [guest.SandboxServer].
func (w *worker) calls() guest.Calls {
	s := w.sandbox
	named := map[guest.Op]func(ctx context.Context, q *nameQuestion) (any, error){
		opStatus: func(ctx context.Context, _ *nameQuestion) (any, error) { return s.Status(ctx) },
		opStop:   func(ctx context.Context, _ *nameQuestion) (any, error) { return nil, s.Stop(ctx) },
		opStart:  func(ctx context.Context, _ *nameQuestion) (any, error) { return nil, s.Start(ctx) },
		opPause:  func(ctx context.Context, _ *nameQuestion) (any, error) { return nil, s.Pause(ctx) },
		opResume: func(ctx context.Context, _ *nameQuestion) (any, error) { return nil, s.Resume(ctx) },

		opSnapshot:       func(ctx context.Context, q *nameQuestion) (any, error) { return s.Snapshot(ctx, q.Name) },
		opRestore:        func(ctx context.Context, q *nameQuestion) (any, error) { return nil, s.Restore(ctx, q.Name) },
		opSnapshots:      func(ctx context.Context, _ *nameQuestion) (any, error) { return s.Snapshots(ctx) },
		opRemoveSnapshot: func(ctx context.Context, q *nameQuestion) (any, error) { return nil, s.RemoveSnapshot(ctx, q.Name) },
		opFork:           func(ctx context.Context, q *nameQuestion) (any, error) { return w.saveFork(ctx, q) },

		opFlush: func(context.Context, *nameQuestion) (any, error) { s.storeNotes(); return nil, nil },
		opStats: func(ctx context.Context, _ *nameQuestion) (any, error) { return s.Stats(ctx) },
		opHistory: func(ctx context.Context, _ *nameQuestion) (any, error) {
			list, err := s.History(ctx)
			return newestResults(list), err
		},
	}
	calls := guest.Calls{
		opComplete: func(ctx context.Context, q *guest.Request) (any, error) {
			var c completion
			if err := q.DecodeBody(&c); err != nil {
				return nil, err
			}
			c.At, c.Words = s.Complete(ctx, c.Line, c.At)
			return c, nil
		},
	}
	for op, f := range named {
		calls[op] = func(ctx context.Context, q *guest.Request) (any, error) {
			var name nameQuestion
			if err := q.DecodeBody(&name); err != nil {
				return nil, err
			}
			return f(ctx, &name)
		}
	}
	return calls
}

// saveFork saves the state with which a fork begins in the fork's storage.
func (w *worker) saveFork(ctx context.Context, q *nameQuestion) (*savedState, error) {
	s := w.sandbox
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, err
	}
	defer op.close()
	if err := s.lockSession(ctx); err != nil {
		return nil, err
	}
	defer s.unlockSession()
	files, state, err := s.stateAt(q.Name)
	if err != nil {
		return nil, err
	}
	saved := &savedState{}
	saved.Tree, saved.Session, err = putState(&parentStorage{parent: w.parent, fork: q.Fork}, files, state)
	return saved, err
}

// stateAt returns the current state of the sandbox, or that of a snapshot. The session is locked.
func (s *Sandbox) stateAt(key string) (*vfs.Snapshot, shell.State, error) {
	if key == "" {
		files, _, sh := s.currentParts()
		return files.Snapshot(), sh.State(), nil
	}
	shot, err := s.getSnapshot(key)
	return shot.files, shot.state, err
}
