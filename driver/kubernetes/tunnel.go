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

// tunnelTime is how long the cluster may take to make a tunnel.
const tunnelTime = 15 * time.Second

// tunnel connects to a port on the loopback of a pod, through the API server and
// the kubelet: over a WebSocket, or over SPDY where the way there has none.
func (t *target) tunnel(ctx context.Context, pod string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tunnelTime, fmt.Errorf("%w after %v", atoll.ErrTimeout, tunnelTime))
	defer cancel()
	u := t.core.RESTClient().Get().Resource("pods").Namespace(t.namespace).Name(pod).SubResource("portforward").URL()
	var way io.ReadWriteCloser
	var err error
	if !t.places.plainly() {
		way, err = webSocket(ctx, t.config, u)
	}
	if way == nil {
		var again error
		way, again = upgrade(ctx, t.config, u)
		if again == nil && err != nil {
			t.places.learnPlainly() // so that it costs nothing more
		}
		if err = again; err != nil {
			return nil, fmt.Errorf("the tunnel to the pod: %w", errors.Join(context.Cause(ctx), explain(err)))
		}
	}
	conn, err := forward(ctx, way, port)
	if err != nil {
		return nil, fmt.Errorf("the tunnel to the pod: %w", errors.Join(context.Cause(ctx), err))
	}
	return conn, nil
}

// webSocket makes a stream of SPDY in a WebSocket, as Kubernetes 1.31 and later
// take it.
func webSocket(ctx context.Context, config *rest.Config, u *url.URL) (io.ReadWriteCloser, error) {
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

// upgrade makes a stream of SPDY of an HTTP connection.
func upgrade(ctx context.Context, config *rest.Config, u *url.URL) (io.ReadWriteCloser, error) {
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
	way, err := upgraded(lasting, transport, u)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = errors.Join(context.Cause(ctx), way.Close())
		}
		return nil, err
	}
	return &upgradedConn{way, cancel}, nil
}

// upgradedConn is a connection that was one of HTTP.
type upgradedConn struct {
	io.ReadWriteCloser
	cancel context.CancelFunc
}

// Close closes the connection, whatever it is waiting for.
func (c *upgradedConn) Close() error {
	c.cancel()
	return c.ReadWriteCloser.Close()
}

func upgraded(ctx context.Context, transport http.RoundTripper, u *url.URL) (io.ReadWriteCloser, error) {
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
	return nil, fmt.Errorf("%w: the API server answers %s: %.200q", atoll.ErrUnavailable, resp.Status, text)
}

// forward asks for a port at the other end of a stream of SPDY, which it owns
// from then on.
func forward(ctx context.Context, way io.ReadWriteCloser, port int) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = way.Close() })
	c := &forwarded{way: way, r: bufio.NewReaderSize(way, 64<<10), port: port}
	c.room.L = &c.mu
	err := c.begin()
	if !stop() || err != nil {
		return nil, errors.Join(err, way.Close())
	}
	c.mu.Lock()
	c.pinger = time.AfterFunc(pingPeriod, c.ping)
	c.mu.Unlock()
	return c, nil
}

// reach returns a stream to the pod's guest, which has greeted nobody yet: the
// host has shown who it is.
func (p *pod) reach(ctx context.Context) (net.Conn, error) {
	if conn := p.way.takeFirst(); conn != nil {
		return conn, nil
	}
	conn, err := p.connect(ctx)
	if err != nil && ctx.Err() == nil {
		if why := p.gone(ctx); why != nil {
			return nil, why
		}
	}
	if err == nil {
		_ = p.openGate(ctx) // without one nothing is reached, as whoever asks it is told
	}
	return conn, err
}

// connect makes the stream, directly where it can.
func (p *pod) connect(ctx context.Context) (net.Conn, error) {
	key, err := p.d.key()
	if err != nil {
		return nil, err
	}
	if conn := p.directly(ctx, key); conn != nil {
		return conn, nil
	}
	conn, err := p.t.tunnel(ctx, p.podName(), guestPort)
	if err != nil {
		return nil, err
	}
	fingerprint, err := guest.Prove(ctx, conn, key, p.guestID())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if better := p.straighten(ctx, key, fingerprint); better != nil {
		_ = conn.Close() // nobody has used it
		return better, nil
	}
	return conn, nil
}

// knock asks a guest that is just being started whether it is there, and keeps
// the connection for who needs the first.
func (p *pod) knock(ctx context.Context) error {
	conn, err := p.connect(ctx)
	if err == nil {
		p.way.keep(conn)
	}
	return err
}

// words is what came over a stream of errors.
type words struct{ bytes.Buffer }

// maxWords bounds them.
const maxWords = 4 << 10

// add takes what fits.
func (w *words) add(b []byte) { w.Write(b[:min(len(b), max(0, maxWords-w.Len()))]) }
