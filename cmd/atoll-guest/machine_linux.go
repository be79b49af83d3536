package main

import "github.com/atoll-sandbox/atoll/internal/vm/vminit"

// machineMain is process 1 of a VM.
func machineMain([]string) int {
	vminit.Run()
	return 1
}
