package atolltest

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

var terminalLaws = []law{
	{"TerminalEchoes", terminalEchoes},
	{"TerminalSize", terminalSize},
	{"TerminalResize", terminalResize},
	{"TerminalInterrupts", terminalInterrupts},
	{"TerminalEOF", terminalEOF},
	{"TerminalIsOne", terminalIsOne},
	{"TerminalJoinsStreams", terminalJoinsStreams},
	{"TerminalSlowReaderGetsAll", terminalSlowReaderGetsAll},
	{"TerminalDeadline", terminalDeadline},
}

// screen is what a command has written, for a test that waits for it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	news chan struct{}
}

func newScreen() *screen { return &screen{news: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// running is a command under way.
type running struct {
	e    *env
	out  *screen
	in   *io.PipeWriter
	done chan struct{}
	exit atoll.Exit // set before done is closed, like err
	err  error
}

// start runs a command whose output can be waited for. Its standard input
// stays open until the test ends.
func (e *env) start(sb atoll.Sandbox, cmd atoll.Cmd) *running {
	r, w := io.Pipe()
	run := &running{e: e, out: newScreen(), in: w, done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout = r, run.out
	if cmd.TTY == nil {
		cmd.Stderr = run.out
	}
	ctx := e.ctx()
	go func() {
		defer close(run.done)
		run.exit, run.err = sb.Exec(ctx, cmd)
		_ = r.Close() // so that nobody waits to be read
	}()
	e.Cleanup(func() { _ = w.Close() })
	return run
}

// terminal starts shell text on a terminal.
func (e *env) terminal(sb atoll.Sandbox, text string, tty atoll.TTY) *running {
	return e.start(sb, atoll.Cmd{Args: []string{"sh", "-c", text}, TTY: &tty})
}

// shows waits until the output matches a pattern.
func (r *running) shows(pattern string) {
	r.e.Helper()
	re := regexp.MustCompile(pattern)
	ctx := r.e.ctx()
	for !re.MatchString(r.out.String()) {
		select {
		case <-r.out.news:
		case <-r.done:
			if !re.MatchString(r.out.String()) {
				r.e.Fatalf("the command ended (%+v, %v) and did not show %q, but %q", r.exit, r.err, pattern, r.out.String())
			}
		case <-ctx.Done():
			r.e.Fatalf("the command does not show %q, but %q", pattern, r.out.String())
		}
	}
}

// keys types text.
func (r *running) keys(text string) {
	r.e.Helper()
	r.e.soon("typing", func() {
		if _, err := io.WriteString(r.in, text); err != nil {
			r.e.Errorf("typing %q: %v", text, err)
		}
	})
}

// ends waits for the end and returns how it was.
func (r *running) ends() atoll.Exit {
	r.e.Helper()
	r.e.soon("the command", func() { <-r.done })
	if r.err != nil {
		r.e.Errorf("Exec: %v", r.err)
	}
	return r.exit
}

// terminals skips a law of drivers without terminals, after it has seen
// their refusal.
func (e *env) terminals(sb atoll.Sandbox) bool {
	e.Helper()
	if !e.features.TTY {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}, TTY: &atoll.TTY{}})
		e.want(err, atoll.ErrUnsupported, "a terminal")
	}
	return e.features.TTY
}

func terminalEchoes(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	r := e.terminal(sb, "echo ready; read line; echo \"got <$line>\"; stty -echo; echo quiet; read line; echo \"got <$line>\"", atoll.TTY{})
	r.shows("ready\r\n")
	r.keys("helpp\x7flo\r")
	r.shows(`got <helplo>`)
	r.shows("quiet")
	r.keys("secret\r")
	r.shows("got <secret>")
	eq(e, "exit status", r.ends().Code, 0)
	text := r.out.String()
	if !strings.Contains(text, "helpp\b \blo\r\n") {
		e.Errorf("what was typed is not echoed: %q", text)
	}
	if strings.Count(text, "secret") != 1 {
		e.Errorf("without echo, what was typed shows: %q", text)
	}
}

func terminalSize(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	r := e.terminal(sb, "stty size", atoll.TTY{Size: atoll.Size{Rows: 11, Cols: 133}})
	r.ends()
	eq(e, "a size that is given", r.out.String(), "11 133\r\n")
	r = e.terminal(sb, "stty size", atoll.TTY{})
	r.ends()
	eq(e, "one that is not", r.out.String(), "24 80\r\n")
}

func terminalResize(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	sizes := make(chan atoll.Size)
	r := e.terminal(sb, `trap 'echo "now $(stty size)"' WINCH; echo ready; while :; do sleep 0.05; done`,
		atoll.TTY{Size: atoll.Size{Rows: 10, Cols: 20}, Resize: sizes})
	r.shows("ready\r\n")
	for _, s := range []atoll.Size{{Rows: 30, Cols: 90}, {Rows: 5, Cols: 200}} {
		e.soon("a new size", func() { sizes <- s })
		r.shows(fmt.Sprintf("now %d %d\r\n", s.Rows, s.Cols))
	}
	close(sizes)
	r.keys("\x03")
	eq(e, "exit status", r.ends().Code, 130)
}

func terminalInterrupts(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	r := e.terminal(sb, "echo ready; while :; do sleep 0.1; done", atoll.TTY{}) // as signalEndsCommand
	r.shows("ready\r\n")
	r.keys("\x03")
	eq(e, "exit status after ^C", r.ends().Code, 130)
	r = e.terminal(sb, "trap 'echo trapped; exit 7' INT; echo ready; while :; do sleep 0.05; done", atoll.TTY{})
	r.shows("ready\r\n")
	r.keys("\x03")
	eq(e, "exit status of a trap", r.ends().Code, 7)
	if !strings.Contains(r.out.String(), "^Ctrapped\r\n") {
		e.Errorf("output %q", r.out.String())
	}
	r = e.terminal(sb, "stty -isig -icanon; echo ready; head -c 1 | od -An -tx1", atoll.TTY{})
	r.shows("ready\r\n")
	r.keys("\x03")
	eq(e, "^C where it is no signal", r.ends().Code, 0)
	if !strings.Contains(r.out.String(), " 03\r\n") {
		e.Errorf("output %q", r.out.String())
	}
}

func terminalEOF(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	r := e.terminal(sb, "echo ready; cat; echo end", atoll.TTY{})
	r.shows("ready\r\n")
	r.keys("one\r")
	r.shows("one\r\none\r\n")
	r.keys("part\x04")
	r.shows("partpart")
	r.keys("\x04")
	r.shows("end")
	eq(e, "exit status", r.ends().Code, 0)
}

func terminalIsOne(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	text := `for i in 0 1 2; do [ -t $i ] && echo "$i yes"; done; tty | sed 's/[0-9]*$/N/'; test -c "$(tty)" && echo device; echo x > /dev/tty; echo "$TERM" | grep -c .`
	r := e.terminal(sb, text, atoll.TTY{})
	r.ends()
	eq(e, "output", r.out.String(), "0 yes\r\n1 yes\r\n2 yes\r\n/dev/pts/N\r\ndevice\r\nx\r\n1\r\n")
	exit := e.exec(sb, atoll.Cmd{Shell: "for i in 0 1 2; do [ -t $i ] && echo $i; done; tty; true"})
	eq(e, "without one", string(exit.Stdout), "not a tty\n")
}

func terminalJoinsStreams(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, TTY: &atoll.TTY{}})
	eq(e, "what is kept of both", string(exit.Stdout), "out\r\nerr\r\n")
	eq(e, "stderr", string(exit.Stderr), "")
	eq(e, "exit status", exit.Code, 3)
	exit = e.exec(sb, atoll.Cmd{Args: []string{"printf", `a\nb\r\n\033[1mü日本\t.\n`}, TTY: &atoll.TTY{}})
	eq(e, "bytes", string(exit.Stdout), "a\r\nb\r\r\n\x1b[1mü日本\t.\r\n")
}

func terminalSlowReaderGetsAll(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	// More than all buffers on the way hold, in few lines: each is a write of its
	// own, which takes long in an emulated machine.
	const lines = 10_000
	line := strings.Repeat("0123456789", 8)
	r, w := io.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: fmt.Sprintf("yes %s | head -n %d", line, lines), Stdout: w, TTY: &atoll.TTY{}})
		_ = w.Close()
		result <- err
	}()
	n := 0
	b := make([]byte, 777)
	e.soon("a slow reader", func() {
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
	eq(e, "bytes", n, lines*len(line+"\r\n"))
}

func terminalDeadline(e *env) {
	sb := e.sandbox()
	if !e.terminals(sb) {
		return
	}
	r := e.terminal(sb, "trap '' INT TERM HUP; echo ready; "+heart, atoll.TTY{})
	r.shows("started")
	r.keys("\x03")
	if err := sb.Destroy(e.ctx()); err != nil {
		e.Errorf("Destroy: %v", err)
	}
	e.soon("a command on a terminal of a destroyed sandbox", func() { <-r.done })
	if r.err == nil {
		e.Error("Exec in a sandbox that was destroyed under it returned no error")
	}
	sb = e.sandbox()
	e.soon("a command on a terminal past its deadline", func() {
		_, err := e.late(sb, atoll.Cmd{Shell: "trap '' INT TERM HUP; " + heart, TTY: &atoll.TTY{}, Timeout: 500 * millisecond}, "started\r\n")
		e.want(err, atoll.ErrTimeout, "Exec")
	})
	e.stopped(sb)
}
