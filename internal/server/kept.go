package server

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// How much output all answers hold that are not sent yet, those of one owner,
// and what must be left for a command to begin.
const (
	keptByAll   = 256 << 20
	keptByOwner = keptByAll / 2
	keptAtLeast = 64 << 10
)

// shelf bounds the output that answers hold.
type shelf struct {
	mu  sync.Mutex
	all int64            // guarded by mu
	of  map[string]int64 // by owner, guarded by mu
}

// take takes room for n bytes, if there is so much.
func (s *shelf) take(owner string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > keptByAll || s.of[owner]+n > keptByOwner {
		return false
	}
	if s.of == nil {
		s.of = make(map[string]int64)
	}
	s.all += n
	s.of[owner] += n
	return true
}

// give gives room back.
func (s *shelf) give(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= n
	if s.of[owner] -= n; s.of[owner] <= 0 {
		delete(s.of, owner)
	}
}

// mayKeep refuses a command whose answer would find no room.
func (s *shelf) mayKeep(owner string) error {
	if !s.take(owner, keptAtLeast) {
		return &refusal{status: http.StatusServiceUnavailable, kind: "unavailable", header: http.Header{"Retry-After": {"1"}},
			detail: "too much output waits to be sent; try again in 1 s, or open a WebSocket"}
	}
	s.give(owner, keptAtLeast)
	return nil
}

// kept is the output of a stream that an answer will hold: what finds no room
// is dropped.
type kept struct {
	shelf *shelf
	owner string
	limit int64

	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu
}

func (s *shelf) keep(owner string, limit int64) *kept {
	if limit == 0 {
		limit = atoll.DefaultMaxOutput
	}
	return &kept{shelf: s, owner: owner, limit: limit}
}

// Write keeps what there is room for.
func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(len(p), int(k.limit)-len(k.buf))
	if need := len(k.buf) + n; need > cap(k.buf) && !k.grow(need) {
		n = cap(k.buf) - len(k.buf)
	}
	k.buf = append(k.buf, p[:n]...)
	k.cut = k.cut || n < len(p)
	return len(p), nil
}

// grow makes the buffer larger. It is called with mu held.
func (k *kept) grow(need int) bool {
	size := min(max(need, 2*cap(k.buf), 512), max(need, int(k.limit)))
	if !k.shelf.take(k.owner, int64(size-cap(k.buf))) {
		return false
	}
	buf := make([]byte, len(k.buf), size)
	copy(buf, k.buf)
	k.buf = buf
	return true
}

// with returns what was kept, and whether there was more, of this stream or of
// another.
func (k *kept) with(cut bool) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf, k.cut || cut
}

// release gives the room back. Nothing is kept after it.
func (k *kept) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shelf.give(k.owner, int64(cap(k.buf)))
	k.buf, k.limit = nil, 0
}

// sendExit writes an exit as JSON. Much output is written piece by piece: its
// JSON is never held as a whole.
func sendExit(w http.ResponseWriter, e *wire.Exit) error {
	if len(e.Stdout)+len(e.Stderr) <= keptAtLeast {
		return sendJSON(w, e)
	}
	rest := *e
	rest.Stdout, rest.Stderr = nil, nil
	var b bytes.Buffer
	if err := marshal(&b, &rest); err != nil {
		return err
	}
	const before, between, after = `{"stdout":"`, `","stderr":"`, `",`
	enc := base64.StdEncoding
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(before)+enc.EncodedLen(len(e.Stdout))+len(between)+enc.EncodedLen(len(e.Stderr))+len(after)+b.Len()-1))
	out := bufio.NewWriterSize(w, wire.MaxPayload)
	_, _ = out.WriteString(before) // the writer remembers its errors, and who is gone reads no answers
	writeBase64(out, e.Stdout)
	_, _ = out.WriteString(between)
	writeBase64(out, e.Stderr)
	_, _ = out.WriteString(after)
	_, _ = out.Write(b.Bytes()[1:])
	_ = out.Flush()
	return nil
}

func writeBase64(out *bufio.Writer, p []byte) {
	enc := base64.NewEncoder(base64.StdEncoding, out)
	_, _ = enc.Write(p)
	_ = enc.Close()
}
