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

// stillness is what keeps the commands of a sandbox where they are.
type stillness struct {
	mu     sync.Mutex
	paused bool // guarded by mu
	stills int  // guarded by mu: how many hosts want it besides
}

// pauses stops the commands, or lets them go on.
func (s *Server) pauses(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r pauseRequest
	err := q.Into(&r)
	if err == nil {
		err = s.stand(ctx, func(w *stillness) { w.paused = r.Paused })
	}
	answer(st, err)
}

// stand changes who wants stillness, and sees to it that it is as they want. When
// it can't be, it is as it was before.
func (s *Server) stand(ctx context.Context, change func(*stillness)) error {
	w := &s.stillness
	w.mu.Lock()
	defer w.mu.Unlock()
	paused, stills := w.paused, w.stills
	was := paused || stills > 0
	change(w)
	is := w.paused || w.stills > 0
	if is == was {
		return nil
	}
	if s.Config.Cgroup == 0 {
		w.paused, w.stills = paused, stills
		return fmt.Errorf("%w: there is no control group in which commands could be frozen", atoll.ErrUnsupported)
	}
	if err := freeze(ctx, s.Config.Cgroup, is); err != nil {
		w.paused, w.stills = paused, stills
		return errors.Join(err, writeAt(s.Config.Cgroup, "cgroup.freeze", zeroOrOne(was)))
	}
	return nil
}

func zeroOrOne(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// writeAt writes to a file of an open directory.
func writeAt(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// freeze freezes or thaws a control group, and returns when all in it have
// stopped.
func freeze(ctx context.Context, dir int, frozen bool) error {
	if err := writeAt(dir, "cgroup.freeze", zeroOrOne(frozen)); err != nil || !frozen {
		return err
	}
	events, err := unix.Openat(dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(events)
	b := make([]byte, 256)
	for end := time.Now().Add(stillTime); ; {
		n, err := unix.Pread(events, b, 0)
		if err != nil {
			return err
		}
		if bytes.Contains(b[:n], []byte("frozen 1")) {
			return nil
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			return fmt.Errorf("%w: some commands can't be stopped where they are", atoll.ErrTimeout)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, int(min(left, time.Second).Milliseconds())+1) // it is looked at again
	}
}

// stills stops commands and file systems until the host closes the channel.
func (s *Server) stills(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var r stillRequest
	if err := q.Into(&r); err != nil {
		answer(st, err)
		return
	}
	if err := s.stand(ctx, func(w *stillness) { w.stills++ }); err != nil {
		answer(st, err)
		return
	}
	defer func() {
		_ = s.stand(context.WithoutCancel(ctx), func(w *stillness) { w.stills-- }) // a group that is there can be thawed
	}()
	thaw, err := stopFiles(r.Dirs)
	defer thaw()
	answer(st, err)
	if err == nil {
		_, _ = io.Copy(io.Discard, st) // until its end, or that of the connection
	}
}

// The ioctls that keep a file system as it is, its disk whole (linux/fs.h).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// stopFiles keeps file systems as they are until thaw is called, be there an
// error or not. Those in memory have no disk.
func stopFiles(dirs []string) (thaw func(), err error) {
	var held []int
	thaw = func() {
		for _, fd := range slices.Backward(held) {
			_ = unix.IoctlSetInt(fd, fiThaw, 0) // it is frozen, so this works
			_ = unix.Close(fd)
		}
	}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return thaw, fmt.Errorf("%s: %w", dir, err)
		}
		switch err := unix.IoctlSetInt(fd, fiFreeze, 0); err { //nolint:errorlint // the kernel's own
		case nil:
			held = append(held, fd)
			continue
		case unix.EOPNOTSUPP, unix.EBUSY: // in memory; the same again under another name
			_ = unix.Close(fd)
		default:
			_ = unix.Close(fd)
			return thaw, fmt.Errorf("%w: %s can't be kept as it is: %w", atoll.ErrUnavailable, dir, err)
		}
	}
	return thaw, nil
}
