//go:build !unix

package kubernetes

import (
	"os"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// socketPair returns an error: egress proxies need Linux.
func socketPair() (theirs *os.File, ours wire.HalfCloser, err error) {
	return nil, nil, atoll.ErrUnsupported
}
