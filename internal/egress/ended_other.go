//go:build !linux

package egress

import "context"

// Ended does nothing: proxies run only on Linux.
func (c *Control) Ended(context.Context) error { return nil }
