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

// answerDelay is the time that the answer has to be sent before this process ends.
const answerDelay = 50 * time.Millisecond

// handleQuit handles OpQuit: it kills all other processes and then ends this one.
func (s *Server) handleQuit(_ context.Context, _ *host, st *yamux.Stream, _ *Request) {
	if s.Quit == nil || os.Getpid() != 1 {
		sendAnswer(st, fmt.Errorf("%w: this guest ends with its sandbox", atoll.ErrUnsupported))
		return
	}
	s.shuttingDown.Store(true)
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH { //nolint:errorlint // a system call's errno
		s.shuttingDown.Store(false)
		sendAnswer(st, err)
		return
	}
	sendAnswer(st, nil)
	time.AfterFunc(answerDelay, s.Quit)
}
