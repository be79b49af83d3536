// Package cgroup limits the resources of sandboxes by control groups of version 1, version 2 or
// both, as far as this process may use them.
package cgroup

import "time"

// Control is a capability of groups.
type Control string

// The controls.
const (
	Memory  Control = "memory"
	CPU     Control = "cpu"
	PIDs    Control = "pids"
	Freeze  Control = "freeze"
	Kill    Control = "kill" // all processes at once; otherwise one by one, while frozen
	Nesting Control = "nest" // a directory to start processes in, which may make groups in it
)

// Controls returns all controls.
func Controls() []Control { return []Control{Memory, CPU, PIDs, Freeze, Kill, Nesting} }

// Limits are the resource limits of a group; a value that is not positive is no limit.
type Limits struct {
	Memory int64   // bytes, without swap
	CPU    float64 // cores
	PIDs   int     // threads of all processes, those of the guest agent included
}

// Stats is the resource usage of a group.
type Stats struct {
	Memory   int64 // bytes, without cached files that can be dropped
	Peak     int64 // highest usage so far in bytes, with cached files; 0: unknown
	CPU      time.Duration
	PIDs     int   // threads; processes without a pids control
	OOMKills int64 // processes that the kernel killed because memory ran out
}
