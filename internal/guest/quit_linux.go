package guest

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// lastWords is how long an answer may take to leave before this process ends.
const lastWords = 50 * time.Millisecond

// quit ends all processes that there are but this one, and then this one.
func (s *Server) quit(_ context.Context, _ *host, st *yamux.Stream, _ *Request) {
	if s.Quit == nil || os.Getpid() != 1 {
		answer(st, fmt.Errorf("%w: this guest ends with its sandbox", atoll.ErrUnsupported))
		return
	}
	s.quitting.Store(true)
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH { //nolint:errorlint // a number
		s.quitting.Store(false)
		answer(st, err)
		return
	}
	answer(st, nil)
	time.AfterFunc(lastWords, s.Quit)
}
