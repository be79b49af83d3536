package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// handleOffer handles OpOffer: it stores the offer until the host disconnects.
func (s *Server) handleOffer(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
	var body offerBody
	err := q.DecodeBody(&body)
	if err == nil {
		err = s.offers.add(h.mux, body.Names)
	}
	if err == nil {
		context.AfterFunc(ctx, func() { s.offers.remove(h.mux) })
	}
	sendAnswer(st, err)
}

// openTimeout limits the time until a host accepts a reverse channel.
const openTimeout = 5 * time.Second

// openReverse opens a reverse channel to the newest host that offers it. Without an offer it
// returns ErrDenied.
func (s *Server) openReverse(ctx context.Context, offer, to string) (*yamux.Stream, error) {
	body, err := json.Marshal(reverseBody{To: to})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for _, mux := range s.offers.findHosts(offer) {
		st, err := mux.OpenStream(ctx)
		if err != nil {
			continue // the host is disconnecting
		}
		if err := writeMessage(st, &Request{Op: Op(offer), Body: body}); err == nil {
			return st, nil
		}
		_ = st.Reset() // the host is disconnecting
	}
	return nil, fmt.Errorf("%w: no host offers %q to this sandbox", atoll.ErrDenied, offer)
}

// relayNotice handles OpNotify: it notifies subscribers of a denial by the host's egress proxy.
func (s *Server) relayNotice(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
	var n atoll.Notice
	err := q.DecodeBody(&n)
	if err == nil && n.Kind != atoll.NoticeDenied {
		err = fmt.Errorf("%w: notice %q from a host: only %q is accepted", atoll.ErrInvalid, n.Kind, atoll.NoticeDenied)
	}
	if err == nil {
		n.Time = time.Now()
		s.notifyHosts(n)
	}
	sendAnswer(st, err)
}
