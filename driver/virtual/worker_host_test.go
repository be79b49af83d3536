package virtual

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/vfs"
)

// newHost returns what answers the calls of a worker, for a stored sandbox whose worker is the test.
func newHost(t *testing.T, spec atoll.Spec) *workerHost {
	t.Helper()
	d := &Driver{Dir: t.TempDir()}
	spec.Runtime = Sealed
	s := d.newSealed("s1", spec, nil)
	dir, err := createDirectory(d.Dir, "s1", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.dir, s.exists = dir, true
	key := vfs.Key(sha256.Sum256(nil)).String()
	if _, err := dir.commit(record{ID: "s1", Tree: key, Session: key}, nil); err != nil {
		t.Fatal(err)
	}
	if err := dir.publish("s1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.close)
	return &workerHost{s: s}
}

// mustAnswer makes a call of a worker that must succeed.
func mustAnswer(t *testing.T, h *workerHost, op guest.Op, c *storageCall) *storageReply {
	t.Helper()
	a, err := h.answerStorage(t.Context(), op, c)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return a
}

// TestWorkerCannotFillMemory lets a worker store more small blobs than a commit may have.
func TestWorkerCannotFillMemory(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	for i := range maxStagedBytes/maxLogBlob + 100 {
		data := make([]byte, maxLogBlob)
		binary.BigEndian.PutUint32(data, uint32(i))
		mustAnswer(t, h, callPut, &storageCall{Key: vfs.Key(sha256.Sum256(data)).String(), Data: data})
	}
	if n := h.s.dir.stagedBytes; n > maxStagedBytes {
		t.Errorf("%d bytes wait in memory for a commit", n)
	}
}

// TestWorkerCannotChangeItsSpec lets a worker that was taken over save another spec, with which it
// would be opened again.
func TestWorkerCannotChangeItsSpec(t *testing.T) {
	h := newHost(t, atoll.Spec{Name: "one"})
	key := vfs.Key(sha256.Sum256(nil)).String()
	hostile := record{ID: "s2", Tree: key, Session: key, Spec: atoll.Spec{
		Name: "two", Mounts: []atoll.Mount{{Source: "/", Target: "/host"}}, Network: atoll.Network{Mode: atoll.NetworkOpen},
	}}
	mustAnswer(t, h, callLock, &storageCall{})
	mustAnswer(t, h, callCommit, &storageCall{New: &hostile})
	r, err := h.s.dir.readRecord()
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "s1" || r.Spec.Name != "one" || r.Spec.Runtime != Sealed || len(r.Spec.Mounts) > 0 || r.Spec.Network.Mode != "" {
		t.Errorf("the record is now %+v", r)
	}
}

// TestWorkerReadsNoSecrets lets a worker read its record.
func TestWorkerReadsNoSecrets(t *testing.T) {
	const secret = "123456789abcdef"
	h := newHost(t, atoll.Spec{Network: atoll.Network{Headers: []atoll.Header{{Host: "example.com", Name: "Authorization", Value: secret}}}})
	key := vfs.Key(sha256.Sum256(nil)).String()
	mustAnswer(t, h, callLock, &storageCall{})
	mustAnswer(t, h, callCommit, &storageCall{New: &record{Tree: key, Session: key}})
	a := mustAnswer(t, h, callRead, &storageCall{})
	if len(a.Old.Spec.Network.Headers) > 0 {
		t.Errorf("the worker reads %+v", a.Old.Spec.Network)
	}
	if stored, err := h.s.dir.readRecord(); err != nil || stored.Spec.Network.Headers[0].Value != secret {
		t.Errorf("the secret is lost: %v, %+v", err, stored.Spec.Network)
	}
}

func TestWorkerReachesOnlyItsStorage(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	data := []byte("content")
	key := vfs.Key(sha256.Sum256(data)).String()
	for name, bad := range map[string]struct {
		call storageCall
		op   string
	}{
		"fork of another":    {storageCall{Fork: "s2", Key: key}, string(callGet)},
		"path as a key":      {storageCall{Key: "../../../../etc/passwd"}, string(callGet)},
		"path as a blob":     {storageCall{Key: "../x", Data: data}, string(callPut)},
		"other content":      {storageCall{Key: key, Data: []byte("other")}, string(callPut)},
		"unlocking":          {storageCall{}, string(callUnlock)},
		"record without key": {storageCall{New: &record{Tree: "x"}}, string(callCommit)},
		"no record":          {storageCall{}, string(callCommit)},
		"without the lock":   {storageCall{New: &record{Tree: key, Session: key}}, string(callCommit)},
		"other content sent": {storageCall{New: &record{Tree: key, Session: key}, Blobs: []sentBlob{{key, []byte("other")}}}, string(callCommit)},
		"unknown call":       {storageCall{}, "destroy"},
	} {
		if a, err := h.answerStorage(t.Context(), guest.Op(bad.op), &bad.call); err == nil {
			t.Errorf("%s: answered %+v", name, a)
		}
	}
	if _, err := h.answerStorage(t.Context(), callPut, &storageCall{Key: key, Data: data}); err != nil {
		t.Errorf("storing a blob: %v", err)
	}
}

func TestWorkerLocksOnce(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	if _, err := h.answerStorage(t.Context(), callLock, &storageCall{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.answerStorage(t.Context(), callLock, &storageCall{}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("locking twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := newDirectory(h.s.dir.path, nil)
	t.Cleanup(other.close)
	if _, err := other.lock(ctx); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the lock of another process: %v", err)
	}
	if _, err := h.answerStorage(t.Context(), callUnlock, &storageCall{}); err != nil {
		t.Error(err)
	}
}

// TestWorkerAsksForAPolicyThatIsNotThere lets a worker that was taken over make a call that an honest
// one does not make. It must not end the server.
func TestWorkerAsksForAPolicyThatIsNotThere(t *testing.T) {
	ask := newHost(t, atoll.Spec{}).server().Calls[callPolicy]
	if _, err := ask(t.Context(), &guest.Request{Op: callPolicy, Body: []byte(`{}`)}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
