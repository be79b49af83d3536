package main

import (
	"os"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// confineMain confines itself and becomes a hypervisor: `confine FD`, where the descriptor is
// a socket that carries the configuration of its cell.
func confineMain(args []string) int {
	if len(args) != 1 {
		return printFailure("confine", os.ErrInvalid)
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return printFailure("confine", err)
	}
	return printFailure("confine", hypervisor.Confine(os.NewFile(uintptr(fd), "cell")))
}
