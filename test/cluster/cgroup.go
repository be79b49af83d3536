package main

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// listHierarchies returns the mount points of all cgroup hierarchies, v1 and v2.
func listHierarchies() ([]string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if w := strings.Fields(lines.Text()); len(w) > 2 && (w[2] == "cgroup" || w[2] == "cgroup2") && !slices.Contains(list, w[1]) {
			list = append(list, w[1])
		}
	}
	return list, nil
}

// makeCgroups creates a cluster's cgroup in every hierarchy.
func makeCgroups(name string) error {
	roots, err := listHierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // cgroup v1: empty until set, and then no process can join
			if b, err := os.ReadFile(filepath.Join(root, file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), b, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeCgroups removes a cluster's cgroups and those below them. It waits up to
// 5 s for their processes to exit.
func removeCgroups(name string) error {
	roots, err := listHierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return pollUntil(ctx, func(context.Context) (err error) {
		for _, root := range roots {
			err = errors.Join(err, removeTree(filepath.Join(root, name)))
		}
		return err
	})
}

// removeTree removes directories from the leaves up: the kernel removes a cgroup's
// files together with its directory.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if e := os.Remove(d); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
