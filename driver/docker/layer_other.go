//go:build !linux

package docker

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

const canCount = false

func countLayer(context.Context, string) (files int, bytes int64, err error) {
	return 0, 0, atoll.ErrUnsupported
}
