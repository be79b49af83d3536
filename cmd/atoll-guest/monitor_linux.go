package main

import (
	"os"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/machine"
)

// monitorMain watches one virtual machine until that is over: `monitor`, with
// a socket as descriptor 3 on which its order comes.
func monitorMain([]string) int {
	if err := machine.Monitor(os.NewFile(3, "order")); err != nil {
		return fail("monitor", err)
	}
	return 0
}

// confineMain becomes a hypervisor: `confine FD`, where the descriptor is a
// socket on which its cell comes.
func confineMain(args []string) int {
	if len(args) != 1 {
		return fail("confine", os.ErrInvalid)
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return fail("confine", err)
	}
	return fail("confine", machine.Confine(os.NewFile(uintptr(fd), "cell")))
}
