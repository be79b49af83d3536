package atolltest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

var listenLaws = []law{
	{"ListenAcceptsConnections", listenAcceptsConnections},
	{"ListenAcceptsManyAtOnce", listenAcceptsManyAtOnce},
	{"ListenPortZeroReportsPort", listenPortZeroReportsPort},
	{"ListenTakenIsExists", listenTakenIsExists},
	{"ListenStaysInside", listenStaysInside},
	{"ListenEndsWithClose", listenEndsWithClose},
	{"ListenEndsWithTheSandbox", listenEndsWithTheSandbox},
}

// hasListen reports whether the driver has Listen. Programs inside the sandbox
// are simulated by the driver's Dial.
func (e *env) hasListen() bool {
	e.Helper()
	if e.features.Listen && !e.features.Dial {
		e.Fatal("a driver with Listen must have Dial: the suite can't connect from inside otherwise")
	}
	return e.features.Listen // FeaturesAreTrue checks the refusal
}

func (e *env) listen(sb atoll.Sandbox, network, address string) net.Listener {
	e.Helper()
	l, err := atoll.Listen(e.newContext(), sb, network, address)
	if err != nil {
		e.Fatalf("Listen %s %s: %v", network, address, err)
	}
	e.Cleanup(func() { _ = l.Close() })
	return l
}

func (e *env) dial(sb atoll.Sandbox, at net.Addr) net.Conn {
	e.Helper()
	c, err := atoll.Dial(e.newContext(), sb, at.Network(), at.String())
	if err != nil {
		e.Fatalf("Dial %s: %v", at, err)
	}
	e.Cleanup(func() { _ = c.Close() })
	return c
}

// closeWrite closes the writing direction of a connection.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection has no CloseWrite")
	}
	return half.CloseWrite()
}

// answerRequest reads a request to its end, echoes it and closes the
// connection.
func answerRequest(c net.Conn) error {
	b, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if _, err := fmt.Fprintf(c, "got %s", b); err != nil {
		return err
	}
	return c.Close()
}

// sendRequest sends a request, closes the writing direction and returns the
// answer.
func sendRequest(c net.Conn, request string) (string, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	if err := closeWrite(c); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

func listenAcceptsConnections(e *env) {
	if !e.hasListen() {
		return
	}
	sb := e.useSandbox()
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", "localhost:0"}, {"unix", "/tmp/listen.sock"}} {
		l := e.listen(sb, at[0], at[1])
		wantEqual(e, "the address's network", l.Addr().Network(), at[0])
		go func() {
			c, err := l.Accept()
			if err == nil {
				err = answerRequest(c)
			}
			if err != nil {
				e.Errorf("%v: the host: %v", at, err)
			}
		}()
		e.mustFinish("a connection to "+at[1], func() {
			got, err := sendRequest(e.dial(sb, l.Addr()), "hi")
			if got != "got hi" || err != nil {
				e.Errorf("%v: the program got %q, %v", at, got, err)
			}
		})
		// The other direction first: the host closes its writing direction.
		e.mustFinish("half a connection to "+at[1], func() {
			program := e.dial(sb, l.Addr())
			host, err := l.Accept()
			if err != nil {
				e.Errorf("Accept: %v", err)
				return
			}
			defer host.Close()
			if err := closeWrite(host); err != nil {
				e.Errorf("CloseWrite of the host: %v", err)
			}
			if b, err := io.ReadAll(program); len(b) > 0 || err != nil {
				e.Errorf("the program read %q, %v", b, err)
			}
			if _, err := io.WriteString(program, "still"); err != nil {
				e.Errorf("Write of the program: %v", err)
			}
			_ = program.Close()
			if b, err := io.ReadAll(host); string(b) != "still" || err != nil {
				e.Errorf("the host read %q, %v", b, err)
			}
		})
	}
}

func listenAcceptsManyAtOnce(e *env) {
	if !e.hasListen() {
		return
	}
	const n, size = 100, 64 << 10
	sb := e.useSandbox()
	l := e.listen(sb, "tcp", "127.0.0.1:0")
	var wg sync.WaitGroup
	programs := make([]net.Conn, n)
	for i := range n {
		wg.Go(func() {
			c, err := atoll.Dial(e.newContext(), sb, l.Addr().Network(), l.Addr().String())
			if err != nil {
				e.Errorf("Dial: %v", err)
				_ = l.Close() // unblocks Accept
				return
			}
			programs[i] = c
			e.Cleanup(func() { _ = c.Close() })
		})
	}
	hosts := make([]net.Conn, n)
	e.mustFinish("100 connections", func() {
		defer wg.Wait()
		for i := range hosts {
			c, err := l.Accept()
			if err != nil {
				e.Errorf("Accept: %v", err)
				return
			}
			hosts[i] = c
		}
	})
	if e.Failed() {
		return
	}
	// All are open. Now each transfers data, the last first.
	for _, h := range hosts {
		wg.Go(func() {
			defer h.Close()
			if _, err := io.Copy(h, h); err != nil {
				e.Errorf("the host: %v", err)
			}
		})
	}
	for i := n - 1; i >= 0; i-- {
		wg.Go(func() {
			want := fmt.Sprintf("%0*d", size, i)
			if got, err := sendRequest(programs[i], want); got != want || err != nil {
				e.Errorf("connection %d: got %d bytes, %v", i, len(got), err)
			}
		})
	}
	e.mustFinish("the transfers", wg.Wait)
}

func listenPortZeroReportsPort(e *env) {
	if !e.hasListen() {
		return
	}
	sb := e.useSandbox()
	seen := make(map[string]bool)
	for range 3 {
		l := e.listen(sb, "tcp", "127.0.0.1:0")
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil || host != "127.0.0.1" || port == "0" || port == "" {
			e.Errorf("the address is %q", l.Addr())
		}
		if seen[port] {
			e.Errorf("two listeners at port %s", port)
		}
		seen[port] = true
	}
	e.listen(sb, "tcp", "127.0.0.1:20123")
	e.listen(e.newSandbox(), "tcp", "127.0.0.1:20123") // another sandbox's port
}

// The ports are below those that the kernel gives to clients, which stay taken for a minute after a connection.
func listenTakenIsExists(e *env) {
	if !e.hasListen() {
		return
	}
	sb := e.useSandbox()
	for _, at := range [][2]string{{"tcp", "127.0.0.1:20124"}, {"unix", "/tmp/taken.sock"}} {
		e.listen(sb, at[0], at[1])
		_, err := atoll.Listen(e.newContext(), sb, at[0], at[1])
		e.wantError(err, atoll.ErrExists, "Listen at "+at[1]+", which is taken")
	}
	e.runShell(sb, "echo data > /tmp/file")
	_, err := atoll.Listen(e.newContext(), sb, "unix", "/tmp/file")
	e.wantError(err, atoll.ErrExists, "Listen where a file is")
	wantEqual(e, "the file", e.runShell(sb, "cat /tmp/file"), "data\n")
}

func listenStaysInside(e *env) {
	if !e.hasListen() {
		return
	}
	sb := e.useSandbox()
	for _, at := range [][2]string{
		{"tcp", "0.0.0.0:0"},
		{"tcp", "[::]:0"},
		{"tcp", "192.0.2.1:80"},
		{"tcp", "example.com:80"},
		{"tcp", "127.0.0.1"},
		{"tcp", "127.0.0.1:70000"},
		{"udp", "127.0.0.1:0"},
		{"unix", "here.sock"},
		{"unix", "/tmp/../x"},
		{"", ""},
	} {
		l, err := atoll.Listen(e.newContext(), sb, at[0], at[1])
		if err == nil {
			_ = l.Close() // the failure is reported below
		}
		e.wantError(err, atoll.ErrInvalid, "Listen "+at[0]+" "+at[1])
	}
}

func listenEndsWithClose(e *env) {
	if !e.hasListen() {
		return
	}
	sb := e.useSandbox()
	for _, at := range [][2]string{{"tcp", "127.0.0.1:20125"}, {"unix", "/tmp/closed.sock"}} {
		l := e.listen(sb, at[0], at[1])
		program := e.dial(sb, l.Addr())
		host, err := l.Accept()
		if err != nil {
			e.Fatalf("Accept: %v", err)
		}
		accepting := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepting <- err
		}()
		if err := l.Close(); err != nil {
			e.Errorf("Close: %v", err)
		}
		e.mustFinish("Accept of a closed listener", func() {
			if err := <-accepting; !errors.Is(err, net.ErrClosed) {
				e.Errorf("Accept of a closed listener: %v", err)
			}
		})
		if c, err := atoll.Dial(e.newContext(), sb, at[0], at[1]); err == nil {
			_ = c.Close() // the failure is reported here
			e.Errorf("%v: a connection succeeded after Close", at)
		}
		go func() {
			if err := answerRequest(host); err != nil {
				e.Errorf("%v: the host: %v", at, err)
			}
		}()
		e.mustFinish("a connection that was accepted before Close", func() {
			if got, err := sendRequest(program, "on"); got != "got on" || err != nil {
				e.Errorf("%v: after Close the program got %q, %v", at, got, err)
			}
		})
		e.listen(sb, at[0], at[1]) // it is free again
	}
}

func listenEndsWithTheSandbox(e *env) {
	if !e.hasListen() {
		return
	}
	for _, end := range []struct {
		what string
		f    func(sb atoll.Sandbox) error
	}{
		{"Stop", func(sb atoll.Sandbox) error { return atoll.Stop(e.newContext(), sb) }},
		{"Destroy", func(sb atoll.Sandbox) error { return sb.Destroy(e.newContext()) }},
	} {
		if end.what == "Stop" && !e.features.Stop {
			continue
		}
		sb := e.newSandbox()
		l := e.listen(sb, "tcp", "127.0.0.1:0")
		e.dial(sb, l.Addr())
		host, err := l.Accept()
		if err != nil {
			e.Fatalf("Accept: %v", err)
		}
		if err := end.f(sb); err != nil {
			e.Fatalf("%s: %v", end.what, err)
		}
		e.mustFinish("a listener after "+end.what, func() {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				e.Errorf("Accept after %s: %v", end.what, err)
			}
			if n, err := host.Read(make([]byte, 1)); err == nil || n > 0 {
				e.Errorf("Read after %s: %d bytes, %v", end.what, n, err)
			}
			_, _ = l.Close(), host.Close() // neither hangs
		})
		_, err = atoll.Listen(e.newContext(), sb, "tcp", "127.0.0.1:0")
		if err == nil {
			e.Errorf("Listen works after %s", end.what)
		}
	}
}
