package shell

import (
	"slices"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// The traps that are no signals.
const (
	trapExit   kernel.Signal = 0
	trapDebug  kernel.Signal = -1
	trapErr    kernel.Signal = -2
	trapReturn kernel.Signal = -3
)

// trapTable holds the commands of trap. Its map is never changed in place.
type trapTable struct {
	exit, debug, err, ret string
	signals               map[kernel.Signal]string // "" ignores
	shown                 *trapTable               // what a subshell prints until it sets one
	touched               uint8                    // those of DEBUG, ERR and RETURN that were set lately
}

// touch returns the bit of touched that stands for a trap.
func touch(s kernel.Signal) uint8 {
	if s >= 0 {
		return 0
	}
	return 1 << -s
}

// fork returns the traps of a subshell: those that ignore a signal remain.
func (t *trapTable) fork(opts optSet) trapTable {
	if t.exit == "" && t.debug == "" && t.err == "" && t.ret == "" && t.signals == nil {
		return trapTable{shown: t.shown}
	}
	all := *t
	c := trapTable{shown: &all}
	if t.shown != nil {
		c.shown = t.shown
	}
	if opts&optErrtrace != 0 {
		c.err = t.err
	}
	if opts&optFunctrace != 0 {
		c.debug, c.ret = t.debug, t.ret
	}
	for s, text := range t.signals {
		if text == "" {
			if c.signals == nil {
				c.signals = make(map[kernel.Signal]string)
			}
			c.signals[s] = ""
		}
	}
	return c
}

// hidden are the traps that a function does not see.
type hidden struct {
	debug, err, ret string
	any             bool
	touched         uint8
}

// hideTraps takes away what a function does not inherit.
func (in *interp) hideTraps(fn *function) (h hidden) {
	t := &in.traps
	if t.err == "" && t.debug == "" && t.ret == "" {
		return h
	}
	h.any, h.touched, t.touched = true, t.touched, 0
	if !in.opt(optErrtrace) {
		h.err, t.err = t.err, ""
	}
	if !in.opt(optFunctrace) && !fn.trace {
		h.debug, t.debug = t.debug, ""
		h.ret, t.ret = t.ret, ""
	}
	return h
}

// showTraps gives back what hideTraps took, unless the function has set it.
func (in *interp) showTraps(h *hidden) {
	if !h.any {
		return
	}
	t := &in.traps
	if h.err != "" && t.touched&touch(trapErr) == 0 {
		t.err = h.err
	}
	if h.debug != "" && t.touched&touch(trapDebug) == 0 {
		t.debug = h.debug
	}
	if h.ret != "" && t.touched&touch(trapReturn) == 0 {
		t.ret = h.ret
	}
	t.touched |= h.touched
}

// setTrap changes the action of a signal; remove brings back the default.
func (in *interp) setTrap(s kernel.Signal, text string, remove bool) {
	t := &in.traps
	in.charge(int64(len(text) - len(t.text(s))))
	t.shown = nil
	t.touched |= touch(s)
	switch s {
	case trapExit:
		t.exit = text
	case trapDebug:
		t.debug = text
	case trapErr:
		t.err = text
	case trapReturn:
		t.ret = text
	default:
		m := make(map[kernel.Signal]string, len(t.signals)+1)
		for k, v := range t.signals {
			m[k] = v
		}
		if remove {
			delete(m, s)
		} else {
			m[s] = text
		}
		t.signals = m
		d := disposition(text, remove)
		if remove && in.person != nil && slices.Contains(personal, s) {
			d = kernel.Catch
		}
		in.p.SetSignal(s, d)
	}
}

func disposition(text string, remove bool) kernel.Disposition {
	switch {
	case remove:
		return kernel.Default
	case text == "":
		return kernel.Ignore
	}
	return kernel.Catch
}

// armTraps makes a new process of the session handle its signals.
func (in *interp) armTraps() {
	for s, text := range in.traps.signals {
		in.p.SetSignal(s, disposition(text, false))
	}
}

// signals runs the traps of the signals that have arrived.
func (in *interp) signals() flow {
	for {
		s, ok := in.p.TakeSignal()
		if !ok {
			return flowNext
		}
		if text := in.traps.signals[s]; text != "" {
			if f := in.runTrap(s, text); f != flowNext {
				return f
			}
		} else if in.person != nil && in.personally(s) {
			return flowExit
		}
	}
}

// debug runs the DEBUG trap before a command.
func (in *interp) debug() flow {
	status := in.status
	f := in.runTrapStatus(trapDebug, in.traps.debug, true)
	if f != flowNext {
		return f
	}
	if in.shopt(shExtdebug) && in.status != 0 {
		if in.status == 2 && len(in.frames) > 0 {
			return flowReturn
		}
		in.status = status
		return flowSkip
	}
	in.status = status
	return flowNext
}

// runTrap runs the command of a trap; $? is afterwards what it was before.
func (in *interp) runTrap(s kernel.Signal, text string) flow {
	return in.runTrapStatus(s, text, false)
}

func (in *interp) runTrapStatus(s kernel.Signal, text string, keep bool) flow {
	t := &in.traps
	slot := map[kernel.Signal]*string{trapDebug: &t.debug, trapErr: &t.err, trapReturn: &t.ret}[s]
	if slot != nil {
		*slot = "" // not within itself
		t.touched &^= touch(s)
	}
	status, was, line, pipestat, one := in.status, in.inTrap, in.line, in.pipestat, in.pipeOne
	in.inTrap = true
	defer func() {
		in.inTrap = was
		if slot != nil && t.touched&touch(s) == 0 {
			*slot = text
		}
	}()
	if !in.p.Enter() {
		in.errorf("trap: nested too deeply")
		return flowExit
	}
	f := in.runText(text, source{kind: trapName(s) + " trap", line: line})
	in.p.Leave()
	in.line = line
	in.pipestat, in.pipeOne = pipestat, one
	if f == flowNext && !keep {
		in.status = status
	}
	return f
}

// exitTrap runs the EXIT trap, once.
func (in *interp) exitTrap() {
	text := in.traps.exit
	if text == "" {
		return
	}
	in.dropExitTrap()
	status := in.status
	in.line = 1
	if f := in.runTrapStatus(trapExit, text, true); f != flowExit {
		in.status = status
	}
}

// dropExitTrap forgets the EXIT trap.
func (in *interp) dropExitTrap() {
	in.charge(-int64(len(in.traps.exit)))
	in.traps.exit = ""
}

// lastWords runs the EXIT trap of a shell that a signal ends, on the way out.
func (in *interp) lastWords() {
	if s := in.p.Dying(); s != 0 && s != kernel.SIGKILL && in.traps.exit != "" {
		in.status = 128 + int(s)
		in.exitTrap()
	}
}

func trapName(s kernel.Signal) string {
	switch s {
	case trapDebug:
		return "DEBUG"
	case trapErr:
		return "ERR"
	case trapReturn:
		return "RETURN"
	case trapExit:
		return "EXIT"
	}
	return "SIG" + s.String()
}

// trapNamed returns the trap of a name or number.
func trapNamed(name string) (kernel.Signal, bool) {
	switch strings.ToUpper(strings.TrimPrefix(strings.ToUpper(name), "SIG")) {
	case "DEBUG":
		return trapDebug, true
	case "ERR":
		return trapErr, true
	case "RETURN":
		return trapReturn, true
	case "EXIT":
		return trapExit, true
	}
	if n, ok := number(name); ok && n >= 0 && n < kernel.NumSignals {
		return kernel.Signal(n), true
	}
	return kernel.SignalNamed(name)
}

// list returns the traps that are set, in the order trap -p prints them.
func (t *trapTable) list() []kernel.Signal {
	var all []kernel.Signal
	if t.exit != "" {
		all = append(all, trapExit)
	}
	sigs := make([]kernel.Signal, 0, len(t.signals))
	for s := range t.signals {
		sigs = append(sigs, s)
	}
	sort.Slice(sigs, func(i, j int) bool { return sigs[i] < sigs[j] })
	all = append(all, sigs...)
	for _, s := range []kernel.Signal{trapDebug, trapErr, trapReturn} {
		if t.text(s) != "" {
			all = append(all, s)
		}
	}
	return all
}

func (t *trapTable) text(s kernel.Signal) string {
	switch s {
	case trapExit:
		return t.exit
	case trapDebug:
		return t.debug
	case trapErr:
		return t.err
	case trapReturn:
		return t.ret
	}
	return t.signals[s]
}

func (t *trapTable) has(s kernel.Signal) bool {
	if _, ok := t.signals[s]; ok {
		return true
	}
	return t.text(s) != ""
}
