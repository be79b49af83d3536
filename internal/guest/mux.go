package guest

import (
	"io"
	"math"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// muxConfig returns the settings of the multiplexer for both ends: no delay, no pings, no
// timeout for writes (a paused sandbox reads nothing for hours), and limits on the memory that
// the other end can make this one allocate.
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

// Limits on the number of streams that the other end can open at once.
const (
	hostStreams  = 4096 // operations on one connection of a host
	guestStreams = 256  // reverse channels
)
