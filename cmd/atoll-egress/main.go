// Command atoll-egress is the way out of one sandbox: a process without rights
// that decides on every connection.
package main

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll/internal/egress"
)

func main() {
	if info, err := os.Stdin.Stat(); len(os.Args) > 1 || err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		fmt.Fprintln(os.Stderr, "atoll-egress: started by atoll, not by hand")
		os.Exit(2)
	}
	os.Exit(egress.Main())
}
