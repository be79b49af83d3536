//go:build unix

package secretref

import "syscall"

// nonblock opens a pipe that has taken the place of a file without waiting for its writer.
const nonblock = syscall.O_NONBLOCK
