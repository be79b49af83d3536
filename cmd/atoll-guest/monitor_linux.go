package main

import (
	"os"

	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// monitorMain watches one VM until it ends: `monitor`, with a socket as descriptor 3 that
// carries its order.
func monitorMain([]string) int {
	if err := hypervisor.RunMonitor(os.NewFile(3, "order")); err != nil {
		return printFailure("monitor", err)
	}
	return 0
}
