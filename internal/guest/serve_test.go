package guest

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-yamux/v5"
)

// TestFewLargeRequestsAtOnce begins many requests of 16 MB at once. A server of calls has few of them
// in memory, and answers small ones meanwhile.
func TestFewLargeRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		server := CallServer{Calls: Calls{"call": func(context.Context, *Request) (any, error) { return "answer", nil }}}
		var work sync.WaitGroup
		defer work.Wait()
		work.Go(func() { server.ServeConn(theirs) })
		if line, err := readFirstLine(ours, 64); err != nil || !strings.HasPrefix(line, Greeting) {
			t.Fatalf("%q, %v", line, err)
		}
		mux, err := yamux.Client(ours, muxConfig(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer mux.Close()
		var taken atomic.Int64
		part := make([]byte, 64<<10)
		for range 64 {
			st, err := mux.OpenStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			work.Go(func() {
				if _, err := st.Write(binary.BigEndian.AppendUint32(nil, maxHeader)); err != nil {
					return
				}
				for range maxHeader/len(part) - 1 { // never its end
					n, err := st.Write(part)
					taken.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
		}
		synctest.Wait()
		if n := taken.Load(); n > 64<<20 {
			t.Errorf("the server has %d MB of requests that are not complete", n>>20)
		}
		c := &Client{mux: mux, version: Version}
		var answer string
		if err := c.Call(t.Context(), "call", nil, &answer); err != nil || answer != "answer" {
			t.Errorf("a small request: %q, %v", answer, err)
		}
	})
}

// TestListOfEmptyNames lists a directory of a hostile guest, whose entries need more memory than text.
func TestListOfEmptyNames(t *testing.T) {
	_, err := readList(bufio.NewReader(strings.NewReader(strings.Repeat("{}", maxEntries+1))))
	if err == nil {
		t.Error("the list has no limit")
	}
}
