//go:build !linux

package tool

import (
	"os"
	"os/exec"
)

func setProcessGroup(*exec.Cmd) {}

// killTree kills a program; its children are not found on this system.
func killTree(pid int, _ string) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have exited
	}
}

func killDescendants(int, string) {}
