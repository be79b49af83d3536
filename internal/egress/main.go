package egress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// bootConfig is the configuration that a proxy reads when it starts.
type bootConfig struct {
	ID      string        `json:"id"`
	Network atoll.Network `json:"network"`
	Names   resolution    `json:"names"`
	CA      []byte        `json:"ca,omitempty"`  // certificate and key; empty: none
	Root    string        `json:"root"`          // empty directory for chroot, if root starts the proxy
	UID     int           `json:"uid,omitempty"` // user to switch to, if root starts the proxy
	Log     bool          `json:"log,omitempty"` // write the journal to its descriptor
}

// maxBootConfig limits the size of a bootConfig in bytes.
const maxBootConfig = 32 << 20

// Descriptors of a proxy besides the standard ones: it reads a bootConfig from 0, writes a reply to 1
// and fatal errors to 2.
const (
	fdGuest   = 3 // connection to the guest
	fdControl = 4 // listening socket
	fdLog     = 5 // file of the journal
	fdLock    = 6 // locked file, held until the proxy ends
)

// Main is the main function of cmd/atoll-egress. It returns the exit status.
func Main() int {
	answer := func(err error) {
		_ = json.NewEncoder(os.Stdout).Encode(reply{Problem: wire.ProblemOf(err)}) // fails if the starter has ended
		_ = os.Stdout.Close()                                                      // likewise
	}
	err := runProxy(func() { answer(nil) })
	if err != nil {
		answer(err)
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runProxy runs the proxy until its end. It calls ready once it serves.
func runProxy(ready func()) error {
	var b bootConfig
	if err := json.NewDecoder(io.LimitReader(os.Stdin, maxBootConfig)).Decode(&b); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	_ = os.Stdin.Close() // it was read
	world := newNetwork(b.Names)
	roots, err := systemRoots(len(b.CA) > 0)
	if err != nil {
		return err
	}
	if err := confineProcess(&b); err != nil {
		return fmt.Errorf("%w: confine the egress proxy: %w", atoll.ErrUnavailable, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var file io.Writer
	if b.Log {
		file = os.NewFile(fdLog, logName)
	}
	s, err := newServer(ctx, b.Network, world, file)
	if err != nil {
		return err
	}
	s.roots = roots
	s.tidy = time.AfterFunc(tidyDelay, debug.FreeOSMemory)
	if len(b.CA) > 0 {
		if s.ca, err = readAuthority(b.CA); err != nil {
			return err
		}
	}
	client, err := s.connectGuest(ctx)
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(fdControl, socketName))
	if err != nil {
		return err
	}
	c := &controlServer{s: s, stop: make(chan struct{})}
	go c.serve(l)
	ready()
	select {
	case <-client.Done():
	case <-c.stop:
		_ = client.Close() // the proxy ends
	}
	return l.Close()
}

// tidyDelay is the time after the start, and after the end of a connection, when the proxy returns memory
// to the kernel.
const tidyDelay = 2 * time.Second

// connectGuest connects to the guest and offers the proxy's channels.
func (s *server) connectGuest(ctx context.Context) (*guest.Client, error) {
	conn, err := net.FileConn(os.NewFile(fdGuest, "guest"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	client, err := guest.Connect(ctx, conn, guest.Options{Handlers: s.buildOffers()})
	if err != nil {
		return nil, err
	}
	s.notify = newNotifier(s.ctx, client) //nolint:contextcheck // it lives as long as the proxy
	return client, nil
}

// newNotifier returns a function that reports refusals to the guest, one at a time. If there are too
// many it drops some.
func newNotifier(ctx context.Context, client *guest.Client) func(atoll.Connection) {
	queue := make(chan atoll.Notice, 16)
	go func() {
		for {
			select {
			case n := <-queue:
				one, cancel := context.WithTimeout(ctx, controlTimeout)
				_ = client.Notify(one, n) // a guest that doesn't answer misses it
				cancel()
			case <-client.Done():
				return
			}
		}
	}()
	return func(c atoll.Connection) {
		place := c.Host
		if c.Port != 0 {
			place = net.JoinHostPort(c.Host, fmt.Sprint(c.Port))
		}
		select {
		case queue <- atoll.Notice{Kind: atoll.NoticeDenied, Time: c.Time, Address: place, Port: c.Port, Message: c.Reason, Suggestion: c.Suggestion}:
		default:
		}
	}
}
