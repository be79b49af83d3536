// Package statedir stores the sandboxes of a driver in directories of the host. Each
// has a record, which is replaced atomically, and a lock, which a process holds while it
// changes the sandbox. Directories that a dead process left behind are removed later.
//
// The directory of a Home has one directory for each sandbox, named by
// its id, and temporary ones for sandboxes in creation (".new-…") and removal ("….gone").
// Other names are not touched.
package statedir
