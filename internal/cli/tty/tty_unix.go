//go:build unix

package tty

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize sends to c when the size of the terminal changes.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
