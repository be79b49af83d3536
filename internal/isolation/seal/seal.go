// Package seal lets a process give up its rights before it works for hostile callers: system calls,
// files, capabilities and memory.
package seal

// Options describe what a process keeps.
type Options struct {
	Dirs   []Dir // directories that the process can use; nil: it can't open any file
	Memory int64 // bytes that it can allocate from now on; 0: no limit

	EndWithParent bool // the system kills it when the thread ends that has started it
}

// Dir is a directory of the host that the process keeps.
type Dir struct {
	Source   string // absolute path
	ReadOnly bool
}

// MaxThreads is the largest number of threads of a sealed process. The kernel enforces it where the
// process has a user of the host, or a user namespace, for itself.
const MaxThreads = 256
