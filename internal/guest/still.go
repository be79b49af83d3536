package guest

import (
	"context"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// OpPause stops every command where it is, or lets all go on; it lasts whoever
// is connected. OpStill stops them too, and the file systems that it names, whose
// disks are then whole: until the host closes the channel. Both answer when all
// stands still.
const (
	OpPause Op = "pause"
	OpStill Op = "still"
)

// pauseRequest says what is to be.
type pauseRequest struct {
	Paused bool `json:"paused"`
}

// stillRequest names directories of file systems.
type stillRequest struct {
	Dirs []string `json:"dirs"`
}

// stillTime is how long it may take until everything stands still.
const stillTime = 20 * time.Second

// Pause stops every command of the sandbox where it is, or lets them go on. The
// guest itself answers still. It is for drivers whose guest alone can do it.
func (l *Link) Pause(ctx context.Context, paused bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stillTime)
	defer cancel()
	c, err := l.Client(ctx)
	if err != nil {
		return err
	}
	return c.call(ctx, OpPause, pauseRequest{paused}, nil)
}

// Still has every command and the file systems of some directories stand still
// while f runs: their disks are then whole. f must not ask the guest for
// anything.
func (l *Link) Still(ctx context.Context, dirs []string, f func() error) error {
	begin, cancel := context.WithTimeout(ctx, 2*stillTime)
	defer cancel()
	c, err := l.Client(begin)
	if err != nil {
		return err
	}
	var st *yamux.Stream
	if st, err = c.openBody(begin, OpStill, stillRequest{dirs}); err != nil {
		return err
	}
	defer st.Close() // it goes on
	return f()
}
