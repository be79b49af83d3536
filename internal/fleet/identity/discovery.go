package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/atoll-sandbox/atoll"
)

// Limits of requests to a provider.
const (
	providerTimeout = 10 * time.Second
	maxDocument     = 1 << 20 // bytes of an answer
)

// anyAge is the age of a discovery document that is never too old.
const anyAge = time.Duration(math.MaxInt64)

// boundedTransport bounds the answers of a provider.
type boundedTransport struct{ inner http.RoundTripper }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxDocument), resp.Body}
	}
	return resp, err
}

// httpClient returns the client for requests to the provider. The caller holds mu.
func (p *provider) httpClient() (*http.Client, error) {
	if p.client != nil {
		return p.client, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return nil, p.unavailable(err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, p.unavailable(errors.New(p.CA + " holds no certificate in PEM form"))
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p.client = &http.Client{Transport: boundedTransport{transport}, Timeout: providerTimeout}
	return p.client, nil
}

// unavailable is the error of a provider that can't be used now.
func (p *provider) unavailable(err error) error {
	return fmt.Errorf("%w: the login provider %s (%s): %w", atoll.ErrUnavailable, p.name, p.Issuer, err)
}

// readKeys reads the keys from their file or from the provider.
func (p *provider) readKeys(ctx context.Context) ([]byte, error) {
	if p.KeysFile != "" {
		b, err := os.ReadFile(p.KeysFile)
		if err != nil {
			return nil, p.unavailable(err)
		}
		return b, nil
	}
	doc, client, err := p.discover(ctx, anyAge)
	if err != nil {
		return nil, err
	}
	var about struct {
		Keys string `json:"jwks_uri"`
	}
	if err := doc.Claims(&about); err != nil {
		return nil, p.unavailable(err)
	}
	if err := checkURL("jwks_uri", about.Keys); err != nil {
		return nil, p.unavailable(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, about.Keys, nil)
	if err != nil {
		return nil, p.unavailable(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, p.unavailable(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("its keys: %s", resp.Status)
	}
	if err != nil {
		return nil, p.unavailable(err)
	}
	return b, nil
}

// discover returns the discovery document of the provider, which is read once, or again if that is older than age. An
// attempt is not repeated for keyInterval.
func (p *provider) discover(ctx context.Context, age time.Duration) (*oidc.Provider, *http.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	client, err := p.httpClient()
	if err != nil {
		return nil, nil, err
	}
	since := p.now().Sub(p.tried)
	if p.document != nil && p.err == nil && since < age || p.document != nil && age == anyAge {
		return p.document, client, nil
	}
	if p.err != nil && since < keyInterval {
		return nil, nil, p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout) // others wait for it, too
	defer cancel()
	doc, err := oidc.NewProvider(oidc.ClientContext(ctx, client), p.Issuer)
	p.tried, p.err = p.now(), nil
	if err != nil {
		p.err = p.unavailable(err)
		return nil, nil, p.err
	}
	p.document = doc
	return doc, client, nil
}

// Check reads the keys of every provider and returns the error of each that can't be used.
func (v *Verifier) Check(ctx context.Context) map[string]error {
	found := make(map[string]error)
	if v == nil {
		return found
	}
	for _, name := range slices.Sorted(maps.Keys(v.providers)) {
		p := v.providers[name]
		_, err := p.keys.currentKeys(ctx, false)
		if err == nil && p.ClientSecretFile != "" {
			_, err = p.clientSecret()
		}
		found[name] = err
	}
	return found
}
