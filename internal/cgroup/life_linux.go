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
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Freeze stops every process of the group where it is, and returns when all
// have stopped; what can't, because ctx is done first, goes on.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.freeze(ctx); err != nil {
		return errors.Join(fmt.Errorf("group %s: freeze: %w", g.name, err), g.Thaw())
	}
	return nil
}

func (g *Group) freeze(ctx context.Context) error {
	if dir := g.unified(); dir != "" {
		return g.await(ctx, dir, "frozen", "1", func() error { return write(dir, "cgroup.freeze", "1") })
	}
	dir, _ := g.of("freezer")
	if dir == "" {
		return fmt.Errorf("%w: %s", atoll.ErrUnsupported, g.tree.missing[Freeze])
	}
	return again(ctx, func() (bool, error) { // this freezer tells nobody when it is done
		err := write(dir, "freezer.state", "FROZEN")
		return strings.TrimSpace(read(dir, "freezer.state")) == "FROZEN", err
	})
}

// Thaw lets the group's processes go on.
func (g *Group) Thaw() error {
	if dir := g.unified(); dir != "" {
		return write(dir, "cgroup.freeze", "0")
	}
	dir, _ := g.of("freezer")
	if dir == "" {
		return nil
	}
	return write(dir, "freezer.state", "THAWED")
}

// Frozen reports whether the group is told to stand still.
func (g *Group) Frozen() bool {
	if dir := g.unified(); dir != "" {
		return strings.TrimSpace(read(dir, "cgroup.freeze")) == "1"
	}
	dir, _ := g.of("freezer")
	state := strings.TrimSpace(read(dir, "freezer.state"))
	return dir != "" && state != "" && state != "THAWED"
}

// Kill ends every process of the group and returns when none is left. A group
// that is not there has none.
func (g *Group) Kill(ctx context.Context) error {
	if err := g.kill(ctx); err != nil && !gone(err) {
		return fmt.Errorf("group %s: kill: %w", g.name, err)
	}
	return nil
}

// gone says that a directory was removed, perhaps while it was used.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }

func (g *Group) kill(ctx context.Context) error {
	if dir := g.unified(); dir != "" && exists(dir, "cgroup.kill") {
		if now, err := field(dir, "cgroup.events", "populated"); err != nil || now == "0" {
			return err
		}
		return g.await(ctx, dir, "populated", "0", func() error { return write(dir, "cgroup.kill", "1") })
	}
	return again(ctx, func() (bool, error) { // before Linux 5.14, or version 1
		if g.tree.Has(Freeze) {
			if err := g.freeze(ctx); err != nil {
				return false, err
			}
		}
		left := 0
		for _, dir := range g.dirs() {
			n, err := signal(dir)
			if err != nil {
				return false, err
			}
			left += n
		}
		return left == 0, g.Thaw()
	})
}

// signal kills the processes of a directory and of those in it. They are
// frozen, where that is possible: no number is another's by then.
func signal(dir string) (n int, err error) {
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

// Remove ends what is in the group and removes it everywhere. Twice is fine.
func (g *Group) Remove(ctx context.Context) error {
	if err := g.Kill(ctx); err != nil {
		return err
	}
	for _, base := range g.tree.bases() {
		dir := filepath.Join(base, nest, g.name)
		err := again(ctx, func() (bool, error) {
			err := prune(dir)
			if errors.Is(err, syscall.EBUSY) { // a process is on its way out
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return fmt.Errorf("group %s: remove: %w", g.name, err)
		}
		_ = unix.Rmdir(filepath.Join(base, nest)) // stays while others are in it
	}
	return nil
}

// prune removes a directory and the directories in it; their files go with
// them.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := prune(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		return err
	}
	return nil
}

// again does something until it is done. It is for what the kernel gives no
// notice of.
func again(ctx context.Context, f func() (done bool, err error)) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		done, err := f()
		if done || err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", atoll.ErrTimeout, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// await does something and waits until cgroup.events of a directory has a value.
func (g *Group) await(ctx context.Context, dir, key, value string, do func() error) error {
	events, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	if err := do(); err != nil {
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	defer unix.Close(wake)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // wakes the poll
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	b := make([]byte, 512)
	for {
		n, err := events.ReadAt(b, 0)
		if n == 0 && err != nil {
			return err
		}
		if valueOf(string(b[:n]), key) == value {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
		}
		// What was read is compared: no change is missed. Unlike inotify, it costs
		// nothing to end.
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// field returns a value of a file that has one a line, after its key.
func field(dir, name, key string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	return valueOf(string(b), key), nil
}

func valueOf(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && k == key {
			return v
		}
	}
	return ""
}

// watcher waits for changes of one file.
type watcher struct{ *os.File }

func watch(path string) (watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watcher{}, fmt.Errorf("inotify: %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return watcher{}, errors.Join(fmt.Errorf("watching %s: %w", path, err), f.Close())
	}
	return watcher{f}, nil
}

// until reads from a pollable file, but no longer than ctx lasts.
func until(ctx context.Context, f *os.File, buf []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := f.Read(buf); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
		}
		return err
	}
	return nil
}
