package main

import "github.com/atoll-sandbox/atoll/internal/vm/vminit"

// vmMain is process 1 of a VM.
func vmMain([]string) int {
	vminit.Run()
	return 1
}
