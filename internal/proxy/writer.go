package proxy

import (
	"net/http"
	"time"
)

// writer is a ResponseWriter that waits for no client for ever, and that tells
// of what is not final only what helps.
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
	_ = c.SetWriteDeadline(time.Time{}) // that of the request before; a writer of a test has none
	return &writer{w, c, stall}
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer, or tells of one to come.
func (w *writer) WriteHeader(code int) {
	w.hurry()
	if code >= 100 && code < 200 && code != http.StatusSwitchingProtocols {
		for name := range w.Header() {
			if name != "Link" { // of 103; the rest is the final answer's to say
				w.Header().Del(name)
			}
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) Write(b []byte) (int, error) {
	w.hurry()
	return w.ResponseWriter.Write(b)
}

// hurry gives the client its time anew.
func (w *writer) hurry() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

// settle bounds what the server still writes when the handler is done.
func (w *writer) settle() { w.hurry() }
