package guest

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// A guest whose driver has not said that it may end itself, or that is not alone
// with what it runs, ends nothing.
func TestQuitIsForProcess1(t *testing.T) {
	c := inProcess(t)
	if err := c.Call(t.Context(), OpQuit, nil, nil); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	must(t, c.Call(t.Context(), OpReady, nil, nil))
	if (&Link{}).Quit(t.Context()) {
		t.Error("a guest that nobody has reached has ended")
	}
	s := &Server{Quit: func() { t.Error("it has ended a process that is not process 1") }}
	must(t, linked(t, s).Link.runOp(t.Context(), "quit", func(c *Client) error {
		if err := c.Call(t.Context(), OpQuit, nil, nil); !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("%v", err)
		}
		return nil
	}))
}
