// Package egress implements the egress proxy of a sandbox: a process without rights, one for each
// sandbox with network access. It accepts every connection and every DNS query of programs inside,
// decides by the rules of the network (package policy), dials, and records the result.
//
// Drivers start a proxy with [Start], on its own connection to the guest. It lives until that
// connection ends. [Open] finds a running one.
package egress
