//go:build unix

package app

import (
	"syscall"
)

// DetachedProcess makes a process one that no terminal ends.
func DetachedProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
