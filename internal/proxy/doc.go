// Package proxy gives the ports of sandboxes host names: a request for
// web.localhost reaches the main port of the sandbox "web", one for
// 3000-web.localhost its port 3000. It asks a [Finder] for the sandbox, so
// it knows neither drivers nor the fleet.
//
// Each sandbox has origins of its own. What a sandbox answers is hostile: it
// can't set cookies for others, nor steer what stands before the proxy.
package proxy
