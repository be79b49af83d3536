package app

import (
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// Identity returns the verifier of the configured login providers and client certificates.
func (a *App) Identity() *identity.Verifier {
	return identity.New(identity.Options{
		URL:          config.Get[string](a.Config, "login.url"),
		Providers:    config.Get[map[string]*identity.Provider](a.Config, "login.providers"),
		Certificates: config.Get[map[string]*identity.Certificate](a.Config, "login.certificates"),
	})
}

// ArchiveOptions name the archive storage.
func (a *App) ArchiveOptions() fleet.ArchiveOptions {
	c := a.Config
	return fleet.ArchiveOptions{
		Storage: objectstore.Options{
			Storage: config.Get[string](c, "archive.storage"), Endpoint: config.Get[string](c, "archive.endpoint"), Region: config.Get[string](c, "archive.region"),
			PathStyle: config.Get[string](c, "archive.path_style"), CAFile: config.Get[string](c, "archive.ca_file"),
			AccessKey: config.Get[string](c, "archive.access_key"), SecretKey: config.Get[string](c, "archive.secret_key"),
		},
		After: config.Get[time.Duration](c, "archive.after"),
	}
}

// SecretProviders are the configured providers of secrets that are kept elsewhere, by name.
func (a *App) SecretProviders() map[string]*secretref.Provider {
	return config.Get[map[string]*secretref.Provider](a.Config, "secrets.providers")
}

// IssuerOptions are those of the issuer of identity tokens. Audiences that atoll accepts itself are reserved: an
// identity token of a sandbox is no login.
func (a *App) IssuerOptions() issuer.Options {
	c := a.Config
	o := issuer.Options{
		URL: config.Get[string](c, "identity.issuer"), Audiences: config.List[string](c, "identity.audiences"), Lifetime: config.Get[time.Duration](c, "identity.lifetime"),
		Reserved: []string{"atoll", config.Get[string](c, "login.url")},
	}
	for _, p := range config.Get[map[string]*identity.Provider](c, "login.providers") {
		if p != nil {
			o.Reserved = append(o.Reserved, p.Audience, p.ClientID, p.CLIClientID)
		}
	}
	o.Reserved = slices.DeleteFunc(o.Reserved, func(s string) bool { return s == "" })
	return o
}
