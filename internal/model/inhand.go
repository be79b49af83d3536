package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// How many bytes of bodies are in hand at once, and how long they may take.
const (
	mostInHand  = 256 << 20 // of the process
	mostOfOne   = 96 << 20  // of an Access
	patience    = 5 * time.Second
	bodyStall   = time.Minute
	bodyTime    = 5 * time.Minute
	leastBuffer = 16 << 10
)

// everybodys is what the process has in hand.
var everybodys = &inHand{most: mostInHand}

// inHand counts bytes of bodies that are in memory.
type inHand struct {
	most int64

	mu    sync.Mutex
	used  int64         // guarded by mu
	freed chan struct{} // guarded by mu; closed when there is less
}

// take waits until there is room for n bytes more.
func (h *inHand) take(ctx context.Context, n int64) error {
	for {
		h.mu.Lock()
		if h.used+n <= h.most {
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

func (h *inHand) give(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used -= n
	if h.freed != nil {
		close(h.freed)
		h.freed = nil
	}
}

// errCrowded is that too many bodies are in hand.
var errCrowded = &dialect.Error{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: "atoll: too many large requests are under way", Retry: 5}

// errTooLarge is that of a body.
var errTooLarge = &dialect.Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_request", Message: "atoll: the body is too large"}

// Body reads a request's body of at most so many bytes, while no more than the
// process can take are in hand. They are until done is called, which is never
// nil. Errors are a *[dialect.Error] or those of reading; when a read has taken
// too long says who made r.
func Body(r *http.Request, most int64) (b []byte, done func(), err error) {
	return readBody(nil, r, most, everybodys)
}

// readBody reads a body and takes room for it as it comes: who announces much
// and sends nothing holds nothing. With w nil, who made r
// ends reads that wait.
func readBody(w http.ResponseWriter, r *http.Request, most int64, rooms ...*inHand) ([]byte, func(), error) {
	held := int64(0)
	done := sync.OnceFunc(func() {
		for _, h := range rooms {
			h.give(held)
		}
	})
	if r.ContentLength > most {
		return nil, done, errTooLarge
	}
	c := http.NewResponseController(w)
	if w != nil {
		defer func() { _ = c.SetReadDeadline(time.Time{}) }() // of the next request, where it can be
	}
	end := time.Now().Add(bodyTime)
	body := r.Body
	if body == nil {
		body = http.NoBody
	}
	var b []byte
	for {
		if len(b) == cap(b) {
			size := max(leastBuffer, 2*int64(cap(b)))
			if r.ContentLength >= 0 {
				size = min(size, r.ContentLength+1) // the end is seen
			}
			size = min(size, most+1)
			if err := takeAll(r.Context(), size-int64(cap(b)), rooms); err != nil {
				return nil, done, err
			}
			held += size - int64(cap(b))
			more := make([]byte, len(b), size)
			copy(more, b)
			b = more
		}
		if w != nil {
			_ = c.SetReadDeadline(earlier(time.Now().Add(bodyStall), end)) // where it can be
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

// takeAll takes room for n bytes more in all of the rooms, or in none.
func takeAll(ctx context.Context, n int64, rooms []*inHand) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errCrowded)
	defer cancel()
	for i, h := range rooms {
		if err := h.take(ctx, n); err != nil {
			for _, taken := range rooms[:i] {
				taken.give(n)
			}
			return err
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
