package atoll

import "time"

// Route is a host name that leads to a port of a sandbox.
type Route struct {
	Host     string `json:"host"`             // "3000-web.localhost"
	URL      string `json:"url"`              // for a browser
	Port     int    `json:"port,omitempty"`   // 0: the sandbox's main port
	Sandbox  string `json:"sandbox"`          // its id
	Name     string `json:"name,omitempty"`   // of the sandbox
	PortName string `json:"called,omitempty"` // label of the port in the sandbox's project
	State    State  `json:"state"`
	Command  string `json:"command,omitempty"` // name of the listening program, as the sandbox reports it
	Locked   bool   `json:"locked,omitempty"`  // can be opened only with a RouteLink
}

// RouteLink gives its bearer access to all ports of one sandbox, on servers whose routes are
// not open to everyone.
type RouteLink struct {
	ID      string    `json:"id"`
	Sandbox string    `json:"sandbox"`
	Owner   Owner     `json:"owner"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`        // then the link stops working and its open connections are closed
	Port    int       `json:"port,omitempty"` // target port of URL; 0: the main port
	URL     string    `json:"url,omitempty"`  // contains the secret; known only when the link is created
	Secret  string    `json:"secret,omitempty"`
}

// MaxRouteLink is the longest validity of a RouteLink.
const MaxRouteLink = 30 * 24 * time.Hour
