package statedir

import (
	"fmt"
	"os"
	"strings"
)

// BootID returns an identifier of the running kernel's boot: it changes when the host restarts.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the kernel's boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
