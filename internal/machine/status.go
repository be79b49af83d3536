package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Phase is what a machine is at.
type Phase string

// The phases.
const (
	Booting Phase = "booting"
	Running Phase = "running"
	Paused  Phase = "paused" // by Pause
	Stuck   Phase = "stuck"  // the hypervisor stopped it, Status.Problem says why; Resume tries again
	Over    Phase = "over"
)

// Status is how a machine is.
type Status struct {
	Phase   Phase
	Facts   Facts
	Answers bool   // the guest took a message just now; false while it doesn't run
	Problem string `json:",omitempty"` // of Stuck: one line
	End     *End   `json:",omitempty"` // of Over
}

// Facts are what a machine is made of.
type Facts struct {
	Accel, Type string
	Version     string   // of the hypervisor
	PID         int      // of the hypervisor
	Monitor     int      // pid of its monitor
	Cloned      bool     // from a template
	Resident    int64    // bytes of the host's memory that the hypervisor holds; of a clone, without what is its template's
	Weak        []string `json:",omitempty"` // walls around the hypervisor that are missing here, and why
}

// Reason tells why a machine ended.
type Reason string

// The reasons.
const (
	ByOrder    Reason = "order"    // PowerOff or Kill
	ByGuest    Reason = "guest"    // it switched itself off
	ByPanic    Reason = "panic"    // its kernel gave up
	ByMemory   Reason = "memory"   // the host's control group had no memory for it
	BySignal   Reason = "signal"   // somebody killed the hypervisor
	ByBoot     Reason = "boot"     // it never came as far as to speak
	BySetup    Reason = "setup"    // the guest refused what it was told
	ByWire     Reason = "wire"     // the guest's end of the wire was closed, or is no wire
	ByDisk     Reason = "disk"     // a disk of the host failed, or was full, before it served
	ByFault    Reason = "fault"    // the hypervisor ended in a way of its own
	ByMonitor  Reason = "monitor"  // the monitor was killed, and the hypervisor with it
	ByTemplate Reason = "template" // the template can't be woken
)

// End is why a machine ended.
type End struct {
	Reason  Reason    `json:"reason"`
	Message string    `json:"message"`        // a line for people
	Code    string    `json:"code,omitempty"` // of BySetup: the reason that the guest named
	At      time.Time `json:"at"`
}

// Err returns the end as an error that matches what kind of end it was.
func (e *End) Err() error {
	kind := atoll.ErrUnavailable
	switch e.Reason {
	case ByMemory:
		kind = atoll.ErrQuota
	case ByOrder, ByGuest:
		kind = atoll.ErrState
	}
	return fmt.Errorf("%w: %s", kind, strings.TrimPrefix(e.Message, kind.Error()+": ")) // guests say it too
}
