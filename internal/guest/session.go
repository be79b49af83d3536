package guest

import (
	"io"
	"math"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// muxConfig is how both ends multiplex: no delay, no pings, no time limit on
// writes (a paused sandbox reads nothing for hours), and bounds on what the
// other end can make this one hold.
func muxConfig(incoming uint32) *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = math.MaxInt64
	c.ConnectionWriteTimeout = 365 * 24 * time.Hour
	c.WriteCoalesceDelay = 0
	c.MaxIncomingStreams = incoming
	c.MaxStreamWindowSize = 1 << 20
	c.ReadBufSize = 64 << 10
	c.LogOutput = io.Discard
	return c
}

// What one end lets the other open at once.
const (
	hostStreams  = 4096 // operations of all hosts on one connection
	guestStreams = 256  // reverse channels
)
