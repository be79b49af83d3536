package guest

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// silent is a guest that does not greet.
func silent(t *testing.T) net.Conn {
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a
}

// connected is what a call of Client came to.
type connected struct {
	c   *Client
	err error
}

func call(ctx context.Context, l *Link) <-chan connected {
	done := make(chan connected, 1)
	go func() {
		c, err := l.Client(ctx)
		done <- connected{c, err}
	}()
	return done
}

func TestNobodyWaitsForASilentGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int32
		l := &Link{ID: "x", Connect: func(context.Context) (net.Conn, error) {
			reached.Add(1)
			return silent(t), nil
		}}
		begin := time.Now()
		patient := call(context.Background(), l)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.Client(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("one with little time: %v", err)
		}
		if d := time.Since(begin); d != 50*time.Millisecond {
			t.Errorf("one with 50 ms waited %v", d)
		}
		l.Disconnect()
		if d := time.Since(begin); d != 50*time.Millisecond {
			t.Errorf("HangUp waited until %v", d)
		}
		got := <-patient
		if d := time.Since(begin); !errors.Is(got.err, atoll.ErrTimeout) || d != 50*time.Millisecond+greetingTime {
			t.Errorf("without a deadline: %v after %v", got.err, d)
		}
		if n := reached.Load(); n != 2 { // anew, because it was hung up
			t.Errorf("%d connections", n)
		}
	})
}

// Who makes the connection for all may go away without harm to the others.
func TestWaitersOutliveWhoConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int32
		good := muxed(t, func(mux *yamux.Session) { <-mux.CloseChan() })
		l := &Link{ID: "x", Connect: func(context.Context) (net.Conn, error) {
			if reached.Add(1) == 1 {
				return silent(t), nil
			}
			return good, nil
		}}
		defer l.Disconnect()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("I am gone")
		first := call(ctx, l)
		synctest.Wait()
		second, third := call(t.Context(), l), call(t.Context(), l)
		synctest.Wait()
		if n := reached.Load(); n != 1 {
			t.Errorf("%d connections at once", n)
		}
		cancel(gone)
		if got := <-first; !errors.Is(got.err, gone) {
			t.Errorf("the first: %v", got.err)
		}
		a, b := <-second, <-third
		if a.err != nil || b.err != nil || a.c != b.c || reached.Load() != 2 {
			t.Errorf("the others: %v, %v, the same %v, %d connections", a.err, b.err, a.c == b.c, reached.Load())
		}
	})
}

// What is wrong with the guest is told to all who wait, without trying again
// for each.
func TestWaitersShareAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int32
		l := &Link{ID: "x", Connect: func(context.Context) (net.Conn, error) {
			reached.Add(1)
			time.Sleep(time.Second)
			return nil, atoll.ErrState
		}}
		var all []<-chan connected
		for range 8 {
			all = append(all, call(t.Context(), l))
		}
		for _, one := range all {
			if got := <-one; !errors.Is(got.err, atoll.ErrState) || strings.Contains(got.err.Error(), "hung up") {
				t.Errorf("got %v", got.err)
			}
		}
		if n := reached.Load(); n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}
