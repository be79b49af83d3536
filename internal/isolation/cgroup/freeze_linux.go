package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Freeze stops every process of the group, and returns when all are stopped. If ctx is done first,
// the processes continue.
func (g *Group) Freeze(ctx context.Context) error {
	if err := g.freezeProcesses(ctx); err != nil {
		return errors.Join(fmt.Errorf("group %s: freeze: %w", g.name, err), g.Thaw())
	}
	return nil
}

func (g *Group) freezeProcesses(ctx context.Context) error {
	if dir := g.unifiedDir(); dir != "" {
		return g.waitForEvent(ctx, dir, "frozen", "1", func() error { return write(dir, "cgroup.freeze", "1") })
	}
	dir, _ := g.controllerDir("freezer")
	if dir == "" {
		return fmt.Errorf("%w: %s", atoll.ErrUnsupported, g.tree.missing[Freeze])
	}
	return retryUntilDone(ctx, func() (bool, error) { // this freezer sends no event
		err := write(dir, "freezer.state", "FROZEN")
		return strings.TrimSpace(read(dir, "freezer.state")) == "FROZEN", err
	})
}

// Thaw lets the processes of the group continue.
func (g *Group) Thaw() error {
	if dir := g.unifiedDir(); dir != "" {
		return write(dir, "cgroup.freeze", "0")
	}
	dir, _ := g.controllerDir("freezer")
	if dir == "" {
		return nil
	}
	return write(dir, "freezer.state", "THAWED")
}

// IsFrozen reports whether the group is frozen, or is being frozen.
func (g *Group) IsFrozen() bool {
	if dir := g.unifiedDir(); dir != "" {
		return strings.TrimSpace(read(dir, "cgroup.freeze")) == "1"
	}
	dir, _ := g.controllerDir("freezer")
	state := strings.TrimSpace(read(dir, "freezer.state"))
	return dir != "" && state != "" && state != "THAWED"
}

// retryUntilDone calls f with growing pauses until it is done, fails, or ctx is done. It is for
// changes without a notification.
func retryUntilDone(ctx context.Context, f func() (done bool, err error)) error {
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

// waitForEvent calls do, and waits until a key of the directory's cgroup.events has a value.
func (g *Group) waitForEvent(ctx context.Context, dir, key, value string, do func() error) error {
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
		if findValue(string(b[:n]), key) == value {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
		}
		// The value is read again after each event, so no change is missed. Unlike an inotify
		// descriptor, polling the file costs nothing to close.
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// readKey returns the value of a key in a file of lines "key value"; empty if the key is missing.
func readKey(dir, name, key string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	return findValue(string(b), key), nil
}

func findValue(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && k == key {
			return v
		}
	}
	return ""
}

// watcher is an inotify descriptor for changes of one file.
type watcher struct{ *os.File }

func watchFile(path string) (watcher, error) {
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

// readWithContext reads from a pollable file until ctx is done.
func readWithContext(ctx context.Context, f *os.File, buf []byte) error {
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
