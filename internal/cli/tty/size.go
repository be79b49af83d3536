package tty

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
)

// ScreenSize returns the size of a terminal, nothing where it does not say.
func ScreenSize(f *os.File) atoll.Size {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w < 0 || h < 0 || w > 1<<15 || h > 1<<15 {
		return atoll.Size{}
	}
	return atoll.Size{Rows: uint16(h), Cols: uint16(w)}
}

// WatchSize returns the sizes that a terminal takes on, until stop.
func WatchSize(f *os.File) (<-chan atoll.Size, func()) {
	changed := make(chan os.Signal, 1)
	notifyResize(changed)
	sizes, over, done := make(chan atoll.Size), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-changed:
			case <-over:
				return
			}
			select {
			case sizes <- ScreenSize(f):
			case <-over:
				return
			}
		}
	}()
	return sizes, func() {
		signal.Stop(changed)
		close(over)
		<-done
	}
}

const (
	InterruptGrace = 10 * time.Second // so does this time, after the first
)
