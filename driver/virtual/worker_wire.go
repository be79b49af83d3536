package virtual

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// A worker is a process with one sealed sandbox. It has two connections to its parent, both of the
// guest's wire protocol: on one the parent operates the sandbox, on the other the worker asks for what
// it can't do itself.

// The descriptors of a worker.
const (
	sandboxFD = 3 // the parent operates the sandbox
	parentFD  = 4 // the worker calls its parent
)

// workerConfig is what a worker learns when a sandbox is assigned to it.
type workerConfig struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"` // without secrets; the sources of mounts are those of the host
	Stored  bool        `json:"stored,omitempty"`
	Exists  bool        `json:"exists,omitempty"` // it is stored already
	Forked  *savedState `json:"forked,omitempty"` // what it begins with; nil: the image
	Created time.Time   `json:"created"`
	Policy  bool        `json:"policy,omitempty"` // the parent decides about each command
	Network bool        `json:"network,omitempty"`
	Base    string      `json:"base,omitempty"` // the image that need not be stored with the sandbox
	Memory  int64       `json:"memory"`         // bytes that the process can allocate; 0: no limit
}

// savedState names the files and the session in the blobs of a storage.
type savedState struct {
	Tree    string `json:"tree"`
	Session string `json:"session"`
}

// The calls of a worker to its parent.
const (
	callStart   guest.Op = "start"   // waits for a sandbox; the answer is a workerConfig
	callFailed  guest.Op = "failed"  // why there is no sandbox: a wire.Problem
	callLock    guest.Op = "lock"    // storage.lock
	callUnlock  guest.Op = "unlock"  //
	callExists  guest.Op = "exists"  //
	callRead    guest.Op = "read"    //
	callCommit  guest.Op = "commit"  //
	callCompact guest.Op = "compact" //
	callGet     guest.Op = "get"     // vfs.Store
	callPut     guest.Op = "put"     //
	callHas     guest.Op = "has"     //
	callPolicy  guest.Op = "policy"  // shell.Policy
	callRequest guest.Op = "request" // an HTTP request and its response follow
	callPython  guest.Op = "python"  // the calls of a Python interpreter follow
)

// The calls of a parent to its worker, besides those of [guest.SandboxServer].
const (
	opStatus         guest.Op = "status"
	opStop           guest.Op = "stop"
	opStart          guest.Op = "start"
	opPause          guest.Op = "pause"
	opResume         guest.Op = "resume"
	opSnapshot       guest.Op = "snapshot"
	opRestore        guest.Op = "restore"
	opSnapshots      guest.Op = "snapshots"
	opRemoveSnapshot guest.Op = "snapshot.remove"
	opStats          guest.Op = "sandbox.stats"
	opHistory        guest.Op = "sandbox.history"
	opComplete       guest.Op = "complete"
	opFork           guest.Op = "fork"  // saves a state in the storage of a fork
	opFlush          guest.Op = "flush" // stores the history
)

// storageCall is the question of the calls about storage.
type storageCall struct {
	Fork string         `json:"fork,omitempty"` // the storage of a fork; empty: the sandbox's own
	Key  string         `json:"key,omitempty"`
	Data []byte         `json:"data,omitempty"`
	Used []string       `json:"used,omitempty"` // keys
	New  *record        `json:"record,omitempty"`
	Past []atoll.Result `json:"past,omitempty"`

	Blobs []sentBlob `json:"blobs,omitempty"` // of callCommit: put before it
}

// sentBlob is a blob in a storageCall.
type sentBlob struct {
	Key  string `json:"key"`
	Data []byte `json:"data"`
}

// storageReply is the answer to a storageCall.
type storageReply struct {
	Is      bool           `json:"is,omitempty"`
	Missing bool           `json:"missing,omitempty"` // there is no such blob
	Data    []byte         `json:"data,omitempty"`
	Old     *record        `json:"record,omitempty"`
	Past    []atoll.Result `json:"past,omitempty"`
}

// policyCall is the question of callPolicy.
type policyCall struct{ Call shell.Call }

// completion is the question and the answer of opComplete.
type completion struct {
	Line  string   `json:"line,omitempty"`
	At    int      `json:"at"`
	Words []string `json:"words,omitempty"`
}

// nameQuestion is a question with a name or id.
type nameQuestion struct {
	Name string `json:"name,omitempty"`
	Fork string `json:"fork,omitempty"` // of opFork: the storage to save in
}

// parentStorage is the storage of a sandbox as its worker sees it.
type parentStorage struct {
	parent *guest.Client
	fork   string        // the storage of a fork; empty: the sandbox's own
	base   *sharedBase   // what the parent has stored for all sandboxes; nil: nothing
	mounts []atoll.Mount // of the sandbox, with the paths that this process has for their directories

	unlocked <-chan struct{} // closed when the parent has answered the last unlock; nil: there was none

	mu     sync.Mutex
	stored map[vfs.Key]bool // blobs that the parent has; guarded by mu, as all below
	staged []sentBlob       // small blobs to be sent with the next commit
	size   int              // bytes of staged
}

var _ storage = (*parentStorage)(nil)

// maxStaged is the number of bytes of blobs that are sent with a commit. Others are sent at once.
const maxStaged = 64 << 10

func (p *parentStorage) call(ctx context.Context, op guest.Op, q storageCall) (storageReply, error) {
	q.Fork = p.fork
	var a storageReply
	err := p.parent.Call(ctx, op, q, &a)
	return a, err
}

func (p *parentStorage) lock(ctx context.Context) (bool, error) {
	if p.unlocked != nil {
		select {
		case <-p.unlocked:
		case <-ctx.Done():
			return false, wrapTimeout(context.Cause(ctx))
		}
	}
	a, err := p.call(ctx, callLock, storageCall{})
	return a.Is, err
}

// unlock does not wait for the parent: the caller of a command need not, either.
func (p *parentStorage) unlock() error {
	done := make(chan struct{})
	p.unlocked = done
	go func() {
		defer close(done)
		_, _ = p.call(context.Background(), callUnlock, storageCall{}) // it fails with the parent, which then unlocks it
	}()
	return nil
}

func (p *parentStorage) exists() bool {
	a, err := p.call(context.Background(), callExists, storageCall{})
	return err == nil && a.Is
}

func (p *parentStorage) read() (record, []atoll.Result, error) {
	a, err := p.call(context.Background(), callRead, storageCall{})
	if err != nil {
		return record{}, nil, err
	}
	if a.Old == nil {
		return record{}, nil, errNoAnswer
	}
	p.forget()
	r := *a.Old
	r.Spec.Mounts = p.mounts
	return r, a.Past, nil
}

// errNoAnswer reports an answer without its content.
var errNoAnswer = errors.New("the parent of this worker did not answer")

// forget drops what is known about the blobs of the parent, which another process may have changed.
func (p *parentStorage) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored, p.staged, p.size = nil, nil, 0
}

func (p *parentStorage) commit(r record, past []atoll.Result) (bool, error) {
	p.mu.Lock()
	staged := p.staged
	p.mu.Unlock()
	a, err := p.call(context.Background(), callCommit, storageCall{New: &r, Past: newestResults(past), Blobs: staged})
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staged, p.size = p.staged[len(staged):], 0
	for _, b := range p.staged {
		p.size += len(b.Data)
	}
	return a.Is, nil
}

func (p *parentStorage) compact(r record, past []atoll.Result, used map[vfs.Key]bool) error {
	p.forget()
	q := storageCall{New: &r, Past: newestResults(past)}
	for key := range used {
		q.Used = append(q.Used, key.String())
	}
	_, err := p.call(context.Background(), callCompact, q)
	return err
}

func (p *parentStorage) close() {}

// Get returns a blob.
func (p *parentStorage) Get(key vfs.Key) ([]byte, error) {
	if data := p.findStaged(key); data != nil {
		return data, nil
	}
	a, err := p.call(context.Background(), callGet, storageCall{Key: key.String()})
	if err == nil && a.Missing {
		err = fs.ErrNotExist
	}
	return a.Data, err
}

// findStaged returns a blob that was not sent yet, or nil.
func (p *parentStorage) findStaged(key vfs.Key) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == 0 {
		return nil
	}
	name := key.String()
	for _, b := range p.staged {
		if b.Key == name {
			return b.Data
		}
	}
	return nil
}

// Put stores a blob.
func (p *parentStorage) Put(key vfs.Key, data []byte) error {
	p.mu.Lock()
	waits := p.fork == "" && len(data) <= maxLogBlob && p.size+len(data) <= maxStaged
	if waits {
		p.staged, p.size = append(p.staged, sentBlob{key.String(), data}), p.size+len(data)
	}
	p.mu.Unlock()
	if !waits {
		if _, err := p.call(context.Background(), callPut, storageCall{Key: key.String(), Data: data}); err != nil {
			return err
		}
	}
	p.noteStored(key)
	return nil
}

// noteStored notes that the parent has a blob, or gets it with the next commit.
func (p *parentStorage) noteStored(key vfs.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stored == nil {
		p.stored = make(map[vfs.Key]bool)
	}
	p.stored[key] = true
}

// Has reports whether a blob is stored, or will be with the next commit.
func (p *parentStorage) Has(key vfs.Key) (bool, error) {
	p.mu.Lock()
	known := p.stored[key] || p.base.has(key)
	p.mu.Unlock()
	if known {
		return true, nil
	}
	a, err := p.call(context.Background(), callHas, storageCall{Key: key.String()})
	if err == nil && a.Is {
		p.noteStored(key)
	}
	return a.Is, err
}
