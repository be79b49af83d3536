package main

import (
	"os"

	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// spawnMain creates namespace sandboxes for the process at the other end of descriptor 3.
func spawnMain([]string) int {
	if err := jail.RunSpawner(os.NewFile(3, "socket")); err != nil {
		return printFailure("spawn", err)
	}
	return 0
}
