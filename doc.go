// Package atoll gives every AI agent a computer of its own.
//
// A [Driver] builds sandboxes behind one kind of wall; a [Sandbox] runs
// commands and moves files. That is the whole contract. What only some
// drivers can do is in small interfaces ([Stopper], [Snapshotter], [Forker],
// …), which callers reach through package functions ([Stop], [Snapshot],
// [Fork], [ReadFile], …) that take the fast path, fall back, or answer
// [ErrUnsupported]. [Features] says beforehand what to expect.
//
// Every driver passes the same tests: see package atolltest.
package atoll
