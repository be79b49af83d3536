package guest

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStopped tells a child that is slow from one that another program has stopped.
func TestStopped(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if isStopped(pid) {
		t.Error("a process that waits is stopped")
	}
	if err := c.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, unix.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	if !isStopped(pid) {
		t.Error("one that was stopped is not")
	}
	_, _ = c.Process.Kill(), c.Wait() // killed, as is said
	if !isStopped(pid) {
		t.Error("one that can't be looked at counts as running")
	}
}
