package mdns

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

// answers is a bus that says the same to everybody.
func answers(t *testing.T, b []byte) *bus {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer there.Close()
		_, _ = there.Read(make([]byte, 4096))
		_, _ = there.Write(b)
	}()
	t.Cleanup(func() {
		here.Close()
		<-done
	})
	return &bus{conn: here, r: bufio.NewReader(here)}
}

// returned makes the answer to the first call.
func returned(kind byte, body []byte) []byte {
	var p busEncoder
	p = append(p, 'l', kind, 0, 1)
	p.writeUint32(uint32(len(body)))
	p.writeUint32(1)
	p.writeUint32(0)
	p.alignTo(8)
	p = append(p, 5, 1, 'u', 0)
	p.writeUint32(1)
	p.writeField(4, "s", "org.example.No")
	p[12] = byte(len(p) - 16)
	p.alignTo(8)
	return append(p, body...)
}

func TestBusCall(t *testing.T) {
	b, err := answers(t, returned(2, []byte("body"))).callMethod(t.Context(), methodCall{to: "a.b", path: "/", iface: "a.b", member: "M", args: []any{"x", int32(1), uint32(2)}})
	if err != nil || string(b) != "body" {
		t.Errorf("%q, %v", b, err)
	}
	var refused busError
	if _, err := answers(t, returned(3, nil)).callMethod(t.Context(), methodCall{member: "M"}); !errors.As(err, &refused) || refused != "org.example.No" {
		t.Errorf("an error: %v", err)
	}
	if _, err := answers(t, nil).callMethod(t.Context(), methodCall{member: "M"}); !errors.Is(err, io.EOF) {
		t.Errorf("gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := answers(t, returned(2, nil)).callMethod(ctx, methodCall{member: "M"}); err == nil {
		t.Error("a call whose context is done is made")
	}
}

func TestBusAddress(t *testing.T) {
	for address, want := range map[string]error{"tcp:host=evil": atoll.ErrUnsupported, "unix:path=/nonexistent": atoll.ErrUnavailable} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
		if _, err := dialBus(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// What is packed is read as it was.
func TestBusValues(t *testing.T) {
	var p busEncoder
	p = append(p, 7)
	p.writeString("text")
	p.writeSignature("iiuss")
	p.writeUint32(1 << 31)
	u := busDecoder{b: p, order: binary.LittleEndian}
	got := []any{u.readByte(), u.readString(), u.readSignature(), u.readUint32(), u.hasMore(), u.failed}
	if d := cmp.Diff([]any{byte(7), "text", "iiuss", uint32(1 << 31), false, false}, got); d != "" {
		t.Error(d)
	}
}

// Whatever a bus says, it is bounded, and no panic.
func FuzzBus(f *testing.F) {
	f.Add(returned(2, []byte("body")))
	f.Add(returned(3, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := &bus{r: bufio.NewReader(bytes.NewReader(b))}
		for {
			_, _, fault, body, err := x.readMessage()
			if err != nil {
				return
			}
			if len(fault)+len(body) > len(b) {
				t.Errorf("%d bytes of %d", len(fault)+len(body), len(b))
			}
		}
	})
}
