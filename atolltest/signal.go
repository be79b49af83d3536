package atolltest

import (
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var signalLaws = []law{
	{"SignalEndsCommand", signalEndsCommand},
	{"SignalIsTrapped", signalIsTrapped},
	{"SignalKillEndsTheTree", signalKillEndsTheTree},
	{"SignalUnknownIsIgnored", signalUnknownIsIgnored},
	{"SignalStops", signalStops},
	{"SignalReachesTheForeground", signalReachesTheForeground},
}

const millisecond = time.Millisecond

// signals skips a law of drivers without signals, after it has seen their
// refusal.
func (e *env) signals(sb atoll.Sandbox) bool {
	e.Helper()
	if !e.features.Signals {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}, Signals: make(chan string)})
		e.want(err, atoll.ErrUnsupported, "signals")
	}
	return e.features.Signals
}

// signalled starts a command that takes signals, and waits until it shows
// that it is ready.
func (e *env) signalled(sb atoll.Sandbox, cmd atoll.Cmd) (*running, chan<- string) {
	signals := make(chan string, 8)
	cmd.Signals = signals
	r := e.start(sb, cmd)
	r.shows("ready")
	return r, signals
}

func signalEndsCommand(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) {
		return
	}
	text := "echo ready; while :; do sleep 0.1; done" // a signal between two commands is some shells' after the second
	for _, cmd := range []atoll.Cmd{{Args: []string{"sh", "-c", text}}, {Shell: text}, {Shell: text, Session: e.features.Session}} {
		for name, code := range map[string]int{"TERM": 143, "SIGTERM": 143, "INT": 130, "HUP": 129, "USR1": 138} {
			r, signals := e.signalled(sb, cmd)
			signals <- name
			exit := r.ends()
			eq(e, "exit status after "+name, exit.Code, code)
			eq(e, "Signal after "+name, exit.Signal, strings.TrimPrefix(name, "SIG"))
		}
	}
	eq(e, "the sandbox works on", e.sh(sb, "echo works"), "works\n")
}

func signalIsTrapped(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) {
		return
	}
	r, signals := e.signalled(sb, atoll.Cmd{Shell: "trap 'echo one' USR1; trap 'echo two; exit 7' TERM; trap '' HUP; echo ready; while :; do sleep 0.05; done"})
	signals <- "HUP"
	signals <- "USR1"
	r.shows("one\n")
	signals <- "TERM"
	exit := r.ends()
	eq(e, "exit status", exit.Code, 7)
	eq(e, "Signal", exit.Signal, "")
	if !strings.HasSuffix(r.out.String(), "two\n") {
		e.Errorf("output %q", r.out.String())
	}
}

func signalKillEndsTheTree(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) {
		return
	}
	r, signals := e.signalled(sb, atoll.Cmd{Shell: "trap '' INT TERM HUP; echo ready; " + heart})
	r.shows("started")
	signals <- "KILL"
	exit := r.ends()
	eq(e, "exit status", exit.Code, 137)
	eq(e, "Signal", exit.Signal, "KILL")
	e.stopped(sb)
}

func signalUnknownIsIgnored(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) {
		return
	}
	r, signals := e.signalled(sb, atoll.Cmd{Shell: "trap 'echo done; exit 5' USR2; echo ready; while :; do sleep 0.05; done"})
	for _, name := range []string{"", "NONSENSE", "SIG", "-1", "EXIT", "9999", "kill -9 1", "USR2"} {
		signals <- name
	}
	eq(e, "exit status", r.ends().Code, 5)
	r, signals = e.signalled(sb, atoll.Cmd{Shell: "echo ready; read x; echo \"$x\""})
	close(signals)
	r.keys("on\n")
	eq(e, "exit status after the last signal", r.ends().Code, 0)
}

func signalStops(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) {
		return
	}
	r, signals := e.signalled(sb, atoll.Cmd{Shell: "echo ready; while [ ! -e /tmp/go ]; do echo x >> /tmp/beat; sleep 0.02; done"})
	signals <- "STOP"
	e.soon("a heart that stands still", func() {
		for last, since := -1, time.Now(); time.Since(since) < time.Second; time.Sleep(100 * millisecond) {
			b, _ := atoll.ReadFile(e.ctx(), sb, "/tmp/beat") // it may not be there yet
			if len(b) != last {
				last, since = len(b), time.Now()
			}
		}
	})
	if err := atoll.WriteFile(e.ctx(), sb, "/tmp/go", nil, 0o644); err != nil {
		e.Fatal(err)
	}
	select {
	case <-r.done:
		e.Error("a stopped command ended")
	case <-time.After(200 * millisecond): // many beats
	}
	signals <- "CONT"
	eq(e, "exit status of one that goes on", r.ends().Code, 0)
	r, signals = e.signalled(sb, atoll.Cmd{Shell: "echo ready; sleep 60"})
	signals <- "STOP"
	signals <- "KILL"
	eq(e, "exit status of one killed while it is stopped", r.ends().Code, 137)
}

func signalReachesTheForeground(e *env) {
	sb := e.sandbox()
	if !e.signals(sb) || !e.features.TTY {
		return
	}
	r, signals := e.signalled(sb, atoll.Cmd{Shell: "trap 'echo got it; exit 4' INT; echo ready; while :; do sleep 0.05; done", TTY: &atoll.TTY{}})
	signals <- "INT"
	eq(e, "exit status", r.ends().Code, 4)
	if !strings.Contains(r.out.String(), "got it\r\n") {
		e.Errorf("output %q", r.out.String())
	}
}
