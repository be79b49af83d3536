// Command hostile tries what a program in a pod may try on the guest, and prints
// what it got.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	for _, one := range []struct {
		name string
		f    func() error // nil: it got what it wanted
	}{
		{"kill", func() error { return ineffective(unix.SIGKILL) }},
		{"stop", func() error { return ineffective(unix.SIGSTOP) }},
		{"term", func() error { return ineffective(unix.SIGTERM) }},
		{"quit", func() error { return ineffective(unix.SIGQUIT) }},
		{"attach", func() error { runtime.LockOSThread(); return unix.PtraceAttach(1) }},
		{"seize", func() error { return unix.PtraceSeize(1) }},
		{"read memory", readMemory},
		{"environ", func() error { return look("/proc/1/environ") }},
		{"mem", func() error { return look("/proc/1/mem") }},
		{"maps", func() error { return look("/proc/1/maps") }},
		{"fd", func() error { _, err := os.ReadDir("/proc/1/fd"); return err }},
		{"root", func() error { _, err := os.ReadDir("/proc/1/root"); return err }},
		{"steal", steal},
		{"bind", func() error { return bind("0.0.0.0:26998") }},
		{"bind loopback", func() error { return bind("127.0.0.1:26998") }},
		{"bind 6", func() error { return bind("[::]:26998") }},
		{"bind 6 loopback", func() error { return bind("[::1]:26998") }},
		{"connect", func() error { return connect("", "127.0.0.1:26998") }},
		{"connect 6", func() error { return connect("", "[::1]:26998") }},
		{"speak", func() error { return connect(strings.Repeat("x", 64)+"\x00\x00\x00\x00", "127.0.0.1:26998") }},
		{"write guest", func() error {
			f, err := os.OpenFile("/run/atoll/atoll-guest", os.O_WRONLY, 0)
			if err == nil {
				_ = f.Close()
			}
			return err
		}},
	} {
		err := one.f()
		fmt.Printf("%s: %v\n", one.name, err)
	}
}

// ineffective sends a signal to process 1; if it ends, so does this.
func ineffective(sig syscall.Signal) error {
	if err := unix.Kill(1, sig); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	b, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	state := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
	if state == "T" || state == "Z" {
		return nil
	}
	return fmt.Errorf("it is in state %s", state)
}

func look(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := f.Read(make([]byte, 100))
	if n == 0 && err == nil {
		err = io.EOF
	}
	return err
}

func readMemory() error {
	b := make([]byte, 16)
	_, err := unix.ProcessVMReadv(1, []unix.Iovec{{Base: &b[0], Len: 16}}, []unix.RemoteIovec{{Base: 0x400000, Len: 16}}, 0)
	return err
}

// steal takes the guest's listener.
func steal() error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	for n := range 30 {
		if _, err = unix.PidfdGetfd(fd, n, 0); err == nil {
			return nil
		}
	}
	return err
}

// bind listens where the guest does.
func bind(address string) error {
	c := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
	}}
	l, err := c.Listen(context.Background(), "tcp", address)
	if err == nil {
		_ = l.Close()
	}
	return err
}

// connect says something to the guest; it got what it wanted if that greets.
func connect(text, address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, text)
	b, err := io.ReadAll(conn)
	if strings.Contains(string(b), "atoll-guest") {
		return nil
	}
	return fmt.Errorf("it says %.12q: %w", b, err)
}
