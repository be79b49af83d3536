package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
)

// Limits of the tokens that are remembered, to be used again and to be hidden in texts.
const (
	maxKnownTokens   = 8    // of a sandbox and an audience: the newest
	maxTokenEntries  = 1000 // from which on those of sandboxes without commands are forgotten
	forgetTokensFrom = 24 * time.Hour
)

// identityReferences returns the audiences of the secrets of a configuration that are identity tokens, by name.
func identityReferences(cfg *atoll.Config) map[string]string {
	var refs map[string]string
	for name, v := range cfg.Secrets {
		if audience, ok := strings.CutPrefix(v, issuer.Scheme); ok {
			if refs == nil {
				refs = make(map[string]string)
			}
			refs[name] = audience
		}
	}
	return refs
}

// checkIdentityReferences reports secrets that can't be identity tokens.
func (f *Fleet) checkIdentityReferences(cfg *atoll.Config) error {
	var errs []error
	for name, audience := range identityReferences(cfg) {
		err := f.opts.Issuer.CheckAudience(audience)
		switch {
		case f.opts.Issuer.URL == "":
			err = errNoIssuer
		case proxyOnlySecrets(cfg)[name]:
			err = fmt.Errorf("%w: a header keeps its value, and an identity token ends after minutes", atoll.ErrInvalid)
		}
		if err != nil {
			errs = append(errs, &atoll.FieldError{Field: "secrets." + name, Err: fmt.Errorf("secret %s: %w", name, err)})
		}
	}
	return errors.Join(errs...)
}

// identityTokens are the tokens that commands of this process got.
type identityTokens struct {
	mu      sync.Mutex
	entries map[string][]atoll.IdentityToken // by sandbox and audience, the newest last; guarded by mu
}

// identityKey returns the key of the tokens of a sandbox and an audience: the owner is part of it, as a claim changes it.
func identityKey(r *row, audience string) string {
	return r.owner.String() + " " + r.id + " " + audience
}

// identityEnv returns the environment variables of secrets that are identity tokens. A token is used for several commands
// until half of its time is over.
func (f *Fleet) identityEnv(ctx context.Context, r *row) ([]string, error) {
	refs := identityReferences(&r.cfg)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		t, err := f.commandIdentity(ctx, r, refs[name])
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		env = append(env, name+"="+t.Token)
	}
	return env, nil
}

// commandIdentity returns a token for the commands of a sandbox, also for those that prepare one that is being created or
// claimed: the registry does not know its owner yet. Only a command that runs inside gets it.
func (f *Fleet) commandIdentity(ctx context.Context, r *row, audience string) (atoll.IdentityToken, error) {
	f.identities.mu.Lock()
	defer f.identities.mu.Unlock()
	key, now := identityKey(r, audience), f.now()
	list := f.identities.entries[key]
	half := f.opts.Issuer.Lifetime / 2
	if half == 0 {
		half = issuer.DefaultLifetime / 2
	}
	if len(list) > 0 && list[len(list)-1].Expires.Sub(now) > half {
		return list[len(list)-1], nil
	}
	t, err := f.signRow(ctx, r, audience)
	f.recordAudit(atoll.Audit{Owner: r.owner, Action: "identity token", Object: r.id, Detail: "for " + truncate(audience, 200) + ", in commands", Outcome: outcomeName(err)})
	if err != nil {
		return t, err
	}
	if f.identities.entries == nil {
		f.identities.entries = make(map[string][]atoll.IdentityToken)
	}
	if len(f.identities.entries) >= maxTokenEntries {
		maps.DeleteFunc(f.identities.entries, func(_ string, l []atoll.IdentityToken) bool { return now.Sub(l[len(l)-1].Expires) > forgetTokensFrom })
	}
	list = append(list, t)
	f.identities.entries[key] = list[max(0, len(list)-maxKnownTokens):]
	return t, nil
}

// identityValues returns the identity tokens that texts of a sandbox must not show. It makes the one that the next command
// gets.
func (f *Fleet) identityValues(r *row) (values []string) {
	for _, audience := range identityReferences(&r.cfg) {
		_, _ = f.commandIdentity(context.Background(), r, audience) // the command reports the error
		f.identities.mu.Lock()
		for _, t := range f.identities.entries[identityKey(r, audience)] {
			values = append(values, t.Token)
		}
		f.identities.mu.Unlock()
	}
	return values
}
