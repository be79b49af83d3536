package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Limits of the memory for bodies, and of the time to read them.
const (
	maxProcessBytes = 256 << 20 // of the process
	maxAccessBytes  = 96 << 20  // of an Access
	acquireTimeout  = 5 * time.Second
	bodyStall       = time.Minute
	bodyTime        = 5 * time.Minute
	minBuffer       = 16 << 10
)

// processMemory is the memory for bodies of the process.

// processMemory is what the process has in hand.
var processMemory = &bodyMemory{max: maxProcessBytes}

// bodyMemory counts the bytes of bodies in memory.
type bodyMemory struct {
	max int64

	mu    sync.Mutex
	used  int64         // guarded by mu
	freed chan struct{} // guarded by mu; closed when used decreases
}

// acquireBytes waits until n more bytes are available.
func (h *bodyMemory) acquireBytes(ctx context.Context, n int64) error {
	for {
		h.mu.Lock()
		if h.used+n <= h.max {
			h.used += n
			h.mu.Unlock()
			return nil
		}
		if h.freed == nil {
			h.freed = make(chan struct{})
		}
		freed := h.freed
		h.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *bodyMemory) releaseBytes(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used -= n
	if h.freed != nil {
		close(h.freed)
		h.freed = nil
	}
}

// errCrowded is the error when no memory for a body becomes available in time.
var errCrowded = &dialect.Error{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: "atoll: too many large requests are under way", RetryAfter: 5}

// errTooLarge is the error of a body over the limit.
var errTooLarge = &dialect.Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_request", Message: "atoll: the body is too large"}

// ReadBody reads a request's body of at most most bytes, within the memory for bodies of the
// process. The memory is reserved until done is called, which is never nil. Errors are a
// *[dialect.Error] or those of reading; the caller sets read deadlines.
func ReadBody(r *http.Request, most int64) (b []byte, done func(), err error) {
	return readBody(nil, r, most, processMemory)
}

// readBody reads a body and reserves memory as it comes, so that a client that announces
// a large body and sends nothing reserves nothing. With a nil w, the caller sets read
// deadlines.
func readBody(w http.ResponseWriter, r *http.Request, most int64, rooms ...*bodyMemory) ([]byte, func(), error) {
	held := int64(0)
	done := sync.OnceFunc(func() {
		for _, h := range rooms {
			h.releaseBytes(held)
		}
	})
	if r.ContentLength > most {
		return nil, done, errTooLarge
	}
	c := http.NewResponseController(w)
	if w != nil {
		defer func() { _ = c.SetReadDeadline(time.Time{}) }() // for the next request; not every writer supports it
	}
	end := time.Now().Add(bodyTime)
	body := r.Body
	if body == nil {
		body = http.NoBody
	}
	var b []byte
	for {
		if len(b) == cap(b) {
			size := max(minBuffer, 2*int64(cap(b)))
			if r.ContentLength >= 0 {
				size = min(size, r.ContentLength+1) // one more to read io.EOF
			}
			size = min(size, most+1)
			if err := acquireAll(r.Context(), size-int64(cap(b)), rooms); err != nil {
				return nil, done, err
			}
			held += size - int64(cap(b))
			more := make([]byte, len(b), size)
			copy(more, b)
			b = more
		}
		if w != nil {
			_ = c.SetReadDeadline(earlierTime(time.Now().Add(bodyStall), end)) // not every writer supports it
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > most:
			return nil, done, errTooLarge
		case errors.Is(err, io.EOF):
			return b, done, nil
		case err != nil:
			return nil, done, err
		case time.Now().After(end):
			return nil, done, os.ErrDeadlineExceeded
		}
	}
}

// acquireAll acquires n bytes in all of the rooms, or in none.
func acquireAll(ctx context.Context, n int64, rooms []*bodyMemory) error {
	ctx, cancel := context.WithTimeoutCause(ctx, acquireTimeout, errCrowded)
	defer cancel()
	for i, h := range rooms {
		if err := h.acquireBytes(ctx, n); err != nil {
			for _, taken := range rooms[:i] {
				taken.releaseBytes(n)
			}
			return err
		}
	}
	return nil
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
