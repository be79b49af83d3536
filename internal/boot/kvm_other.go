//go:build !linux || !amd64

package boot

import (
	"context"
	"fmt"
	"runtime"
)

// probeKVM says that there is nothing to try.
func probeKVM(context.Context) error {
	return fmt.Errorf("%w: machines are made on x86_64 with Linux, and this is %s on %s", errNoRunner, runtime.GOOS, runtime.GOARCH)
}
