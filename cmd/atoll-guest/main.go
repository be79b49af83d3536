// Command atoll-guest is process 1 of sandboxes that run real programs, and
// the small helper that builds their walls.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) > 1 {
		if run := commands()[os.Args[1]]; run != nil {
			os.Exit(run(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "atoll-guest: started by atoll, not by hand")
	os.Exit(2)
}
