package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kill kills every process of the group, and returns when none is left. A group that does not exist
// has none.
func (g *Group) Kill(ctx context.Context) error {
	if err := g.killProcesses(ctx); err != nil && !isRemoved(err) {
		return fmt.Errorf("group %s: kill: %w", g.name, err)
	}
	return nil
}

// isRemoved reports whether an error means that a directory was removed, which may happen while it
// is used.
func isRemoved(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func (g *Group) killProcesses(ctx context.Context) error {
	if dir := g.unifiedDir(); dir != "" && fileExists(dir, "cgroup.kill") {
		if now, err := readKey(dir, "cgroup.events", "populated"); err != nil || now == "0" {
			return err
		}
		return g.waitForEvent(ctx, dir, "populated", "0", func() error { return write(dir, "cgroup.kill", "1") })
	}
	return retryUntilDone(ctx, func() (bool, error) { // before Linux 5.14, or version 1
		if g.tree.Has(Freeze) {
			if err := g.freezeProcesses(ctx); err != nil {
				return false, err
			}
		}
		left := 0
		for _, dir := range g.existingDirs() {
			n, err := killDir(dir)
			if err != nil {
				return false, err
			}
			left += n
		}
		return left == 0, g.Thaw()
	})
}

// killDir kills the processes of a group and of the groups below it, and returns their number.
// Where possible they are frozen, so that no process id is reused meanwhile.
func killDir(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		for _, f := range strings.Fields(read(path, "cgroup.procs")) {
			pid, err := strconv.Atoi(f)
			if err != nil || pid <= 0 { // 0: a process of another namespace
				continue
			}
			n++
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		return nil
	})
	return n, err
}

// Remove kills the processes of the group, and removes it from all hierarchies. Removing a group
// twice is no error.
func (g *Group) Remove(ctx context.Context) error {
	if err := g.Kill(ctx); err != nil {
		return err
	}
	for _, base := range g.tree.baseDirs() {
		dir := filepath.Join(base, nest, g.name)
		err := retryUntilDone(ctx, func() (bool, error) {
			err := removeDirs(dir)
			if errors.Is(err, syscall.EBUSY) { // a process is still exiting
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return fmt.Errorf("group %s: remove: %w", g.name, err)
		}
		_ = unix.Rmdir(filepath.Join(base, nest)) // fails while others are in it
	}
	return nil
}

// removeDirs removes a directory and those below it; the kernel removes their files.
func removeDirs(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || isRemoved(err) {
		return nil // most groups have no others in them
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !isRemoved(err) {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeDirs(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !isRemoved(err) {
		return err
	}
	return nil
}
