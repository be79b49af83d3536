// Package webhook sends signed messages to addresses that users choose, without giving them access
// to the networks of this host.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Limits of an attempt.
const (
	Timeout     = 10 * time.Second // of a whole attempt, from the name's resolution to the end of the answer
	maxResponse = 64 << 10         // bytes of an answer's body that are read, and discarded
	maxHeader   = 16 << 10         // bytes of an answer's header
	maxTried    = 4                // addresses of a host that are dialled
)

// Options configure a Sender.
type Options struct {
	// Allow lists addresses that are not public and that messages may be sent to, also over plain
	// HTTP.
	Allow []netip.Prefix

	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)         // nil: the resolver of this host
	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // nil: the network of this host
	TLS    *tls.Config                                                          // nil: the certificates of this host
	Now    func() time.Time                                                     // nil: time.Now
}

// Sender sends messages. Its methods may be called concurrently.
type Sender struct {
	opts   Options
	client *http.Client
}

// NewSender returns a sender. Close ends its idle connections.
func NewSender(o Options) *Sender {
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sender{opts: o}
	s.client = &http.Client{
		Timeout: Timeout,
		Transport: &http.Transport{ // without a proxy, which would resolve the name once more
			DialContext:            s.dial,
			TLSClientConfig:        o.TLS,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Close ends the idle connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// errRefused is the error of every host without an address that may be dialled. It names no address:
// the owner of a webhook must not learn the names and addresses of the networks of this host.
var errRefused = fmt.Errorf("%w: the host has no public address; the operator's setting webhooks.allow can allow others", atoll.ErrDenied)

// plainKey is the context key of the scheme of a request: true for plain HTTP.
type plainKey struct{}

// dial resolves the host of an address, checks its addresses and dials one that was checked. A name
// is resolved once for each connection, so that it can't lead elsewhere after the check.
func (s *Sender) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout) // the transport's context does not end with the request
	defer cancel()
	var list []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		list = []netip.Addr{a}
	} else if list, err = s.opts.Lookup(ctx, host); err != nil {
		return nil, errors.New("the name of the host could not be resolved") // the resolver's text may have names of this network
	}
	plain, _ := ctx.Value(plainKey{}).(bool)
	list = slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return !s.opts.allows(a, plain) })
	if len(list) > maxTried {
		list = list[:maxTried]
	}
	if plain && len(list) == 0 {
		return nil, errPlain
	}
	var failure error = errRefused
	for i, a := range list {
		c, err := s.dialInTime(ctx, network, net.JoinHostPort(a.Unmap().String(), port), len(list)-i)
		if err == nil {
			return c, nil
		}
		failure = err
	}
	return nil, failure
}

// dialInTime dials the first of some addresses, within its part of the time that ctx has left.
func (s *Sender) dialInTime(ctx context.Context, network, address string, addresses int) (net.Conn, error) {
	end, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(addresses))
	defer cancel()
	return s.opts.Dial(ctx, network, address)
}

// errPlain is the error of plain HTTP to an address that the operator has not allowed.
var errPlain = fmt.Errorf("%w: plain http is only for addresses of the operator's setting webhooks.allow: use https", atoll.ErrDenied)

// CheckURL reports whether a URL can't be sent to whatever its name resolves to: an address that may
// not be dialled, or plain HTTP where no address is allowed. Names are resolved by Send only.
func (o Options) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("%w: the URL is not valid", atoll.ErrInvalid)
	}
	plain := u.Scheme == "http"
	a, err := netip.ParseAddr(u.Hostname())
	switch {
	case err != nil && plain && len(o.Allow) == 0, err == nil && plain && !o.allows(a, true):
		return errPlain
	case err == nil && !o.allows(a, plain):
		return errRefused
	}
	return nil
}

// allows reports whether an address may be dialled.
func (o Options) allows(a netip.Addr, plain bool) bool {
	if a.Zone() != "" {
		return false
	}
	a = policy.UnwrapNAT64(a)
	for _, p := range o.Allow {
		if p.Contains(a) {
			return true
		}
	}
	return !plain && policy.IsPublic(a) && !isLocal(a)
}

// isLocal reports whether this host has an address: its services are not behind its network's firewall. It is true if
// the addresses can't be listed.
func isLocal(a netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list, func(l net.Addr) bool {
		n, ok := l.(*net.IPNet)
		if !ok {
			return false
		}
		b, ok := netip.AddrFromSlice(n.IP)
		return ok && b.Unmap() == a
	})
}

// Message is one attempt of a delivery.
type Message struct {
	URL    string
	Secret string
	ID     string // equal in all attempts
	Body   []byte
}

// Send sends a message, and returns the status of the answer; 0: there was none. Every status but
// those from 200 to 299 is an error.
func (s *Sender) Send(ctx context.Context, m Message) (status int, err error) {
	u, err := url.Parse(m.URL)
	if err != nil {
		return 0, errors.New("the URL is not valid")
	}
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, plainKey{}, u.Scheme == "http"), Timeout, fmt.Errorf("%w: no answer after %v", atoll.ErrTimeout, Timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, errors.New("the URL is not valid")
	}
	now := s.opts.Now()
	sign, err := Sign(m.Secret, m.ID, now, m.Body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "atoll-webhooks/1")
	r.Header.Set("Webhook-Id", m.ID)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", sign)
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, plainError(ctx, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxResponse)) // only to use the connection again
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return answer.StatusCode, nil
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return answer.StatusCode, fmt.Errorf("status %d: redirects are not followed: change the URL of the webhook", answer.StatusCode)
	}
	return answer.StatusCode, fmt.Errorf("status %d: must be 200 to 299", answer.StatusCode)
}

// plainError returns an error without the URL and addresses.
func plainError(ctx context.Context, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), atoll.ErrTimeout), isTimeout(err):
		return fmt.Errorf("%w: no answer after %v", atoll.ErrTimeout, Timeout)
	case errors.Is(err, atoll.ErrDenied):
		return err
	case errors.As(err, &cert):
		return fmt.Errorf("the certificate is not valid: %w", cert.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return errors.New("the connection was refused, or the host can't be reached")
	case errors.As(err, &op):
		return errors.New("the connection was lost")
	}
	return errors.New("the answer is not one of HTTP") // the text may quote an answer of another protocol, or have addresses
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// secretPrefix begins every secret, as the specification Standard Webhooks has it.
const secretPrefix = "whsec_"

// NewSecret returns a new secret of a webhook.
func NewSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b)
}

// Sign returns the value of the header Webhook-Signature: "v1," and the HMAC-SHA256 of the id, the
// time in seconds and the body, with dots between them.
func Sign(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(key) < 24 {
		return "", errors.New("the secret of the webhook is damaged: renew it")
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%d.", id, at.Unix())
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}
