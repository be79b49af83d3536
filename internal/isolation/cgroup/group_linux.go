package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Group is the control group of one sandbox, in all hierarchies.
type Group struct {
	name string
	tree *Tree
}

// Create makes a group with limits; on an error it leaves nothing behind. A limit that this host
// can't enforce is ErrUnsupported. The name is that of a directory.
func (t *Tree) Create(ctx context.Context, name string, l Limits) (_ *Group, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	for _, w := range []struct {
		control Control
		wanted  bool
	}{{Memory, l.Memory > 0}, {CPU, l.CPU > 0}, {PIDs, l.PIDs > 0}} {
		if why, no := t.missing[w.control]; no && w.wanted {
			return nil, fmt.Errorf("%w: a limit of %s: %s", atoll.ErrUnsupported, w.control, why)
		}
	}
	g := &Group{name, t}
	defer func() {
		if err != nil && !errors.Is(err, atoll.ErrExists) {
			err = errors.Join(err, g.Remove(context.WithoutCancel(ctx)))
		}
	}()
	for _, base := range t.baseDirs() {
		if err := t.makeGroupDir(base, name); err != nil {
			return nil, err
		}
	}
	return g, g.SetLimits(l)
}

func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%w: group name %q", atoll.ErrInvalid, name)
	}
	return nil
}

// baseDirs returns the directories below which this tree makes groups, each once.
func (t *Tree) baseDirs() []string {
	var list []string
	if t.unified != "" {
		list = append(list, t.unified)
	}
	for _, c := range []string{"memory", "cpu", "cpuacct", "pids", "freezer"} {
		if t.unified != "" && (c == "freezer" || c == "cpuacct" && t.countsCPU) {
			continue // version 2 does the same
		}
		if dir := t.legacy[c]; dir != "" && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// maxAttempts limits how often the parent group is made again after another process has removed it.
const maxAttempts = 100

// makeGroupDir makes the directory of a group, and the parent of all groups.
func (t *Tree) makeGroupDir(base, name string) (err error) {
	for range maxAttempts {
		if err = t.mkdir(filepath.Join(base, nest)); err == nil || errors.Is(err, fs.ErrExist) {
			if err = t.enableControllers(base); err == nil {
				err = t.mkdir(filepath.Join(base, nest, name))
			}
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			break
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("group %s: %w", name, atoll.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("group %s: %w", name, err)
	}
	return nil
}

// enableControllers enables the controllers of version 2 for the groups.
func (t *Tree) enableControllers(base string) error {
	if base != t.unified || len(t.enabled) == 0 {
		return nil
	}
	for _, dir := range []string{base, filepath.Join(base, nest)} {
		have := strings.Fields(read(dir, "cgroup.subtree_control"))
		for _, c := range t.enabled {
			if slices.Contains(have, c) {
				continue
			}
			if err := write(dir, "cgroup.subtree_control", "+"+c); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes a value to an existing file. An os.File would be registered with the poller, which takes
// longer than the write.
func write(dir, name, value string) error {
	path := filepath.Join(dir, name)
	fd, err := ignoreEINTR(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = ignoreEINTR(func() (int, error) { return unix.Write(fd, []byte(value)) })
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Join(filepath.Base(dir), name), value, err)
	}
	return nil
}

// ignoreEINTR repeats a system call that a signal has interrupted.
func ignoreEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// openDir opens a directory. As write, it does without the poller.
func openDir(path string) (*os.File, error) {
	fd, err := ignoreEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Open returns a group that was created before; ErrNotFound if it does not exist.
func (t *Tree) Open(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := &Group{name, t}
	if len(g.existingDirs()) == 0 {
		return nil, fmt.Errorf("group %s: %w", name, atoll.ErrNotFound)
	}
	return g, nil
}

// Names returns the names of all groups.
func (t *Tree) Names() ([]string, error) {
	var list []string
	for _, base := range t.baseDirs() {
		entries, err := os.ReadDir(filepath.Join(base, nest))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				list = append(list, e.Name())
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// existingDirs returns the directories of the group that exist.
func (g *Group) existingDirs() []string {
	var list []string
	for _, base := range g.tree.baseDirs() {
		if dir := filepath.Join(base, nest, g.name); fileExists(dir, "") {
			list = append(list, dir)
		}
	}
	return list
}

// unifiedDir returns the directory of the group in version 2; empty if there is none.
func (g *Group) unifiedDir() string {
	if g.tree.unified == "" {
		return ""
	}
	return filepath.Join(g.tree.unified, nest, g.name)
}

// controllerDir returns the directory of the group that has a controller, and whether that is of
// version 2; empty if no hierarchy has it.
func (g *Group) controllerDir(controller string) (dir string, v2 bool) {
	if slices.Contains(g.tree.enabled, controller) {
		return g.unifiedDir(), true
	}
	if base := g.tree.legacy[controller]; base != "" {
		return filepath.Join(base, nest, g.name), false
	}
	return "", false
}

// Open opens the directory of the group in version 2, to start a process in (CLONE_INTO_CGROUP);
// nil if there is none.
func (g *Group) Open() (*os.File, error) {
	dir := g.unifiedDir()
	if dir == "" {
		return nil, nil
	}
	return openDir(dir)
}

// TaskFiles returns the files of version 1 by which a thread enters the group, and those by which it
// returns to the parent of all groups. Unlike Add this is cheap: the kernel does not block forks
// when a thread moves itself.
func (g *Group) TaskFiles() (enter, leave []string) {
	for _, base := range g.tree.baseDirs() {
		if base != g.tree.unified {
			enter, leave = append(enter, filepath.Join(base, nest, g.name, "tasks")), append(leave, filepath.Join(base, "tasks"))
		}
	}
	return enter, leave
}

// ProcsFiles returns the files to which a process writes "0" to enter the group.
func (g *Group) ProcsFiles() []string {
	list := g.existingDirs()
	for i, dir := range list {
		list[i] = filepath.Join(dir, "cgroup.procs")
	}
	return list
}

// Add moves a process into the group. It must not have started others yet, or these stay outside.
func (g *Group) Add(pid int) error {
	dirs := g.existingDirs()
	if len(dirs) < len(g.tree.baseDirs()) {
		return fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
	}
	for _, dir := range dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	return nil
}

// Limits of the groups that a sandbox may make within its own.
const (
	maxGroups = "512"
	maxDepth  = "4"
)

// OpenDir opens the directory of the group in version 2, to start a process in (CLONE_INTO_CGROUP), and
// lets owner make groups in it; -1 is this user. It returns ErrUnsupported without version 2.
func (g *Group) OpenDir(owner int) (*os.File, error) {
	dir := g.unifiedDir()
	if dir == "" {
		return nil, fmt.Errorf("group %s: %w: %s", g.name, atoll.ErrUnsupported, g.tree.missing[Nesting])
	}
	for name, value := range map[string]string{"cgroup.max.descendants": maxGroups, "cgroup.max.depth": maxDepth} {
		if err := write(dir, name, value); err != nil {
			return nil, fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	if owner >= 0 {
		// The files of limits stay root's.
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, name), owner, -1); err != nil {
				return nil, fmt.Errorf("group %s: %w", g.name, err)
			}
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", g.name, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}
