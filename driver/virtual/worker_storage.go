package virtual

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/vfs"
)

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
	done := make(chan struct{})
	var changed bool
	var err error
	go func() {
		defer close(done)
		var a storageReply
		// It goes on when ctx ends: the parent may have locked by then, and must be told to unlock.
		a, err = p.call(context.WithoutCancel(ctx), callLock, storageCall{})
		changed = a.Is
	}()
	select {
	case <-done:
		return changed, err
	case <-ctx.Done():
		p.unlockAfter(done)
		return false, wrapTimeout(context.Cause(ctx))
	}
}

// unlock does not wait for the parent: the caller of a command need not, either.
func (p *parentStorage) unlock() error {
	p.unlockAfter(nil)
	return nil
}

// unlockAfter unlocks in the background once the channel is closed; nil: at once. The next lock waits for it.
func (p *parentStorage) unlockAfter(locked <-chan struct{}) {
	done := make(chan struct{})
	p.unlocked = done
	go func() {
		defer close(done)
		if locked != nil {
			<-locked
		}
		_, _ = p.call(context.Background(), callUnlock, storageCall{}) // it fails with the parent, which then unlocks it
	}()
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
