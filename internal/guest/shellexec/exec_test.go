package shellexec

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestUnreadableStatusIsAnError runs commands whose script reports their end with a status that is
// missing or no number from 0 to 255: none of them succeeds.
func TestUnreadableStatusIsAnError(t *testing.T) {
	for mark, want := range map[string]int{"": -1, "s": -1, "x": -1, "-1": -1, "256": -1, "3 ": -1, "0": 0, "3": 3, "137s": 137, "255": 255} {
		for _, tty := range []*atoll.TTY{nil, {}} {
			s := &Shell{Dir: "/", Run: func(_ context.Context, c *Call) (int, error) {
				token := c.Args[4]
				_, _ = fmt.Fprintf(c.Out, "\036%sp7;\036%se%s;", token, token, mark)
				if c.Err != nil {
					_, _ = fmt.Fprintf(c.Err, "\036%se%s;", token, mark)
				}
				return 0, nil
			}}
			exit, err := s.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}, TTY: tty})
			if want < 0 && !errors.Is(err, atoll.ErrUnavailable) || want >= 0 && (err != nil || exit.Code != want) {
				t.Errorf("status %q, terminal %v: %+v, %v", mark, tty != nil, exit, err)
			}
		}
	}
}
