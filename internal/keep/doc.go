// Package keep keeps the sandboxes of a driver in directories of the host: a
// record each, which is replaced in one step; a lock, which who changes a life
// holds; and the remains of a process that died, which the next one sweeps.
//
// Below the directory of a Home stand one directory for each sandbox, named by
// its id, and for an instant those on their way in (".new-…") and out ("….gone").
// Other names are not touched.
package keep
