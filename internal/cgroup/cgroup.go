// Package cgroup holds sandboxes to their limits by control groups of version
// 1, 2 or both, as far as this process may use them.
package cgroup

import "time"

// Control is something that groups can do.
type Control string

// The controls.
const (
	Memory Control = "memory"
	CPU    Control = "cpu"
	PIDs   Control = "pids"
	Freeze Control = "freeze"
	Kill   Control = "kill" // at once and all of it; else one by one, frozen
	Nest   Control = "nest" // a directory in which processes can be started, with groups inside
)

// Controls are all controls.
func Controls() []Control { return []Control{Memory, CPU, PIDs, Freeze, Kill, Nest} }

// Limits are what a group never passes; what is not positive is no limit.
type Limits struct {
	Memory int64   // bytes, of which none are swapped
	CPU    float64 // cores
	PIDs   int     // threads of all processes, the guest's too
}

// Stats are what a group uses.
type Stats struct {
	Memory int64 // bytes, without cached files that can be dropped
	Peak   int64 // the most bytes ever, with them; 0: unknown
	CPU    time.Duration
	PIDs   int   // threads; processes where there is no pids control
	Killed int64 // processes that were ended for want of memory
}
