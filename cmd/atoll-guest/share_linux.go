package main

import (
	"errors"

	"github.com/atoll-sandbox/atoll/internal/virtiofs"
)

// shareMain serves a directory of the host to a virtual machine, outside: `share
// PROGRAM ARGUMENT...`.
func shareMain(args []string) int {
	if len(args) == 0 {
		return fail("share", errors.New("give a program"))
	}
	return fail("share", virtiofs.Become(args[0], args[1:]))
}
