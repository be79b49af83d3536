//go:build !unix

package app

import "syscall"

// DetachedProcess returns the attributes of a process that no terminal ends.
func DetachedProcess() *syscall.SysProcAttr { return nil }
