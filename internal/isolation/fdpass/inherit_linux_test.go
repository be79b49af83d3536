package fdpass

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSealInherited starts a program in a process that has inherited a descriptor, by close_range
// and without it.
func TestSealInherited(t *testing.T) {
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, seal := range map[string]func() error{"CloseRange": SealInherited, "Listed": sealListed} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Open(secret, unix.O_RDONLY, 0) // without O_CLOEXEC, like one that a shell has opened
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			given, err := os.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer given.Close()
			list := func() string {
				cmd := exec.Command("/bin/sh", "-c", "readlink /proc/$$/fd/"+strconv.Itoa(fd)+" /proc/$$/fd/3; true")
				cmd.ExtraFiles = []*os.File{given}
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				return string(out)
			}
			if !strings.Contains(list(), secret) {
				t.Fatal("the descriptor is not inherited: the test shows nothing")
			}
			if err := seal(); err != nil {
				t.Fatal(err)
			}
			if got := list(); strings.Contains(got, secret) || !strings.Contains(got, given.Name()) {
				t.Errorf("the program has %q", got)
			}
		})
	}
}
