package e2b

// registerSecrets registers the routes of secrets. Atoll has secrets of a sandbox and of a rule, none that
// an owner stores by name: a client that asks for them is refused, rather than given a sandbox without.
func (s *Server) registerSecrets() {
	for _, pattern := range []string{"POST /secrets", "GET /secrets", "GET /secrets/{id}", "POST /secrets/{id}", "DELETE /secrets/{id}"} {
		add(s.control, pattern, func(*call) error { return unsupportedError("secrets that are stored by name") })
	}
}
