package atolltest

import (
	"context"
	"errors"
	"io"

	"github.com/atoll-sandbox/atoll"
)

var noticeLaws = []law{
	{"NoticesBeginAndEnd", noticesBeginAndEnd},
	{"NoticesReportExits", noticesReportExits},
	{"NoticesReportPorts", noticesReportPorts},
}

// waitForNotice receives notices until f returns true. It calls begun after
// the first notice, which reports that notices have begun.
func (e *env) waitForNotice(sb atoll.Sandbox, begun func(), f func(atoll.Notice) bool) {
	e.Helper()
	enough, first := errors.New("enough"), true
	e.mustFinish("notices", func() {
		err := atoll.Notices(e.newContext(), sb, func(n atoll.Notice) error {
			switch {
			case first:
				first = false
				wantEqual(e, "the first notice", n.Kind, atoll.NoticeReady)
				begun()
			case f(n):
				return enough
			}
			return nil
		})
		e.wantError(err, enough, "Notices")
	})
}

func noticesBeginAndEnd(e *env) {
	if !e.features.Notices {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	own := errors.New("of the listener")
	e.wantError(atoll.Notices(e.newContext(), sb, func(atoll.Notice) error { return own }), own, "an error of the listener")
	for _, end := range []struct {
		what   string
		f      func(cancel context.CancelFunc)
		reason error
	}{
		{"a context that is done", func(cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"a sandbox that was destroyed", func(context.CancelFunc) {
			if err := sb.Destroy(e.newContext()); err != nil {
				e.Errorf("Destroy: %v", err)
			}
		}, atoll.ErrNotFound},
	} {
		ctx, cancel := context.WithCancel(e.newContext())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- atoll.Notices(ctx, sb, func(n atoll.Notice) error {
				if n.Kind == atoll.NoticeReady {
					close(ready)
				}
				return nil
			})
		}()
		e.mustFinish("the beginning of notices", func() {
			select {
			case <-ready:
			case err := <-ended:
				ended <- err
			}
		})
		end.f(cancel)
		e.mustFinish("the end of notices", func() { e.wantError(<-ended, end.reason, end.what) })
		cancel()
	}
}

func noticesReportExits(e *env) {
	if !e.features.Notices || !e.features.Detach {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	d, _ := atoll.As[atoll.Detacher](sb)
	var p atoll.Process
	e.waitForNotice(sb, func() {
		var err error
		if p, err = d.Detach(e.newContext(), atoll.Cmd{Shell: "exit 3"}); err != nil {
			e.Fatalf("Detach: %v", err)
		}
	}, func(n atoll.Notice) bool {
		if n.Kind != atoll.NoticeProcessEnded || n.Process != p.ID {
			return false
		}
		wantEqual(e, "exit status", n.Code, 3)
		return true
	})
}

// noticesReportPorts checks nothing if the sandbox contains no program that
// can listen.
func noticesReportPorts(e *env) {
	if !e.features.Notices {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	const text = `if command -v python3 >/dev/null; then exec python3 -c 'import socket,sys
s=socket.socket(); s.bind(("127.0.0.1",8123)); s.listen(); sys.stdin.read()'
elif command -v busybox >/dev/null; then exec busybox httpd -f -p 127.0.0.1:8123 # its nc takes no address
elif command -v nc >/dev/null; then exec nc -l -s 127.0.0.1 -p 8123; fi; exit 7`
	if exit := e.exec(sb, atoll.Cmd{Shell: "command -v python3 || command -v busybox || command -v nc || exit 7"}); exit.Code == 7 {
		return
	}
	listening, end := context.WithCancel(e.newContext())
	defer end()
	done := make(chan struct{})
	var opened bool
	e.waitForNotice(sb, func() {
		go func() {
			defer close(done)
			r, w := io.Pipe()
			defer w.Close()
			_, _ = sb.Exec(listening, atoll.Cmd{Shell: text, Stdin: r}) // it is cancelled below
		}()
	}, func(n atoll.Notice) bool {
		switch {
		case n.Port != 8123:
		case n.Kind == atoll.NoticePortOpened:
			opened = true
			wantEqual(e, "address", n.Address, "127.0.0.1")
			e.hasPort(sb, 8123)
			end()
		case n.Kind == atoll.NoticePortClosed:
			wantEqual(e, "it was opened before", opened, true)
			return true
		}
		return false
	})
	e.mustFinish("the program that listened", func() { <-done })
}

// hasPort checks that Ports lists a port.
func (e *env) hasPort(sb atoll.Sandbox, port int) {
	e.Helper()
	list, err := atoll.Ports(e.newContext(), sb)
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
