package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	portforwardwords "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// tunnelTimeout bounds how long the cluster may take to open a tunnel.
const tunnelTimeout = 15 * time.Second

// openTunnel connects to a port on the loopback of a pod, through the API server and the kubelet: over a
// WebSocket, or over SPDY if WebSockets do not work.
func (t *target) openTunnel(ctx context.Context, pod string, port int) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tunnelTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, tunnelTimeout))
	defer cancel()
	err = t.retryUnknownPod(ctx, pod, func(ctx context.Context) (err error) {
		conn, err = t.tryTunnel(ctx, pod, port)
		return err
	})
	return conn, err
}

// tryTunnel is openTunnel without repetitions.
func (t *target) tryTunnel(ctx context.Context, pod string, port int) (net.Conn, error) {
	u := t.core.RESTClient().Get().Resource("pods").Namespace(t.namespace).Name(pod).SubResource("portforward").URL()
	var way io.ReadWriteCloser
	var err error
	if !t.access.needsSPDY() {
		way, err = dialWebSocket(ctx, t.config, u)
	}
	if way == nil {
		var again error
		way, again = dialSPDY(ctx, t.config, u)
		if again == nil && err != nil {
			t.access.noteNeedsSPDY() // so that WebSockets are not tried again
		}
		if err = again; err != nil {
			return nil, fmt.Errorf("the tunnel to the pod: %w", errors.Join(context.Cause(ctx), markError(err)))
		}
	}
	conn, err := openPort(ctx, way, port)
	if err != nil {
		return nil, fmt.Errorf("the tunnel to the pod: %w", errors.Join(context.Cause(ctx), err))
	}
	return conn, nil
}

// dialWebSocket opens an SPDY connection in a WebSocket, which Kubernetes 1.31 and later support.
func dialWebSocket(ctx context.Context, config *rest.Config, u *url.URL) (io.ReadWriteCloser, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, req, portforwardwords.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	return portforward.NewTunnelingConnection("atoll", conn), nil
}

// dialSPDY opens an SPDY connection by upgrading an HTTP connection.
func dialSPDY(ctx context.Context, config *rest.Config, u *url.URL) (io.ReadWriteCloser, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tls != nil {
		tls.NextProtos = []string{"http/1.1"}
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: tls, Proxy: proxy, DialContext: config.Dial, DisableKeepAlives: true})
	if err != nil {
		return nil, err
	}
	// The connection ends with its request's context.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	way, err := requestUpgrade(lasting, transport, u)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = errors.Join(context.Cause(ctx), way.Close())
		}
		return nil, err
	}
	return &upgradedConn{way, cancel}, nil
}

// upgradedConn is a connection that was upgraded from HTTP.
type upgradedConn struct {
	io.ReadWriteCloser
	cancel context.CancelFunc
}

// Close closes the connection at once.
func (c *upgradedConn) Close() error {
	c.cancel()
	return c.ReadWriteCloser.Close()
}

func requestUpgrade(ctx context.Context, transport http.RoundTripper, u *url.URL) (io.ReadWriteCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	req.Header.Set(httpstream.HeaderProtocolVersion, portforward.PortForwardProtocolV1Name)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	way, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode == http.StatusSwitchingProtocols && ok && strings.EqualFold(resp.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
		return way, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	if err := refusedUpgrade(resp.StatusCode, fmt.Sprintf("%.200s", text)); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: the API server answers %s: %.200q", atoll.ErrUnavailable, resp.Status, text)
}

// openPort connects to a port at the other end of an SPDY connection, which it owns from then on.
func openPort(ctx context.Context, way io.ReadWriteCloser, port int) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = way.Close() })
	c := &forwardedConn{conn: way, r: bufio.NewReaderSize(way, 64<<10), port: port}
	c.notFull.L = &c.mu
	err := c.openStreams()
	if !stop() || err != nil {
		return nil, errors.Join(err, way.Close())
	}
	c.mu.Lock()
	c.pinger = time.AfterFunc(pingPeriod, c.sendPing)
	c.mu.Unlock()
	return c, nil
}

// connectOrExplain returns a stream to the pod's guest on which the host has authenticated itself, or why
// there is none.
func (p *pod) connectOrExplain(ctx context.Context) (net.Conn, error) {
	if conn := p.route.takeFirst(); conn != nil {
		return conn, nil
	}
	conn, err := p.connectGuest(ctx)
	if err != nil && ctx.Err() == nil {
		if why := p.explainUnreachable(ctx); why != nil {
			return nil, why
		}
		conn, err = p.connectResent(ctx, err)
		if errors.Is(err, atoll.ErrNotFound) { // while the node, or the API, was restarted
			err = fmt.Errorf("%w: its node did not know its pod: %v", atoll.ErrUnavailable, err) //nolint:errorlint // the pod exists
		}
	}
	if err == nil {
		_ = p.ensureProxy(ctx) // without one nothing is reached, and CheckNetwork reports it
	}
	return conn, err
}

// connectResent connects to the guest of a pod that runs, after a first attempt has failed, if the guest was
// never sent.
func (p *pod) connectResent(ctx context.Context, failure error) (net.Conn, error) {
	if errors.Is(failure, atoll.ErrDenied) {
		return nil, failure
	}
	if sent, err := p.resendGuest(ctx); !sent || err != nil {
		return nil, failure
	}
	found, err := p.get(ctx)
	if err == nil {
		err = p.waitForGuest(ctx, found)
	}
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	if conn := p.route.takeFirst(); conn != nil {
		return conn, nil
	}
	return p.connectGuest(ctx)
}

// connectGuest opens the stream, directly if it can.
func (p *pod) connectGuest(ctx context.Context) (net.Conn, error) {
	key, err := p.d.hostKey()
	if err != nil {
		return nil, err
	}
	if conn := p.dialKnownAddress(ctx, key); conn != nil {
		return conn, nil
	}
	conn, err := p.t.openTunnel(ctx, p.podName(), p.port)
	if err != nil {
		return nil, err
	}
	fingerprint, err := guest.AuthenticateHost(ctx, conn, key, p.guestID())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if better := p.switchToDirect(ctx, key, fingerprint); better != nil {
		_ = conn.Close() // it was not used
		return better, nil
	}
	return conn, nil
}

// connectEarly tries to connect to a guest that is being started, and keeps the connection for the first
// request.
func (p *pod) connectEarly(ctx context.Context) error {
	conn, err := p.connectGuest(ctx)
	if err == nil {
		p.route.keepFirst(conn)
	}
	return err
}

// boundedText collects the beginning of a stream of errors.
type boundedText struct{ bytes.Buffer }

// maxWords bounds it, in bytes.
const maxWords = 4 << 10

// add adds the bytes that fit.
func (w *boundedText) add(b []byte) { w.Write(b[:min(len(b), max(0, maxWords-w.Len()))]) }
