package guest

import (
	"context"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// OpPause freezes or resumes all commands; this state outlives the connection. OpStill freezes
// the commands and the named file systems, so that their disks are consistent, until the host
// closes the channel. Both answer when everything is frozen.
const (
	OpPause       Op = "pause"
	OpFreezeFiles Op = "still"
)

// pauseRequest is the body of OpPause.
type pauseRequest struct {
	Paused bool `json:"paused"`
}

// stillRequest is the body of OpStill: directories of the file systems.
type stillRequest struct {
	Dirs []string `json:"dirs"`
}

// freezeTimeout is the longest time until everything must be frozen.
const freezeTimeout = 20 * time.Second

// Pause freezes or resumes all commands of the sandbox. The guest still answers. It is for drivers
// that can't freeze a sandbox from outside.
func (l *Link) Pause(ctx context.Context, paused bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*freezeTimeout)
	defer cancel()
	c, err := l.Client(ctx)
	if err != nil {
		return err
	}
	return c.Call(ctx, OpPause, pauseRequest{paused}, nil)
}

// RunFrozen runs f while all commands and the file systems of the directories are frozen, so that
// their disks are consistent. f must not call the guest.
func (l *Link) RunFrozen(ctx context.Context, dirs []string, f func() error) error {
	begin, cancel := context.WithTimeout(ctx, 2*freezeTimeout)
	defer cancel()
	c, err := l.Client(begin)
	if err != nil {
		return err
	}
	var st *yamux.Stream
	if st, err = c.openBody(begin, OpFreezeFiles, stillRequest{dirs}); err != nil {
		return err
	}
	defer st.Close() // resumes everything
	return f()
}
