package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
)

// loginRequestTimeout limits each request of a login, which waits for no user.
const loginRequestTimeout = 30 * time.Second

// obtainToken returns a token for a server: by its login provider, if it has one, else the one that the user enters.
func (a commands) obtainToken(ctx context.Context, e config.Endpoint, provider string) (string, error) {
	probe := e
	probe.Token = "none yet"
	if err := probe.Check(); err != nil { // a token is sent there, and one comes back
		return "", err
	}
	c, tlsConfig, err := app.NewClient(e)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // only its idle connections
	list, err := listLoginProviders(ctx, c)
	if err != nil {
		return "", err
	}
	if len(list) == 0 && provider == "" {
		return a.askToken(ctx, e.Host)
	}
	p, err := chooseProvider(list, provider)
	if err != nil {
		return "", err
	}
	idToken, err := a.runDeviceFlow(ctx, p, tlsConfig)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, loginRequestTimeout)
	defer cancel()
	t, err := c.ExchangeToken(ctx, idToken)
	if err != nil {
		return "", err
	}
	a.Progress("atoll: logged in by %s; the token %s", p.Name, output.FormatExpiry(t.Expires))
	return t.Secret, nil
}

// listLoginProviders returns the providers of a server for the command line. A server that knows none of the kind
// has none.
func listLoginProviders(ctx context.Context, c *client.Client) ([]atoll.LoginProvider, error) {
	ctx, cancel := context.WithTimeout(ctx, loginRequestTimeout)
	defer cancel()
	list, err := c.LoginProviders(ctx)
	if errors.Is(err, atoll.ErrDenied) || errors.Is(err, atoll.ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(list, func(p atoll.LoginProvider) bool { return p.ClientID == "" }), err
}

// chooseProvider returns the provider with a name, or the only one.
func chooseProvider(list []atoll.LoginProvider, name string) (atoll.LoginProvider, error) {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = output.Clean(p.Name)
		if p.Name == name || name == "" && len(list) == 1 {
			return p, nil
		}
	}
	if name == "" {
		return atoll.LoginProvider{}, fmt.Errorf("%w: the server has several login providers: choose one with --provider: %s", atoll.ErrInvalid, strings.Join(names, ", "))
	}
	return atoll.LoginProvider{}, fmt.Errorf("%w: login provider %q; the server has for the command line: %s", atoll.ErrNotFound, name, output.DashIfEmpty(strings.Join(names, ", ")))
}

// runDeviceFlow lets the user log in at a provider on any device (RFC 8628), and returns the ID token.
func (a commands) runDeviceFlow(ctx context.Context, p atoll.LoginProvider, tlsConfig *tls.Config) (string, error) {
	failed := func(err error) error {
		return fmt.Errorf("%w: the login provider %s (%s): %w", atoll.ErrUnavailable, output.Clean(p.Name), output.Clean(p.Issuer), err)
	}
	if err := identity.CheckURL(p.Issuer); err != nil {
		return "", failed(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if tlsConfig != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: tlsConfig.RootCAs, MinVersion: tls.VersionTLS12} // the client certificate is for the server only
	}
	ctx = oidc.ClientContext(ctx, &http.Client{Transport: transport, Timeout: loginRequestTimeout})
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return "", failed(err)
	}
	endpoint := found.Endpoint()
	if endpoint.DeviceAuthURL == "" {
		return "", fmt.Errorf("%w: the login provider %s has no device login: log in to the console, and use a token of it with --token-stdin", atoll.ErrUnsupported, output.Clean(p.Name))
	}
	endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has only its id
	c := &oauth2.Config{ClientID: p.ClientID, Endpoint: endpoint, Scopes: p.Scopes}
	begun, err := c.DeviceAuth(ctx)
	if err != nil {
		return "", failed(err)
	}
	fmt.Fprintf(a.Err, "Open %s and enter the code %s\n", output.Clean(begun.VerificationURI), output.Clean(begun.UserCode))
	if begun.VerificationURIComplete != "" {
		fmt.Fprintf(a.Err, "or open   %s\n", output.Clean(begun.VerificationURIComplete))
	}
	t, err := c.DeviceAccessToken(ctx, begun) // ends when the code expires
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return "", fmt.Errorf("%w: the login provider %s refused: %s", atoll.ErrDenied, output.Clean(p.Name), output.Clean(refused.ErrorCode))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return "", fmt.Errorf("%w: the code was not entered in time; try again", atoll.ErrTimeout)
	case err != nil:
		return "", failed(err)
	}
	idToken, _ := t.Extra("id_token").(string)
	if !identity.LooksLikeToken(idToken) {
		return "", failed(errors.New("its answer has no ID token"))
	}
	return idToken, nil
}

// revokeLogin revokes the token of a context, if it was given for a login.
func (a commands) revokeLogin(ctx context.Context, e config.Endpoint) error {
	if e.Token == "" {
		return nil
	}
	c, _, err := app.NewClient(e)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // only its idle connections
	ctx, cancel := context.WithTimeout(ctx, loginRequestTimeout)
	defer cancel()
	info, err := c.Info(ctx)
	if errors.Is(err, atoll.ErrDenied) {
		return nil // it has expired
	}
	if err != nil || info.Provider == "" || info.Token == "" {
		return err
	}
	return c.RevokeToken(ctx, info.Token)
}
