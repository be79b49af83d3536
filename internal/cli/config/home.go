package config

import (
	"fmt"
	"os"
	"path/filepath"
)

func DefaultHome() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/atoll", nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "atoll"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory to keep sandboxes in: set ATOLL_HOME or --home (%w)", err)
	}
	return filepath.Join(home, ".local", "share", "atoll"), nil
}
