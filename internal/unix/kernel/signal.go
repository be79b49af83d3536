package kernel

import (
	"math/bits"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Signal is a POSIX signal, with Linux's numbers.
type Signal int

// The signals with a meaning here; others exist by number.
const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGABRT  Signal = 6
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGSEGV  Signal = 11
	SIGUSR2  Signal = 12
	SIGPIPE  Signal = 13
	SIGALRM  Signal = 14
	SIGTERM  Signal = 15
	SIGCHLD  Signal = 17
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGTTIN  Signal = 21
	SIGTTOU  Signal = 22
	SIGURG   Signal = 23
	SIGWINCH Signal = 28
)

// NumSignals is the highest signal number plus one.
const NumSignals = 65

var signalNames = strings.Fields(`EXIT HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

// String returns the name without SIG, or the number if it has no name.
func (s Signal) String() string {
	if s >= 0 && int(s) < len(signalNames) {
		return signalNames[s]
	}
	switch {
	case s >= 34 && s <= 49:
		return "RTMIN" + formatOffset(int(s)-34, "+")
	case s >= 50 && s < NumSignals:
		return "RTMAX" + formatOffset(64-int(s), "-")
	}
	return itoa(int(s))
}

func formatOffset(n int, sign string) string {
	if n == 0 {
		return ""
	}
	return sign + itoa(n)
}

// ParseSignal returns the signal with a name, with or without SIG, in any case.
func ParseSignal(name string) (Signal, bool) {
	n := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for s := Signal(0); s < NumSignals; s++ {
		if s.String() == n && (int(s) < len(signalNames) || s >= 34) {
			return s, true
		}
	}
	return 0, false
}

// Description returns the text that a shell prints for a process ended by s.
func (s Signal) Description() string {
	switch s {
	case SIGHUP:
		return "Hangup"
	case SIGINT:
		return "Interrupt"
	case SIGQUIT:
		return "Quit"
	case 4:
		return "Illegal instruction"
	case 5:
		return "Trace/breakpoint trap"
	case SIGABRT:
		return "Aborted"
	case 7:
		return "Bus error"
	case 8:
		return "Floating point exception"
	case SIGKILL:
		return "Killed"
	case SIGUSR1:
		return "User defined signal 1"
	case SIGSEGV:
		return "Segmentation fault"
	case SIGUSR2:
		return "User defined signal 2"
	case SIGPIPE:
		return "Broken pipe"
	case SIGALRM:
		return "Alarm clock"
	case SIGTERM:
		return "Terminated"
	case SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU:
		return "Stopped"
	}
	return "Signal " + itoa(int(s))
}

func (s Signal) bit() uint64 { return 1 << (uint(s) - 1) }

// Disposition is the action of a process for a signal.
type Disposition int

// The dispositions. TakeSignal returns caught signals.
const (
	Default Disposition = iota
	Ignore
	Catch
)

// SetSignal sets the disposition of s. That of SIGKILL and SIGSTOP can't be changed.
func (p *Proc) SetSignal(s Signal, d Disposition) {
	if s <= 0 || s >= NumSignals || s == SIGKILL || s == SIGSTOP {
		return
	}
	p.ignored.And(^s.bit())
	p.handled.And(^s.bit())
	switch d {
	case Ignore:
		p.ignored.Or(s.bit())
		p.caught.And(^s.bit())
	case Catch:
		p.handled.Or(s.bit())
	case Default:
		p.caught.And(^s.bit())
	}
}

// SignalIgnored reports whether the process ignores s.
func (p *Proc) SignalIgnored(s Signal) bool { return p.ignored.Load()&s.bit() != 0 }

// TakeSignal returns and removes a caught signal.
func (p *Proc) TakeSignal() (Signal, bool) {
	m := p.caught.Load()
	if m == 0 {
		return 0, false
	}
	s := Signal(bits.TrailingZeros64(m) + 1)
	p.caught.And(^s.bit())
	return s, true
}

// HasCaughtSignal reports whether there is a caught signal to take.
func (p *Proc) HasCaughtSignal() bool { return p.caught.Load() != 0 }

// Poll delivers pending signals, like calls that wait.
func (p *Proc) Poll() { p.check() }

// Kill sends s to the process; 0 only checks that the process exists. It is safe for concurrent
// use.
func (p *Proc) Kill(s Signal) error {
	if s < 0 || s >= NumSignals {
		return vfs.EINVAL
	}
	if p.exited.Load() {
		return vfs.ESRCH
	}
	if s != 0 {
		p.raiseSignal(s)
	}
	return nil
}

// KillGroup sends s to every process of a group.
func (k *Kernel) KillGroup(group int, s Signal) error {
	err := error(vfs.ESRCH)
	for _, p := range k.Procs() {
		if p.Group() == group && p.Kill(s) == nil {
			err = nil
		}
	}
	return err
}

const ignoredByDefault = 1<<(SIGCHLD-1) | 1<<(SIGURG-1) | 1<<(SIGWINCH-1)

// raiseSignal marks the signal as pending, and wakes the process.
func (p *Proc) raiseSignal(s Signal) {
	b := s.bit()
	switch {
	case s == SIGCONT:
		p.pending.And(^(SIGSTOP.bit() | SIGTSTP.bit() | SIGTTIN.bit() | SIGTTOU.bit()))
		p.stopped.Store(false)
		p.wakeUp()
		p.passToCallee(s)
		if p.handled.Load()&b == 0 {
			return
		}
	case p.ignored.Load()&b != 0:
		return
	case p.handled.Load()&b == 0 && b&ignoredByDefault != 0:
		return
	}
	p.pending.Or(b)
	p.wakeUp()
	p.passToCallee(s)
}

// passToCallee forwards a signal that ends or stops the process to the child that runs on its
// goroutine: the process itself could act on it only afterwards.
func (p *Proc) passToCallee(s Signal) {
	if c := p.callee.Load(); c != nil && (s == SIGKILL || s == SIGSTOP || p.handled.Load()&s.bit() == 0) {
		c.raiseSignal(s)
	}
}

// passPending forwards signals that arrived before c was visible, which is about to run on the
// goroutine of p.
func (p *Proc) passPending(c *Proc) {
	m := p.pending.Load() &^ (p.handled.Load() | p.ignored.Load() | ignoredByDefault)
	for ; m != 0; m &= m - 1 {
		c.raiseSignal(Signal(bits.TrailingZeros64(m) + 1))
	}
}

// check delivers pending signals, and blocks while the kernel is frozen.
func (p *Proc) check() {
	if p.pending.Load() != 0 || p.k.frozen.Load() {
		p.deliverSignals()
	}
}

func (p *Proc) deliverSignals() {
	if p.k.frozen.Load() {
		p.waitWhileFrozen()
	}
	m := p.pending.Swap(0)
	if m&SIGKILL.bit() != 0 {
		p.exitBySignal(SIGKILL)
	}
	for ; m != 0; m &= m - 1 {
		s := Signal(bits.TrailingZeros64(m) + 1)
		switch {
		case p.ignored.Load()&s.bit() != 0:
		case p.handled.Load()&s.bit() != 0:
			p.caught.Or(s.bit())
		case s == SIGSTOP || s == SIGTSTP || s == SIGTTIN || s == SIGTTOU:
			p.haltUntilContinued()
		case s.bit()&ignoredByDefault != 0 || s == SIGCONT:
		default:
			p.exitBySignal(s)
		}
	}
}

// haltUntilContinued keeps the process stopped until it is continued or killed.
func (p *Proc) haltUntilContinued() {
	p.stopped.Store(true)
	for q := p.parent; q != nil; q = q.parent { // a parent may own the goroutine
		q.wakeUp()
	}
	for p.stopped.Load() {
		if p.pending.Load()&SIGKILL.bit() != 0 {
			p.stopped.Store(false)
			p.exitBySignal(SIGKILL)
		}
		p.sleepUntilWoken(blockInner)
	}
	p.wakeUp() // the wake-up may have been for what the process waited for before
}

// Stopped reports whether a signal has stopped the process, or the child that runs on its
// goroutine. It is safe for concurrent use.
func (p *Proc) Stopped() bool {
	for q := p; q != nil; q = q.callee.Load() {
		if q.stopped.Load() {
			return true
		}
	}
	return false
}

// exitBySignal ends the process now, as if by the signal.
func (p *Proc) exitBySignal(s Signal) {
	p.killedBy = s
	panic(unwind{p})
}

// Die ends the process as if by the signal, without running a handler.
func (p *Proc) Die(s Signal) { p.exitBySignal(s) }

func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// PeekSignal returns the caught signal that TakeSignal would return next, without removing it.
func (p *Proc) PeekSignal() (Signal, bool) {
	m := p.caught.Load()
	if m == 0 {
		return 0, false
	}
	return Signal(bits.TrailingZeros64(m) + 1), true
}

// DyingSignal returns the signal that is ending the process; 0 if none is. Deferred functions can still
// use the process then, but not after SIGKILL.
func (p *Proc) DyingSignal() Signal { return p.killedBy }
