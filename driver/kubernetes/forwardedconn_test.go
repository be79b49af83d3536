package kubernetes

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
)

// TestGuestSpeaksFirst simulates a runtime that connects a stream to the port before it reports that the
// stream is open.
func TestGuestSpeaksFirst(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	for _, end := range []net.Conn{ours, theirs} {
		if err := end.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		var out bytes.Buffer
		f, err := spdy.NewFramer(&out, theirs)
		for range 2 {
			if err == nil {
				_, err = f.ReadFrame()
			}
		}
		for _, frame := range []spdy.Frame{
			&spdy.SynReplyFrame{StreamId: errorStream},
			&spdy.DataFrame{StreamId: dataStream, Data: []byte("hello ")},
			&spdy.SynReplyFrame{StreamId: dataStream},
			&spdy.DataFrame{StreamId: dataStream, Data: []byte("host"), Flags: spdy.DataFlagFin},
			&spdy.DataFrame{StreamId: errorStream, Flags: spdy.DataFlagFin},
		} {
			if err == nil {
				err = f.WriteFrame(frame)
			}
		}
		if err == nil {
			_, err = theirs.Write(out.Bytes())
		}
		done <- err
	}()
	c := &forwardedConn{conn: ours, r: bufio.NewReader(ours), port: 1}
	c.notFull.L = &c.mu
	if err := c.openStreams(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello host" {
		t.Errorf("the port sends %q, %v", b, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
