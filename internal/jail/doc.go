// Package jail makes the walls of namespace sandboxes: a small process of its
// own, the spawner, clones process 1 of each, which then builds its root file
// system as it is told in a [Setup], and gives up what it needed for that.
//
// What is told is plain data that a driver plans. Everything is built with file
// descriptors before any program of the sandbox runs.
package jail
