// Package sshd serves SSH clients that work in a sandbox. The server runs on
// the caller's host: it translates requests of the client into commands, files and
// connections of the sandbox, which use the normal API. So SSH
// never leaves the user's host: no key and no SSH server is in
// the sandbox.
package sshd

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/atoll-sandbox/atoll"
)

// DefaultUser is the login name for the sandbox's default user. Any other name is
// a user in the sandbox.
const DefaultUser = "atoll"

const (
	handshakeTimeout = time.Minute // for the authentication of a client
	maxChannels      = 256         // of one connection, at once
	serverVersion    = "SSH-2.0-atoll"
)

// Server is the SSH server of one sandbox. Serve may be called
// concurrently.
type Server struct {
	Sandbox  atoll.Sandbox
	Features atoll.Features // of the sandbox
	Host     ssh.Signer     // host key
	Client   ssh.PublicKey  // the only accepted client key
	Shell    string         // command of a login shell; empty: "exec sh"

	// SFTPProgram returns the file on this host that serves SFTP in the sandbox; nil: SFTP
	// is not supported.
	SFTPProgram func() (string, error)

	mu       sync.Mutex
	sftpPath string // path of Program inside, once it is there; guarded by mu
}

// Serve serves one connection until it ends, and closes it. Everything it started
// in the sandbox ends with it. The error is nil when the client has disconnected.
func (s *Server) Serve(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends pending reads
	late := time.AfterFunc(handshakeTimeout, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewServerConn(conn, s.serverConfig())
	late.Stop()
	if err != nil {
		return errors.Join(ignoreClosed(ctx, fmt.Errorf("ssh: %w", err)), closeIgnoringClosed(conn))
	}
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(requests) }) // includes forwarding of ports of this host
	places := make(chan struct{}, maxChannels)
	for n := range channels {
		select {
		case places <- struct{}{}:
		default:
			_ = n.Reject(ssh.ResourceShortage, "too many channels") // the client may have disconnected
			continue
		}
		wg.Go(func() {
			defer func() { <-places }()
			s.serveChannel(ctx, c.User(), n)
		})
	}
	cancel()
	err = c.Wait()
	wg.Wait()
	return ignoreClosed(ctx, err)
}

// ignoreClosed returns nil for errors that only report the end of a connection.
func ignoreClosed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// closeIgnoringClosed closes c and ignores that it may be closed already.
func closeIgnoringClosed(c io.Closer) error {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// errWrongKey is the error for a client key of another sandbox.
var errWrongKey = errors.New("the key is not the one of this sandbox")

func (s *Server) serverConfig() *ssh.ServerConfig {
	want := s.Client.Marshal()
	cfg := &ssh.ServerConfig{
		ServerVersion: serverVersion,
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if subtle.ConstantTimeCompare(key.Marshal(), want) != 1 {
				return nil, errWrongKey
			}
			return nil, nil
		},
	}
	cfg.AddHostKey(s.Host)
	return cfg
}

// serveChannel serves a channel that a client opens.
func (s *Server) serveChannel(ctx context.Context, user string, n ssh.NewChannel) {
	switch n.ChannelType() {
	case "session":
		s.serveSession(ctx, user, n)
	case "direct-tcpip":
		var to struct {
			Host       string
			Port       uint32
			From       string
			OriginPort uint32
		}
		if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil {
			rejectChannel(n, ssh.ConnectionFailed, "malformed request")
			return
		}
		if !isLoopback(to.Host) || to.Port == 0 || to.Port > 65535 {
			rejectChannel(n, ssh.Prohibited, "only ports of the sandbox itself can be reached: localhost:PORT")
			return
		}
		s.forwardConn(ctx, n, "tcp", net.JoinHostPort("localhost", fmt.Sprint(to.Port)))
	case "direct-streamlocal@openssh.com":
		var to struct {
			Path     string
			Reserved string
			Port     uint32
		}
		if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil || to.Path == "" || to.Path[0] != '/' {
			rejectChannel(n, ssh.ConnectionFailed, "the path of a socket must be absolute")
			return
		}
		s.forwardConn(ctx, n, "unix", to.Path)
	default:
		rejectChannel(n, ssh.UnknownChannelType, "unknown channel type")
	}
}

func rejectChannel(n ssh.NewChannel, why ssh.RejectionReason, text string) {
	_ = n.Reject(why, text) // the client may have disconnected
}

// isLoopback reports whether a host is the sandbox itself.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// forwardConn connects a channel to an address in the sandbox and copies each direction
// until it ends.
func (s *Server) forwardConn(ctx context.Context, n ssh.NewChannel, network, address string) {
	inner, err := atoll.Dial(ctx, s.Sandbox, network, address)
	if err != nil {
		rejectChannel(n, ssh.ConnectionFailed, sanitizeText(err.Error()))
		return
	}
	defer inner.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return // the client has disconnected
	}
	defer ch.Close()
	defer context.AfterFunc(ctx, func() { _ = inner.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(requests) })
	wg.Go(func() {
		if _, err := io.Copy(inner, ch); err != nil || halfClose(inner) != nil {
			_ = inner.Close() // nothing more can be copied
		}
	})
	if _, err := io.Copy(ch, inner); err != nil || ch.CloseWrite() != nil {
		_ = inner.Close()
	}
	// The client may go on writing; it closes the channel when it is done.
	wg.Wait()
}

func halfClose(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
