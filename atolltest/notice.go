package atolltest

import (
	"context"
	"errors"
	"io"

	"github.com/atoll-sandbox/atoll"
)

var noticeLaws = []law{
	{"NoticesBeginAndEnd", noticesBeginAndEnd},
	{"NoticesTellEnds", noticesTellEnds},
	{"NoticesTellPorts", noticesTellPorts},
}

// hear listens until f has heard enough, which it says by true. begun is called
// when notices have begun.
func (e *env) hear(sb atoll.Sandbox, begun func(), f func(atoll.Notice) bool) {
	e.Helper()
	enough, first := errors.New("enough"), true
	e.soon("notices", func() {
		err := atoll.Notices(e.ctx(), sb, func(n atoll.Notice) error {
			switch {
			case first:
				first = false
				eq(e, "the first notice", n.Kind, atoll.NoticeReady)
				begun()
			case f(n):
				return enough
			}
			return nil
		})
		e.want(err, enough, "Notices")
	})
}

func noticesBeginAndEnd(e *env) {
	if !e.features.Notices {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	own := errors.New("of the listener")
	e.want(atoll.Notices(e.ctx(), sb, func(atoll.Notice) error { return own }), own, "an error of the listener")
	for _, end := range []struct {
		what   string
		f      func(cancel context.CancelFunc)
		reason error
	}{
		{"a context that is done", func(cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"a sandbox that was destroyed", func(context.CancelFunc) {
			if err := sb.Destroy(e.ctx()); err != nil {
				e.Errorf("Destroy: %v", err)
			}
		}, atoll.ErrNotFound},
	} {
		ctx, cancel := context.WithCancel(e.ctx())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- atoll.Notices(ctx, sb, func(n atoll.Notice) error {
				if n.Kind == atoll.NoticeReady {
					close(ready)
				}
				return nil
			})
		}()
		e.soon("the beginning of notices", func() {
			select {
			case <-ready:
			case err := <-ended:
				ended <- err
			}
		})
		end.f(cancel)
		e.soon("the end of notices", func() { e.want(<-ended, end.reason, end.what) })
		cancel()
	}
}

func noticesTellEnds(e *env) {
	if !e.features.Notices || !e.features.Detach {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	d, _ := atoll.As[atoll.Detacher](sb)
	var p atoll.Process
	e.hear(sb, func() {
		var err error
		if p, err = d.Detach(e.ctx(), atoll.Cmd{Shell: "exit 3"}); err != nil {
			e.Fatalf("Detach: %v", err)
		}
	}, func(n atoll.Notice) bool {
		if n.Kind != atoll.NoticeProcessEnded || n.Process != p.ID {
			return false
		}
		eq(e, "exit status", n.Code, 3)
		return true
	})
}

// noticesTellPorts needs a program inside that can listen; a sandbox that has
// none shows nothing.
func noticesTellPorts(e *env) {
	if !e.features.Notices {
		return // FeaturesAreTrue has seen the refusal
	}
	sb := e.sandbox()
	const text = `if command -v python3 >/dev/null; then exec python3 -c 'import socket,sys
s=socket.socket(); s.bind(("127.0.0.1",8123)); s.listen(); sys.stdin.read()'
elif command -v busybox >/dev/null; then exec busybox httpd -f -p 127.0.0.1:8123 # its nc takes no address
elif command -v nc >/dev/null; then exec nc -l -s 127.0.0.1 -p 8123; fi; exit 7`
	if exit := e.exec(sb, atoll.Cmd{Shell: "command -v python3 || command -v busybox || command -v nc || exit 7"}); exit.Code == 7 {
		return
	}
	listening, end := context.WithCancel(e.ctx())
	defer end()
	done := make(chan struct{})
	var opened bool
	e.hear(sb, func() {
		go func() {
			defer close(done)
			r, w := io.Pipe()
			defer w.Close()
			_, _ = sb.Exec(listening, atoll.Cmd{Shell: text, Stdin: r}) // it is ended from here
		}()
	}, func(n atoll.Notice) bool {
		switch {
		case n.Port != 8123:
		case n.Kind == atoll.NoticePortOpened:
			opened = true
			eq(e, "address", n.Address, "127.0.0.1")
			e.hasPort(sb, 8123)
			end()
		case n.Kind == atoll.NoticePortClosed:
			eq(e, "it was opened before", opened, true)
			return true
		}
		return false
	})
	e.soon("the program that listened", func() { <-done })
}

// hasPort checks that a port is listed.
func (e *env) hasPort(sb atoll.Sandbox, port int) {
	e.Helper()
	list, err := atoll.Ports(e.ctx(), sb)
	if err != nil {
		e.Errorf("Ports: %v", err)
	}
	for _, p := range list {
		if p.Port == port {
			return
		}
	}
	e.Errorf("port %d is not among %+v", port, list)
}
