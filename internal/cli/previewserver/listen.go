package previewserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

// Listen listens on an address of this machine, or on any free port there if
// another program has it.
func Listen(ctx context.Context, address string, files *api.TLSFiles) (net.Listener, error) {
	l, err := api.ListenTCP(ctx, address, files)
	if !errors.Is(err, atoll.ErrExists) {
		return l, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return api.ListenTCP(ctx, net.JoinHostPort(host, "0"), files)
}

func TLSConfig(a *app.App, log *slog.Logger) (*api.TLSFiles, error) {
	cert, key := config.Get[string](a.Config, "serve.tls.cert"), config.Get[string](a.Config, "serve.tls.key")
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key belong together", atoll.ErrInvalid)
	}
	return &api.TLSFiles{Cert: cert, Key: key, Log: log}, nil
}
