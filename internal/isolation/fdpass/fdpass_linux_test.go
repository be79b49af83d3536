package fdpass

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// newTestPair returns two connected ends.
func newTestPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	a, file, err := NewPair()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Conn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// TestMessagesCarryFiles sends messages with and without a file.
func TestMessagesCarryFiles(t *testing.T) {
	a, b := newTestPair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		if err := errors.Join(Send(a, "no file"), Send(a, "a pipe", w), w.Close()); err != nil {
			t.Error(err)
		}
	}()
	var got string
	if files, err := Receive(b, &got); err != nil || got != "no file" || len(files) != 0 {
		t.Fatalf("%q, %v, %v", got, files, err)
	}
	files, err := Receive(b, &got)
	if err != nil || got != "a pipe" || len(files) != 1 {
		t.Fatalf("%q, %v, %v", got, files, err)
	}
	_, err = io.WriteString(files[0], "through the pipe")
	CloseAll(files)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "through the pipe" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestReceiveRejectsBadMessages checks the errors of a closed connection and of malformed messages.
func TestReceiveRejectsBadMessages(t *testing.T) {
	for _, c := range []struct {
		name, bytes, want string
	}{
		{"Closed", "", io.EOF.Error()},
		{"HalfSize", "\x00\x00", io.EOF.Error()},
		{"TooLarge", string(binary.BigEndian.AppendUint32(nil, MaxMessage+1)), "exceeds the limit"},
		{"Truncated", "\x00\x00\x00\x09{", io.ErrUnexpectedEOF.Error()},
		{"NoJSON", "\x00\x00\x00\x01{", "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newTestPair(t)
			if _, err := io.WriteString(a, c.bytes); err != nil {
				t.Fatal(err)
			}
			_ = a.Close() // the receiver must see the end
			var v any
			if files, err := Receive(b, &v); err == nil || !strings.Contains(err.Error(), c.want) || files != nil {
				t.Errorf("%v, %v", files, err)
			}
		})
	}
}

// TestSendRejectsLargeMessages checks the limits of size and files.
func TestSendRejectsLargeMessages(t *testing.T) {
	a, _ := newTestPair(t)
	if err := Send(a, strings.Repeat("x", MaxMessage)); err == nil {
		t.Error("a message above the limit was sent")
	}
	if err := Send(a, "", make([]*os.File, maxFiles+1)...); err == nil {
		t.Error("too many files were sent")
	}
}
