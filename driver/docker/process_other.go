//go:build !linux

package docker

import (
	"context"
	"os"

	"github.com/atoll-sandbox/atoll"
)

func (s *Sandbox) openMainProcess(context.Context) (*os.File, int, error) {
	return nil, 0, atoll.ErrUnsupported
}
