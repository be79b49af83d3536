//go:build !unix

package app

import "syscall"

// DetachedProcAttr returns the attributes of a process that no terminal ends.
func DetachedProcAttr() *syscall.SysProcAttr { return nil }
