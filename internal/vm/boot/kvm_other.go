//go:build !linux || !amd64

package boot

import (
	"context"
	"fmt"
	"runtime"
)

// probeKVM returns an error: KVM is used on Linux on amd64 only.
func probeKVM(context.Context) error {
	return fmt.Errorf("%w: VMs need Linux on x86_64, this is %s on %s", errNoRunner, runtime.GOOS, runtime.GOARCH)
}
