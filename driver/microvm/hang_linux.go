package microvm

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// diagnoseVM returns what is wrong with an existing VM; empty: nothing.
func diagnoseVM(m *hypervisor.VM, now hypervisor.Status) (reason, why string) {
	switch {
	case now.Phase == hypervisor.Stuck:
		return "stuck", now.Problem + ": fix that, then start the sandbox: the VM waits and continues from there"
	case now.Phase == hypervisor.Paused:
		return "halted", "the VM's processors are stopped: stop and start the sandbox"
	case now.Phase == hypervisor.Running && !now.Answers:
		if w, err := m.Activity(); err == nil && w == hypervisor.Halted {
			return "halted", fmt.Sprintf("a signal has stopped the VM's hypervisor: 'kill -CONT %d' continues it, or stop and start the sandbox", now.Facts.PID)
		}
		return "hung", "the VM runs, but its guest does not take a message: stop and start the sandbox"
	}
	return "", ""
}

// A VM that has to answer and does nothing for idleTime is hung. It is observed every lookTime. An
// observation of a busy VM cancels busyLooks observations of an idle one, since on a busy host the
// little work of an idle VM has to wait for a processor.
const (
	idleTime  = 10 * time.Second
	lookTime  = 250 * time.Millisecond
	busyLooks = 2
)

// waitForHang waits until a VM that has to answer has done nothing for a while: its hypervisor
// neither runs nor waits for a processor or a disk of the host, as on a loaded host. It then returns
// an error; it returns nil when ctx is done or the VM can't be observed.
func (d *Driver) waitForHang(ctx context.Context, id string) error {
	m, err := d.openVM(id)
	if err != nil {
		return nil //nolint:nilerr // the caller gets that error with its answer
	}
	defer m.Close()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for idle := 0; idle < int(idleTime/lookTime); {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		w, err := m.Activity()
		if err != nil {
			return nil //nolint:nilerr // the VM has ended: likewise
		}
		if idle++; w == hypervisor.Busy {
			idle = max(0, idle-1-busyLooks)
		}
	}
	return fmt.Errorf("%w: its VM has done nothing for %v", atoll.ErrTimeout, idleTime)
}
