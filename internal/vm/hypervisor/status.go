package hypervisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Phase is the phase of a VM's life.
type Phase string

// The phases.
const (
	Booting Phase = "booting"
	Running Phase = "running"
	Paused  Phase = "paused" // by Pause
	Stuck   Phase = "stuck"  // the hypervisor stopped it because of Status.Problem; Resume tries again
	Ended   Phase = "over"
)

// Status is the state of a VM.
type Status struct {
	Phase   Phase
	Facts   Facts
	Answers bool   // the guest has just answered a ping; false while the VM does not run
	Problem string `json:",omitempty"` // of Stuck: one line
	End     *End   `json:",omitempty"` // of Over
}

// Facts are properties of a VM.
type Facts struct {
	Accel, Type      string
	Version          string   // of the hypervisor
	PID              int      // of the hypervisor
	Monitor          int      // pid of its monitor
	Cloned           bool     // started from a template
	Resident         int64    // bytes of the host's memory that the hypervisor uses; of a clone, without the template's
	MissingIsolation []string `json:"Weak,omitempty"` // parts of the hypervisor's isolation that are missing on this host, and why
}

// Reason is the kind of cause why a VM ended.
type Reason string

// The reasons.
const (
	ByOrder    Reason = "order"    // PowerOff or Kill
	ByGuest    Reason = "guest"    // the guest switched itself off
	ByPanic    Reason = "panic"    // the guest's kernel panicked
	ByMemory   Reason = "memory"   // the memory limit of the host's control group
	BySignal   Reason = "signal"   // another process killed the hypervisor
	ByBoot     Reason = "boot"     // the guest never sent its hello
	ByTimer    Reason = "timer"    // the guest's kernel has measured its timer wrongly: another boot may succeed
	BySetup    Reason = "setup"    // the guest refused its setup
	ByProtocol Reason = "wire"     // the guest closed its connection, or broke the protocol
	ByDisk     Reason = "disk"     // a disk of the host failed, or was full, before the guest served
	ByFault    Reason = "fault"    // the hypervisor failed
	ByMonitor  Reason = "monitor"  // the monitor was killed, and the hypervisor with it
	ByTemplate Reason = "template" // the template can't be loaded
)

// End describes why a VM ended.
type End struct {
	Reason  Reason    `json:"reason"`
	Message string    `json:"message"`        // one line for users
	Code    string    `json:"code,omitempty"` // of BySetup: the guest's error code
	At      time.Time `json:"at"`
}

// timerError is the error of a VM that ended by ByTimer.
type timerError struct{ error }

func (e *timerError) Unwrap() error { return e.error }

// Err returns the end as an error that matches an error of package atoll.
func (e *End) Err() error {
	kind := atoll.ErrUnavailable
	switch e.Reason {
	case ByMemory:
		kind = atoll.ErrQuota
	case ByOrder, ByGuest:
		kind = atoll.ErrState
	}
	if e.Reason == ByTimer {
		return &timerError{fmt.Errorf("%w: %s", kind, e.Message)}
	}
	return fmt.Errorf("%w: %s", kind, strings.TrimPrefix(e.Message, kind.Error()+": ")) // the guest's message may begin with it too
}
