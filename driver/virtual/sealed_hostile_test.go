package virtual

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/vfs"
)

// These tests are a worker that was taken over: they speak the protocol of its two connections.

// dialHost returns the client with which a worker calls its parent.
func dialHost(t *testing.T, h *workerHost) *guest.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.server().ServeConn(theirs)
	}()
	c, err := guest.Connect(t.Context(), ours, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// rawJSON is a text that is sent as it is.
type rawJSON string

// MarshalJSON returns the text.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// TestWorkerSendsEmptyObjects sends lists whose values need a hundred times their text.
func TestWorkerSendsEmptyObjects(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	c := dialHost(t, h)
	mustAnswer(t, h, callLock, &storageCall{})
	list := strings.Repeat("{},", 4<<20) + "{}"
	key := vfs.Key(sha256.Sum256(nil)).String()
	for name, body := range map[string]string{
		"history":   `{"record":{"tree":"` + key + `","session":"` + key + `"},"past":[` + list + `]}`,
		"snapshots": `{"record":{"tree":"` + key + `","session":"` + key + `","snapshots":[` + list + `]}}`,
		"keys":      `{"used":[` + strings.Repeat(`"",`, 4<<20) + `""]}`,
	} {
		op := callCommit
		if name == "keys" {
			op = callCompact
		}
		var err error
		used := allocated(func() { err = c.Call(t.Context(), op, rawJSON(body), nil) })
		if err == nil {
			t.Errorf("%s: the call was answered", name)
		}
		if used > 300<<20 { // the messages themselves are copied several times, by this end too
			t.Errorf("%s: %d MB were allocated", name, used>>20)
		}
	}
	if err := c.Call(t.Context(), callExists, storageCall{}, nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestWorkerSendsEndlessHead sends an HTTP request whose head never ends.
func TestWorkerSendsEndlessHead(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	var err error
	h.network, err = newNetwork(atoll.Network{Allow: []string{"example.com"}}, upstream.Config{Proxy: upstream.None})
	if err != nil {
		t.Fatal(err)
	}
	st, err := dialHost(t, h).OpenStream(t.Context(), callRequest, requestTarget{Scheme: "http", Host: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		_, _ = io.Copy(io.Discard, st) // until the host ends the stream
		_ = st.Close()
	}()
	_, _ = io.WriteString(st, "GET / HTTP/1.1\r\nHost: example.com\r\n")
	line := "X-Field: " + strings.Repeat("x", 60<<10) + "\r\n"
	sent := make(chan bool, 1)
	go func() {
		for range 32 << 20 / len(line) {
			if _, err := io.WriteString(st, line); err != nil {
				return
			}
		}
		sent <- true
	}()
	select {
	case <-refused:
	case <-sent:
		t.Error("the host reads 32 MB of a head")
	}
}

// TestWorkerFillsDisk stores blobs that its sandbox does not need.
func TestWorkerFillsDisk(t *testing.T) {
	const disk = 1 << 20
	spec := atoll.Spec{Limits: atoll.Resources{Disk: disk, Memory: 1 << 20, Files: 10}}
	fill := func(h *workerHost, size, count int) (stored int) {
		data := make([]byte, size)
		for i := range count {
			binary.BigEndian.PutUint32(data, uint32(i+1)) //nolint:gosec // small
			key := vfs.Key(sha256.Sum256(data)).String()
			_, err := h.answerStorage(t.Context(), callPut, &storageCall{Key: key, Data: data})
			if errors.Is(err, atoll.ErrQuota) {
				return stored
			}
			if err != nil {
				t.Fatal(err)
			}
			stored++
		}
		t.Errorf("the host has stored %d blobs of %d bytes for a sandbox of %d bytes", count, size, disk)
		return stored
	}
	t.Run("Large", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, spec)
		n := fill(h, 1<<20, 64)
		again := &workerHost{s: h.s.d.newSealed("s1", h.s.spec, newDirectory(h.s.dir.path, nil))}
		t.Cleanup(again.s.dir.close)
		if more := fill(again, 1<<20+1, 64); more > 0 {
			t.Errorf("another worker can store %d MB besides %d MB", more, n)
		}
		mustAnswer(t, h, callLock, &storageCall{})
		mustAnswer(t, h, callCompact, &storageCall{New: emptyRecord()})
		if fill(h, 1<<20+2, 64) == 0 {
			t.Error("nothing can be stored after unused blobs were removed")
		}
	})
	t.Run("Small", func(t *testing.T) {
		t.Parallel()
		fill(newHost(t, spec), 4, 1<<20)
	})
	t.Run("SmallOfOtherWorkers", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, spec)
		fill(h, maxLogBlob, 64<<20/maxLogBlob)
		mustAnswer(t, h, callLock, &storageCall{})
		if _, err := h.answerStorage(t.Context(), callCommit, &storageCall{New: emptyRecord()}); err != nil && !errors.Is(err, atoll.ErrQuota) {
			t.Fatal(err)
		}
		h.s.dir.close() // the worker has ended
		if more := fill(h, maxLogBlob-1, 64<<20/maxLogBlob); more > maxStagedBytes/maxLogBlob+1 {
			t.Errorf("another worker can store %d blobs more", more)
		}
	})
	t.Run("Commits", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, spec)
		mustAnswer(t, h, callLock, &storageCall{})
		past := []atoll.Result{{Stdout: strings.Repeat("x", historyOutput)}}
		full := false
		for range 64 << 20 / historyOutput {
			if _, err := h.answerStorage(t.Context(), callCommit, &storageCall{New: emptyRecord(), Past: past}); err != nil {
				full = errors.Is(err, atoll.ErrQuota)
				break
			}
		}
		if !full {
			t.Error("the log grows without end")
		}
		mustAnswer(t, h, callCompact, &storageCall{New: emptyRecord(), Past: past})
		mustAnswer(t, h, callCommit, &storageCall{New: emptyRecord(), Past: past})
	})
	t.Run("BlobsOfCommits", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, spec)
		mustAnswer(t, h, callLock, &storageCall{})
		for i := range 64 << 20 / maxLogBlob {
			data := make([]byte, maxLogBlob)
			binary.BigEndian.PutUint32(data, uint32(i+1)) //nolint:gosec // small
			b := sentBlob{vfs.Key(sha256.Sum256(data)).String(), data}
			_, err := h.answerStorage(t.Context(), callCommit, &storageCall{New: emptyRecord(), Blobs: []sentBlob{b}})
			if errors.Is(err, atoll.ErrQuota) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Errorf("the log of a sandbox of %d bytes takes 64 MB", disk)
	})
	t.Run("SnapshotsByCompaction", func(t *testing.T) {
		h := newHost(t, spec)
		mustAnswer(t, h, callLock, &storageCall{})
		r := emptyRecord()
		r.Snapshots = make([]storedSnapshot, 1)
		if _, err := h.answerStorage(t.Context(), callCompact, &storageCall{New: r}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("a snapshot that nobody has requested: %v", err)
		}
	})
	t.Run("Snapshots", func(t *testing.T) {
		h := newHost(t, spec)
		mustAnswer(t, h, callLock, &storageCall{})
		r := emptyRecord()
		r.Snapshots = make([]storedSnapshot, 1000)
		_, err := h.answerStorage(t.Context(), callCommit, &storageCall{New: r})
		if err == nil {
			t.Error("a worker can add snapshots by itself, which each may take the limit of disk")
		}
	})
	t.Run("LargeSnapshot", func(t *testing.T) {
		h := newHost(t, spec)
		h.s.newSnapshots = 1
		mustAnswer(t, h, callLock, &storageCall{})
		r := emptyRecord()
		r.Snapshots = []storedSnapshot{{Tree: strings.Repeat("x", 1<<20)}}
		_, err := h.answerStorage(t.Context(), callCommit, &storageCall{New: r})
		if err == nil {
			t.Error("a snapshot of 1 MB is in the record")
		}
	})
}

// emptyRecord returns a record that names an empty blob only.
func emptyRecord() *record {
	key := vfs.Key(sha256.Sum256(nil)).String()
	return &record{Tree: key, Session: key}
}

// TestWorkerCommitsUnreadLog has a worker write a log that another process has changed. The host must not
// write over the changes.
func TestWorkerCommitsUnreadLog(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	h.s.dir.close()
	before, err := h.s.dir.readRecord()
	if err != nil {
		t.Fatal(err)
	}
	mustAnswer(t, h, callLock, &storageCall{})
	for _, op := range []guest.Op{callCommit, callCompact} {
		r := emptyRecord()
		r.Commands = 77
		if _, err := h.answerStorage(t.Context(), op, &storageCall{New: r}); !errors.Is(err, atoll.ErrState) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if r, err := h.s.dir.readRecord(); err != nil || r.Commands != before.Commands {
		t.Errorf("the record is %+v, %v", r, err)
	}
	mustAnswer(t, h, callRead, &storageCall{})
	mustAnswer(t, h, callCommit, &storageCall{New: emptyRecord()})
}

// TestWorkerStoresLargeHistory fills the history with results as large as messages. The host reads it into
// its memory, and must be able to send it.
func TestWorkerStoresLargeHistory(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	mustAnswer(t, h, callLock, &storageCall{})
	long := strings.Repeat("x", 1<<20)
	for i := range historyLength {
		past := []atoll.Result{{ExitCode: i, Command: long, Stdout: long, Stderr: long, Error: long}}
		mustAnswer(t, h, callCommit, &storageCall{New: emptyRecord(), Past: past})
	}
	list := mustAnswer(t, h, callRead, &storageCall{}).Past
	size := 0
	for _, r := range list {
		size += len(r.Command) + len(r.Stdout) + len(r.Stderr) + len(r.Error)
	}
	if len(list) == 0 || list[len(list)-1].ExitCode != historyLength-1 || size > maxHistoryMessage {
		t.Errorf("%d results with %d MB", len(list), size>>20)
	}
}

// TestWorkerFillsLog stores more small blobs than this process may have in memory to compact the log.
func TestWorkerFillsLog(t *testing.T) {
	testenv.Logic(t)
	h := newHost(t, atoll.Spec{})
	mustAnswer(t, h, callLock, &storageCall{})
	for i := range maxLogBytes/maxLogBlob + 1000 {
		data := make([]byte, maxLogBlob)
		binary.BigEndian.PutUint32(data, uint32(i+1)) //nolint:gosec // small
		mustAnswer(t, h, callPut, &storageCall{Key: vfs.Key(sha256.Sum256(data)).String(), Data: data})
		if i%1000 == 0 {
			mustAnswer(t, h, callCommit, &storageCall{New: emptyRecord()})
		}
	}
	if n := h.s.dir.indexed; n > maxLogBytes {
		t.Errorf("the log has %d MB of blobs", n>>20)
	}
}

// TestLargeSessionFitsIntoMessages stores a session that is larger than a message to the parent.
func TestLargeSessionFitsIntoMessages(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	blobs := &parentStorage{parent: dialHost(t, h)}
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	name, err := putSession(blobs, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := getSession(blobs, name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	parts, err := sessionParts(blobs, name)
	if err != nil || len(parts) < 2 {
		t.Errorf("its parts: %v, %v", parts, err)
	}
}

// TestBinaryHistoryFitsIntoMessages saves a history of binary output, which JSON makes six times longer.
func TestBinaryHistoryFitsIntoMessages(t *testing.T) {
	h := newHost(t, atoll.Spec{})
	p := &parentStorage{parent: dialHost(t, h)}
	if _, err := p.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	past := make([]atoll.Result, historyLength)
	for i := range past {
		past[i] = atoll.Result{ExitCode: i, Stdout: strings.Repeat("\x00", historyOutput), Stderr: strings.Repeat("\x00", historyOutput)}
	}
	if _, err := p.commit(*emptyRecord(), past); err != nil {
		t.Fatal(err)
	}
	_, list, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 30 || list[len(list)-1].ExitCode != historyLength-1 {
		t.Errorf("%d results are stored", len(list))
	}
}

// servedBy returns a sealed sandbox whose worker is a test.
func servedBy(t *testing.T, calls guest.Calls) *sealedSandbox {
	t.Helper()
	s := newHost(t, atoll.Spec{}).s
	server := &guest.CallServer{Calls: calls}
	var work sync.WaitGroup
	s.link.Connect = func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		work.Go(func() { server.ServeConn(theirs) })
		return ours, nil
	}
	t.Cleanup(func() {
		s.link.Disconnect()
		work.Wait()
	})
	return s
}

// TestWorkerAnswersWithEmptyObjects answers with lists whose values need a hundred times their text.
func TestWorkerAnswersWithEmptyObjects(t *testing.T) {
	list := rawJSON("[" + strings.Repeat("{},", 5<<20) + "{}]")
	answer := func(context.Context, *guest.Request) (any, error) { return list, nil }
	s := servedBy(t, guest.Calls{opSnapshots: answer, opHistory: answer})
	for name, call := range map[string]func() error{
		"snapshots": func() error { _, err := s.Snapshots(t.Context()); return err },
		"history":   func() error { _, err := s.History(t.Context()); return err },
	} {
		var err error
		if used := allocated(func() { err = call() }); used > 300<<20 || err == nil {
			t.Errorf("%s: %d MB were allocated, %v", name, used>>20, err)
		}
	}
}

// TestWorkerLiesAboutItsStatus has a worker claim another identity, another state and activity in the
// future, which would keep it from being idle.
func TestWorkerLiesAboutItsStatus(t *testing.T) {
	lie := atoll.Status{
		ID: "other", Name: "other", Driver: "namespace", State: "\x1b[2J", Isolation: "machine", Labels: map[string]string{"a": "b"},
		Active: time.Now().AddDate(1000, 0, 0), Conditions: []atoll.Condition{{Type: "ready", Message: strings.Repeat("x", 1<<20)}},
	}
	s := servedBy(t, guest.Calls{opStatus: func(context.Context, *guest.Request) (any, error) { return lie, nil }})
	s.exists = false
	st, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.ID != "s1" || st.Name != "" || st.Driver != "virtual" || st.State != atoll.Running || st.Isolation != sealedIsolation || len(st.Labels) > 0 || st.Active.After(time.Now()) || len(st.Conditions) != 1 || st.Conditions[0].Message != "" {
		t.Errorf("the status is %.300v", st)
	}
	key := vfs.Key(sha256.Sum256(nil)).String()
	h := &workerHost{s: s}
	mustAnswer(t, h, callLock, &storageCall{})
	mustAnswer(t, h, callRead, &storageCall{})
	mustAnswer(t, h, callCommit, &storageCall{New: &record{Tree: key, Session: key, Active: lie.Active}})
	if r, _, err := s.dir.read(); err != nil || r.Active.After(time.Now()) {
		t.Errorf("the record says active %v, %v", r.Active, err)
	}
}

// TestWorkerNeverEndsItsCommand runs a command in a worker that ignores its deadline. The driver must end
// the process.
func TestWorkerNeverEndsItsCommand(t *testing.T) {
	testenv.Logic(t)
	t.Parallel()
	h := newHost(t, atoll.Spec{})
	s := h.s
	silent := exec.Command("sleep", "1000")
	if err := silent.Start(); err != nil {
		t.Skip("the program sleep is missing: ", err)
	}
	w := &workerProcess{cmd: silent, ended: make(chan struct{})}
	go w.wait()
	var work sync.WaitGroup
	s.link.Connect = func(context.Context) (net.Conn, error) {
		s.mu.Lock()
		s.worker = w
		s.mu.Unlock()
		ours, theirs := net.Pipe()
		w.conn = ours
		server := &guest.CallServer{Streams: map[guest.Op]func(context.Context, *guest.Request) (func(net.Conn), error){
			guest.OpExec: func(ctx context.Context, _ *guest.Request) (func(net.Conn), error) {
				return func(net.Conn) { <-ctx.Done() }, nil
			},
		}}
		work.Go(func() { server.ServeConn(theirs) })
		return ours, nil
	}
	// The command must have reached the worker before the deadline: there is nothing to end otherwise.
	_, err := s.Exec(t.Context(), atoll.Cmd{Shell: "x", Timeout: time.Second, Stdout: io.Discard})
	if !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("the command: %v", err)
	}
	if !w.hasEnded() {
		t.Error("the worker goes on")
		w.kill()
	}
	work.Wait()
}

// TestWorkerExportsWithoutEnd sends a tar stream that never ends.
func TestWorkerExportsWithoutEnd(t *testing.T) {
	const disk = 1 << 20
	d := &Driver{}
	s := d.newSealed("s1", atoll.Spec{Limits: atoll.Resources{Disk: disk, Memory: 1 << 20, Files: 10}}, nil)
	server := &guest.SandboxServer{Sandbox: endlessExport{}}
	var work sync.WaitGroup
	s.link.Connect = func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		work.Go(func() { server.ServeConn(theirs) })
		return ours, nil
	}
	r, err := s.Export(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<30))
	if !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("the export ends after %d bytes: %v", n, err)
	}
	_ = r.Close()
	s.link.Disconnect()
	work.Wait()
}

// endlessExport is a sandbox whose exports never end.
type endlessExport struct{ guest.ServedSandbox }

// Export returns zeros.
func (endlessExport) Export(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(zeros{}), nil
}

type zeros struct{}

// Read returns zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
