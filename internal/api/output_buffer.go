package api

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

// Limits of the output held for responses that are not sent yet: of all owners, of one owner, and
// the minimum for a command to start.
const (
	maxBuffered         = 256 << 20
	maxBufferedPerOwner = maxBuffered / 2
	minBuffer           = 64 << 10
)

// outputBudget limits the output held for responses.
type outputBudget struct {
	mu       sync.Mutex
	all      int64            // by owner; guarded by mu
	perOwner map[string]int64 // by owner, guarded by mu
}

// reserve reserves n bytes, if they are within the limits.
func (s *outputBudget) reserve(owner string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > maxBuffered || s.perOwner[owner]+n > maxBufferedPerOwner {
		return false
	}
	if s.perOwner == nil {
		s.perOwner = make(map[string]int64)
	}
	s.all += n
	s.perOwner[owner] += n
	return true
}

// release releases reserved bytes.
func (s *outputBudget) release(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= n
	if s.perOwner[owner] -= n; s.perOwner[owner] <= 0 {
		delete(s.perOwner, owner)
	}
}

// checkRoom refuses a command while less than minBuffer is left for its response.
func (s *outputBudget) checkRoom(owner string) error {
	if !s.reserve(owner, minBuffer) {
		return &requestError{
			status: http.StatusServiceUnavailable, kind: "unavailable", header: http.Header{"Retry-After": {"1"}},
			detail: "too much output is waiting to be sent; try again in 1 s, or use a WebSocket",
		}
	}
	s.release(owner, minBuffer)
	return nil
}

// outputBuffer holds an output stream for a response. Output beyond its limit or the budget is
// dropped.
type outputBuffer struct {
	budget *outputBudget
	owner  string
	limit  int64

	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu
}

func (s *outputBudget) newBuffer(owner string, limit int64) *outputBuffer {
	if limit == 0 {
		limit = atoll.DefaultMaxOutput
	}
	return &outputBuffer{budget: s, owner: owner, limit: limit}
}

// Write stores as much as the limits allow.
func (k *outputBuffer) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(len(p), int(k.limit)-len(k.buf))
	if need := len(k.buf) + n; need > cap(k.buf) && !k.growTo(need) {
		n = cap(k.buf) - len(k.buf)
	}
	k.buf = append(k.buf, p[:n]...)
	k.cut = k.cut || n < len(p)
	return len(p), nil
}

// growTo enlarges the buffer within the budget. The caller holds mu.
func (k *outputBuffer) growTo(need int) bool {
	size := min(max(need, 2*cap(k.buf), 512), max(need, int(k.limit)))
	if !k.budget.reserve(k.owner, int64(size-cap(k.buf))) {
		return false
	}
	buf := make([]byte, len(k.buf), size)
	copy(buf, k.buf)
	k.buf = buf
	return true
}

// takeResult returns the output, and whether any was dropped, of this stream or, by cut, of
// another.
func (k *outputBuffer) takeResult(cut bool) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf, k.cut || cut
}

// releaseBuffer releases the buffer. Later writes are dropped.
func (k *outputBuffer) releaseBuffer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.budget.release(k.owner, int64(cap(k.buf)))
	k.buf, k.limit = nil, 0
}

// sendExit answers with an exit as JSON. Large output is encoded piece by piece rather than held
// as a whole.
func sendExit(w http.ResponseWriter, e *wire.Exit) error {
	if len(e.Stdout)+len(e.Stderr) <= minBuffer {
		return sendJSON(w, e)
	}
	rest := *e
	rest.Stdout, rest.Stderr = nil, nil
	var b bytes.Buffer
	if err := encodeJSON(&b, &rest); err != nil {
		return err
	}
	const before, between, after = `{"stdout":"`, `","stderr":"`, `",`
	enc := base64.StdEncoding
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(before)+enc.EncodedLen(len(e.Stdout))+len(between)+enc.EncodedLen(len(e.Stderr))+len(after)+b.Len()-1))
	out := bufio.NewWriterSize(w, wire.MaxPayload)
	_, _ = out.WriteString(before) // the writer keeps its first error, which means that the client is gone
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
