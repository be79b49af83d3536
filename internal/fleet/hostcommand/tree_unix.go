//go:build unix

package hostcommand

import (
	"os/exec"
	"syscall"
)

// killTree makes the end of the command's context kill its process group.
func killTree(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
