//go:build !linux

package egress

import "context"

// WaitForExit does nothing: proxies run only on Linux.
func (c *Control) WaitForExit(context.Context) error { return nil }
