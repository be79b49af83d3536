package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// copyMain copies this program to a directory of a container: `copy DIRECTORY`.
func copyMain(args []string) int {
	if len(args) != 1 {
		return printFailure("copy", errors.New("give a directory"))
	}
	if err := copySelf(filepath.Join(args[0], "atoll-guest")); err != nil {
		return printFailure("copy", err)
	}
	return 0
}

func copySelf(path string) (err error) {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	early := path + ".new"
	out, err := os.OpenFile(early, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(early, path)
}
