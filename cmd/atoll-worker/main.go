// Command atoll-worker runs one sealed virtual sandbox. The virtual driver starts it.
package main

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func main() {
	if err := virtual.RunWorker(); err != nil {
		fmt.Fprintf(os.Stderr, "atoll-worker: %v\n", err)
		os.Exit(1)
	}
}
