package guest

import (
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// The user of commands that name none, in sandboxes whose users atoll defines.
const (
	UserID   = 1000
	UserName = "atoll"
	UserHome = "/home/atoll"
)

// UserEnv returns the environment of that user's commands.
func UserEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + UserHome, "USER=" + UserName, "LOGNAME=" + UserName,
		"SHELL=/bin/sh", "LANG=C.UTF-8",
	}
}

// Hostname returns the host name of a sandbox: its name, else its id.
func Hostname(spec *atoll.Spec) string {
	if spec.Name == "" {
		return spec.ID
	}
	return strings.NewReplacer("_", "-", ".", "-").Replace(spec.Name)
}
