//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// runWeak runs the attack in the remaining arguments as root with no isolation but the
// namespaces that the test has created, and returns its exit code. An attack must
// succeed there: otherwise it proves nothing where it fails. The root is an overlay in
// memory over the host's files, so that changes are lost.
func runWeak() int {
	leak, err := os.Open("/") // a descriptor of the host's root
	if err == nil {
		err = changeToOverlayRoot()
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, "BAD: setting up weak isolation:", err)
		return bad
	}
	cmd := exec.Command("/proc/self/exe", append([]string{os.Args[1]}, os.Args[3:]...)...) //nolint:noctx // the test ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{leak}
	err = cmd.Run()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return e.ExitCode()
	} else if err != nil {
		fmt.Fprintln(os.Stdout, "BAD:", err)
		return bad
	}
	return crossed
}

func changeToOverlayRoot() error {
	const top = "/mnt"
	step := func(source, target, kind string, flags uintptr, data string) error {
		if err := unix.Mount(source, target, kind, flags, data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", source, target, err)
		}
		return nil
	}
	if err := step("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := step("weak", top, "tmpfs", 0, "size=256m"); err != nil {
		return err
	}
	for _, d := range []string{"up", "work", "root"} {
		if err := os.Mkdir(top+"/"+d, 0o755); err != nil {
			return err
		}
	}
	root := top + "/root"
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"overlay", root, "overlay", 0, "lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work"},
		{"proc", root + "/proc", "proc", 0, ""},
		{"/sys", root + "/sys", "", unix.MS_BIND | unix.MS_REC, ""},
		{"/dev", root + "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
		{"shm", root + "/dev/shm", "tmpfs", 0, "size=64m"},
		{"tmp", root + "/tmp", "tmpfs", 0, "size=64m"},
		{root + "/usr", root + "/usr", "", unix.MS_BIND, ""},
		{"/var/tmp", root + "/var/tmp", "", unix.MS_BIND, ""}, // a socket in an overlay is not the host's
	} {
		if err := step(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(root+"/workspace", 0o777); err != nil {
		return err
	}
	if err := errors.Join(os.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH)); err != nil {
		return fmt.Errorf("the new root: %w", err)
	}
	return os.Chdir("/workspace")
}
