package api

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// TestPipeIsAConnection: what the package net promises of connections.
func TestPipeIsAConnection(t *testing.T) {
	nettest.TestConn(t, func() (ours, theirs net.Conn, stop func(), err error) {
		ours, theirs = newMemoryConns()
		return ours, theirs, func() {
			_ = ours.Close() // it never fails
			_ = theirs.Close()
		}, nil
	})
}

// TestPipeBuffersUnreadWrites: both ends may write before either reads, as two
// WebSocket peers that answer each other's pings do.
func TestPipeBuffersUnreadWrites(t *testing.T) {
	ours, theirs := newMemoryConns()
	for _, c := range []net.Conn{ours, theirs} {
		if _, err := c.Write([]byte("pong")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []net.Conn{ours, theirs} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := ours.Read(make([]byte, 9)); err == nil {
		t.Error("one that is closed is read")
	}
	ours, theirs = newMemoryConns()
	big := bytes.Repeat([]byte("x"), 3*memoryBuffer)
	go func() {
		_, _ = ours.Write(big) // what was read tells
		_ = ours.Close()
	}()
	if got, err := io.ReadAll(theirs); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d of %d bytes, %v", len(got), len(big), err)
	}
}
