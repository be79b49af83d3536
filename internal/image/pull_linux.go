package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// PullImage pulls an image from its registry; layers that are installed are not fetched again.
// Registry and credentials are found as Docker does it. progress may be nil.
func (s *Store) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	parsed, err := parseReference(ref)
	if err != nil {
		return atoll.Image{}, err
	}
	if err := s.RemoveUnfinished(); err != nil {
		return atoll.Image{}, err
	}
	unlock, err := s.lockStore(ctx, unix.LOCK_SH)
	if err != nil {
		return atoll.Image{}, err
	}
	defer unlock()
	src, err := s.resolveSource(ctx, parsed)
	if err == nil {
		var im atoll.Image
		if im, err = s.installSource(ctx, recordName(parsed), familiarName(parsed), src, &reporter{f: progress}); err == nil {
			return im, nil
		}
	}
	return atoll.Image{}, fmt.Errorf("image %s: %w", familiarName(parsed), wrapTimeout(ctx, err))
}

// Ensure returns an installed image, or pulls it.
func (s *Store) Ensure(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	r, err := s.findRecord(ref)
	if err == nil || !errors.Is(err, atoll.ErrNotFound) {
		return r.Image, err
	}
	return s.PullImage(ctx, ref, progress)
}

// resolveSource resolves an image at its registry.
func (s *Store) resolveSource(ctx context.Context, ref name.Reference) (source, error) {
	repo := ref.Context()
	auth, err := authn.DefaultKeychain.Resolve(repo)
	if err != nil {
		return source{}, err
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, restrictedTransport{newTransport(), repo.RegistryStr()}, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return source{}, wrapRegistryError(err)
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	im, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(rt), remote.WithPlatform(platform))
	if err != nil {
		return source{}, wrapRegistryError(err)
	}
	m, err := im.Manifest()
	if err != nil {
		return source{}, wrapRegistryError(err)
	}
	cf, err := im.ConfigFile()
	if err != nil {
		return source{}, wrapRegistryError(err)
	}
	digest, err := im.Digest()
	if err != nil {
		return source{}, wrapRegistryError(err)
	}
	src, err := newSource(digest.String(), cf, len(m.Layers))
	if err != nil {
		return source{}, err
	}
	client := &http.Client{Transport: rt}
	for i, l := range m.Layers {
		if l.Digest.Algorithm != "sha256" || l.Size < 0 {
			return source{}, fmt.Errorf("%w: a layer named %s", atoll.ErrUnsupported, l.Digest.Algorithm)
		}
		b := blob{client: client, url: fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repo.Scheme(), repo.RegistryStr(), repo.RepositoryStr(), l.Digest), digest: l.Digest.Hex, size: l.Size}
		src.layers[i].short, src.layers[i].size, src.layers[i].fetch = shortDigest(l.Digest.Hex), l.Size, b.openBlob
	}
	return src, nil
}

// newSource returns a source with the configuration and the layers' digests.
func newSource(digest string, cf *v1.ConfigFile, layers int) (source, error) {
	config, platform := convertConfig(cf)
	if cf.OS != "" && cf.OS != "linux" || cf.Architecture != "" && cf.Architecture != runtime.GOARCH {
		return source{}, fmt.Errorf("%w: it is built for %s, this host is linux/%s", atoll.ErrUnsupported, platform, runtime.GOARCH)
	}
	if n := len(cf.RootFS.DiffIDs); n != layers || n == 0 {
		return source{}, fmt.Errorf("%w: not an image of a root file system: %d layers, %d layer digests", atoll.ErrInvalid, layers, n)
	}
	src := source{digest: digest, platform: platform, created: cf.Created.Time, config: config, layers: make([]layer, layers)}
	for i, d := range cf.RootFS.DiffIDs {
		if b, err := hex.DecodeString(d.Hex); d.Algorithm != "sha256" || err != nil || len(b) != sha256.Size {
			return source{}, fmt.Errorf("%w: a layer named %q", atoll.ErrInvalid, clipText(d.String()))
		}
		src.layers[i].diffID = d.Hex
	}
	return src, nil
}

// wrapRegistryError adds a sentinel error to a registry's error.
func wrapRegistryError(err error) error {
	var t *transport.Error
	switch {
	case errors.Is(err, atoll.ErrDenied):
		return err
	case !errors.As(err, &t):
		return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	case t.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	case t.StatusCode == http.StatusUnauthorized || t.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %w", atoll.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}

// answerTimeout is the time limit until a registry begins to respond.
const answerTimeout = 30 * time.Second

func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: answerTimeout}).DialContext,
		TLSHandshakeTimeout:   answerTimeout,
		ResponseHeaderTimeout: answerTimeout,
		IdleConnTimeout:       answerTimeout,
		ForceAttemptHTTP2:     true,
	}
}

// restrictedTransport refuses requests that a registry must not cause: requests without TLS, unless
// the registry is on this host, and requests to addresses that only this host can reach. A registry
// in a private network may have its token server there.
type restrictedTransport struct {
	http.RoundTripper
	registry string // HOST or HOST:PORT
}

// RoundTrip sends a request, or refuses it with ErrDenied.
func (w restrictedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	own := &url.URL{Host: w.registry}
	here := isLoopback(own)
	if r.URL.Scheme != "https" && !(here && isLoopback(r.URL)) {
		return nil, fmt.Errorf("%w: %s without TLS: only registries on this host are used without it", atoll.ErrDenied, r.URL.Host)
	}
	if !here && r.URL.Hostname() != own.Hostname() {
		if a, bad := isInternalHost(r.Context(), r.URL.Hostname(), r.Response != nil); bad {
			return nil, fmt.Errorf("%w: the registry %s leads to %s, which is %s", atoll.ErrDenied, w.registry, r.URL.Host, a)
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

// isInternalHost reports whether a host name resolves to this host or, if private is set, to a
// private network. A name that does not resolve is not internal: it may be known to the proxy only.
func isInternalHost(ctx context.Context, host string, private bool) (netip.Addr, bool) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, false // dialing fails too
	}
	for _, a := range list {
		a = a.Unmap()
		if !a.IsGlobalUnicast() || private && (a.IsPrivate() || carrierNAT.Contains(a)) { // loopback and link-local addresses are not global
			return a, true
		}
	}
	return netip.Addr{}, false
}

// carrierNAT is the address range of carrier-grade NAT.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// blob is a layer at a registry.
type blob struct {
	client *http.Client
	url    string
	digest string // hexadecimal
	size   int64
}

// maxTries limits the tries of a download that stalls or breaks.
const maxTries = 6

// firstPause is the pause before the second try; it doubles each time.
const firstPause = 200 * time.Millisecond

// openBlob downloads a blob to a file, from where an earlier try ended, verifies it, and opens it.
func (b blob) openBlob(ctx context.Context, part string, report func(atoll.Progress)) (io.ReadCloser, error) {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := b.downloadAll(ctx, f, report); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (b blob) downloadAll(ctx context.Context, f *os.File, report func(atoll.Progress)) error {
	wait := firstPause
	for try := 1; ; try++ {
		err := b.downloadRest(ctx, f, report)
		if err == nil {
			return b.verifyDigest(f)
		}
		if context.Cause(ctx) != nil {
			return wrapTimeout(ctx, context.Cause(ctx))
		}
		if try == maxTries || isPermanent(err) {
			return err
		}
		report(atoll.Progress{Message: "trying again: " + clipText(err.Error()), Total: b.size})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return wrapTimeout(ctx, context.Cause(ctx))
		case <-timer.C:
		}
		wait *= 2
	}
}

// statusError is an error response of a registry.
type statusError struct{ status int }

func (r statusError) Error() string { return "the registry responded " + http.StatusText(r.status) }

// Is reports whether the error matches the sentinel error of its status.
func (r statusError) Is(target error) bool {
	switch r.status {
	case http.StatusNotFound:
		return target == atoll.ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == atoll.ErrDenied
	}
	return target == atoll.ErrUnavailable
}

// isPermanent reports whether another try would fail too.
func isPermanent(err error) bool {
	var r statusError
	return errors.Is(err, atoll.ErrQuota) || errors.Is(err, atoll.ErrDenied) || errors.Is(err, atoll.ErrInvalid) ||
		errors.As(err, &r) && r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests && r.status != http.StatusRequestTimeout
}

// downloadRest appends the missing bytes of the blob.
func (b blob) downloadRest(ctx context.Context, f *os.File, report func(atoll.Progress)) error {
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil || have == b.size {
		return err
	}
	if have > b.size {
		have = 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", have, b.size-1))
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return wrapRegistryError(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
		have = 0 // it does not support ranges
	case resp.StatusCode != http.StatusPartialContent || have == 0:
		return statusError{resp.StatusCode}
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	stalled := time.AfterFunc(answerTimeout, func() { cancel(errors.New("the registry stopped sending")) })
	defer stalled.Stop()
	body := &progressReader{Reader: stallReader{resp.Body, stalled}, done: have, reported: have, report: func(done int64) {
		report(atoll.Progress{Message: "downloading", Done: done, Total: b.size})
	}}
	n, err := io.Copy(f, io.LimitReader(body, b.size-have))
	if err != nil {
		return wrapDiskFull(errors.Join(err, context.Cause(ctx)))
	}
	if have+n < b.size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// stallReader resets a timer whenever bytes arrive.
type stallReader struct {
	io.Reader
	timer *time.Timer
}

func (m stallReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.timer.Reset(answerTimeout)
	}
	return n, err
}

// verifyDigest compares the digest of a complete blob. A wrong blob is discarded.
func (b blob) verifyDigest(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != b.digest {
		return errors.Join(fmt.Errorf("%w: the registry sent wrong content: digest %s, want %s", atoll.ErrInvalid, got, b.digest), f.Truncate(0))
	}
	return nil
}
