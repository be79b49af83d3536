package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// info adds what a server says of itself.
func (s *Server) info(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/v1/info", Summary: "What the server is, and who you are", Tags: []string{"server"},
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[atoll.Server], error) {
		who := callOf(ctx).caller
		link, err := a.Link(ctx)
		if err != nil {
			return nil, err
		}
		has := atoll.Server{Version: s.opts.Version, Owner: who.Owner, Scopes: who.Scopes, Token: who.Token, Link: link}
		if link == nil { // who was shown a terminal need not know the house
			has.Drivers, has.Addresses = s.fleet.Drivers(ctx), s.addresses()
		}
		return &reply[atoll.Server]{has}, nil
	})
}

// addresses returns where the server listens for clients with tokens, as URLs
// that a browser on this machine, or anywhere that knows the server's name,
// understands.
func (s *Server) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []string{}
	for l, url := range s.doors {
		if _, ok := s.served[l]; ok && url != "" {
			list = append(list, url)
		}
	}
	slices.Sort(list)
	return list
}

// addressOf returns how a browser calls a listener; empty: it can't.
func (s *Server) addressOf(l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	scheme := "https"
	if _, plain := l.(*net.TCPListener); plain {
		scheme = "http"
	}
	host := tcp.IP.String()
	switch {
	case !tcp.IP.IsLoopback() && len(s.opts.Hosts) > 0:
		host = s.opts.Hosts[0]
	case tcp.IP.IsUnspecified():
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
