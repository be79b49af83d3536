package app

import (
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
)

// Identity returns the verifier of the configured login providers and client certificates.
func (a *App) Identity() *identity.Verifier {
	return identity.New(identity.Options{
		URL:          config.Get[string](a.Config, "login.url"),
		Providers:    config.Get[map[string]*identity.Provider](a.Config, "login.providers"),
		Certificates: config.Get[map[string]*identity.Certificate](a.Config, "login.certificates"),
	})
}
