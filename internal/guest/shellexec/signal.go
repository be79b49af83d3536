package shellexec

import (
	"context"
	"strconv"
	"strings"
)

// signalNames are the signals of Linux, by number.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2",
	13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG",
	24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

func signalName(n int) string {
	if n < len(signalNames) {
		return signalNames[n]
	}
	return ""
}

// signalNumber returns the number of a signal; 0: unknown.
func signalNumber(name string) int {
	name = strings.TrimPrefix(name, "SIG")
	for n, s := range signalNames {
		if n > 0 && s == name {
			return n
		}
	}
	return 0
}

// groupSignals are the signals that go to a terminal's foreground process group; the
// script is in that group and ignores them.
const groupSignals = " HUP INT QUIT USR1 USR2 ALRM TERM CONT WINCH TSTP "

// forwardSignals sends signals to the command, one after the other.
func (x *command) forwardSignals(ctx context.Context) {
	for {
		var name string
		var more bool
		select {
		case <-x.done:
			return
		case name, more = <-x.cmd.Signals:
		}
		n := signalNumber(name)
		switch {
		case !more:
			return
		case n == 0:
			continue
		}
		select {
		case <-x.done:
			return
		case <-x.started:
		}
		x.mu.Lock()
		pid := x.pid
		x.sentSignals[n] = true
		x.mu.Unlock()
		whom := "pid"
		if x.cmd.TTY != nil && strings.Contains(groupSignals, " "+signalName(n)+" ") {
			whom = "foreground"
		}
		sending, cancel := context.WithTimeout(ctx, killTimeout)
		_, _ = x.s.Run(sending, &Call{Args: []string{"sh", "-c", sweepText + signalText, "sh", x.token, strconv.Itoa(n), pid, whom}}) // like a signal, it is not acknowledged
		cancel()
	}
}

// killCommand kills a command with all its processes, even if ctx is done.
func (s *Shell) killCommand(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	_, _ = s.Run(ctx, &Call{Args: []string{"sh", "-c", sweepText + signalText, "sh", token}}) // if it fails, the container and its processes were removed
}
