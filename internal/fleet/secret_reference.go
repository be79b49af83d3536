package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// checkReferences refuses a configuration with references to secrets that its owner may not use. The scope host allows
// all that the providers of the configuration allow.
func (a *Account) checkReferences(cfg *atoll.Config) error {
	for _, name := range slices.Sorted(maps.Keys(cfg.Secrets)) {
		ref := cfg.Secrets[name]
		if !secretref.IsReference(ref) {
			continue
		}
		if err := a.f.references.Check(ref, a.caller.Owner, a.caller.Allows(atoll.ScopeHost)); err != nil {
			return &atoll.FieldError{Field: "secrets." + name, Err: fmt.Errorf("secret %s: %w", name, err)}
		}
	}
	return nil
}

// referencesOf returns the secrets of a configuration that are references, by name.
func referencesOf(cfg *atoll.Config) map[string]string {
	var refs map[string]string
	for name, v := range cfg.Secrets {
		if secretref.IsReference(v) {
			if refs == nil {
				refs = make(map[string]string)
			}
			refs[name] = v
		}
	}
	return refs
}

// resolveSecrets returns a configuration whose secrets have values in place of references. It must not be stored.
func (f *Fleet) resolveSecrets(ctx context.Context, cfg *atoll.Config) (*atoll.Config, error) {
	refs := referencesOf(cfg)
	if len(refs) == 0 {
		return cfg, nil
	}
	resolved := *cfg
	resolved.Secrets = maps.Clone(cfg.Secrets)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		value, err := f.references.Resolve(ctx, refs[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %s: %w", name, err))
		}
		resolved.Secrets[name] = value
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &resolved, nil
}

// maxReferenceEnv is the size of the variables of references, in bytes: that of an environment, which is checked at
// creation, when their values are not known.
const maxReferenceEnv = 256 << 10

// referenceEnv returns the environment variables of secrets that are references. Drivers store the environment of a
// sandbox: these are given to each command instead.
func (f *Fleet) referenceEnv(ctx context.Context, cfg *atoll.Config) ([]string, error) {
	refs := referencesOf(cfg)
	maps.DeleteFunc(refs, func(name, _ string) bool { return proxyOnlySecrets(cfg)[name] })
	if len(refs) == 0 {
		return nil, nil
	}
	resolved, err := f.resolveSecrets(ctx, &atoll.Config{Secrets: refs})
	if err != nil {
		return nil, err
	}
	var env []string
	size := 0
	for _, name := range slices.Sorted(maps.Keys(resolved.Secrets)) { // not secretEnv: a value may look like a reference
		if size += len(name) + len("=") + len(resolved.Secrets[name]); size > maxReferenceEnv {
			return nil, fmt.Errorf("%w: the secrets of the sandbox that are references have more than %d bytes together: refer to fewer or smaller ones", atoll.ErrInvalid, maxReferenceEnv)
		}
		env = append(env, name+"="+resolved.Secrets[name])
	}
	return env, nil
}

// maskTimeout is how long values are waited for that texts must not show.
const maskTimeout = time.Minute

// referenceValues returns what texts must not show because of the references of a configuration. It resolves those that
// have had no value in this process, as one that has just started may show output of commands before.
func (f *Fleet) referenceValues(cfg *atoll.Config) []string {
	ctx, cancel := context.WithTimeout(context.Background(), maskTimeout)
	defer cancel()
	for name, ref := range referencesOf(cfg) {
		if len(f.references.Known(ref)) > 0 {
			continue
		}
		if _, err := f.references.Resolve(ctx, ref); err != nil {
			f.log.Warn("a secret can't be hidden in texts, as it can't be resolved", "secret", name, "err", err)
		}
	}
	return f.knownValues(cfg)
}

// knownValues returns the values that the references of a configuration have had in this process. It waits for nothing.
func (f *Fleet) knownValues(cfg *atoll.Config) (values []string) {
	for _, ref := range referencesOf(cfg) {
		values = append(values, f.references.Known(ref)...)
	}
	return values
}

// fullMask returns the mask of a configuration, with the values of its references that were resolved.
func (f *Fleet) fullMask(cfg *atoll.Config) *mask {
	return newMask(cfg).withValues(f.knownValues(cfg))
}

// addEnv adds the environment that the driver does not know to a command: that of a claim, secrets that are references, and
// identity tokens.
func (b *handle) addEnv(ctx context.Context, f *Fleet, cmd atoll.Cmd) (atoll.Cmd, error) {
	b.mu.Lock()
	r := b.row
	b.mu.Unlock()
	own, err := f.referenceEnv(ctx, &r.cfg)
	if err != nil {
		return cmd, err
	}
	identity, err := f.identityEnv(ctx, &r)
	if err != nil {
		return cmd, err
	}
	if len(r.env)+len(own)+len(identity) > 0 {
		cmd.Env = slices.Concat(r.env, own, identity, cmd.Env)
	}
	return cmd, nil
}
