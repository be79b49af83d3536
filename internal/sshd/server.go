// Package sshd lets programs that speak SSH work in a sandbox. Its server is at
// the caller's end: what the client asks for becomes commands, files and
// connections of the sandbox, which travel as all others do. So SSH ends where it
// begins, on the user's own machine: nothing inside has a key, or speaks SSH with
// anybody.
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

// DefaultUser is the name that means the sandbox's own user. Any other is that
// of a user inside.
const DefaultUser = "atoll"

const (
	handshakeTime = time.Minute // a client that has not said who it is by then is left
	mostChannels  = 256         // of one connection, at once
	version       = "SSH-2.0-atoll"
)

// Server is the SSH server of one sandbox. Serve may be called at once from many
// goroutines.
type Server struct {
	Sandbox  atoll.Sandbox
	Features atoll.Features // of the sandbox
	Host     ssh.Signer     // by what clients know it
	Client   ssh.PublicKey  // the only key that opens it
	Shell    string         // shell text of who asks for a shell; empty: "exec sh"

	// Program finds the file of this machine that serves SFTP inside; nil: there
	// is no SFTP.
	Program func() (string, error)

	mu     sync.Mutex
	placed string // path of Program inside, once it is there; guarded by mu
}

// Serve serves one connection until it ends, and closes it. What it has started
// inside ends with it. The error is nil when the client has gone.
func (s *Server) Serve(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // it ends every read
	late := time.AfterFunc(handshakeTime, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewServerConn(conn, s.config())
	late.Stop()
	if err != nil {
		return errors.Join(left(ctx, fmt.Errorf("ssh: %w", err)), closed(conn))
	}
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(requests) }) // forwarding of ports of this machine is one of them
	places := make(chan struct{}, mostChannels)
	for n := range channels {
		select {
		case places <- struct{}{}:
		default:
			_ = n.Reject(ssh.ResourceShortage, "too many channels") // who is gone asks for no more
			continue
		}
		wg.Go(func() {
			defer func() { <-places }()
			s.channel(ctx, c.User(), n)
		})
	}
	cancel()
	err = c.Wait()
	wg.Wait()
	return left(ctx, err)
}

// left leaves out that a connection has ended: they all do.
func left(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// closed closes what may be closed already.
func closed(c io.Closer) error {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// errKey tells a client that its key is another sandbox's.
var errKey = errors.New("that is not the key of this sandbox")

func (s *Server) config() *ssh.ServerConfig {
	want := s.Client.Marshal()
	cfg := &ssh.ServerConfig{
		ServerVersion: version,
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if subtle.ConstantTimeCompare(key.Marshal(), want) != 1 {
				return nil, errKey
			}
			return nil, nil
		},
	}
	cfg.AddHostKey(s.Host)
	return cfg
}

// channel serves what a client opens.
func (s *Server) channel(ctx context.Context, user string, n ssh.NewChannel) {
	switch n.ChannelType() {
	case "session":
		s.session(ctx, user, n)
	case "direct-tcpip":
		var to struct {
			Host       string
			Port       uint32
			From       string
			OriginPort uint32
		}
		if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil {
			refuse(n, ssh.ConnectionFailed, "malformed request")
			return
		}
		if !inside(to.Host) || to.Port == 0 || to.Port > 65535 {
			refuse(n, ssh.Prohibited, "only ports of the sandbox itself can be reached: localhost:PORT")
			return
		}
		s.join(ctx, n, "tcp", net.JoinHostPort("localhost", fmt.Sprint(to.Port)))
	case "direct-streamlocal@openssh.com":
		var to struct {
			Path     string
			Reserved string
			Port     uint32
		}
		if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil || to.Path == "" || to.Path[0] != '/' {
			refuse(n, ssh.ConnectionFailed, "the path of a socket must be absolute")
			return
		}
		s.join(ctx, n, "unix", to.Path)
	default:
		refuse(n, ssh.UnknownChannelType, "not served here")
	}
}

func refuse(n ssh.NewChannel, why ssh.RejectionReason, text string) {
	_ = n.Reject(why, text) // a client that is gone needs no answer
}

// inside reports whether a host is the sandbox itself.
func inside(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// join joins a channel with a connection that is opened inside, each direction
// until it ends by itself.
func (s *Server) join(ctx context.Context, n ssh.NewChannel, network, address string) {
	inner, err := atoll.Dial(ctx, s.Sandbox, network, address)
	if err != nil {
		refuse(n, ssh.ConnectionFailed, plain(err.Error()))
		return
	}
	defer inner.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return // the client is gone
	}
	defer ch.Close()
	defer context.AfterFunc(ctx, func() { _ = inner.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(requests) })
	wg.Go(func() {
		if _, err := io.Copy(inner, ch); err != nil || halfClose(inner) != nil {
			_ = inner.Close() // nothing more can be carried
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
