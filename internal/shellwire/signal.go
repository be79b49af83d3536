package shellwire

import (
	"context"
	"strconv"
	"strings"
)

// signals are Linux's, by number.
var signals = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2",
	13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG",
	24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

func nameOf(n int) string {
	if n < len(signals) {
		return signals[n]
	}
	return ""
}

// numberOf returns a signal's number, 0 for none.
func numberOf(name string) int {
	name = strings.TrimPrefix(name, "SIG")
	for n, s := range signals {
		if n > 0 && s == name {
			return n
		}
	}
	return 0
}

// grouped are the signals that a terminal's foreground gets as a group; the script
// is of it and lives through them.
const grouped = " HUP INT QUIT USR1 USR2 ALRM TERM CONT WINCH TSTP "

// pass sends signals on as they arrive, each when the one before has.
func (x *command) pass(ctx context.Context) {
	for {
		var name string
		var more bool
		select {
		case <-x.done:
			return
		case name, more = <-x.cmd.Signals:
		}
		n := numberOf(name)
		switch {
		case !more:
			return
		case n == 0:
			continue
		}
		select {
		case <-x.done:
			return
		case <-x.began:
		}
		x.mu.Lock()
		pid := x.pid
		x.sent[n] = true
		x.mu.Unlock()
		whom := "pid"
		if x.cmd.TTY != nil && strings.Contains(grouped, " "+nameOf(n)+" ") {
			whom = "foreground"
		}
		sending, cancel := context.WithTimeout(ctx, killTime)
		_, _ = x.s.Run(sending, &Call{Args: []string{"sh", "-c", sweepText + signalText, "sh", x.token, strconv.Itoa(n), pid, whom}}) // as a signal: whether it came shows
		cancel()
	}
}

// kill ends a command with all its processes, whoever still wants anything.
func (s *Shell) kill(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	_, _ = s.Run(ctx, &Call{Args: []string{"sh", "-c", sweepText + signalText, "sh", token}}) // where the container is gone, so are they
}
