package main

import "golang.org/x/sys/unix"

// lower takes from this process, and so from all that it starts, what a
// container's engine would: nobody else sets the limits of a pod.
func lower() error {
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
