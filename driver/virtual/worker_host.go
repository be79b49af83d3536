package virtual

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
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
	for _, op := range storageCalls {
		calls[op] = func(ctx context.Context, q *guest.Request) (any, error) {
			var c storageCall
			if err := q.DecodeBody(&c); err != nil {
				return nil, err
			}
			return h.answerStorage(ctx, op, &c)
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
		callPython: func(ctx context.Context, q *guest.Request) (func(net.Conn), error) {
			var c pythonQuestion
			if err := q.DecodeBody(&c); err != nil {
				return nil, err
			}
			in, err := h.s.d.startPython(ctx, h.s.id, c.Cold)
			if err != nil {
				return nil, err
			}
			return func(conn net.Conn) { servePython(conn, in) }, nil
		},
	}
	return &guest.CallServer{Calls: calls, Streams: streams}
}

// storageCalls are the calls that answerStorage answers.
var storageCalls = []guest.Op{callLock, callUnlock, callExists, callRead, callCommit, callCompact, callGet, callPut, callHas}

// answerStorage answers a call about the storage where the sandbox, or a fork of it, is stored. The worker
// may be hostile: it can only read and write its own storage, and the files and the session there.
func (h *workerHost) answerStorage(ctx context.Context, op guest.Op, c *storageCall) (*storageReply, error) {
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
	case callGet, callPut, callHas:
		return s.answerBlob(dir, op, c)
	}
	if c.Fork != "" || s.d.Dir == "" {
		return nil, fmt.Errorf("%w: %s of this storage", atoll.ErrInvalid, op)
	}
	if op == callExists {
		return &storageReply{Is: dir.exists()}, nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	switch op {
	case callLock:
		changed, err := s.lockStorage(ctx)
		return &storageReply{Is: changed}, err
	case callUnlock:
		if !dir.isLocked() {
			return nil, fmt.Errorf("%w: it is not locked", atoll.ErrState)
		}
		return nil, dir.unlock()
	case callRead:
		return s.readStorage()
	case callCommit, callCompact:
		return s.writeStorage(op, c)
	}
	return nil, fmt.Errorf("%w: call %q", atoll.ErrInvalid, op)
}

// lockStorage locks the directory for the worker.
func (s *sealedSandbox) lockStorage(ctx context.Context) (changed bool, err error) {
	if s.dir.isLocked() {
		return false, fmt.Errorf("%w: it is locked", atoll.ErrState)
	}
	changed, err = s.dir.lock(ctx)
	s.counts.Lock()
	defer s.counts.Unlock()
	s.snapshots = -1 // another process may have added some
	return changed, err
}

// readStorage reads the record of the sandbox and what fits into a message of its history.
func (s *sealedSandbox) readStorage() (*storageReply, error) {
	if !s.dir.isLocked() {
		return nil, fmt.Errorf("%w: it is not locked", atoll.ErrState)
	}
	r, past, err := s.dir.read()
	if err != nil {
		return nil, err
	}
	s.counts.Lock()
	s.snapshots = len(r.Snapshots)
	s.counts.Unlock()
	r.Spec = withoutSecrets(s.spec)
	return &storageReply{Old: &r, Past: newestResults(past)}, nil
}

// writeStorage writes the record of the sandbox: only what its worker may change. Only calls of Snapshot
// add snapshots to it.
func (s *sealedSandbox) writeStorage(op guest.Op, c *storageCall) (*storageReply, error) {
	if c.New == nil || len(c.Past) > historyLength {
		return nil, fmt.Errorf("%w: no record, or too long a history", atoll.ErrInvalid)
	}
	if !s.dir.isLocked() {
		return nil, fmt.Errorf("%w: it is not locked", atoll.ErrState)
	}
	r := *c.New
	r.ID, r.Spec, r.Created, r.Active = s.id, s.spec, s.created, s.limitActive(r.Active)
	for _, key := range []string{r.Tree, r.Session} {
		if _, err := vfs.ParseKey(key); err != nil {
			return nil, err
		}
	}
	if text, err := json.Marshal(r.Snapshots); err != nil || len(text) > len("null")+maxSnapshotRecord*len(r.Snapshots) {
		return nil, fmt.Errorf("%w: a record of snapshots with %d bytes", atoll.ErrInvalid, len(text))
	}
	used, err := parseKeys(c.Used)
	if err != nil {
		return nil, err
	}
	most, err := s.maxStorage(s.dir)
	if err != nil {
		return nil, err
	}
	for _, b := range c.Blobs {
		if err := putChecked(s.dir, most, b.Key, b.Data); err != nil {
			return nil, err
		}
	}
	s.counts.Lock()
	defer s.counts.Unlock()
	known, err := s.countSnapshots()
	if err != nil {
		return nil, err
	}
	more := max(0, len(r.Snapshots)-known)
	if more > s.newSnapshots {
		return nil, fmt.Errorf("%w: %d snapshots that nobody has requested", atoll.ErrInvalid, more)
	}
	a := &storageReply{}
	past := limitResults(c.Past)
	if op == callCompact {
		err = s.dir.compact(r, past, used)
	} else if err = s.dir.checkLog(maxSealedLog); err == nil {
		a.Is, err = s.dir.commitWithin(most, r, past)
	}
	if err != nil {
		return nil, err
	}
	s.newSnapshots -= more
	s.snapshots = len(r.Snapshots)
	return a, nil
}

// parseKeys returns the set of keys with names.
func parseKeys(names []string) (map[vfs.Key]bool, error) {
	keys := make(map[vfs.Key]bool, len(names))
	for _, name := range names {
		key, err := vfs.ParseKey(name)
		if err != nil {
			return nil, err
		}
		keys[key] = true
	}
	return keys, nil
}

// maxSealedLog is the size in bytes of a log that a worker can't make longer before it compacts it, even
// if its sandbox has no limits.
const maxSealedLog = 256 << 20

// maxSnapshotRecord is the largest size of a snapshot in the record, in bytes of JSON.
const maxSnapshotRecord = 4 << 10

// countSnapshots returns the number of snapshots in the stored record. s.counts is held.
func (s *sealedSandbox) countSnapshots() (int, error) {
	if s.snapshots >= 0 {
		return s.snapshots, nil
	}
	r, err := s.dir.readRecord()
	if err != nil {
		return 0, err
	}
	s.snapshots = len(r.Snapshots)
	return s.snapshots, nil
}

// putChecked stores a blob of a worker, if it has the hash that the worker says and the directory does
// not take more than a number of bytes then; 0: no limit.
func putChecked(dir *directory, most int64, name string, data []byte) error {
	key, err := vfs.ParseKey(name)
	if err != nil {
		return err
	}
	if sha256.Sum256(data) != key {
		return fmt.Errorf("%w: blob %s has another hash", atoll.ErrInvalid, key)
	}
	return dir.putWithin(most, key, data)
}

// answerBlob answers a call about a blob.
func (s *sealedSandbox) answerBlob(dir *directory, op guest.Op, c *storageCall) (*storageReply, error) {
	if op == callPut {
		most, err := s.maxStorage(dir)
		if err != nil {
			return nil, err
		}
		return nil, putChecked(dir, most, c.Key, c.Data)
	}
	key, err := vfs.ParseKey(c.Key)
	if err != nil {
		return nil, err
	}
	if op == callHas {
		is, err := dir.Has(key)
		return &storageReply{Is: is}, err
	}
	data, err := dir.Get(key)
	if errors.Is(err, fs.ErrNotExist) {
		return &storageReply{Missing: true}, nil
	}
	return &storageReply{Data: data}, err
}

// maxStorage returns how many bytes of the host's disk a worker may use in a directory; 0: no limit.
func (s *sealedSandbox) maxStorage(dir *directory) (int64, error) {
	s.counts.Lock()
	defer s.counts.Unlock()
	known := 0
	if dir == s.dir {
		var err error
		if known, err = s.countSnapshots(); err != nil {
			return 0, err
		}
	}
	return maxStored(s.spec, known+s.newSnapshots), nil
}

// maxStored returns the limit of what a sandbox with snapshots takes of the host's disk, in bytes; 0:
// none. While it is saved its previous state is stored too. Honest workers remove earlier ones.
func maxStored(spec atoll.Spec, snapshots int) int64 {
	disk, files, memory := cmp.Or(spec.Limits.Disk, DefaultDisk), int64(cmp.Or(spec.Limits.Files, DefaultFiles)), cmp.Or(spec.Limits.Memory, DefaultMemory)
	if disk < 0 || files < 0 || memory < 0 {
		return 0
	}
	const (
		perFile = blobOverhead + 1<<10 // its last block, its name and attributes
		margin  = 16 << 20             // files of the image
	)
	states := int64(snapshots) + 2
	limit := float64(states) * (float64(disk) + float64(disk)/8 + float64(files)*perFile + 2*float64(memory) + margin)
	if limit > 1<<60 {
		return 0
	}
	return int64(limit)
}
