//go:build !linux

package egress

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"runtime"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Options describe the proxy to start.
type Options struct {
	Dir     string
	ID      string
	Network atoll.Network
	Guest   *os.File
	Helpers helper.Finder

	Nameservers []string
	Upstream    upstream.Config
	NoLog       bool
}

// Start returns ErrUnavailable: proxies run only on Linux.
func Start(_ context.Context, o Options) (*Control, error) {
	_ = o.Guest.Close() // as on Linux
	return nil, errSystem()
}

func errSystem() error {
	return fmt.Errorf("%w: the egress proxy does not run on %s", atoll.ErrUnavailable, runtime.GOOS)
}

func systemRoots(bool) (*x509.CertPool, error) { return nil, errSystem() }

func confineProcess(*bootConfig) error { return errSystem() }

func shortPath(dir string) (string, func(), error) { return dir, func() {}, nil }
