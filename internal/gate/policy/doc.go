// Package policy decides what a sandbox may connect to: it knows the rules of
// an [atoll.Network] and nothing of connections. The gate asks it at every step
// of a connection, the virtual driver at every request.
//
// A step knows more than the one before: a name, then a port, a protocol, a
// request, and the address that is to be dialled. An early step refuses only
// what no later one could allow.
package policy
