package atolltest

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var terminalLaws = []law{
	{"TerminalEchoes", terminalEchoes},
	{"TerminalSize", terminalSize},
	{"TerminalResize", terminalResize},
	{"TerminalInterrupts", terminalInterrupts},
	{"TerminalEOF", terminalEOF},
	{"TerminalIsATerminal", terminalIsATerminal},
	{"TerminalJoinsStreams", terminalJoinsStreams},
	{"TerminalSlowReaderGetsAll", terminalSlowReaderGetsAll},
	{"TerminalDeadline", terminalDeadline},
}

// outputBuffer collects the output of a command and signals each change.
type outputBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer // guarded by mu
	changed chan struct{}
}

func newOutputBuffer() *outputBuffer { return &outputBuffer{changed: make(chan struct{}, 1)} }

func (s *outputBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *outputBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// runningCommand is a command in progress.
type runningCommand struct {
	e    *env
	out  *outputBuffer
	in   *io.PipeWriter
	done chan struct{}
	exit atoll.Exit // set before done is closed, as is err
	err  error
}

// start starts a command and collects its output. Its standard input stays
// open until the test ends.
func (e *env) start(sb atoll.Sandbox, cmd atoll.Cmd) *runningCommand {
	r, w := io.Pipe()
	run := &runningCommand{e: e, out: newOutputBuffer(), in: w, done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout = r, run.out
	if cmd.TTY == nil && cmd.Stderr == nil {
		cmd.Stderr = run.out
	}
	ctx := e.newContext()
	go func() {
		defer close(run.done)
		run.exit, run.err = sb.Exec(ctx, cmd)
		_ = r.Close() // so that a writer does not block
	}()
	e.Cleanup(func() { _ = w.Close() })
	return run
}

// startTerminal starts shell text on a terminal.
func (e *env) startTerminal(sb atoll.Sandbox, text string, tty atoll.TTY) *runningCommand {
	return e.start(sb, atoll.Cmd{Args: []string{"sh", "-c", text}, TTY: &tty})
}

// waitForOutput waits until the output matches a pattern.
func (r *runningCommand) waitForOutput(pattern string) {
	r.e.Helper()
	re := regexp.MustCompile(pattern)
	ctx := r.e.newContext()
	for !re.MatchString(r.out.String()) {
		select {
		case <-r.out.changed:
		case <-r.done:
			if !re.MatchString(r.out.String()) {
				r.e.Fatalf("the command exited (%+v, %v) without output %q: %q", r.exit, r.err, pattern, r.out.String())
			}
		case <-ctx.Done():
			r.e.Fatalf("the command has no output %q: %q", pattern, r.out.String())
		}
	}
}

// typeText writes text to the command's standard input.
func (r *runningCommand) typeText(text string) {
	r.e.Helper()
	r.e.mustFinish("typing", func() {
		if _, err := io.WriteString(r.in, text); err != nil {
			r.e.Errorf("typing %q: %v", text, err)
		}
	})
}

// waitForExit waits until the command exits and returns its exit.
func (r *runningCommand) waitForExit() atoll.Exit {
	r.e.Helper()
	r.e.mustFinish("the command", func() { <-r.done })
	if r.err != nil {
		r.e.Errorf("Exec: %v", r.err)
	}
	return r.exit
}

// hasTerminals reports whether the driver has terminals. If not, it checks
// that the driver refuses them.
func (e *env) hasTerminals(sb atoll.Sandbox) bool {
	e.Helper()
	if !e.features.TTY {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}, TTY: &atoll.TTY{}})
		e.wantError(err, atoll.ErrUnsupported, "a terminal")
	}
	return e.features.TTY
}

func terminalEchoes(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	r := e.startTerminal(sb, "echo ready; read line; echo \"got <$line>\"; stty -echo; echo quiet; read line; echo \"got <$line>\"", atoll.TTY{})
	r.waitForOutput("ready\r\n")
	r.typeText("helpp\x7flo\r")
	r.waitForOutput(`got <helplo>`)
	r.waitForOutput("quiet")
	r.typeText("secret\r")
	r.waitForOutput("got <secret>")
	wantEqual(e, "exit status", r.waitForExit().Code, 0)
	text := r.out.String()
	if !strings.Contains(text, "helpp\b \blo\r\n") {
		e.Errorf("typed text is not echoed: %q", text)
	}
	if strings.Count(text, "secret") != 1 {
		e.Errorf("typed text is echoed in spite of stty -echo: %q", text)
	}
}

func terminalSize(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	r := e.startTerminal(sb, "stty size", atoll.TTY{Size: atoll.Size{Rows: 11, Cols: 133}})
	r.waitForExit()
	wantEqual(e, "a given size", r.out.String(), "11 133\r\n")
	r = e.startTerminal(sb, "stty size", atoll.TTY{})
	r.waitForExit()
	wantEqual(e, "the default size", r.out.String(), "24 80\r\n")
}

func terminalResize(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	sizes := make(chan atoll.Size)
	r := e.startTerminal(sb, `trap 'echo "now $(stty size)"' WINCH; echo ready; while :; do sleep 0.05; done`,
		atoll.TTY{Size: atoll.Size{Rows: 10, Cols: 20}, Resize: sizes})
	r.waitForOutput("ready\r\n")
	for _, s := range []atoll.Size{{Rows: 30, Cols: 90}, {Rows: 5, Cols: 200}} {
		e.mustFinish("a new size", func() { sizes <- s })
		r.waitForOutput(fmt.Sprintf("now %d %d\r\n", s.Rows, s.Cols))
	}
	close(sizes)
	r.typeText("\x03")
	wantEqual(e, "exit status", r.waitForExit().Code, 130)
}

func terminalInterrupts(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	r := e.startTerminal(sb, "echo ready; while :; do sleep 0.1; done", atoll.TTY{}) // as signalEndsCommand
	r.waitForOutput("ready\r\n")
	r.typeText("\x03")
	wantEqual(e, "exit status after ^C", r.waitForExit().Code, 130)
	r = e.startTerminal(sb, "trap 'echo trapped; exit 7' INT; echo ready; while :; do sleep 0.05; done", atoll.TTY{})
	r.waitForOutput("ready\r\n")
	r.typeText("\x03")
	wantEqual(e, "exit status of a trap", r.waitForExit().Code, 7)
	// Linux sends the signal before it echoes, so on two processors either may be first.
	if out := r.out.String(); !strings.Contains(out, "trapped") || !strings.Contains(out, "^C") {
		e.Errorf("output %q", out)
	}
	r = e.startTerminal(sb, "stty -isig -icanon; echo ready; head -c 1 | od -An -tx1", atoll.TTY{})
	r.waitForOutput("ready\r\n")
	r.typeText("\x03")
	wantEqual(e, "^C where it is no signal", r.waitForExit().Code, 0)
	if !strings.Contains(r.out.String(), " 03\r\n") {
		e.Errorf("output %q", r.out.String())
	}
}

func terminalEOF(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	r := e.startTerminal(sb, "echo ready; cat; echo end", atoll.TTY{})
	r.waitForOutput("ready\r\n")
	r.typeText("one\r")
	r.waitForOutput("one\r\none\r\n")
	r.typeText("part\x04")
	r.waitForOutput("partpart")
	r.typeText("\x04")
	r.waitForOutput("end")
	wantEqual(e, "exit status", r.waitForExit().Code, 0)
}

func terminalIsATerminal(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	text := `for i in 0 1 2; do [ -t $i ] && echo "$i yes"; done; tty | sed 's/[0-9]*$/N/'; test -c "$(tty)" && echo device; echo x > /dev/tty; echo "$TERM" | grep -c .`
	r := e.startTerminal(sb, text, atoll.TTY{})
	r.waitForExit()
	wantEqual(e, "output", r.out.String(), "0 yes\r\n1 yes\r\n2 yes\r\n/dev/pts/N\r\ndevice\r\nx\r\n1\r\n")
	exit := e.exec(sb, atoll.Cmd{Shell: "for i in 0 1 2; do [ -t $i ] && echo $i; done; tty; true"})
	wantEqual(e, "without a terminal", string(exit.Stdout), "not a tty\n")
}

func terminalJoinsStreams(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, TTY: &atoll.TTY{}})
	wantEqual(e, "both streams", string(exit.Stdout), "out\r\nerr\r\n")
	wantEqual(e, "stderr", string(exit.Stderr), "")
	wantEqual(e, "exit status", exit.Code, 3)
	exit = e.exec(sb, atoll.Cmd{Args: []string{"printf", `a\nb\r\n\033[1mü日本\t.\n`}, TTY: &atoll.TTY{}})
	wantEqual(e, "bytes", string(exit.Stdout), "a\r\nb\r\r\n\x1b[1mü日本\t.\r\n")
}

func terminalSlowReaderGetsAll(e *env) {
	sb := e.useSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	// More than all buffers together hold, in few lines: each line is a write of
	// its own, which is slow in an emulated VM.
	const lines = 10_000
	line := strings.Repeat("0123456789", 8)
	r, w := io.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: fmt.Sprintf("yes %s | head -n %d", line, lines), Stdout: w, TTY: &atoll.TTY{}})
		_ = w.Close()
		result <- err
	}()
	n := 0
	b := make([]byte, 777)
	e.mustFinish("a slow reader", func() {
		for {
			k, err := r.Read(b)
			n += k
			if err != nil {
				return
			}
		}
	})
	if err := <-result; err != nil {
		e.Errorf("Exec: %v", err)
	}
	wantEqual(e, "bytes", n, lines*len(line+"\r\n"))
}

func terminalDeadline(e *env) {
	sb := e.newSandbox()
	if !e.hasTerminals(sb) {
		return
	}
	r := e.startTerminal(sb, "trap '' INT TERM HUP; echo ready; "+heartbeatScript, atoll.TTY{})
	r.waitForOutput("started")
	r.typeText("\x03")
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Errorf("Destroy: %v", err)
	}
	e.mustFinish("a command on a terminal of a destroyed sandbox", func() { <-r.done })
	if r.err == nil {
		e.Error("Exec in a sandbox that was destroyed under it returned no error")
	}
	sb = e.useSandbox()
	e.mustFinish("a command on a terminal past its deadline", func() {
		_, err := e.execPastDeadline(sb, atoll.Cmd{Shell: "trap '' INT TERM HUP; " + heartbeatScript, TTY: &atoll.TTY{}, Timeout: 500 * time.Millisecond}, "started\r\n")
		e.wantError(err, atoll.ErrTimeout, "Exec")
	})
	e.checkStopped(sb)
}
