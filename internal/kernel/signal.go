package kernel

import (
	"math/bits"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Signal is a POSIX signal, with Linux's numbers.
type Signal int

// The signals that mean something here; the others exist by number.
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

// NumSignals is one more than the highest signal.
const NumSignals = 65

var signalNames = strings.Fields(`EXIT HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

// String returns the name without SIG, or the number where there is none.
func (s Signal) String() string {
	if s >= 0 && int(s) < len(signalNames) {
		return signalNames[s]
	}
	switch {
	case s >= 34 && s <= 49:
		return "RTMIN" + plus(int(s)-34, "+")
	case s >= 50 && s < NumSignals:
		return "RTMAX" + plus(64-int(s), "-")
	}
	return itoa(int(s))
}

func plus(n int, sign string) string {
	if n == 0 {
		return ""
	}
	return sign + itoa(n)
}

// SignalNamed returns the signal with that name, with or without SIG, in
// any case.
func SignalNamed(name string) (Signal, bool) {
	n := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for s := Signal(0); s < NumSignals; s++ {
		if s.String() == n && (int(s) < len(signalNames) || s >= 34) {
			return s, true
		}
	}
	return 0, false
}

// Description returns what a shell prints of a process ended by s.
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

// Disposition is what a process does about a signal.
type Disposition int

// The dispositions. A caught signal waits for TakeSignal.
const (
	Default Disposition = iota
	Ignore
	Catch
)

// SetSignal says what the process does about s from now on. SIGKILL and
// SIGSTOP can't be changed.
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

// TakeSignal returns a caught signal that was not yet taken.
func (p *Proc) TakeSignal() (Signal, bool) {
	m := p.caught.Load()
	if m == 0 {
		return 0, false
	}
	s := Signal(bits.TrailingZeros64(m) + 1)
	p.caught.And(^s.bit())
	return s, true
}

// Caught reports whether a caught signal waits to be taken.
func (p *Proc) Caught() bool { return p.caught.Load() != 0 }

// Poll delivers the signals that have come, as calls do that wait.
func (p *Proc) Poll() { p.check() }

// Kill sends s to the process; 0 only asks whether it is there. Any
// goroutine may call it.
func (p *Proc) Kill(s Signal) error {
	if s < 0 || s >= NumSignals {
		return vfs.EINVAL
	}
	if p.exited.Load() {
		return vfs.ESRCH
	}
	if s != 0 {
		p.raise(s)
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

// raise notes the signal and wakes the process.
func (p *Proc) raise(s Signal) {
	b := s.bit()
	switch {
	case s == SIGCONT:
		p.pending.And(^(SIGSTOP.bit() | SIGTSTP.bit() | SIGTTIN.bit() | SIGTTOU.bit()))
		p.stopped.Store(false)
		p.kick()
		p.pass(s)
		if p.handled.Load()&b == 0 {
			return
		}
	case p.ignored.Load()&b != 0:
		return
	case p.handled.Load()&b == 0 && b&ignoredByDefault != 0:
		return
	}
	p.pending.Or(b)
	p.kick()
	p.pass(s)
}

// pass hands a signal that ends or stops the process on to the child whose
// goroutine it lives on: it could not act on it before that one is through.
func (p *Proc) pass(s Signal) {
	if c := p.callee.Load(); c != nil && (s == SIGKILL || s == SIGSTOP || p.handled.Load()&s.bit() == 0) {
		c.raise(s)
	}
}

// passPending hands on what came before anybody could see c, which is to
// live on the goroutine of p.
func (p *Proc) passPending(c *Proc) {
	m := p.pending.Load() &^ (p.handled.Load() | p.ignored.Load() | ignoredByDefault)
	for ; m != 0; m &= m - 1 {
		c.raise(Signal(bits.TrailingZeros64(m) + 1))
	}
}

// check delivers what is pending, and stands still while the kernel does.
func (p *Proc) check() {
	if p.pending.Load() != 0 || p.k.frozen.Load() {
		p.deliver()
	}
}

func (p *Proc) deliver() {
	if p.k.frozen.Load() {
		p.stand()
	}
	m := p.pending.Swap(0)
	if m&SIGKILL.bit() != 0 {
		p.die(SIGKILL)
	}
	for ; m != 0; m &= m - 1 {
		s := Signal(bits.TrailingZeros64(m) + 1)
		switch {
		case p.ignored.Load()&s.bit() != 0:
		case p.handled.Load()&s.bit() != 0:
			p.caught.Or(s.bit())
		case s == SIGSTOP || s == SIGTSTP || s == SIGTTIN || s == SIGTTOU:
			p.halt()
		case s.bit()&ignoredByDefault != 0 || s == SIGCONT:
		default:
			p.die(s)
		}
	}
}

// halt keeps the process stopped until it is continued or killed.
func (p *Proc) halt() {
	p.stopped.Store(true)
	for q := p.parent; q != nil; q = q.parent { // whose goroutine it may be
		q.kick()
	}
	for p.stopped.Load() {
		if p.pending.Load()&SIGKILL.bit() != 0 {
			p.stopped.Store(false)
			p.die(SIGKILL)
		}
		p.rest(blockInner)
	}
	p.kick() // what woke it may have been meant for what it waited for before
}

// Stopped reports whether a signal stopped the process, or the one that it
// has lent its goroutine. Any goroutine may call it.
func (p *Proc) Stopped() bool {
	for q := p; q != nil; q = q.callee.Load() {
		if q.stopped.Load() {
			return true
		}
	}
	return false
}

// die ends the process now, as that signal does.
func (p *Proc) die(s Signal) {
	p.killedBy = s
	panic(unwind{p})
}

// Die ends the process as if by that signal, without running a handler.
func (p *Proc) Die(s Signal) { p.die(s) }

func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}
