//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize makes c tell of new sizes of the terminal.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
