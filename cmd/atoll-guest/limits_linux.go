package main

import "golang.org/x/sys/unix"

// applyPodLimits limits this process and its children as a container engine would, since
// Kubernetes does not set these limits.
func applyPodLimits() error {
	for which, most := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_NICE: 0, unix.RLIMIT_RTPRIO: 0,
		unix.RLIMIT_SIGPENDING: 1024,
		unix.RLIMIT_MEMLOCK:    64 << 10,
	} {
		var r unix.Rlimit
		if err := unix.Getrlimit(which, &r); err != nil {
			return err
		}
		r.Max = min(r.Max, most)
		r.Cur = min(r.Cur, r.Max)
		if err := unix.Setrlimit(which, &r); err != nil {
			return err
		}
	}
	return nil
}
