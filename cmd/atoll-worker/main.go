// Command atoll-worker runs one sealed virtual sandbox. The virtual driver starts it.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell/command/javascript"
	"github.com/atoll-sandbox/atoll/shell/command/python"
	"github.com/atoll-sandbox/atoll/shell/command/sqlite"
)

func main() {
	if err := virtual.RunWorker(slices.Concat(sqlite.Commands(), javascript.Commands(), python.Commands())); err != nil {
		fmt.Fprintf(os.Stderr, "atoll-worker: %v\n", err)
		os.Exit(1)
	}
}
