package jail_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestIsEnding(t *testing.T) {
	if jail.IsEnding(os.Getpid()) {
		t.Error("this process is ending")
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe() // it waits
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if jail.IsEnding(cmd.Process.Pid) {
		t.Error("a process that waits is ending")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testenv.WaitFor(t, "the signal", func() bool { return jail.IsEnding(cmd.Process.Pid) })
	_ = cmd.Wait() // it was killed
	if !jail.IsEnding(cmd.Process.Pid) {
		t.Error("a process that has ended is not ending")
	}
}
