package microvm

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/inside"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// sharesMissing says why directories of the host can't be seen inside, by a
// protocol or by any if that is empty; nil: they can.
func (d *Driver) sharesMissing(proto string) error {
	return fmt.Errorf("mounts: %w by the microvm driver: not yet", atoll.ErrUnsupported)
}

// shares prepares the mounts of a sandbox. done is called when the machine was
// started, or was not.
func (d *Driver) shares(_ context.Context, r *record, _ *machine.Config, _ boot.Files) (list []inside.Share, done func(), err error) {
	if len(r.Spec.Mounts) > 0 {
		err = d.sharesMissing("")
	}
	return nil, func() {}, err
}
