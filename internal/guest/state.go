package guest

import (
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// CheckState reports why the guest of a sandbox in a state can't do an operation, named by the
// user's verb. The guest of a paused sandbox does everything but run programs.
func CheckState(op string, state atoll.State) error {
	switch state {
	case atoll.Running:
		return nil
	case atoll.Paused:
		if op != "exec" && op != "detach" && op != "terminal" {
			return nil
		}
		return fmt.Errorf("%w: it is %s", atoll.ErrState, state)
	case atoll.Stopped:
		return fmt.Errorf("%w: it is %s", atoll.ErrState, state)
	}
	return fmt.Errorf("%w: it is %s", atoll.ErrUnavailable, state)
}
