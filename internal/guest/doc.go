// Package guest is both ends of the wire between a sandbox and its driver: the
// server inside, which is process 1 of every real sandbox, and the client that
// drivers build their Sandbox from.
//
// A driver boots a root file system with cmd/atoll-guest and hands over a
// stream for each connection. A stream begins with a line (see [Greeting]);
// then it is multiplexed (yamux). On each channel goes one [Request], one
// [Answer], and then what the operation has for a body.
package guest
