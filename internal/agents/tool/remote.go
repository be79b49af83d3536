package tool

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// Remote is a server of the Model Context Protocol: a program of this host, or an HTTP server.
type Remote struct {
	Name    string
	Command []string          // the program and its arguments; nil: an HTTP server
	Dir     string            // of the program; empty: that of this process
	Env     map[string]string // of the program, besides PATH, HOME, USER and the language
	URL     string
	SSE     bool // the server has the older transport
	Headers map[string]string
}

// NewRemotes returns the servers of a list. They are connected to when their tools are listed. It returns ErrInvalid for a server without
// a name, with a name that another one has, or with neither program nor address.
func NewRemotes(list []Remote) (*Servers, error) {
	s := &Servers{list: make(map[string]*server, len(list))}
	for _, r := range list {
		a, err := url.Parse(r.URL)
		isHTTP := err == nil && a.Host != "" && (a.Scheme == "http" || a.Scheme == "https")
		switch {
		case r.Name == "" || s.list[r.Name] != nil:
			return nil, fmt.Errorf("%w: the name %q of a server of tools is empty or used twice", atoll.ErrInvalid, r.Name)
		case len(r.Command) == 0 && !isHTTP:
			return nil, fmt.Errorf("%w: the server of tools %q has neither a program nor an address of HTTP", atoll.ErrInvalid, r.Name)
		}
		u := &upstream{
			name: r.Name, idleTime: defaultIdle, limit: upstreamTime, lock: make(chan struct{}, 1), progress: make(map[string]func(float64, float64, string)),
			transport: "streamable-http", address: r.URL, headers: maps.Clone(r.Headers),
		}
		if u.headers == nil {
			u.headers = make(map[string]string)
		}
		if r.SSE {
			u.transport = "sse"
		}
		if len(r.Command) > 0 {
			u.transport = "stdio"
			u.command = program{dir: r.Dir, pass: slices.Concat(passedEnv, []string{"HOME", "USER"}), env: make(map[string]template)}
			for _, arg := range r.Command {
				u.command.args = append(u.command.args, template{{text: arg}})
			}
			for k, v := range r.Env {
				u.command.env[k] = template{{text: v}}
			}
		}
		s.list[r.Name] = &server{upstream: u}
	}
	return s, nil
}
