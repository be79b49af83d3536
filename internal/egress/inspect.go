package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// bufferedConn is the flow's connection including the bytes that were read ahead.
type bufferedConn struct {
	net.Conn
	f *flow
}

// Read reads from the flow.
func (c bufferedConn) Read(b []byte) (int, error) { return c.f.Read(b) }

// serveInspected answers TLS in place of the host and serves the HTTP in it.
func (f *flow) serveInspected(up net.Conn) {
	if up != nil {
		_ = up.Close() // each request connects itself
	}
	c, err := f.answerTLS()
	if err != nil {
		f.recordRefusal("tls", policy.Verdict{Reason: "the program does not trust the sandbox's certificate authority, or disconnected: " + truncate(err.Error())})
		f.abortWith(errClosed)
		return
	}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		f.serveHTTP2(c)
		return
	}
	f.serveHTTP(policy.HTTPS, c)
	_ = c.CloseWrite() // best effort
}

// answerTLS answers the handshake of TLS in place of the host.
func (f *flow) answerTLS() (*tls.Conn, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.s.ca.certFor(f.host) },
	}
	c := tls.Server(bufferedConn{f.conn, f}, cfg)
	ctx, cancel := context.WithTimeout(f.ctx, headTimeout)
	defer cancel()
	return c, c.HandshakeContext(ctx)
}

// sendReasonInTLS answers the first request in a refused TLS connection with the reason. Nothing is sent to
// the host.
func (f *flow) sendReasonInTLS(reason string) {
	c, err := f.answerTLS()
	if err != nil {
		f.abortWith(errClosed) // the refusal is recorded already
		return
	}
	_ = f.conn.SetReadDeadline(time.Now().Add(headTimeout)) // a closed connection fails below
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		s := &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: lingerTimeout}
		s.ServeConn(c, &http2.ServeConnOpts{
			Context: f.ctx, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { sendError(w, http.StatusForbidden, reason) }),
			BaseConfig: &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: headTimeout, MaxHeaderBytes: maxHead},
		})
		return
	}
	if _, err := readHead(bufio.NewReader(c)); err == nil {
		_, _ = c.Write(buildErrorResponse(http.StatusForbidden, reason)) // best effort
	}
	_ = c.CloseWrite() // best effort
	f.closeGently()
}
