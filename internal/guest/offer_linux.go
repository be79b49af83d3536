package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// offer remembers what a host offers until its connection ends.
func (s *Server) offer(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
	var body offerBody
	err := q.Into(&body)
	if err == nil {
		err = s.offers.add(h.mux, body.Names)
	}
	if err == nil {
		context.AfterFunc(ctx, func() { s.offers.remove(h.mux) })
	}
	answer(st, err)
}

// openTime is how long a host may take to accept a reverse channel.
const openTime = 5 * time.Second

// reach opens a reverse channel to the newest host that offers it. Nobody does:
// ErrDenied.
func (s *Server) reach(ctx context.Context, offer, to string) (*yamux.Stream, error) {
	body, err := json.Marshal(reverse{To: to})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	for _, mux := range s.offers.who(offer) {
		st, err := mux.OpenStream(ctx)
		if err != nil {
			continue // its connection is ending
		}
		if err := writeMessage(st, &Request{Op: Op(offer), Body: body}); err == nil {
			return st, nil
		}
		_ = st.Reset() // as above
	}
	return nil, fmt.Errorf("%w: no host offers %q to this sandbox", atoll.ErrDenied, offer)
}

// told passes on what the host's gate has refused.
func (s *Server) told(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var n atoll.Notice
	err := q.Into(&n)
	if err == nil && n.Kind != atoll.NoticeDenied {
		err = fmt.Errorf("%w: a notice %q of a host", atoll.ErrInvalid, n.Kind)
	}
	if err == nil {
		n.Time = time.Now()
		s.notify(n)
	}
	answer(st, err)
}
