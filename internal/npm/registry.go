// Package npm gets packages from the npm registry without npm: their content is
// checked against the registry's digest, unpacked, and nothing of it is run.
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

// DefaultRegistry is where packages come from if nobody says otherwise.
const DefaultRegistry = "https://registry.npmjs.org/"

// Bounds of what a registry may send.
const (
	maxManifest = 4 << 20     // bytes of what it says of one version
	maxPacked   = 1 << 30     // bytes of a package
	maxUnpacked = 4 << 30     // bytes of its files
	maxFiles    = 100_000     // in a package
	maxPath     = 1024        // bytes of a file's name
	headerTime  = time.Minute // until it begins to answer
)

// Registry is a place that packages come from. The zero Registry is npm's own.
type Registry struct {
	URL    string            // empty: DefaultRegistry
	Scopes map[string]string // registries of packages whose names begin with "@scope/"
	Tokens map[string]string // bearer tokens, by the beginning of URLs without their scheme: "//host/path/"
	Client *http.Client      // nil: one that takes its proxy from the environment
}

// dist is what a registry says of a version's content.
type dist struct {
	Tarball   string `json:"tarball"`
	Integrity string `json:"integrity"`
	Unpacked  int64  `json:"unpackedSize"`
}

// manifest is what a registry says of a version, as far as it is needed.
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

// check reports a name or version that no package has.
func (p Package) check() error {
	name := p.Name
	if scope, rest, ok := strings.Cut(p.Name, "/"); ok && strings.HasPrefix(scope, "@") {
		if name = rest; !word(scope[1:]) {
			name = ""
		}
	}
	if !word(name) || len(p.Name) > 214 || !word(p.Version) || len(p.Version) > 256 {
		return fmt.Errorf("%w: %q is no version of a package", atoll.ErrInvalid, p.String())
	}
	return nil
}

// word reports whether s is a name that may be part of a path.
func word(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-._+~", c) < 0 {
			return false
		}
	}
	return s != "" && s[0] != '.'
}

// base returns the registry of a package.
func (r *Registry) base(name string) string {
	base := r.URL
	if scope, _, ok := strings.Cut(name, "/"); ok && r.Scopes[scope] != "" {
		base = r.Scopes[scope]
	}
	if base == "" {
		base = DefaultRegistry
	}
	return strings.TrimSuffix(base, "/") + "/"
}

// look asks the registry for a version.
func (r *Registry) look(ctx context.Context, p Package) (*manifest, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	resp, err := r.get(ctx, r.base(p.Name)+strings.ReplaceAll(p.Name, "/", "%2f")+"/"+url.PathEscape(p.Version))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: the registry says more than %d bytes of it", atoll.ErrQuota, maxManifest)
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

// get asks for a URL. Who gets the answer closes its body.
func (r *Registry) get(ctx context.Context, address string) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%w: the registry's address %q: must be https://…", atoll.ErrInvalid, address)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	if t := r.token(u); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	resp, err := r.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close() // what it says is for machines
	reason := atoll.ErrUnavailable
	switch resp.StatusCode {
	case http.StatusNotFound:
		reason = atoll.ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		reason = atoll.ErrDenied
	}
	return nil, fmt.Errorf("%w: %s answers %s", reason, u.Host, resp.Status)
}

// token returns the token for an address: that of the longest beginning.
func (r *Registry) token(u *url.URL) string {
	best, token := "", ""
	for prefix, t := range r.Tokens {
		if at := "//" + u.Host + u.EscapedPath(); strings.HasPrefix(at, strings.TrimSuffix(prefix, "/")+"/") && len(prefix) > len(best) {
			best, token = prefix, t
		}
	}
	return token
}

func (r *Registry) client() *http.Client {
	if r.Client != nil {
		return r.Client
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = headerTime
	return &http.Client{Transport: t, CheckRedirect: stayEncrypted}
}

// stayEncrypted lets nobody lead a request from https to http.
func stayEncrypted(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("more than 10 redirections")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %s leads to %s, which is not encrypted", atoll.ErrDenied, via[0].URL.Host, req.URL.Host)
	}
	return nil
}
