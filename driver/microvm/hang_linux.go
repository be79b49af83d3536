package microvm

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// unwell says what is wrong with a machine that is there; empty: nothing.
func unwell(m *machine.Machine, now machine.Status) (reason, why string) {
	switch {
	case now.Phase == machine.Stuck:
		return "stuck", now.Problem + ": mend that, then start the sandbox: the machine waits, and goes on where it is"
	case now.Phase == machine.Paused:
		return "halted", "the machine's processors are stopped: stop and start the sandbox"
	case now.Phase == machine.Running && !now.Answers:
		if w, err := m.Work(); err == nil && w == machine.Halted {
			return "halted", fmt.Sprintf("a signal has stopped the machine's hypervisor: 'kill -CONT %d' lets it go on, or stop and start the sandbox", now.Facts.PID)
		}
		return "hung", "the machine runs, but its guest does not take a message: stop and start the sandbox"
	}
	return "", ""
}

// A machine that owes an answer and has done nothing for so long gives none. It is
// looked at so often; a look at one that works takes back two at one that does not,
// since on a busy host the little that an idle machine does waits for a processor.
const (
	idleTime  = 10 * time.Second
	lookTime  = 250 * time.Millisecond
	busyLooks = 2
)

// watch waits until a machine that owes an answer has done nothing for a while: its
// hypervisor neither runs nor waits for a processor or a disk of the host, as that of
// a loaded one does. The error says so; nil: ctx is done, or it can't be seen.
func (d *Driver) watch(ctx context.Context, id string) error {
	m, err := d.machine(id)
	if err != nil {
		return nil //nolint:nilerr // who waits for its answer is told
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
		w, err := m.Work()
		if err != nil {
			return nil //nolint:nilerr // it has ended: likewise
		}
		if idle++; w == machine.Busy {
			idle = max(0, idle-1-busyLooks)
		}
	}
	return fmt.Errorf("%w: its machine has done nothing for %v", atoll.ErrTimeout, idleTime)
}
