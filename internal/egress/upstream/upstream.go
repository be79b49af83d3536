// Package upstream connects through an HTTP proxy of the host's network, if its administrator demands one.
package upstream

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Config is the configuration of the HTTP proxy through which connections leave the host.
type Config struct {
	Proxy   string   // http://[USER:PASSWORD@]HOST:PORT; None: no proxy; empty: as in the environment of this process
	NoProxy []string // with Proxy: hosts that are reached directly, as in the variable NO_PROXY
}

// None is the Proxy of a [Config] that uses none, whatever the environment contains.
const None = "none"

// Check reports what is wrong with the configuration, without the password in it.
func (c Config) Check() error {
	switch c.Proxy {
	case None:
		return nil
	case "":
		if len(c.NoProxy) > 0 {
			return fmt.Errorf("%w: hosts that are reached without the upstream proxy, but none is configured", atoll.ErrInvalid)
		}
		return nil
	}
	return CheckProxy(c.Proxy)
}

// CheckProxy reports a text that is not the URL of a proxy, without the password in it.
func CheckProxy(text string) error {
	proxy, err := url.Parse(text)
	if err == nil && proxy.Scheme == "http" && (proxy.Path == "" || proxy.Path == "/") && proxy.RawQuery == "" && proxy.Fragment == "" {
		if _, _, err = splitProxy(proxy); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: an upstream proxy must be http://[USER:PASSWORD@]HOST:PORT", atoll.ErrInvalid)
}

// Compile returns the proxies to use: the configured one, or those of the environment of this process.
func (c Config) Compile() Proxies {
	switch c.Proxy {
	case None:
		return Proxies{}
	case "":
		env := httpproxy.FromEnvironment()
		return Proxies{env.HTTPProxy, env.HTTPSProxy, env.NoProxy}
	}
	return Proxies{c.Proxy, c.Proxy, strings.Join(c.NoProxy, ",")}
}

// Proxies are the proxies of the host, as in the environment of programs.
type Proxies struct {
	HTTP    string `json:"http,omitempty"`    // HTTP_PROXY
	HTTPS   string `json:"https,omitempty"`   // HTTPS_PROXY
	NoProxy string `json:"noProxy,omitempty"` // NO_PROXY
}

// ProxyFor returns the proxy for connections to a host; nil: none.
func (p Proxies) ProxyFor(host string, port uint16) (*url.URL, error) {
	for _, text := range []string{p.HTTP, p.HTTPS} {
		if !strings.Contains(text, "://") {
			text = "http://" + text // as httpproxy does
		}
		if _, err := url.Parse(text); err != nil { // httpproxy would connect directly
			return nil, errors.New("the upstream proxy of this host is not a URL") // without the password in it
		}
	}
	env := httpproxy.Config{HTTPProxy: p.HTTP, HTTPSProxy: p.HTTPS, NoProxy: p.NoProxy}
	target := &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
	if port == 80 {
		target.Scheme = "http"
	}
	proxy, err := env.ProxyFunc()(target)
	switch {
	case err != nil:
		return nil, errors.New("the upstream proxy of this host is not a URL") // likewise
	case proxy != nil && proxy.Scheme != "http":
		return nil, fmt.Errorf("the upstream proxy of this host must be http://HOST:PORT, not %s://", proxy.Scheme)
	}
	return proxy, nil
}

// Dialer connects through proxies.
type Dialer struct {
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Limits of connections to a proxy.
const (
	dialTimeout = 15 * time.Second // for one address, and for the response
	maxHead     = 64 << 10         // bytes of the head of a response
)

// DialAllowed connects to a host through a proxy. The name is resolved and its addresses are checked here,
// too. A name that no rule lists is not trusted to lead elsewhere there: the proxy gets the address that
// was checked. A listed name is passed on, since proxies decide by names and may be the only ones to
// resolve them; addr is invalid if it does not resolve here.
func (d *Dialer) DialAllowed(ctx context.Context, proxy *url.URL, rules *policy.Rules, host string, port uint16) (_ net.Conn, addr netip.Addr, err error) {
	listed := rules.Lists(host, port)
	addrs, err := d.Resolve(ctx, host)
	if err != nil && !listed {
		return nil, addr, err
	}
	var refused error
	for _, a := range addrs {
		v := rules.CheckAddress(host, a, port)
		if v.Allowed {
			addr = a
			break
		}
		refused = v.Err()
	}
	target := host
	switch {
	case !addr.IsValid() && refused != nil:
		return nil, addr, refused
	case !addr.IsValid() && !listed:
		return nil, addr, fmt.Errorf("%w: %s has no address", atoll.ErrNotFound, host)
	case !listed:
		target = addr.String()
	}
	c, err := d.connectProxy(ctx, proxy)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("the upstream proxy %s: %w", proxy.Host, err)
	}
	if err := requestTunnel(ctx, c, proxy, net.JoinHostPort(target, strconv.Itoa(int(port)))); err != nil {
		_ = c.Close() // the error counts
		return nil, netip.Addr{}, fmt.Errorf("the upstream proxy %s: %w", proxy.Host, err)
	}
	return c, addr, nil
}

// connectProxy connects to a proxy. The rules don't apply to it.
func (d *Dialer) connectProxy(ctx context.Context, proxy *url.URL) (net.Conn, error) {
	host, port, err := splitProxy(proxy)
	if err != nil {
		return nil, err
	}
	addrs, err := d.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err = fmt.Errorf("%w: %s has no address", atoll.ErrNotFound, host)
	for _, a := range addrs {
		var c net.Conn
		if c, err = d.Dial(ctx, netip.AddrPortFrom(a, port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// splitProxy returns the host and the port of a proxy.
func splitProxy(proxy *url.URL) (host string, port uint16, err error) {
	if host, err = policy.CanonicalHost(proxy.Hostname()); err != nil {
		return "", 0, errors.New("its host is not a name or an address")
	}
	if proxy.Port() == "" {
		return host, 80, nil
	}
	n, err := strconv.ParseUint(proxy.Port(), 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("its port is not 1 to 65535")
	}
	return host, uint16(n), nil
}

// requestTunnel sends CONNECT and reads the response, and no byte more.
func requestTunnel(ctx context.Context, c net.Conn, proxy *url.URL, target string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(dialTimeout)) // a closed connection fails below
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return err
	}
	var head []byte
	for b := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, b[0]) {
		if len(head) > maxHead {
			return errors.New("the head of its response is too long")
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(head))), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return errors.New("its response is not HTTP")
	}
	_ = resp.Body.Close() // it is empty
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it refused CONNECT to %s: %s", target, resp.Status[:min(len(resp.Status), 200)])
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return c.SetDeadline(time.Time{})
}
