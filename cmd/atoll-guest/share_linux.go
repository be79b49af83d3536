package main

import (
	"errors"

	"github.com/atoll-sandbox/atoll/internal/vm/virtiofs"
)

// shareMain serves a directory of the host to a VM, outside the VM: `share PROGRAM
// ARGUMENT...`.
func shareMain(args []string) int {
	if len(args) == 0 {
		return printFailure("share", errors.New("give a program"))
	}
	return printFailure("share", virtiofs.ExecServer(args[0], args[1:]))
}
