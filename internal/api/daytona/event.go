package daytona

import "net/http"

// registerEvents registers the stream of events. The SDKs poll where it is missing.
func (s *Server) registerEvents() {
	s.addAPI("GET", "/socket.io/", func(*call) error {
		return &Error{Status: http.StatusNotImplemented, Message: "events by socket.io: atoll does not support it"}
	})
}
