package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// CheckURL reports why a text can't be the URL of a server as browsers reach it.
func CheckURL(text string) error { return checkURL("the URL", text) }

// Logins returns the providers by which people can log in, by name.
func (v *Verifier) Logins() []atoll.LoginProvider {
	list := []atoll.LoginProvider{}
	if v == nil {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(v.providers)) {
		p := v.providers[name]
		if p.ClientID != "" {
			list = append(list, atoll.LoginProvider{Name: name, Issuer: p.Issuer, Browser: v.opts.URL != "", ClientID: p.deviceClientID(), Scopes: p.loginScopes()})
		}
	}
	return list
}

// loginProvider returns a provider for logins in the console.
func (v *Verifier) loginProvider(name string) (*provider, error) {
	if v == nil || v.providers[name] == nil || v.providers[name].ClientID == "" || v.opts.URL == "" {
		return nil, fmt.Errorf("%w: no login provider has the name %q", atoll.ErrNotFound, shorten(name))
	}
	return v.providers[name], nil
}

// CallbackURL returns the URL to which a provider sends browsers back. It is the configured one: a Host header does
// not change it.
func (v *Verifier) CallbackURL(name string) string {
	return strings.TrimSuffix(v.opts.URL, "/") + "/login/" + name + "/callback"
}

// BasePath returns the path of the server as browsers reach it.
func (v *Verifier) BasePath() string {
	u, err := url.Parse(v.opts.URL)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// SecureURL reports whether browsers reach the server by https.
func (v *Verifier) SecureURL() bool { return v != nil && strings.HasPrefix(v.opts.URL, "https:") }

// oauthConfig returns the client of the authorization-code flow.
func (v *Verifier) oauthConfig(ctx context.Context, p *provider, age time.Duration) (*oauth2.Config, *http.Client, error) {
	doc, client, err := p.discover(ctx, age)
	if err != nil {
		return nil, nil, err
	}
	secret, err := p.clientSecret()
	if err != nil {
		return nil, nil, err
	}
	endpoint := doc.Endpoint()
	if err := errors.Join(checkURL("authorization_endpoint", endpoint.AuthURL), checkURL("token_endpoint", endpoint.TokenURL)); err != nil {
		return nil, nil, p.unavailable(err)
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, Endpoint: endpoint, RedirectURL: v.CallbackURL(p.name), Scopes: p.loginScopes()}, client, nil
}

// clientSecret returns the secret of the client; empty: it is public.
func (p *provider) clientSecret() (string, error) {
	if p.ClientSecretFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(p.ClientSecretFile)
	if err != nil {
		return "", p.unavailable(err)
	}
	return strings.TrimSpace(string(b)), nil
}

// LoginURL returns the page of a provider at which a login begins.
func (v *Verifier) LoginURL(ctx context.Context, name string, l fleet.PendingLogin) (string, error) {
	p, err := v.loginProvider(name)
	if err != nil {
		return "", err
	}
	c, _, err := v.oauthConfig(ctx, p, keyInterval) // so that a user is not sent to a provider that does not answer
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), nil
}

// RedeemCode exchanges the code of a login for the identity of who logged in. The code is useless without the
// verifier, and the token without the nonce, of the login that asked for it. Issuer is the parameter iss of the
// callback, if it had one.
func (v *Verifier) RedeemCode(ctx context.Context, l fleet.PendingLogin, code, issuer string) (fleet.Identity, error) {
	p, err := v.loginProvider(l.Provider)
	if err != nil {
		return fleet.Identity{}, err
	}
	if cmp.Or(issuer, p.Issuer) != p.Issuer {
		return fleet.Identity{}, fmt.Errorf("%w: the answer is of another issuer", atoll.ErrDenied)
	}
	c, client, err := v.oauthConfig(ctx, p, anyAge)
	if err != nil {
		return fleet.Identity{}, err
	}
	t, err := c.Exchange(oidc.ClientContext(ctx, client), code, oauth2.VerifierOption(l.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < 500:
		return fleet.Identity{}, fmt.Errorf("%w: the provider refused the code: %s", atoll.ErrDenied, shorten(cmp.Or(refused.ErrorCode, refused.Response.Status)))
	case refused != nil:
		return fleet.Identity{}, p.unavailable(errors.New("its token endpoint: " + refused.Response.Status)) // the answer could hold secrets
	case err != nil:
		return fleet.Identity{}, p.unavailable(err)
	}
	raw, _ := t.Extra("id_token").(string)
	if !LooksLikeToken(raw) || len(raw) > maxToken {
		return fleet.Identity{}, p.unavailable(errors.New("its answer has no ID token"))
	}
	if l.Nonce == "" {
		return fleet.Identity{}, fmt.Errorf("%w: the login has no nonce", atoll.ErrDenied)
	}
	return p.verifyToken(ctx, raw, l.Nonce)
}
