//go:build !unix

package kubernetes

import (
	"os"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// pair is for gates, which are Linux's.
func pair() (theirs *os.File, ours wire.Halver, err error) { return nil, nil, atoll.ErrUnsupported }
