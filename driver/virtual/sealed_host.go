package virtual

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/atoll-sandbox/atoll/vfs"
)

// workerHost answers the calls of a worker.
type workerHost struct {
	s       *sealedSandbox
	worker  *workerProcess
	network *network // nil: none
}

// server returns the answers to all calls but callStart.
func (h *workerHost) server() *guest.CallServer {
	calls := guest.Calls{
		callFailed: func(_ context.Context, q *guest.Request) (any, error) {
			var p wire.Problem
			if err := q.DecodeBody(&p); err != nil {
				return nil, err
			}
			h.worker.setFailure(p.Err())
			return nil, nil
		},
		callPolicy: func(ctx context.Context, q *guest.Request) (any, error) {
			var c policyCall
			if err := q.DecodeBody(&c); err != nil {
				return nil, err
			}
			if h.s.d.Policy == nil { // only a hostile worker asks
				return nil, fmt.Errorf("%w: there is no policy", atoll.ErrInvalid)
			}
			return nil, h.s.d.Policy(ctx, c.Call)
		},
	}
	for _, op := range placeCalls {
		calls[op] = func(ctx context.Context, q *guest.Request) (any, error) {
			var c placeCall
			if err := q.DecodeBody(&c); err != nil {
				return nil, err
			}
			return h.answerPlace(ctx, op, &c)
		}
	}
	streams := map[guest.Op]func(context.Context, *guest.Request) (func(net.Conn), error){
		callRequest: func(ctx context.Context, q *guest.Request) (func(net.Conn), error) {
			var to requestTarget
			if err := q.DecodeBody(&to); err != nil {
				return nil, err
			}
			if h.network == nil {
				return nil, fmt.Errorf("%w: the sandbox has no network", atoll.ErrDenied)
			}
			return func(conn net.Conn) { h.network.forwardRequest(ctx, to, conn) }, nil
		},
	}
	return &guest.CallServer{Calls: calls, Streams: streams}
}

// placeCalls are the calls that answerPlace answers.
var placeCalls = []guest.Op{callLock, callUnlock, callExists, callRecord, callHistory, callWrite, callSweep, callGet, callPut, callHas, callSync}

// answerPlace answers a call about the place where the sandbox, or a fork of it, is stored. The worker
// may be hostile: it can only read and write its own place, and the files and the session there.
func (h *workerHost) answerPlace(ctx context.Context, op guest.Op, c *placeCall) (*placeReply, error) {
	s := h.s
	dir := s.dir
	if c.Fork != "" {
		s.mu.Lock()
		dir = s.forks[c.Fork]
		s.mu.Unlock()
	}
	if dir == nil {
		return nil, fmt.Errorf("%w: the sandbox is not stored", atoll.ErrInvalid)
	}
	switch op {
	case callGet, callPut, callHas, callSync:
		return s.answerBlob(dir, op, c)
	}
	if c.Fork != "" || s.d.Dir == "" {
		return nil, fmt.Errorf("%w: %s of this place", atoll.ErrInvalid, op)
	}
	if op == callExists {
		return &placeReply{Is: dir.exists()}, nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	switch op {
	case callLock:
		return nil, s.lockPlace(ctx)
	case callUnlock:
		if dir.locked == nil {
			return nil, fmt.Errorf("%w: it is not locked", atoll.ErrState)
		}
		return nil, dir.unlock()
	case callRecord:
		r, err := dir.readRecord()
		r.Spec = withoutSecrets(s.spec)
		return &placeReply{Old: &r}, err
	case callHistory:
		return &placeReply{Past: dir.readHistory().list}, nil
	case callWrite:
		return nil, s.writePlace(c)
	case callSweep:
		used := make(map[string]bool, len(c.Used))
		for _, key := range c.Used {
			used[key] = true
		}
		return nil, dir.sweep(used)
	}
	return nil, fmt.Errorf("%w: call %q", atoll.ErrInvalid, op)
}

// lockPlace locks the directory for the worker. The lock of a worker that has ended is released.
func (s *sealedSandbox) lockPlace(ctx context.Context) error {
	if s.dir.locked != nil {
		return fmt.Errorf("%w: it is locked", atoll.ErrState)
	}
	return s.dir.lock(ctx)
}

// writePlace writes the record of the sandbox: only what its worker may change.
func (s *sealedSandbox) writePlace(c *placeCall) error {
	if c.New == nil {
		return fmt.Errorf("%w: no record", atoll.ErrInvalid)
	}
	r := *c.New
	r.Version, r.ID, r.Spec, r.Created = recordVersion, s.id, s.spec, s.created
	for _, key := range []string{r.Tree, r.Session} {
		if _, err := vfs.ParseKey(key); err != nil {
			return err
		}
	}
	return s.dir.write(r, c.Past)
}

// answerBlob answers a call about a blob.
func (s *sealedSandbox) answerBlob(dir *directory, op guest.Op, c *placeCall) (*placeReply, error) {
	s.storing.Lock()
	blobs, err := dir.openBlobs()
	s.storing.Unlock()
	if err != nil {
		return nil, err
	}
	if op == callSync {
		return nil, blobs.Sync()
	}
	key, err := vfs.ParseKey(c.Key)
	if err != nil {
		return nil, err
	}
	switch op {
	case callHas:
		is, err := blobs.Has(key)
		return &placeReply{Is: is}, err
	case callPut:
		if sha256.Sum256(c.Data) != key {
			return nil, fmt.Errorf("%w: blob %s has another hash", atoll.ErrInvalid, key)
		}
		return nil, blobs.Put(key, c.Data)
	}
	data, err := blobs.Get(key)
	if errors.Is(err, fs.ErrNotExist) {
		return &placeReply{Missing: true}, nil
	}
	return &placeReply{Data: data}, err
}
