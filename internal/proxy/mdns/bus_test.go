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
	var p packer
	p = append(p, 'l', kind, 0, 1)
	p.uint32(uint32(len(body)))
	p.uint32(1)
	p.uint32(0)
	p.align(8)
	p = append(p, 5, 1, 'u', 0)
	p.uint32(1)
	p.field(4, "s", "org.example.No")
	p[12] = byte(len(p) - 16)
	p.align(8)
	return append(p, body...)
}

func TestBusCall(t *testing.T) {
	b, err := answers(t, returned(2, []byte("body"))).do(t.Context(), call{to: "a.b", path: "/", face: "a.b", member: "M", args: []any{"x", int32(1), uint32(2)}})
	if err != nil || string(b) != "body" {
		t.Errorf("%q, %v", b, err)
	}
	var refused busError
	if _, err := answers(t, returned(3, nil)).do(t.Context(), call{member: "M"}); !errors.As(err, &refused) || refused != "org.example.No" {
		t.Errorf("an error: %v", err)
	}
	if _, err := answers(t, nil).do(t.Context(), call{member: "M"}); !errors.Is(err, io.EOF) {
		t.Errorf("gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := answers(t, returned(2, nil)).do(ctx, call{member: "M"}); err == nil {
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
	var p packer
	p = append(p, 7)
	p.string("text")
	p.signature("iiuss")
	p.uint32(1 << 31)
	u := unpacker{b: p, order: binary.LittleEndian}
	got := []any{u.byte(), u.string(), u.signature(), u.uint32(), u.ok(), u.bad}
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
			_, _, fault, body, err := x.read()
			if err != nil {
				return
			}
			if len(fault)+len(body) > len(b) {
				t.Errorf("%d bytes of %d", len(fault)+len(body), len(b))
			}
		}
	})
}
