// Package proxy serves the ports of sandboxes under host names: a request for
// web.localhost reaches the main port of the sandbox "web", one for
// 3000-web.localhost its port 3000. It gets sandboxes from a [Finder], so
// it depends neither on drivers nor on the fleet.
//
// Each sandbox has its own origins. Responses of a sandbox are not trusted: they
// can't set cookies for other hosts, nor control a web server in front of the proxy.
package proxy
