//go:build !unix

package main

import "os"

// notifyResize does nothing: this system does not tell of new sizes.
func notifyResize(chan<- os.Signal) {}
