package server

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
		ours, theirs = inMemory()
		return ours, theirs, func() {
			_ = ours.Close() // it never fails
			_ = theirs.Close()
		}, nil
	})
}

// TestPipeTakesWhatNobodyReads: both ends may say something before either listens,
// as two that answer each other's pings do.
func TestPipeTakesWhatNobodyReads(t *testing.T) {
	ours, theirs := inMemory()
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
	ours, theirs = inMemory()
	big := bytes.Repeat([]byte("x"), 3*wayRoom)
	go func() {
		_, _ = ours.Write(big) // what was read tells
		_ = ours.Close()
	}()
	if got, err := io.ReadAll(theirs); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d of %d bytes, %v", len(got), len(big), err)
	}
}
