// Package policy decides what a sandbox may connect to. It implements the rules of an
// [atoll.Network] and knows nothing of connections. The egress proxy asks it at every step of a
// connection, the virtual driver at every request.
//
// Each step knows more than the one before: a name, then a port, a protocol, a request, and the
// address to dial. An early step refuses only what no later one could allow.
package policy
