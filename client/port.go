package client

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Ports returns the ports that programs inside listen on.
func (s *Sandbox) Ports(ctx context.Context) ([]atoll.Port, error) {
	return getList[atoll.Port](ctx, s.c, s.newCall("ports", "", "/ports"))
}
