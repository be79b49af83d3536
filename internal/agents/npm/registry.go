// Package npm downloads packages from the npm registry without npm. It verifies
// their content against the registry's digest, unpacks it, and runs none of it.
package npm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// DefaultRegistry is the registry of packages without another one.
const DefaultRegistry = "https://registry.npmjs.org/"

// Limits of a registry's responses.
const (
	maxManifest   = 4 << 20     // bytes of the manifest of one version
	maxPacked     = 1 << 30     // bytes of a package
	maxUnpacked   = 4 << 30     // bytes of its files
	maxFiles      = 100_000     // in a package
	maxPath       = 1024        // bytes of a file's name
	headerTimeout = time.Minute // until the response's header
)

// Registry is a package registry. The zero Registry is npm's own.
type Registry struct {
	URL    string            // empty: DefaultRegistry
	Scopes map[string]string // registries of packages whose names begin with "@scope/"
	Tokens map[string]string // bearer tokens, by the prefix of URLs without their scheme: "//host/path/"
	Client *http.Client      // nil: a client with the proxy from the environment
}

// dist describes the content of a version.
type dist struct {
	Tarball   string `json:"tarball"`
	Integrity string `json:"integrity"`
	Unpacked  int64  `json:"unpackedSize"`
}

// manifest has the needed members of a version's manifest.
type manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Dist    dist   `json:"dist"`
}

// Package is a version of a package.
type Package struct {
	Name    string // "@scope/name", or "name"
	Version string // or a tag, such as "latest"
}

// String returns "name@version".
func (p Package) String() string { return p.Name + "@" + p.Version }

// check returns ErrInvalid for a name or version that no package can have.
func (p Package) check() error {
	name := p.Name
	if scope, rest, ok := strings.Cut(p.Name, "/"); ok && strings.HasPrefix(scope, "@") {
		if name = rest; !isPlainName(scope[1:]) {
			name = ""
		}
	}
	if !isPlainName(name) || len(p.Name) > 214 || !isPlainName(p.Version) || len(p.Version) > 256 {
		return fmt.Errorf("%w: %q is not a valid package version", atoll.ErrInvalid, p.String())
	}
	return nil
}

// isPlainName reports whether s is safe as an element of a path.
func isPlainName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-._+~", c) < 0 {
			return false
		}
	}
	return s != "" && s[0] != '.'
}

// baseURL returns the registry's URL for a package.
func (r *Registry) baseURL(name string) string {
	base := r.URL
	if scope, _, ok := strings.Cut(name, "/"); ok && r.Scopes[scope] != "" {
		base = r.Scopes[scope]
	}
	if base == "" {
		base = DefaultRegistry
	}
	return strings.TrimSuffix(base, "/") + "/"
}

// fetchManifest fetches the manifest of a version.
func (r *Registry) fetchManifest(ctx context.Context, p Package) (*manifest, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	resp, err := r.get(ctx, r.baseURL(p.Name)+strings.ReplaceAll(p.Name, "/", "%2f")+"/"+url.PathEscape(p.Version))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: its manifest has more than %d bytes", atoll.ErrQuota, maxManifest)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: the registry's answer: %w", atoll.ErrUnavailable, err)
	}
	got := Package{m.Name, m.Version}
	if err := got.check(); err != nil || m.Name != p.Name || m.Dist.Tarball == "" {
		return nil, fmt.Errorf("%w: the registry answers with %q", atoll.ErrUnavailable, got)
	}
	return &m, nil
}

// get requests a URL. The caller closes the response's body.
func (r *Registry) get(ctx context.Context, address string) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%w: the registry's address %q: must be https://…", atoll.ErrInvalid, address)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	if t := r.tokenFor(u); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	resp, err := r.httpClient().Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close() // the status is enough
	reason := atoll.ErrUnavailable
	switch resp.StatusCode {
	case http.StatusNotFound:
		reason = atoll.ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		reason = atoll.ErrDenied
	}
	return nil, fmt.Errorf("%w: %s answers %s", reason, u.Host, resp.Status)
}

// tokenFor returns the token for a URL: that of the longest matching prefix.
func (r *Registry) tokenFor(u *url.URL) string {
	best, token := "", ""
	for prefix, t := range r.Tokens {
		if at := "//" + u.Host + u.EscapedPath(); strings.HasPrefix(at, strings.TrimSuffix(prefix, "/")+"/") && len(prefix) > len(best) {
			best, token = prefix, t
		}
	}
	return token
}

func (r *Registry) httpClient() *http.Client {
	if r.Client != nil {
		return r.Client
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = headerTimeout
	return &http.Client{Transport: t, CheckRedirect: refuseDowngrade}
}

// refuseDowngrade refuses redirects from https to http, and more than ten redirects.
func refuseDowngrade(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("more than 10 redirections")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %s leads to %s, which is not encrypted", atoll.ErrDenied, via[0].URL.Host, req.URL.Host)
	}
	return nil
}
