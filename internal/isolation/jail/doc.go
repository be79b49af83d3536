// Package jail isolates namespace sandboxes. A small separate process, the spawner, clones process
// 1 of each sandbox, which then builds its root file system from a [Setup], and drops the
// privileges that it needed for that.
//
// A setup is plain data that a driver plans. Everything is built with file descriptors, before any
// program of the sandbox runs.
package jail
