package app

import (
	"context"
	"errors"

	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
)

// ConvertInterrupt turns the error of a followed stream into the exit status after Ctrl-C.
func ConvertInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitcode.Silent(exitcode.Interrupted)
	}
	return err
}
