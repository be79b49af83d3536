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

// PullImage gets an image from its registry; what is there already is not
// fetched again. Who is asked for, and with which credentials, is read as by
// Docker. progress may be nil.
func (s *Store) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	parsed, err := parse(ref)
	if err != nil {
		return atoll.Image{}, err
	}
	unlock, err := s.open(ctx, unix.LOCK_SH)
	if err != nil {
		return atoll.Image{}, err
	}
	defer unlock()
	src, err := s.look(ctx, parsed)
	if err == nil {
		var im atoll.Image
		if im, err = s.install(ctx, s.recordPath(parsed), familiar(parsed), src, &reporter{f: progress}); err == nil {
			return im, nil
		}
	}
	return atoll.Image{}, fmt.Errorf("image %s: %w", familiar(parsed), timeout(ctx, err))
}

// Ensure returns an image that is there, or pulls it.
func (s *Store) Ensure(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	r, err := s.find(ref)
	if err == nil || !errors.Is(err, atoll.ErrNotFound) {
		return r.Image, err
	}
	return s.PullImage(ctx, ref, progress)
}

// look asks a registry for an image.
func (s *Store) look(ctx context.Context, ref name.Reference) (source, error) {
	repo := ref.Context()
	auth, err := authn.DefaultKeychain.Resolve(repo)
	if err != nil {
		return source{}, err
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, warden{newTransport(), repo.RegistryStr()}, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return source{}, reason(err)
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	im, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(rt), remote.WithPlatform(platform))
	if err != nil {
		return source{}, reason(err)
	}
	m, err := im.Manifest()
	if err != nil {
		return source{}, reason(err)
	}
	cf, err := im.ConfigFile()
	if err != nil {
		return source{}, reason(err)
	}
	digest, err := im.Digest()
	if err != nil {
		return source{}, reason(err)
	}
	src, err := sourceOf(digest.String(), cf, len(m.Layers))
	if err != nil {
		return source{}, err
	}
	client := &http.Client{Transport: rt}
	for i, l := range m.Layers {
		if l.Digest.Algorithm != "sha256" || l.Size < 0 {
			return source{}, fmt.Errorf("%w: a layer named %s", atoll.ErrUnsupported, l.Digest.Algorithm)
		}
		b := blob{client: client, url: fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repo.Scheme(), repo.RegistryStr(), repo.RepositoryStr(), l.Digest), digest: l.Digest.Hex, size: l.Size}
		src.layers[i].short, src.layers[i].size, src.layers[i].fetch = short(l.Digest.Hex), l.Size, b.fetch
	}
	return src, nil
}

// sourceOf is a source with as many layers, of which the names are known.
func sourceOf(digest string, cf *v1.ConfigFile, layers int) (source, error) {
	config, platform := describe(cf)
	if cf.OS != "" && cf.OS != "linux" || cf.Architecture != "" && cf.Architecture != runtime.GOARCH {
		return source{}, fmt.Errorf("%w: it is made for %s, this machine is linux/%s", atoll.ErrUnsupported, platform, runtime.GOARCH)
	}
	if n := len(cf.RootFS.DiffIDs); n != layers || n == 0 {
		return source{}, fmt.Errorf("%w: no image of a root file system: %d layers, %d named", atoll.ErrInvalid, layers, n)
	}
	src := source{digest: digest, platform: platform, created: cf.Created.Time, config: config, layers: make([]layer, layers)}
	for i, d := range cf.RootFS.DiffIDs {
		if b, err := hex.DecodeString(d.Hex); d.Algorithm != "sha256" || err != nil || len(b) != sha256.Size {
			return source{}, fmt.Errorf("%w: a layer named %q", atoll.ErrInvalid, clip(d.String()))
		}
		src.layers[i].diffID = d.Hex
	}
	return src, nil
}

// reason gives a registry's answer its sentinel.
func reason(err error) error {
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

// answerTime is how long a registry may take to begin an answer.
const answerTime = 30 * time.Second

func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: answerTime}).DialContext,
		TLSHandshakeTimeout:   answerTime,
		ResponseHeaderTimeout: answerTime,
		IdleConnTimeout:       answerTime,
		ForceAttemptHTTP2:     true,
	}
}

// warden refuses requests that a registry has no business to cause: without TLS,
// unless it is one of this machine, and to what only this machine reaches. A
// registry in a private network may have its tokens from there, too.
type warden struct {
	http.RoundTripper
	registry string // HOST or HOST:PORT
}

// RoundTrip makes a request or refuses it.
func (w warden) RoundTrip(r *http.Request) (*http.Response, error) {
	own := &url.URL{Host: w.registry}
	here := loopback(own)
	if r.URL.Scheme != "https" && !(here && loopback(r.URL)) {
		return nil, fmt.Errorf("%w: %s without TLS: registries but those of this machine need it", atoll.ErrDenied, r.URL.Host)
	}
	if !here && r.URL.Hostname() != own.Hostname() {
		if a, bad := inside(r.Context(), r.URL.Hostname(), r.Response != nil); bad {
			return nil, fmt.Errorf("%w: the registry %s leads to %s, which is %s", atoll.ErrDenied, w.registry, r.URL.Host, a)
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

// inside reports whether a host is this machine, or else, asked for private ones,
// in a private network. Who has a proxy may not know a name.
func inside(ctx context.Context, host string, private bool) (netip.Addr, bool) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, false // the dialling fails, too
	}
	for _, a := range list {
		a = a.Unmap()
		if !a.IsGlobalUnicast() || private && (a.IsPrivate() || shared.Contains(a)) { // loopback and link-local are not global
			return a, true
		}
	}
	return netip.Addr{}, false
}

// shared are the addresses of carriers, used inside.
var shared = netip.MustParsePrefix("100.64.0.0/10")

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// blob is a layer in a registry.
type blob struct {
	client *http.Client
	url    string
	digest string // hexadecimal
	size   int64
}

// tries is how often a download that stands still or breaks is taken up again.
const tries = 6

// firstWait is before the second try; it doubles.
const firstWait = 200 * time.Millisecond

// fetch downloads a blob to a file, goes on where an earlier try ended, and
// opens it once it is whole and right.
func (b blob) fetch(ctx context.Context, part string, report func(atoll.Progress)) (io.ReadCloser, error) {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := b.download(ctx, f, report); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (b blob) download(ctx context.Context, f *os.File, report func(atoll.Progress)) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := b.more(ctx, f, report)
		if err == nil {
			return b.verify(f)
		}
		if context.Cause(ctx) != nil {
			return timeout(ctx, context.Cause(ctx))
		}
		if try == tries || final(err) {
			return err
		}
		report(atoll.Progress{Message: "trying again: " + clip(err.Error()), Total: b.size})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return timeout(ctx, context.Cause(ctx))
		case <-timer.C:
		}
		wait *= 2
	}
}

// refusal is an answer of a registry that isn't the blob.
type refusal struct{ status int }

func (r refusal) Error() string { return "the registry answers " + http.StatusText(r.status) }

// Is makes it match its sentinel.
func (r refusal) Is(target error) bool {
	switch r.status {
	case http.StatusNotFound:
		return target == atoll.ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == atoll.ErrDenied
	}
	return target == atoll.ErrUnavailable
}

// final reports whether it is no use to try again.
func final(err error) bool {
	var r refusal
	return errors.Is(err, atoll.ErrQuota) || errors.Is(err, atoll.ErrDenied) || errors.Is(err, atoll.ErrInvalid) ||
		errors.As(err, &r) && r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests && r.status != http.StatusRequestTimeout
}

// more appends what is missing of the blob.
func (b blob) more(ctx context.Context, f *os.File, report func(atoll.Progress)) error {
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
		return reason(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
		have = 0 // it knows no ranges
	case resp.StatusCode != http.StatusPartialContent || have == 0:
		return refusal{resp.StatusCode}
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	stalled := time.AfterFunc(answerTime, func() { cancel(errors.New("the registry stands still")) })
	defer stalled.Stop()
	body := &meter{Reader: moving{resp.Body, stalled}, done: have, said: have, report: func(done int64) {
		report(atoll.Progress{Message: "downloading", Done: done, Total: b.size})
	}}
	n, err := io.Copy(f, io.LimitReader(body, b.size-have))
	if err != nil {
		return quota(errors.Join(err, context.Cause(ctx)))
	}
	if have+n < b.size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// moving puts off a timer as long as something comes.
type moving struct {
	io.Reader
	timer *time.Timer
}

func (m moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.timer.Reset(answerTime)
	}
	return n, err
}

// verify compares a whole blob with its name. One that differs is thrown away.
func (b blob) verify(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != b.digest {
		return errors.Join(fmt.Errorf("%w: the registry sent something else: %s, not %s", atoll.ErrInvalid, got, b.digest), f.Truncate(0))
	}
	return nil
}
