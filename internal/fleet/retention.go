package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// retain removes workspaces whose time is over, when the fleet's cron expression
// says so, until ctx is done.
func (f *Fleet) retain(ctx context.Context) error { return atoll.ErrUnsupported }
