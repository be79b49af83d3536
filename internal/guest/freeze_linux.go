package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// freezer holds the reasons why the commands of a sandbox are frozen.
type freezer struct {
	mu       sync.Mutex
	paused   bool // guarded by mu
	requests int  // guarded by mu: number of running OpStill operations
}

// handlePause handles OpPause.
func (s *Server) handlePause(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r pauseRequest
	err := q.DecodeBody(&r)
	if err == nil {
		err = s.setFrozen(ctx, func(w *freezer) { w.paused = r.Paused })
	}
	sendAnswer(st, err)
}

// setFrozen changes the reasons and freezes or resumes the commands accordingly. If that fails,
// the reasons and the commands are as before.
func (s *Server) setFrozen(ctx context.Context, change func(*freezer)) error {
	w := &s.freezer
	w.mu.Lock()
	defer w.mu.Unlock()
	paused, stills := w.paused, w.requests
	was := paused || stills > 0
	change(w)
	is := w.paused || w.requests > 0
	if is == was {
		return nil
	}
	if s.Config.Cgroup == 0 {
		w.paused, w.requests = paused, stills
		return fmt.Errorf("%w: the sandbox has no cgroup in which commands could be frozen", atoll.ErrUnsupported)
	}
	if err := freezeCgroup(ctx, s.Config.Cgroup, is); err != nil {
		w.paused, w.requests = paused, stills
		return errors.Join(err, writeAt(s.Config.Cgroup, "cgroup.freeze", formatBool(was)))
	}
	return nil
}

func formatBool(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// writeAt writes text to a file in an open directory.
func writeAt(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// freezeCgroup freezes or thaws a cgroup. It waits until all its processes are frozen.
func freezeCgroup(ctx context.Context, dir int, frozen bool) error {
	if err := writeAt(dir, "cgroup.freeze", formatBool(frozen)); err != nil || !frozen {
		return err
	}
	events, err := unix.Openat(dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(events)
	b := make([]byte, 256)
	for end := time.Now().Add(freezeTimeout); ; {
		n, err := unix.Pread(events, b, 0)
		if err != nil {
			return err
		}
		if bytes.Contains(b[:n], []byte("frozen 1")) {
			return nil
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			return fmt.Errorf("%w: some commands can't be frozen", atoll.ErrTimeout)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, int(min(left, time.Second).Milliseconds())+1) // the loop checks again
	}
}

// handleStill handles OpStill: it freezes commands and file systems until the channel is closed.
func (s *Server) handleStill(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r stillRequest
	if err := q.DecodeBody(&r); err != nil {
		sendAnswer(st, err)
		return
	}
	if err := s.setFrozen(ctx, func(w *freezer) { w.requests++ }); err != nil {
		sendAnswer(st, err)
		return
	}
	defer func() {
		_ = s.setFrozen(context.WithoutCancel(ctx), func(w *freezer) { w.requests-- }) // an existing cgroup can be thawed
	}()
	thaw, err := freezeFileSystems(r.Dirs)
	defer thaw()
	sendAnswer(st, err)
	if err == nil {
		_, _ = io.Copy(io.Discard, st) // until the end of the channel or the connection
	}
}

// The ioctls that freeze and thaw a file system (linux/fs.h).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// freezeFileSystems freezes file systems until thaw is called, which is necessary after an error
// too. File systems in memory are skipped.
func freezeFileSystems(dirs []string) (thaw func(), err error) {
	var held []int
	thaw = func() {
		for _, fd := range slices.Backward(held) {
			_ = unix.IoctlSetInt(fd, fiThaw, 0) // can't fail, since it is frozen
			_ = unix.Close(fd)
		}
	}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return thaw, fmt.Errorf("%s: %w", dir, err)
		}
		switch err := unix.IoctlSetInt(fd, fiFreeze, 0); err { //nolint:errorlint // a system call's errno
		case nil:
			held = append(held, fd)
			continue
		case unix.EOPNOTSUPP, unix.EBUSY: // in memory, or frozen already under another path
			_ = unix.Close(fd)
		default:
			_ = unix.Close(fd)
			return thaw, fmt.Errorf("%w: %s can't be frozen: %w", atoll.ErrUnavailable, dir, err)
		}
	}
	return thaw, nil
}
