package shell

import (
	"slices"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// The traps that are not signals.
const (
	trapExit   kernel.Signal = 0
	trapDebug  kernel.Signal = -1
	trapErr    kernel.Signal = -2
	trapReturn kernel.Signal = -3
)

// trapTable holds the commands set by trap. Its map is never changed in place.
type trapTable struct {
	exit, debug, err, ret string
	signals               map[kernel.Signal]string // "" ignores the signal
	shown                 *trapTable               // what a subshell prints until it sets a trap
	touched               uint8                    // which of DEBUG, ERR and RETURN were set in this call
}

// touchedBit returns the bit of touched for a trap.
func touchedBit(s kernel.Signal) uint8 {
	if s >= 0 {
		return 0
	}
	return 1 << -s
}

// forkTraps returns the traps of a subshell: ignored signals stay ignored.
func (t *trapTable) forkTraps(opts optSet) trapTable {
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

// hiddenTraps are the traps that a function does not inherit.
type hiddenTraps struct {
	debug, err, ret string
	any             bool
	touched         uint8
}

// hideTraps removes and returns the traps that a function does not inherit.
func (in *interp) hideTraps(fn *function) (h hiddenTraps) {
	t := &in.traps
	if t.err == "" && t.debug == "" && t.ret == "" {
		return h
	}
	h.any, h.touched, t.touched = true, t.touched, 0
	if !in.optOn(optErrtrace) {
		h.err, t.err = t.err, ""
	}
	if !in.optOn(optFunctrace) && !fn.traced {
		h.debug, t.debug = t.debug, ""
		h.ret, t.ret = t.ret, ""
	}
	return h
}

// showTraps restores what hideTraps removed, unless the function has set it.
func (in *interp) showTraps(h *hiddenTraps) {
	if !h.any {
		return
	}
	t := &in.traps
	if h.err != "" && t.touched&touchedBit(trapErr) == 0 {
		t.err = h.err
	}
	if h.debug != "" && t.touched&touchedBit(trapDebug) == 0 {
		t.debug = h.debug
	}
	if h.ret != "" && t.touched&touchedBit(trapReturn) == 0 {
		t.ret = h.ret
	}
	t.touched |= h.touched
}

// setTrap sets the action of a signal; remove restores the default.
func (in *interp) setTrap(s kernel.Signal, text string, remove bool) {
	t := &in.traps
	in.chargeReplaced(int64(len(text)), int64(len(t.command(s))))
	t.shown = nil
	t.touched |= touchedBit(s)
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
		d := dispositionFor(text, remove)
		if remove && in.interactive != nil && slices.Contains(interactiveSignals, s) {
			d = kernel.Catch
		}
		in.p.SetSignal(s, d)
	}
}

// dispositionFor returns the kernel's disposition for a trap's command.
func dispositionFor(text string, remove bool) kernel.Disposition {
	switch {
	case remove:
		return kernel.Default
	case text == "":
		return kernel.Ignore
	}
	return kernel.Catch
}

// armTraps installs the session's traps in a new process.
func (in *interp) armTraps() {
	for s, text := range in.traps.signals {
		in.p.SetSignal(s, dispositionFor(text, false))
	}
}

// runSignalTraps runs the traps of pending signals.
func (in *interp) runSignalTraps() flow {
	for {
		s, ok := in.p.TakeSignal()
		if !ok {
			return flowNext
		}
		if text := in.traps.signals[s]; text != "" {
			if f := in.runTrap(s, text); f != flowNext {
				return f
			}
		} else if in.interactive != nil && in.handleInteractiveSignal(s) {
			return flowExit
		}
	}
}

// runDebugTrap runs the DEBUG trap before a command.
func (in *interp) runDebugTrap() flow {
	status := in.status
	f := in.runTrapStatus(trapDebug, in.traps.debug, true)
	if f != flowNext {
		return f
	}
	if in.shoptOn(shExtdebug) && in.status != 0 {
		if in.status == 2 && len(in.frames) > 0 {
			return flowReturn
		}
		in.status = status
		return flowSkip
	}
	in.status = status
	return flowNext
}

// runTrap runs the command of a trap and then restores $?.
func (in *interp) runTrap(s kernel.Signal, text string) flow {
	return in.runTrapStatus(s, text, false)
}

// runTrapStatus is runTrap that keeps the command's $? if keep is set.
func (in *interp) runTrapStatus(s kernel.Signal, text string, keep bool) flow {
	t := &in.traps
	slot := map[kernel.Signal]*string{trapDebug: &t.debug, trapErr: &t.err, trapReturn: &t.ret}[s]
	if slot != nil {
		*slot = "" // a trap does not run within itself
		t.touched &^= touchedBit(s)
	}
	status, was, line, pipestat, one := in.status, in.inTrap, in.line, in.pipestat, in.pipeOne
	in.inTrap = true
	defer func() {
		in.inTrap = was
		if slot != nil && t.touched&touchedBit(s) == 0 {
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

// dropExitTrap removes the EXIT trap.
func (in *interp) dropExitTrap() {
	in.charge(-int64(len(in.traps.exit)))
	in.traps.exit = ""
}

// runExitTrapOnSignal runs the EXIT trap of a shell that a signal kills.
func (in *interp) runExitTrapOnSignal() {
	if s := in.p.DyingSignal(); s != 0 && s != kernel.SIGKILL && in.traps.exit != "" {
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

// trapNamed returns the trap with a name or number.
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
	if n, ok := parseNumber(name); ok && n >= 0 && n < kernel.NumSignals {
		return kernel.Signal(n), true
	}
	return kernel.ParseSignal(name)
}

// list returns the traps that are set, in the order in which trap -p prints
// them.
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
		if t.command(s) != "" {
			all = append(all, s)
		}
	}
	return all
}

// command returns the command of a trap; "" if it is not set.
func (t *trapTable) command(s kernel.Signal) string {
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

func (t *trapTable) isSet(s kernel.Signal) bool {
	if _, ok := t.signals[s]; ok {
		return true
	}
	return t.command(s) != ""
}
