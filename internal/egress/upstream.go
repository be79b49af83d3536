package egress

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

// upstream is the configuration of the host's proxies, as in the environment of programs.
type upstream struct {
	HTTP    string `json:"http,omitempty"`    // HTTP_PROXY
	HTTPS   string `json:"https,omitempty"`   // HTTPS_PROXY
	NoProxy string `json:"noProxy,omitempty"` // NO_PROXY
}

// readUpstream reads the environment of the process that starts the proxy.
func readUpstream() upstream {
	env := httpproxy.FromEnvironment()
	return upstream{env.HTTPProxy, env.HTTPSProxy, env.NoProxy}
}

// proxyFor returns the proxy for connections to a host; nil: none.
func (u *upstream) proxyFor(host string, port uint16) (*url.URL, error) {
	for _, text := range []string{u.HTTP, u.HTTPS} {
		if !strings.Contains(text, "://") {
			text = "http://" + text // as httpproxy does
		}
		if _, err := url.Parse(text); err != nil { // httpproxy would connect directly
			return nil, errors.New("the upstream proxy of this host is not a URL") // without the password in it
		}
	}
	env := httpproxy.Config{HTTPProxy: u.HTTP, HTTPSProxy: u.HTTPS, NoProxy: u.NoProxy}
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

// dialUpstream connects to a host through a proxy of the host. The name is resolved and its addresses
// are checked here too. A name that no rule lists is not trusted to lead elsewhere there: the proxy
// gets the address that was checked. A listed name is passed on, since proxies decide by names and
// may be the only ones to resolve them; addr is invalid if it does not resolve here.
func (n *network) dialUpstream(ctx context.Context, proxy *url.URL, rules *policy.Rules, host string, port uint16) (_ net.Conn, addr netip.Addr, err error) {
	listed := rules.Lists(host, port)
	addrs, err := n.resolveHost(ctx, host)
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
	c, err := n.dialProxy(ctx, proxy)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("the upstream proxy %s: %w", proxy.Host, err)
	}
	if err := requestTunnel(ctx, c, proxy, net.JoinHostPort(target, strconv.Itoa(int(port)))); err != nil {
		_ = c.Close() // the error counts
		return nil, netip.Addr{}, fmt.Errorf("the upstream proxy %s: %w", proxy.Host, err)
	}
	return c, addr, nil
}

// dialProxy connects to a proxy of the host. The rules don't apply to it.
func (n *network) dialProxy(ctx context.Context, proxy *url.URL) (net.Conn, error) {
	host, port, err := splitHostPort(proxy.Host)
	if err != nil {
		return nil, err
	}
	addrs, err := n.resolveHost(ctx, host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for _, a := range addrs {
		var c net.Conn
		if c, err = n.dial(ctx, netip.AddrPortFrom(a, or80(port))); err == nil {
			return c, nil
		}
	}
	return nil, err
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
		return fmt.Errorf("it refused CONNECT to %s: %s", target, truncate(resp.Status))
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return c.SetDeadline(time.Time{})
}
