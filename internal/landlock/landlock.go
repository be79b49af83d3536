// Package landlock takes from a thread, and what it starts, the reach that the
// kernel's Landlock can take: files, signals and sockets of others.
package landlock

// Rules say what a domain leaves. In every domain only programs of the same
// domain, or of one below it, can be traced.
type Rules struct {
	// Read and Write are paths beneath which files are read and executed, or
	// everything is done. Neither: files are not looked at. What is not there
	// is passed over.
	Read, Write []string
	// Scope keeps signals and connections to abstract unix sockets in the
	// domain. Threads that restrict themselves one by one are not of the same
	// domain. From Linux 6.12.
	Scope bool
}
