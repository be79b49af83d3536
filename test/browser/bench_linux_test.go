package browser_test

import (
	"context"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// firstWrite is a channel that is closed at the first write.
type firstWrite chan struct{}

func (f firstWrite) Write(p []byte) (int, error) {
	select {
	case f <- struct{}{}:
	default:
	}
	return len(p), nil
}

// BenchmarkAttach measures the time from the call to the first screen, for which the
// goal of SC-004 is 500 ms: with a client, and with a browser that opens a link.
func BenchmarkAttach(b *testing.B) {
	b.Run("Client", func(b *testing.B) {
		s := newTestServer(b)
		s.openTerminal("bench")
		sb := s.openSandbox()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			shown, left := make(firstWrite, 1), make(chan struct{})
			go func() {
				defer close(left)
				_, _ = sb.AttachTerminal(ctx, "bench", atoll.Attachment{Stdout: shown, ReadOnly: true}) // it ends by cancel
			}()
			<-shown
			cancel()
			<-left
		}
	})
	b.Run("Browser", func(b *testing.B) {
		web := sharedBrowser(b)
		s := newTestServer(b)
		s.openTerminal("bench")
		link, _ := s.createLink("bench", readAndRun...)
		var all float64
		for b.Loop() {
			p := web.Open(b, link, browser.Window{})
			waitForText(p, "$")
			b.StopTimer()
			var ms float64
			p.Eval(`performance.now()`, &ms) // since the navigation, without the time for opening a window
			all += ms
			p.Close()
			b.StartTimer()
		}
		b.ReportMetric(all/float64(b.N), "page-ms/op")
	})
}
