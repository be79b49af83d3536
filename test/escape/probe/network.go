//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// networkAttacks returns attacks that use the host's network. Their arguments are
// addresses of listeners of the test on the host.
func networkAttacks() map[string]attack {
	return map[string]attack{
		"net-tcp":        func() (string, error) { return dialHost("tcp", stringArgument(0)) },
		"net-udp":        exchangeUDP,
		"net-interfaces": findInterface,
		"net-route":      configureInterface,
		"net-own-bridge": func() (string, error) { return "an interface is made", addBridge() },
	}
}

// dialHost succeeds if the server sends the test's secret word.
func dialHost(network, address string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	b := make([]byte, 256)
	n, err := conn.Read(b)
	if word := os.Getenv("ATOLL_WORD"); n == 0 || word == "" || !containsWord(string(b[:n]), word) {
		return "", fmt.Errorf("the server does not send its word: %q, %w", b[:n], errors.Join(err, errors.New("refused")))
	}
	return fmt.Sprintf("%s answers %q", address, b[:n]), nil
}

func containsWord(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i:i+len(word)] == word {
			return true
		}
	}
	return false
}

// exchangeUDP succeeds if a UDP server answers.
func exchangeUDP() (string, error) {
	conn, err := net.Dial("udp", stringArgument(0)) //nolint:noctx // nothing is waited for
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return "", err
	}
	b := make([]byte, 64)
	n, err := conn.Read(b)
	return fmt.Sprintf("an answer of %d bytes", n), err
}

func findInterface() (string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return "interface " + i.Name, nil
		}
	}
	return "", fmt.Errorf("nothing but loopback among %d", len(list))
}

// configureInterface sets the flags of the loopback interface that it has anyway.
func configureInterface() (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_LOOPBACK | unix.IFF_RUNNING)
	return "an interface can be configured", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

func addBridge() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCBRADDBR, 0)
	if errno == unix.EPERM || errno == unix.ENOSYS || errno == unix.ENOPKG || errno == unix.EOPNOTSUPP {
		return errno
	}
	return nil // the kernel looked at the name
}
