package atolltest

import (
	"io"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var signalLaws = []law{
	{"SignalEndsCommand", signalEndsCommand},
	{"SignalIsTrapped", signalIsTrapped},
	{"SignalKillEndsTheTree", signalKillEndsTheTree},
	{"SignalUnknownIsIgnored", signalUnknownIsIgnored},
	{"SignalStopsAndContinues", signalStopsAndContinues},
	{"SignalReachesTheForeground", signalReachesTheForeground},
}

// hasSignals reports whether the driver has signals. If not, it checks that
// the driver refuses them.
func (e *env) hasSignals(sb atoll.Sandbox) bool {
	e.Helper()
	if !e.features.Signals {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}, Signals: make(chan string)})
		e.wantError(err, atoll.ErrUnsupported, "signals")
	}
	return e.features.Signals
}

// startSignalled starts a command that receives signals, and waits until it
// prints "ready".
func (e *env) startSignalled(sb atoll.Sandbox, cmd atoll.Cmd) (*runningCommand, chan<- string) {
	signals := make(chan string, 8)
	cmd.Signals = signals
	r := e.start(sb, cmd)
	r.waitForOutput("ready")
	return r, signals
}

func signalEndsCommand(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) {
		return
	}
	text := "echo ready; while :; do sleep 0.1; done" // some shells handle a signal between two commands after the second
	for _, cmd := range []atoll.Cmd{{Args: []string{"sh", "-c", text}}, {Shell: text}, {Shell: text, Session: e.features.Session}} {
		for name, code := range map[string]int{"TERM": 143, "SIGTERM": 143, "INT": 130, "HUP": 129, "USR1": 138} {
			r, signals := e.startSignalled(sb, cmd)
			signals <- name
			exit := r.waitForExit()
			wantEqual(e, "exit status after "+name, exit.Code, code)
			wantEqual(e, "Signal after "+name, exit.Signal, strings.TrimPrefix(name, "SIG"))
		}
	}
	wantEqual(e, "the sandbox works on", e.runShell(sb, "echo works"), "works\n")
}

func signalIsTrapped(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) {
		return
	}
	// The shell may report on standard error that the same signal ended its sleep.
	text := "trap 'echo one' USR1; trap 'echo two; exit 7' TERM; trap '' HUP; echo ready; while :; do sleep 0.05; done"
	r, signals := e.startSignalled(sb, atoll.Cmd{Shell: text, Stderr: io.Discard})
	signals <- "HUP"
	signals <- "USR1"
	r.waitForOutput("one\n")
	signals <- "TERM"
	exit := r.waitForExit()
	wantEqual(e, "exit status", exit.Code, 7)
	wantEqual(e, "Signal", exit.Signal, "")
	if !strings.HasSuffix(r.out.String(), "two\n") {
		e.Errorf("output %q", r.out.String())
	}
}

func signalKillEndsTheTree(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) {
		return
	}
	r, signals := e.startSignalled(sb, atoll.Cmd{Shell: "trap '' INT TERM HUP; echo ready; " + heartbeatScript})
	r.waitForOutput("started")
	signals <- "KILL"
	exit := r.waitForExit()
	wantEqual(e, "exit status", exit.Code, 137)
	wantEqual(e, "Signal", exit.Signal, "KILL")
	e.checkStopped(sb)
}

func signalUnknownIsIgnored(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) {
		return
	}
	r, signals := e.startSignalled(sb, atoll.Cmd{Shell: "trap 'echo done; exit 5' USR2; echo ready; while :; do sleep 0.05; done"})
	for _, name := range []string{"", "NONSENSE", "SIG", "-1", "EXIT", "9999", "kill -9 1", "USR2"} {
		signals <- name
	}
	wantEqual(e, "exit status", r.waitForExit().Code, 5)
	r, signals = e.startSignalled(sb, atoll.Cmd{Shell: "echo ready; read x; echo \"$x\""})
	close(signals)
	r.typeText("on\n")
	wantEqual(e, "exit status after the last signal", r.waitForExit().Code, 0)
}

func signalStopsAndContinues(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) {
		return
	}
	r, signals := e.startSignalled(sb, atoll.Cmd{Shell: "echo ready; while [ ! -e /tmp/go ]; do echo x >> /tmp/beat; sleep 0.02; done"})
	signals <- "STOP"
	e.mustFinish("a command that STOP stops", func() {
		for last, size := -1, 0; size != last; {
			last = size
			e.runShell(sb, "sleep 1")
			b, _ := atoll.ReadFile(e.newContext(), sb, "/tmp/beat") // it may not exist yet
			size = len(b)
		}
	})
	if err := atoll.WriteFile(e.newContext(), sb, "/tmp/go", nil, 0o644); err != nil {
		e.Fatal(err)
	}
	select {
	case <-r.done:
		e.Error("a stopped command ended")
	case <-time.After(200 * time.Millisecond): // many beats
	}
	signals <- "CONT"
	wantEqual(e, "exit status after CONT", r.waitForExit().Code, 0)
	r, signals = e.startSignalled(sb, atoll.Cmd{Shell: "echo ready; sleep 60"})
	signals <- "STOP"
	signals <- "KILL"
	wantEqual(e, "exit status of a stopped command after KILL", r.waitForExit().Code, 137)
}

func signalReachesTheForeground(e *env) {
	sb := e.useSandbox()
	if !e.hasSignals(sb) || !e.features.TTY {
		return
	}
	r, signals := e.startSignalled(sb, atoll.Cmd{Shell: "trap 'echo got it; exit 4' INT; echo ready; while :; do sleep 0.05; done", TTY: &atoll.TTY{}})
	signals <- "INT"
	wantEqual(e, "exit status", r.waitForExit().Code, 4)
	if !strings.Contains(r.out.String(), "got it\r\n") {
		e.Errorf("output %q", r.out.String())
	}
}
