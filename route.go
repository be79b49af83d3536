package atoll

import "time"

// Route is a host name that leads to a port of a sandbox.
type Route struct {
	Host    string `json:"host"`             // "3000-web.localhost"
	URL     string `json:"url"`              // what a browser opens
	Port    int    `json:"port,omitempty"`   // 0: the one that the sandbox's plain name leads to
	Sandbox string `json:"sandbox"`          // its id
	Name    string `json:"name,omitempty"`   // of the sandbox
	Called  string `json:"called,omitempty"` // what the sandbox's project calls the port
	State   State  `json:"state"`
	Command string `json:"command,omitempty"` // name of the program that listens; said by the sandbox
	Locked  bool   `json:"locked,omitempty"`  // only a RouteLink opens it
}

// RouteLink lets in whoever opens it, to all ports of one sandbox, where a server's
// names of ports are not open to all who reach them.
type RouteLink struct {
	ID      string    `json:"id"`
	Sandbox string    `json:"sandbox"`
	Owner   Owner     `json:"owner"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`        // then it opens nothing any more, and what it opened ends
	Port    int       `json:"port,omitempty"` // that URL leads to; 0: the main one
	URL     string    `json:"url,omitempty"`  // holds the secret; known only when the link is made
	Secret  string    `json:"secret,omitempty"`
}

// MaxRouteLink is how long a link can be good.
const MaxRouteLink = 30 * 24 * time.Hour
