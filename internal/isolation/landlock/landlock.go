// Package landlock restricts a thread and its descendants with the kernel's Landlock: their access
// to files, and to signals and sockets of other processes.
package landlock

// Rules describe the rights that a domain keeps. Only programs of the same domain, or of one below
// it, can be traced from a domain.
type Rules struct {
	// Read and Write are paths below which files can be read and executed, or be used without
	// limits. If both are empty, access to files is not restricted. Missing paths are skipped.
	Read, Write []string
	// Scope confines signals and connections to abstract Unix sockets to the domain. Threads that
	// restrict themselves one by one are in different domains. It needs Linux 6.12.
	Scope bool
}
