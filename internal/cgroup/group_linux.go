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

// Group is one sandbox's.
type Group struct {
	name string
	tree *Tree
}

// period is that in which processor time is counted, in microseconds.
const period = 100_000

// Create makes a group with limits, or leaves nothing behind. A limit that this
// host can't hold is ErrUnsupported. Names are those of directories.
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
	for _, base := range t.bases() {
		if err := t.make(base, name); err != nil {
			return nil, err
		}
	}
	return g, g.Limit(l)
}

func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "/\x00\n") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%w: a group named %q", atoll.ErrInvalid, name)
	}
	return nil
}

// bases are the directories in which this tree's groups lie, each once.
func (t *Tree) bases() []string {
	var list []string
	if t.unified != "" {
		list = append(list, t.unified)
	}
	for _, c := range []string{"memory", "cpu", "cpuacct", "pids", "freezer"} {
		if t.unified != "" && (c == "freezer" || c == "cpuacct" && t.counts) {
			continue // it does that
		}
		if dir := t.legacy[c]; dir != "" && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// attempts is how often the nest is made again that another process removes.
const attempts = 100

// make makes a group's directory, and the one that holds all.
func (t *Tree) make(base, name string) (err error) {
	for range attempts {
		if err = t.mkdir(filepath.Join(base, nest)); err == nil || errors.Is(err, fs.ErrExist) {
			if err = t.enable(base); err == nil {
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

// enable gives controllers of version 2 to the groups.
func (t *Tree) enable(base string) error {
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

// write writes a file that is there.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Join(filepath.Base(dir), name), value, err)
	}
	return nil
}

// Open returns a group that was made before; ErrNotFound if there is none.
func (t *Tree) Open(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := &Group{name, t}
	if len(g.dirs()) == 0 {
		return nil, fmt.Errorf("group %s: %w", name, atoll.ErrNotFound)
	}
	return g, nil
}

// Names returns the names of all groups.
func (t *Tree) Names() ([]string, error) {
	var list []string
	for _, base := range t.bases() {
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

// dirs are the group's directories that are there.
func (g *Group) dirs() []string {
	var list []string
	for _, base := range g.tree.bases() {
		if dir := filepath.Join(base, nest, g.name); exists(dir, "") {
			list = append(list, dir)
		}
	}
	return list
}

// unified is the group's directory of version 2; empty if there is none.
func (g *Group) unified() string {
	if g.tree.unified == "" {
		return ""
	}
	return filepath.Join(g.tree.unified, nest, g.name)
}

// of is the group's directory that has a controller, and whether it is one of
// version 2.
func (g *Group) of(controller string) (dir string, v2 bool) {
	if slices.Contains(g.tree.enabled, controller) {
		return g.unified(), true
	}
	if base := g.tree.legacy[controller]; base != "" {
		return filepath.Join(base, nest, g.name), false
	}
	return "", false
}

// Limit sets the limits, which may be others than before.
func (g *Group) Limit(l Limits) error {
	for _, set := range []func(Limits) error{g.limitMemory, g.limitCPU, g.limitPIDs} {
		if err := set(l); err != nil {
			return fmt.Errorf("group %s: limit: %w", g.name, err)
		}
	}
	return nil
}

func (g *Group) limitMemory(l Limits) error {
	dir, v2 := g.of("memory")
	if dir == "" {
		return g.unlimited(Memory, l.Memory > 0)
	}
	if v2 {
		value := "max"
		if l.Memory > 0 {
			value = strconv.FormatInt(l.Memory, 10)
			if exists(dir, "memory.swap.max") {
				if err := write(dir, "memory.swap.max", "0"); err != nil {
					return err
				}
			}
		}
		return write(dir, "memory.max", value)
	}
	value := "-1"
	if l.Memory > 0 {
		value = strconv.FormatInt(l.Memory, 10)
	}
	const limit, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if !exists(dir, both) {
		return write(dir, limit, value)
	}
	// With swap it must never be less than without: down in this order, up in
	// the other.
	if err := write(dir, limit, value); err == nil {
		return write(dir, both, value)
	}
	if err := write(dir, both, value); err != nil {
		return err
	}
	return write(dir, limit, value)
}

// unlimited says that a limit that is wanted can't be held.
func (g *Group) unlimited(c Control, wanted bool) error {
	if !wanted {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", atoll.ErrUnsupported, c, g.tree.missing[c])
}

func (g *Group) limitCPU(l Limits) error {
	dir, v2 := g.of("cpu")
	if dir == "" {
		return g.unlimited(CPU, l.CPU > 0)
	}
	quota := max(int64(l.CPU*period), 1000) // the kernel's least
	if v2 {
		if l.CPU <= 0 {
			return write(dir, "cpu.max", fmt.Sprintf("max %d", period))
		}
		return write(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if l.CPU <= 0 {
		quota = -1
	} else if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	return write(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

func (g *Group) limitPIDs(l Limits) error {
	dir, _ := g.of("pids")
	if dir == "" {
		return g.unlimited(PIDs, l.PIDs > 0)
	}
	value := "max"
	if l.PIDs > 0 {
		value = strconv.Itoa(l.PIDs)
	}
	return write(dir, "pids.max", value)
}

// Open opens the group's directory of version 2, in which a process can be
// started (CLONE_INTO_CGROUP); nil if there is none.
func (g *Group) Open() (*os.File, error) {
	dir := g.unified()
	if dir == "" {
		return nil, nil
	}
	return os.Open(dir)
}

// Tasks are the files of version 1 by which a thread enters the group itself, and
// those by which it goes back to where groups are made. Unlike Add, that costs
// nothing: the kernel locks out no fork for a thread that moves itself.
func (g *Group) Tasks() (enter, leave []string) {
	for _, base := range g.tree.bases() {
		if base != g.tree.unified {
			enter, leave = append(enter, filepath.Join(base, nest, g.name, "tasks")), append(leave, filepath.Join(base, "tasks"))
		}
	}
	return enter, leave
}

// Procs are the files that a process writes "0" to, to enter the group itself.
func (g *Group) Procs() []string {
	list := g.dirs()
	for i, dir := range list {
		list[i] = filepath.Join(dir, "cgroup.procs")
	}
	return list
}

// Add moves a process into the group: one that has started nothing yet, or
// that stays outside.
func (g *Group) Add(pid int) error {
	dirs := g.dirs()
	if len(dirs) < len(g.tree.bases()) {
		return fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
	}
	for _, dir := range dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	return nil
}

// What may be in a group that a sandbox is let make groups in.
const (
	mostGroups = "512"
	mostDepth  = "4"
)

// Dir opens the group's directory of version 2, in which a process can be
// started (CLONE_INTO_CGROUP) and owner may make groups. ErrUnsupported where
// there is none. An owner of -1 is this user.
func (g *Group) Dir(owner int) (*os.File, error) {
	dir := g.unified()
	if dir == "" {
		return nil, fmt.Errorf("group %s: %w: %s", g.name, atoll.ErrUnsupported, g.tree.missing[Nest])
	}
	for name, value := range map[string]string{"cgroup.max.descendants": mostGroups, "cgroup.max.depth": mostDepth} {
		if err := write(dir, name, value); err != nil {
			return nil, fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	if owner >= 0 {
		// Never the files of limits.
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
