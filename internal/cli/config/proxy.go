package config

import (
	"errors"
	"strconv"
	"strings"
)

const (
	// defaultProxy is the default address of the proxy for host names of ports; if it is taken,
	// any free port is used.
	defaultProxy = "127.0.0.1:7080"
)

const (
	// ProxyOff means that they have none.
	ProxyOff = "off"
)

// Who comes in where ports have names.
const (
	accessAuto  = "auto"  // links, but on this machine's own addresses nothing in front
	AccessLinks = "links" // who has a link
	AccessOpen  = "open"  // all who reach it
)

// parseProxy reads an address for the proxy, or off.
func parseProxy(text string) (string, error) {
	if text == ProxyOff {
		return text, nil
	}
	address, err := parseListen(text)
	if err != nil {
		return "", errors.New(err.Error() + "; or off")
	}
	return address, nil
}

// ExternalURL is how browsers call the proxy.
type ExternalURL struct {
	Scheme string
	Port   int
}

// parseOutside reads http, https, or one of them with a port: https:8443.
func parseOutside(text string) (ExternalURL, error) {
	scheme, port, found := strings.Cut(text, ":")
	o := ExternalURL{scheme, map[string]int{"http": 80, "https": 443}[scheme]}
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			o.Port = 0
		} else if o.Port != 0 {
			o.Port = int(n)
		}
	}
	if o.Port == 0 {
		return o, errors.New("must be http, https, or one of them with a port, like https:8443")
	}
	return o, nil
}

// parseCaddy reads where Caddy's admin API is: a URL, or the path of its socket.
func parseCaddy(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, "http://")
	if !ok && strings.HasPrefix(text, "/") {
		return text, nil
	}
	if !ok || rest == "" || strings.ContainsAny(rest, "/?#@") {
		return "", errors.New("must be like http://localhost:2019, or the path of a socket")
	}
	return text, nil
}
