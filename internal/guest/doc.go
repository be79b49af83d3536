// Package guest implements both ends of the wire protocol between a sandbox and its driver: the
// guest agent, which is process 1 of every real sandbox, and the client from which drivers build
// their Sandbox.
//
// A driver boots a root file system with cmd/atoll-guest and provides a stream for each
// connection. A stream begins with a line (see [Greeting]) and is multiplexed after it (yamux).
// Each channel carries one [Request], one [Answer], and then the body of the operation.
package guest
