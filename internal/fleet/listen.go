package fleet

import (
	"context"
	"net"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Listen listens on an address inside the sandbox. The listener counts as use of the sandbox until
// it is closed, and so does each connection. Both end with the sandbox, not with ctx.
func (s *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	lasting, done, err := s.beginCall(context.WithoutCancel(ctx), "listen")
	if err != nil {
		return nil, err
	}
	noted := s.startAudit("listen", network+" "+address)
	var l net.Listener
	t, err := innerAs[atoll.Listener](s)
	if err == nil {
		asking, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })
		l, err = t.Listen(asking, network, address)
		err = causeOf(asking, err)
		stop()
		cancel(nil)
	}
	noted(err)
	if err != nil {
		done(err)
		return nil, s.wrapError("listen", err)
	}
	e := &callListener{Listener: l, s: s, done: done}
	context.AfterFunc(lasting, func() { _ = e.Close() }) // Accept returns the error of a closed listener
	return e, nil
}

// callListener is a listener whose call ends when it is closed.
type callListener struct {
	net.Listener
	s    *Sandbox
	done func(error)
	once sync.Once
	err  error // set by once
}

// Accept waits for the next connection. Connections are closed while the state of the sandbox
// allows no calls.
func (e *callListener) Accept() (net.Conn, error) {
	for {
		c, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		lasting, done, err := e.s.beginWithRules(context.Background(), rulesFor("listen"))
		if err != nil {
			_ = c.Close() // refused
			continue
		}
		return newCallConn(lasting, c, done), nil
	}
}

// Close closes the listener. Accepted connections stay open.
func (e *callListener) Close() error {
	e.once.Do(func() {
		e.err = e.Listener.Close()
		e.done(e.err)
	})
	return e.err
}
