package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// requestBody is the body of a request, with a limit for stalls.
type requestBody struct {
	io.ReadCloser

	ctl      *http.ResponseController
	stall    time.Duration
	end      time.Time   // deadline of the whole body; zero: none
	complete atomic.Bool // it was read to the end
	aborted  atomic.Bool // reading was aborted
}

// abort ends the reading of the body. It may be called at any time.
func (b *requestBody) abort() {
	b.aborted.Store(true)
	_ = b.ctl.SetReadDeadline(time.Unix(1, 0))
}

// newBody returns the body of r, with a deadline for each read. The deadline ends with the body:
// net/http reads on to detect disconnects.
func (s *Server) newBody(w http.ResponseWriter, r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody || s.limits.Stall < 0 {
		return nil
	}
	return &requestBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), stall: s.limits.Stall}
}

// Read reads with the stall limit.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.complete.Load() {
		return 0, io.EOF
	}
	until := time.Now().Add(b.stall)
	if !b.end.IsZero() && b.end.Before(until) {
		until = b.end
	}
	_ = b.ctl.SetReadDeadline(until) // errors mean that deadlines are not supported
	if b.aborted.Load() {
		return 0, errTokenInvalid
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // io.Reader returns EOF itself
		b.complete.Store(true)
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	if b.aborted.Load() {
		return n, errTokenInvalid
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, newRequestError(http.StatusRequestTimeout, "the body arrived too slowly")
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return n, tooLarge(large.Limit)
	}
	return n, err
}

// Close ends the reading of the body.
func (b *requestBody) Close() error {
	b.limitRest()
	return b.ReadCloser.Close()
}

// drainTimeout bounds the reading of the unwanted rest of a body.
const drainTimeout = 5 * time.Second

// limitRest limits the reading of the rest of the body: net/http reads some of it before it
// answers.
func (b *requestBody) limitRest() {
	if !b.complete.Load() {
		_ = b.ctl.SetReadDeadline(time.Now().Add(min(b.stall, drainTimeout)))
	}
	if b.aborted.Load() {
		_ = b.ctl.SetReadDeadline(time.Unix(1, 0))
	}
}

// responseWriter writes a response with a limit for stalls.
type responseWriter struct {
	http.ResponseWriter

	ctl      *http.ResponseController
	stall    time.Duration
	body     *requestBody // of the request; may be nil
	status   int          // 0: nothing was written yet
	written  int64        // bytes
	broken   bool         // the response is incomplete: the connection must be aborted
	aborted  atomic.Bool  // deadline is set
	deadline time.Time    // deadline of an aborted response
}

// abort limits the rest of the response to drainTimeout. It may be called at any time.
func (w *responseWriter) abort() {
	if !w.aborted.Load() { // concurrent calls are excluded by the caller
		w.deadline = time.Now().Add(drainTimeout)
		w.aborted.Store(true)
	}
	_ = w.ctl.SetWriteDeadline(w.deadline)
	if w.body != nil {
		w.body.abort()
	}
}

func (s *Server) newWriter(w http.ResponseWriter, r *http.Request) *responseWriter {
	out := &responseWriter{ResponseWriter: w, stall: s.limits.Stall}
	if isPipe(r.Context()) {
		out.stall = -1
	}
	out.ctl = http.NewResponseController(w)
	if out.stall > 0 {
		_ = out.ctl.SetWriteDeadline(time.Now().Add(out.stall)) // clears the deadline of an earlier request
	}
	return out
}

// Unwrap is used by http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader records and sends the status.
func (w *responseWriter) WriteHeader(status int) {
	if status >= 200 && w.status == 0 || status == http.StatusSwitchingProtocols {
		w.status = status
		if w.body != nil && status != http.StatusSwitchingProtocols {
			w.body.limitRest()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes with the stall limit.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.stall > 0 {
		_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall)) // errors mean that deadlines are not supported
	}
	if w.aborted.Load() {
		_ = w.ctl.SetWriteDeadline(w.deadline)
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// finishResponse is called at the end of a request, complete or not.
func (w *responseWriter) finishResponse() {
	if w.broken && w.status == 0 {
		w.status = 499
	}
	if w.broken {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.stall > 0 {
		_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall + drainTimeout)) // net/http may read the rest of the body first
	}
}
