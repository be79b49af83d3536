// Package atoll gives every AI agent a computer of its own.
//
// A [Driver] builds sandboxes with one kind of isolation. A [Sandbox] runs commands and moves
// files. That is the whole contract. Abilities that only some drivers have are small
// interfaces ([Stopper], [Snapshotter], [Forker], …). Callers reach them through package
// functions ([Stop], [Snapshot], [Fork], [ReadFile], …), which use the fast path, fall back, or
// return [ErrUnsupported]. [Features] reports the abilities beforehand.
//
// Every driver passes the same tests: see package atolltest.
package atoll
