package about

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
)

// loginCheckTimeout limits the check of all login providers.
const loginCheckTimeout = 15 * time.Second

// checkLogins checks whether the keys of each login provider can be read.
func (a commands) checkLogins(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, loginCheckTimeout)
	defer cancel()
	var list []finding
	for name, err := range a.Identity().Check(ctx) {
		f := finding{Check: "login " + name, OK: err == nil, Detail: "the provider answers"}
		if err != nil {
			f.Detail, f.Fix = err.Error(), "see login.providers in the configuration; until it answers nobody can log in by it, and who has logged in stays so"
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b finding) int { return strings.Compare(a.Check, b.Check) })
	return list
}

// checkLoginKeys reports keys of the configuration about logins that don't fit together.
func (a commands) checkLoginKeys() error {
	c := a.Config
	providers := config.Get[map[string]*identity.Provider](c, "login.providers")
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if p := providers[name]; p != nil && p.ClientID != "" && config.Get[string](c, "login.url") == "" {
			a.Progress("atoll: login.providers: %s: without login.url the console does not offer it; 'atoll login' does", name)
		}
	}
	switch {
	case len(config.Get[map[string]*identity.Certificate](c, "login.certificates")) > 0 && config.Get[string](c, "serve.tls.client_ca") == "":
		return config.Problem{Location: c.Settings["login.certificates"].Origin, Message: "login.certificates needs serve.tls.client_ca, which says who issues them"}
	case config.Get[string](c, "serve.tls.client_ca") != "" && config.Get[string](c, "serve.tls.cert") == "":
		return config.Problem{Location: c.Settings["serve.tls.client_ca"].Origin, Message: "serve.tls.client_ca needs serve.tls.cert and serve.tls.key"}
	}
	return nil
}

// warnOfLogins prints the login providers that do not answer now. That is no error of the configuration.
func (a commands) warnOfLogins(ctx context.Context) {
	for _, f := range a.checkLogins(ctx) {
		if !f.OK {
			fmt.Fprintf(a.Err, "atoll: warning: %s: %s\n", f.Check, f.Detail)
		}
	}
}
