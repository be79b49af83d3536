package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// handler runs one operation on a channel. It sends an answer first (see sendAnswer) and returns
// when the operation has ended; then the channel is closed. ctx ends with the host's connection.
type handler func(ctx context.Context, h *host, st *yamux.Stream, q *Request)

// host is one connection of a host.
type host struct {
	mux       *yamux.Session
	work      sync.WaitGroup // goroutines that work for this connection
	listeners atomic.Int32   // open listeners
	accepted  chan struct{}  // holds a token for each open connection to these listeners
	large     chan struct{}  // holds a token for each operation with a large request; nil: they are not limited
}

// hostLimits are limits for a host that may be hostile. The zero value limits only the number of
// operations at once, to hostStreams.
type hostLimits struct {
	streams uint32 // operations at once
	large   int    // of these, with requests of more than largeRequest bytes
}

// largeRequest is the largest request in bytes that counts as small.
const largeRequest = 64 << 10

// serveHost serves one host until its connection ends. find returns the handler of an operation, or
// nil; version is the newest version of the wire protocol that they speak; after is called after each operation.
func serveHost(conn net.Conn, version int, limits hostLimits, find func(Op) handler, after func()) {
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s%d %d\n", Greeting, version, OldestVersion); err != nil {
		return
	}
	mux, err := yamux.Server(conn, muxConfig(cmp.Or(limits.streams, hostStreams)), nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{mux: mux, accepted: make(chan struct{}, maxAccepted)}
	if limits.large > 0 {
		h.large = make(chan struct{}, limits.large)
	}
	defer h.work.Wait()
	defer mux.Close()
	defer cancel()
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return
		}
		h.work.Go(func() {
			defer after()
			h.serveStream(ctx, find, st)
		})
	}
}

// serveStream runs one operation.
func (h *host) serveStream(ctx context.Context, find func(Op) handler, st *yamux.Stream) {
	defer st.Close()
	n, err := readMessageSize(st)
	if err != nil {
		return
	}
	if n > largeRequest && h.large != nil {
		select {
		case h.large <- struct{}{}:
			defer func() { <-h.large }()
		case <-ctx.Done():
			return
		}
	}
	var q Request
	if err := readMessageBody(st, n, &q); err != nil {
		return
	}
	op := find(q.Op)
	if op == nil {
		sendAnswer(st, fmt.Errorf("%w: operation %q by this guest", atoll.ErrUnsupported, q.Op))
		return
	}
	op(ctx, h, st, &q)
}

// sendAnswer answers that an operation begins, or with the error that prevents it.
func sendAnswer(w io.Writer, err error) {
	_ = writeMessage(w, Response{Problem: wire.ProblemOf(err)}) // fails if the host has disconnected
}

// sendReply answers with a value, or with an error.
func sendReply(w io.Writer, v any, err error) {
	a := Response{Problem: wire.ProblemOf(err)}
	if err == nil {
		if a.Body, err = json.Marshal(v); err != nil {
			a.Problem = wire.ProblemOf(err)
		}
	}
	_ = writeMessage(w, a) // fails if the host has disconnected
}
