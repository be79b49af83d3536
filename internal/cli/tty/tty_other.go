//go:build !unix

package tty

import "os"

// notifyResize sends to c when the size of the terminal changes.
func notifyResize(chan<- os.Signal) {}
