package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// boot is what a gate is told when it starts.
type boot struct {
	ID      string        `json:"id"`
	Network atoll.Network `json:"network"`
	Names   resolution    `json:"names"`
	CA      []byte        `json:"ca,omitempty"`  // certificate and key; empty: none
	Root    string        `json:"root"`          // an empty directory to be shut into, of root's gates
	UID     int           `json:"uid,omitempty"` // to become, likewise
	Log     bool          `json:"log,omitempty"` // write the journal to its descriptor
}

// maxBoot bounds what a gate is told.
const maxBoot = 32 << 20

// Descriptors that a gate is started with, besides the standard ones: it reads
// a boot from 0, writes a reply to 1, and its last words to 2.
const (
	fdGuest   = 3 // connection to the guest
	fdControl = 4 // listening socket
	fdLog     = 5 // file of the journal
	fdLock    = 6 // held as long as it lives
)

// Main is all that cmd/atoll-gate does.
func Main() int {
	answer := func(err error) {
		_ = json.NewEncoder(os.Stdout).Encode(reply{Problem: wire.ProblemOf(err)}) // who started it may be gone
		_ = os.Stdout.Close()                                                      // likewise
	}
	err := run(func() { answer(nil) })
	if err != nil {
		answer(err)
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// run is a gate's life: ready is called when it is at work.
func run(ready func()) error {
	var b boot
	if err := json.NewDecoder(io.LimitReader(os.Stdin, maxBoot)).Decode(&b); err != nil {
		return fmt.Errorf("what to do: %w", err)
	}
	_ = os.Stdin.Close() // nothing more comes
	world := newNetwork(b.Names)
	roots, err := systemRoots(len(b.CA) > 0)
	if err != nil {
		return err
	}
	if err := jail(&b); err != nil {
		return fmt.Errorf("%w: the gate's jail: %w", atoll.ErrUnavailable, err)
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
	if len(b.CA) > 0 {
		if s.ca, err = readAuthority(b.CA); err != nil {
			return err
		}
	}
	client, err := s.attach(ctx)
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(fdControl, socketName))
	if err != nil {
		return err
	}
	c := &controlled{s: s, end: make(chan struct{})}
	go c.serve(l)
	ready()
	select {
	case <-client.Done():
	case <-c.end:
		_ = client.Close() // it is over
	}
	return l.Close()
}

// attach connects to the guest and offers what a gate does.
func (s *server) attach(ctx context.Context) (*guest.Client, error) {
	conn, err := net.FileConn(os.NewFile(fdGuest, "guest"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	client, err := guest.Connect(ctx, conn, guest.Options{Offer: s.offers()})
	if err != nil {
		return nil, err
	}
	s.tell = teller(s.ctx, client) //nolint:contextcheck // it tells as long as the gate is there
	return client, nil
}

// teller returns a function that tells the guest of refusals, one after the
// other; what comes too fast is left out.
func teller(ctx context.Context, client *guest.Client) func(atoll.Connection) {
	queue := make(chan atoll.Notice, 16)
	go func() {
		for {
			select {
			case n := <-queue:
				one, cancel := context.WithTimeout(ctx, controlTime)
				_ = client.Tell(one, n) // a guest that doesn't listen misses it
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
		case queue <- atoll.Notice{Kind: atoll.NoticeDenied, Time: c.Time, Address: place, Port: c.Port, Message: c.Reason}:
		default:
		}
	}
}

// controlled answers what a gate is asked.
type controlled struct {
	s    *server
	once sync.Once
	end  chan struct{} // closed when the gate is to end
}

// mostAskers bounds the connections to the control socket.
const mostAskers = 16

func (c *controlled) serve(l net.Listener) {
	tokens := make(chan struct{}, mostAskers)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		tokens <- struct{}{}
		go func() {
			defer func() { <-tokens }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(controlTime)) // a connection that is gone fails below
			r := c.answer(conn)
			b, err := json.Marshal(r)
			if err == nil {
				_, _ = conn.Write(b) // who asked may be gone
			}
		}()
	}
}

// answer reads a question and does what it says.
func (c *controlled) answer(r io.Reader) reply {
	b, err := io.ReadAll(io.LimitReader(r, maxQuestion+1))
	if err == nil && len(b) > maxQuestion {
		err = fmt.Errorf("%w: a question of more than %d bytes", atoll.ErrInvalid, maxQuestion)
	}
	var q question
	if err == nil {
		if bad := json.Unmarshal(b, &q); bad != nil {
			err = fmt.Errorf("%w: %w", atoll.ErrInvalid, bad)
		}
	}
	if err != nil {
		return reply{Problem: wire.ProblemOf(err)}
	}
	switch q.Op {
	case opSet:
		err = c.set(&q)
	case opLog:
		return reply{Connections: c.s.journal.list()}
	case opAsk:
		var one atoll.Connection
		if one, err = c.s.ask(q.Target); err == nil {
			return reply{Connections: []atoll.Connection{one}}
		}
	case opClose:
		c.once.Do(func() { close(c.end) })
	default:
		err = fmt.Errorf("%w: question %q", atoll.ErrUnsupported, q.Op)
	}
	return reply{Problem: wire.ProblemOf(err)}
}

func (c *controlled) set(q *question) error {
	if q.Network == nil {
		return fmt.Errorf("%w: no rules", atoll.ErrInvalid)
	}
	if q.Names != nil {
		if len(q.Names.Servers) == 0 {
			return errors.Join(atoll.ErrInvalid, errors.New("no name servers"))
		}
		if now := c.s.net.names.Load(); now.Fixed {
			q.Names.Servers, q.Names.Fixed = now.Servers, true
		}
		c.s.net.names.Store(q.Names)
	}
	return c.s.set(*q.Network)
}
