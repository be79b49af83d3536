//go:build unix

package app

import (
	"syscall"
)

// DetachedProcAttr makes a process one that no terminal ends.
func DetachedProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
