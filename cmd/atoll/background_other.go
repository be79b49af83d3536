//go:build !unix

package main

import "syscall"

// detached makes a process one that no terminal ends.
func detached() *syscall.SysProcAttr { return nil }
