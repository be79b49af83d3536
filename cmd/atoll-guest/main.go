// Command atoll-guest is process 1 of sandboxes that run real programs, and
// the small helper that builds their walls.
package main

import (
	"fmt"
	"os"
)

func main() {
	command, args := asked()
	if run := commands()[command]; run != nil {
		os.Exit(run(args))
	}
	fmt.Fprintln(os.Stderr, "atoll-guest: started by atoll, not by hand")
	os.Exit(2)
}

// initProgram is what a kernel starts as process 1 of a machine. Its arguments
// are words of the kernel's command line, which say nothing to it.
const initProgram = "/init"

// asked returns what is to be done, by how this program was started.
func asked() (command string, args []string) {
	switch {
	case os.Args[0] == initProgram && os.Getpid() == 1:
		return "machine", nil
	case len(os.Args) > 1:
		return os.Args[1], os.Args[2:]
	}
	return "", nil
}
