package guest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// TestListsNoMoreTerminalsThanThereCanBe has a guest answer with more.
func TestListsNoMoreTerminalsThanThereCanBe(t *testing.T) {
	for n, right := range map[int]bool{0: true, 2: true, maxTerminalList: true, maxTerminalList + 1: false, 1 << 20: false} {
		body := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, n), ",") + "]")
		conn := muxed(t, func(mux *yamux.Session) {
			st, err := mux.AcceptStream()
			if err != nil {
				return
			}
			var q Request
			if readMessage(st, &q) == nil {
				_ = writeMessage(st, Response{Body: body}) // the other may be gone
			}
			<-mux.CloseChan()
		})
		l := &Link{ID: "x", Connect: func(context.Context) (net.Conn, error) { return conn, nil }}
		list, err := l.ListTerminals(t.Context())
		if right && (err != nil || len(list) != n) || !right && (err == nil || errors.Is(err, atoll.ErrUnavailable) || len(list) > maxTerminalList) {
			t.Errorf("%d: %d terminals, %v", n, len(list), err)
		}
		l.Disconnect()
	}
}
