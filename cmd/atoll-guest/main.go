// Command atoll-guest is process 1 of sandboxes that run real programs, and the helper
// that isolates them.
package main

import (
	"fmt"
	"os"
)

func main() {
	command, args := parseCommand()
	if run := listCommands()[command]; run != nil {
		os.Exit(run(args))
	}
	fmt.Fprintln(os.Stderr, "atoll-guest: started by atoll, not by hand")
	os.Exit(2)
}

// initProgram is the program that a kernel starts as process 1 of a VM. Its arguments are
// words of the kernel's command line, which it ignores.
const initProgram = "/init"

// parseCommand returns the command to run, derived from how this program was started.
func parseCommand() (command string, args []string) {
	switch {
	case os.Args[0] == initProgram && os.Getpid() == 1:
		return "machine", nil
	case len(os.Args) > 1:
		return os.Args[1], os.Args[2:]
	}
	return "", nil
}
