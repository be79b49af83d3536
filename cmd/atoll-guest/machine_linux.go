package main

import "github.com/atoll-sandbox/atoll/internal/inside"

// machineMain is process 1 of a virtual machine.
func machineMain([]string) int {
	inside.Run()
	return 1
}
