package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// Options configure a Verifier.
type Options struct {
	Providers    map[string]*Provider
	Certificates map[string]*Certificate
	URL          string           // of the server as browsers reach it; empty: no logins in the console
	Now          func() time.Time // nil: time.Now
}

// Verifier verifies tokens and certificates. Its methods may be called concurrently. The zero value and nil accept
// nothing.
type Verifier struct {
	opts      Options
	now       func() time.Time
	providers map[string]*provider
}

// New returns a verifier. It connects to no provider yet.
func New(o Options) *Verifier {
	v := &Verifier{opts: o, now: o.Now, providers: make(map[string]*provider)}
	if v.now == nil {
		v.now = time.Now
	}
	for name, config := range o.Providers {
		p := &provider{Provider: config, name: name, now: v.now}
		p.keys = &keySet{now: v.now, read: p.readKeys}
		v.providers[name] = p
	}
	return v
}

// provider is a provider with what is known of it so far.
type provider struct {
	*Provider

	name string
	now  func() time.Time
	keys *keySet // read when they are needed

	mu       sync.Mutex     // held while the provider is discovered: whom the keys are enough does not take it
	client   *http.Client   // guarded by mu
	document *oidc.Provider // of a provider that was discovered; guarded by mu
	tried    time.Time      // last attempt to discover it; guarded by mu
	err      error          // of that; guarded by mu
}

// clockSkew is how much the clocks of atoll and of a provider may differ.
const clockSkew = 30 * time.Second

// maxToken is the size of a token that is looked at.
const maxToken = 16 << 10

// LooksLikeToken reports whether a secret has the form of a signed token, and not of one that atoll creates.
func LooksLikeToken(secret string) bool {
	return strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2
}

// unverifiedIssuer returns the issuer that a token names. It only chooses the provider by whose keys it is verified.
func unverifiedIssuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	b, err := base64.RawURLEncoding.DecodeString(payload)
	var c struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(b, &c) != nil {
		return ""
	}
	return c.Issuer
}

// VerifyToken returns the identity of a token's bearer: ErrDenied if the token is not valid or no rule is for it,
// ErrUnavailable if its provider's keys can't be read.
func (v *Verifier) VerifyToken(ctx context.Context, token string) (fleet.Identity, error) {
	if v == nil || len(token) > maxToken || !LooksLikeToken(token) {
		return fleet.Identity{}, fmt.Errorf("%w: not a signed token", atoll.ErrDenied)
	}
	issuer := unverifiedIssuer(token)
	var denied error
	for _, name := range slices.Sorted(maps.Keys(v.providers)) {
		p := v.providers[name]
		if p.Issuer != issuer {
			continue
		}
		id, err := p.verifyToken(ctx, token, "")
		if err == nil || !errors.Is(err, atoll.ErrDenied) {
			return id, err
		}
		if denied == nil || errors.Is(denied, errAudience) {
			denied = err // another provider may have the same issuer with another audience
		}
	}
	if denied == nil {
		denied = fmt.Errorf("%w: no provider of the configuration has the issuer %q", atoll.ErrDenied, shorten(issuer))
	}
	return fleet.Identity{}, denied
}

func shorten(text string) string { return text[:min(len(text), 100)] }

// keyCheck verifies one signature, and keeps the error that package oidc reports as text only.
type keyCheck struct {
	keys *keySet
	err  error
}

func (k *keyCheck) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, k.err = k.keys.verify(ctx, token)
	return payload, k.err
}

// verifyToken verifies a token of the provider, which must have the nonce, if it is not empty.
func (p *provider) verifyToken(ctx context.Context, token, nonce string) (fleet.Identity, error) {
	check := &keyCheck{keys: p.keys}
	supported := make([]string, len(algorithms))
	for i, a := range algorithms {
		supported[i] = string(a)
	}
	parsed, err := oidc.NewVerifier(p.Issuer, check, &oidc.Config{
		SkipClientIDCheck: true, // checkAudience has several
		Now:               func() time.Time { return p.now().Add(-clockSkew) }, SupportedSigningAlgs: supported,
	}).Verify(ctx, token)
	if check.err != nil {
		return fleet.Identity{}, check.err
	}
	if err != nil {
		return fleet.Identity{}, fmt.Errorf("%w: %s", atoll.ErrDenied, strings.TrimPrefix(err.Error(), "oidc: "))
	}
	var c claims
	if err := p.checkAudience(parsed); err != nil {
		return fleet.Identity{}, err
	}
	if err := p.checkTimes(parsed); err != nil {
		return fleet.Identity{}, err
	}
	if err := parsed.Claims(&c); err != nil {
		return fleet.Identity{}, fmt.Errorf("%w: the claims of the token: %w", atoll.ErrDenied, err)
	}
	if err := c.checkNames(); err != nil {
		return fleet.Identity{}, err
	}
	if nonce != "" && parsed.Nonce != nonce {
		return fleet.Identity{}, fmt.Errorf("%w: the token was issued for another login (nonce)", atoll.ErrDenied)
	}
	if parsed.Subject == "" {
		return fleet.Identity{}, fmt.Errorf("%w: the token has no subject", atoll.ErrDenied)
	}
	if azp, _ := c.text("azp"); len(parsed.Audience) > 1 && c["azp"] != nil && !slices.Contains(p.audiences(), azp) {
		return fleet.Identity{}, fmt.Errorf("%w: the token was issued to the client %q", atoll.ErrDenied, shorten(azp))
	}
	owner, scopes, err := p.decide(p.name, c)
	return fleet.Identity{
		Provider: p.name, Subject: parsed.Subject, Owner: owner, Scopes: scopes, Expires: parsed.Expiry.Add(clockSkew), Lifetime: p.lifetime(), Source: sourceOf(token),
	}, err
}

// sourceOf identifies a token. The signature is left out: for one content there can be several that are valid.
func sourceOf(token string) [sha256.Size]byte {
	return sha256.Sum256([]byte("token:" + token[:strings.LastIndexByte(token, '.')]))
}

// errAudience is the error of a token for another audience.
var errAudience = fmt.Errorf("%w: the token is for another audience than this server", atoll.ErrDenied)

func (p *provider) checkAudience(t *oidc.IDToken) error {
	for _, a := range p.audiences() {
		if slices.Contains(t.Audience, a) {
			return nil
		}
	}
	return fmt.Errorf("%w: %q", errAudience, shorten(strings.Join(t.Audience, " ")))
}

// maxTokenLife limits the tokens that are accepted: the registry remembers for as long what was revoked.
const maxTokenLife = fleet.LoginRetention

func (p *provider) checkTimes(t *oidc.IDToken) error {
	if t.Expiry.After(p.now().Add(maxTokenLife)) {
		return fmt.Errorf("%w: the token is valid for more than %v: ask the provider for short-lived ones", atoll.ErrDenied, maxTokenLife)
	}
	if t.IssuedAt.After(p.now().Add(clockSkew)) {
		return fmt.Errorf("%w: the token was issued in the future: compare the clocks of the provider and of this server", atoll.ErrDenied)
	}
	return nil
}
