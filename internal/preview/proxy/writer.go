package proxy

import (
	"net/http"
	"time"
)

// writer is a ResponseWriter that closes stalled connections and removes headers
// from informational responses.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func newWriter(w http.ResponseWriter, stall time.Duration) *writer {
	if w, ok := w.(*writer); ok {
		return w
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Time{}) // of the previous request; test writers have none
	return &writer{w, c, stall}
}

// Unwrap returns the underlying writer for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header of a final or informational response.
func (w *writer) WriteHeader(code int) {
	w.extendDeadline()
	if code >= 100 && code < 200 && code != http.StatusSwitchingProtocols {
		for name := range w.Header() {
			if name != "Link" { // for 103; other headers belong to the final response
				w.Header().Del(name)
			}
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) Write(b []byte) (int, error) {
	w.extendDeadline()
	return w.ResponseWriter.Write(b)
}

// extendDeadline restarts the stall timeout of the client.
func (w *writer) extendDeadline() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

// finish limits how long the server still writes after the handler has returned.
func (w *writer) finish() { w.extendDeadline() }
