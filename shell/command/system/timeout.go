package system

import (
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const timeoutUsage = `Usage: timeout [OPTION] DURATION COMMAND [ARG]...
  or:  timeout [OPTION]
Start COMMAND, and kill it if still running after DURATION.

      --preserve-status
                 exit with the same status as COMMAND, even when the
                   command times out
      --foreground
                 when not running timeout directly from a shell prompt,
                   allow COMMAND to read from the TTY and get TTY signals
  -k, --kill-after=DURATION
                 also send a KILL signal if COMMAND is still running
                   this long after the initial signal was sent
  -s, --signal=SIGNAL
                 specify the signal to be sent on timeout
  -v, --verbose  diagnose to stderr any signal sent upon timeout
      --help     display this help and exit

DURATION is a floating point number with an optional suffix: 's' for seconds
(the default), 'm' for minutes, 'h' for hours or 'd' for days.  A duration of 0
disables the associated timeout.

The exit status is 124 if COMMAND times out, 125 if timeout itself fails, 126 if
COMMAND is found but cannot be invoked, 127 if COMMAND cannot be found, and 137
if COMMAND (or timeout itself) is sent the KILL (9) signal.
`

var timeoutOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'k', Long: "kill-after", Arg: option.Required},
	{Short: 's', Long: "signal", Arg: option.Required},
	{Short: 'v', Long: "verbose"},
	{Long: "preserve-status", ID: 'p'},
	{Long: "foreground", ID: 'f'},
}}

// watch holds the options of timeout: how it signals a command.
type watch struct {
	signal                        kernel.Signal
	after, grace                  time.Duration
	preserve, foreground, verbose bool
	name                          string
}

// signalOf parses the name or number of a signal.
func signalOf(s string) (kernel.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return kernel.Signal(n), n >= 0 && n < kernel.NumSignals
	}
	return kernel.ParseSignal(strings.TrimSpace(s))
}

func runTimeout(p *kernel.Proc) int {
	opts, args, ok := timeoutOptions.Parse(p)
	if !ok {
		return 125
	}
	w := watch{signal: kernel.SIGTERM}
	for _, o := range opts {
		ok := true
		switch o.Key {
		case 'k':
			if w.grace, ok = parseSpan(o.Value); !ok {
				p.Errorf("invalid time interval %s", quoting.QuoteWord(o.Value))
			}
		case 's':
			if w.signal, ok = signalOf(o.Value); !ok {
				p.Errorf("%s: invalid signal", quoting.QuoteWord(o.Value))
			}
		case 'v':
			w.verbose = true
		case 'p':
			w.preserve = true
		case 'f':
			w.foreground = true
		}
		if !ok {
			option.SuggestHelp(p)
			return 125
		}
	}
	if len(args) < 2 {
		option.SuggestHelp(p)
		return 125
	}
	if w.after, ok = parseSpan(args[0]); !ok {
		p.Errorf("invalid time interval %s", quoting.QuoteWord(args[0]))
		option.SuggestHelp(p)
		return 125
	}
	w.name = args[1]
	return w.run(p, args[1:])
}

func (w *watch) run(p *kernel.Proc, args []string) int {
	s, err := p.Command(args)
	if err != nil {
		return reportRunFailure(p, args[0], err)
	}
	if !w.foreground {
		s.Group = -1
	}
	p.SetSignal(kernel.SIGCHLD, kernel.Catch)
	for _, sig := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT, kernel.SIGHUP, kernel.SIGQUIT} {
		p.SetSignal(sig, kernel.Catch)
	}
	c, err := p.Spawn(s)
	if err != nil {
		p.Errorf("fork system call failed: %s", program.Reason(err))
		return 125
	}
	timedOut := false
	if w.after > 0 && !w.wait(p, c, w.after) {
		timedOut = true
		w.send(p, c, w.signal)
		if w.grace > 0 && !w.wait(p, c, w.grace) {
			w.send(p, c, kernel.SIGKILL)
		}
	}
	st := w.waitForCommand(p, c)
	switch {
	case timedOut && !w.preserve && st.Signal == kernel.SIGKILL:
		return 137
	case timedOut && !w.preserve:
		return 124
	}
	return st.Code
}

// waitForCommand waits for the command and forwards the signals that arrive meanwhile.
func (w *watch) waitForCommand(p *kernel.Proc, c *kernel.Proc) kernel.Status {
	for {
		st, err := p.Wait(c, true)
		if err == nil {
			return st
		}
		w.forwardSignals(p, c)
	}
}

// wait reports whether the command exits within d.
func (w *watch) wait(p *kernel.Proc, c *kernel.Proc, d time.Duration) bool {
	for !c.Exited() {
		d = p.Sleep(d, true)
		if d <= 0 {
			return c.Exited()
		}
		w.forwardSignals(p, c)
	}
	return true
}

func (w *watch) forwardSignals(p *kernel.Proc, c *kernel.Proc) {
	for {
		sig, ok := p.TakeSignal()
		if !ok {
			return
		}
		if sig != kernel.SIGCHLD {
			w.send(p, c, sig)
		}
	}
}

func (w *watch) send(p *kernel.Proc, c *kernel.Proc, sig kernel.Signal) {
	if w.verbose {
		p.Errorf("sending signal %s to command %s", sig, quoting.QuoteWord(w.name))
	}
	_ = c.Kill(sig) // it may have exited
	if !w.foreground {
		_ = p.Kernel().KillGroup(c.Group(), sig)
		if sig != kernel.SIGKILL {
			_ = p.Kernel().KillGroup(c.Group(), kernel.SIGCONT)
		}
	}
}
