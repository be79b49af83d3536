package fleet

import (
	"context"
	"net"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Listen makes an address inside lead here. The listener is use of the sandbox
// until it is closed, as each of its connections is; both end with the sandbox,
// not with ctx.
func (s *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	lasting, done, err := s.use(context.WithoutCancel(ctx), "listen")
	if err != nil {
		return nil, err
	}
	noted := s.audited("listen", network+" "+address)
	var l net.Listener
	t, err := able[atoll.Listener](s)
	if err == nil {
		asking, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })
		l, err = t.Listen(asking, network, address)
		err = reason(asking, err)
		stop()
		cancel(nil)
	}
	noted(err)
	if err != nil {
		done(err)
		return nil, s.fail("listen", err)
	}
	e := &entrance{Listener: l, s: s, done: done}
	context.AfterFunc(lasting, func() { _ = e.Close() }) // who accepts sees that it is closed
	return e, nil
}

// entrance is a listener whose call ends when it is closed.
type entrance struct {
	net.Listener
	s    *Sandbox
	done func(error)
	once sync.Once
	err  error // set by once
}

// Accept waits for the next connection. Those that come when the sandbox may not
// be used are closed.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		c, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		lasting, done, err := e.s.begin(context.Background(), demandOf("listen"))
		if err != nil {
			_ = c.Close() // nobody may have it
			continue
		}
		return newLine(lasting, c, done), nil
	}
}

// Close gives up the address. Connections that were accepted go on.
func (e *entrance) Close() error {
	e.once.Do(func() {
		e.err = e.Listener.Close()
		e.done(e.err)
	})
	return e.err
}
