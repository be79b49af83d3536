package api

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

// registerInfo registers the description of the server.
func (s *Server) registerInfo(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/v1/info", Summary: "Describe the server and the caller", Tags: []string{"server"},
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[atoll.Server], error) {
		caller := callOf(ctx).caller
		link, err := a.Link(ctx)
		if err != nil {
			return nil, err
		}
		has := atoll.Server{Version: s.opts.Version, Owner: caller.Owner, Scopes: caller.Scopes, Token: caller.Token, Link: link, Provider: caller.Provider}
		if link == nil { // a link reveals nothing else of the server
			has.Drivers, has.Addresses = s.fleet.Drivers(ctx), s.listenURLs()
		}
		return &reply[atoll.Server]{has}, nil
	})
}

// listenURLs returns the URLs of the listeners for clients with tokens, as a browser on this host,
// or one that knows the server's name, can use them.
func (s *Server) listenURLs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []string{}
	for l, url := range s.urls {
		if _, ok := s.served[l]; ok && url != "" {
			list = append(list, url)
		}
	}
	slices.Sort(list)
	return list
}

// listenURL returns the URL of a listener for browsers; empty: none.
func (s *Server) listenURL(l net.Listener) string {
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
