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
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
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

// ListenerTLS returns the TLS of the server's own listeners: that of TLSConfig, and the client certificates that they
// accept. The proxy for ports asks for none.
func ListenerTLS(a *app.App, log *slog.Logger) (*api.TLSFiles, error) {
	files, err := TLSConfig(a, log)
	if err != nil {
		return nil, err
	}
	ca := config.Get[string](a.Config, "serve.tls.client_ca")
	if ca == "" {
		if len(config.Get[map[string]*identity.Certificate](a.Config, "login.certificates")) > 0 {
			return nil, fmt.Errorf("%w: login.certificates needs serve.tls.client_ca, which says who issues them", atoll.ErrInvalid)
		}
		return files, nil
	}
	if files == nil {
		return nil, fmt.Errorf("%w: --tls-client-ca needs --tls-cert and --tls-key", atoll.ErrInvalid)
	}
	files.ClientCA, files.ClientOptional = ca, config.Get[string](a.Config, "serve.client_certificates") == config.CertificateOptional
	return files, nil
}
