package daytona

import "net/http"

// eventsPath is the path of the stream of events.
const eventsPath = "/api/socket.io/"

// IsEvents reports whether a request asks for the stream of events, which has no API key: the SDKs open it
// before they know of one, and poll where it is missing.
func IsEvents(r *http.Request) bool { return r.URL.Path == eventsPath }

// ErrEvents is the answer to a request for the stream of events.
var ErrEvents error = &Error{Status: http.StatusNotImplemented, Message: "events by socket.io: atoll does not support it; calls are answered when they are complete"}

// registerEvents registers the stream of events.
func (s *Server) registerEvents() {
	add(s.api, "GET "+eventsPath, func(*call) error { return ErrEvents })
}
