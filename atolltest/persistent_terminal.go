package atolltest

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

var terminalsLaws = []law{
	{"TerminalsAreListed", terminalsAreListed},
	{"TerminalsLateJoinerSeesTheScreen", terminalsShowScreenToLateJoiner},
	{"TerminalsAreShared", terminalsAreShared},
	{"TerminalsSmallestWindowCounts", terminalsUseSmallestWindow},
	{"TerminalsSlowViewerBlocksNoOther", terminalsSlowViewerBlocksNoOther},
	{"TerminalsOutliveTheirViewers", terminalsOutliveTheirViewers},
	{"TerminalsStayAfterExit", terminalsStayAfterExit},
	{"TerminalsCloseKills", terminalsCloseKills},
}

// persistentTerminals is a sandbox with persistent terminals.
type persistentTerminals interface {
	atoll.Terminals
	atoll.TerminalAttacher
}

// withTerminals creates a sandbox and returns its terminals, or nil if the
// driver has none.
func (e *env) withTerminals() (atoll.Sandbox, persistentTerminals) {
	e.Helper()
	sb := e.newSandbox()
	ts, ok := atoll.As[persistentTerminals](sb)
	if _, chosen := atoll.As[atoll.Terminals](sb); !e.features.Terminal {
		if chosen {
			e.Error("the sandbox implements Terminals, but Features.Terminal is false")
		}
		return sb, nil
	}
	if !ok {
		ts = joinTerminals(sb)
	}
	if ts == nil {
		e.Fatal("Features.Terminal is true, but the sandbox does not implement Terminals and TerminalAttacher")
	}
	return sb, ts
}

// joinTerminals joins the two interfaces of a sandbox that offers them one by
// one; nil if one is missing.
func joinTerminals(sb atoll.Sandbox) persistentTerminals {
	a, ok := atoll.As[atoll.Terminals](sb)
	b, also := atoll.As[atoll.TerminalAttacher](sb)
	if !ok || !also {
		return nil
	}
	return struct {
		atoll.Terminals
		atoll.TerminalAttacher
	}{a, b}
}

func (e *env) openTerminal(ts persistentTerminals, spec atoll.TerminalSpec) string {
	e.Helper()
	t, err := ts.OpenTerminal(e.newContext(), spec)
	if err != nil {
		e.Fatalf("OpenTerminal: %v", err)
	}
	return t.Name
}

// viewer is a client that is attached to a terminal.
type viewer struct {
	runningCommand
	leave context.CancelFunc
	sizes chan atoll.Size
}

// attachViewer attaches a client to a terminal; text can be typed.
func (e *env) attachViewer(ts persistentTerminals, name string, a atoll.Attachment) *viewer {
	r, w := io.Pipe()
	v := &viewer{runningCommand: runningCommand{e: e, out: newOutputBuffer(), in: w, done: make(chan struct{})}, sizes: make(chan atoll.Size)}
	a.Stdin, a.Resize = r, v.sizes
	if a.Stdout == nil {
		a.Stdout = v.out
	}
	ctx, leave := context.WithCancel(e.newContext())
	v.leave = leave
	go func() {
		defer close(v.done)
		v.exit, v.err = ts.AttachTerminal(ctx, name, a)
		_ = r.Close() // so that a writer does not block
	}()
	e.Cleanup(func() {
		leave()
		_ = w.Close()
		e.mustFinish("an attachment whose context was cancelled", func() { <-v.done })
	})
	return v
}

func terminalsAreListed(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	e.openTerminal(ts, atoll.TerminalSpec{Name: "build", Args: []string{"sh", "-c", "printf '\\033]2;at work\\a'; sleep 60"}, Size: atoll.Size{Rows: 7, Cols: 33}})
	number := e.openTerminal(ts, atoll.TerminalSpec{})
	if number == "" || number == "build" {
		e.Errorf("a terminal without a name is called %q", number)
	}
	_, err := ts.OpenTerminal(e.newContext(), atoll.TerminalSpec{Name: "build"})
	e.wantError(err, atoll.ErrExists, "a name that is taken")
	_, err = ts.OpenTerminal(e.newContext(), atoll.TerminalSpec{Name: "../x", Dir: "tmp"})
	e.wantError(err, atoll.ErrInvalid, "an invalid name")
	_, err = ts.OpenTerminal(e.newContext(), atoll.TerminalSpec{Dir: "/not/there"})
	if err == nil {
		e.Error("OpenTerminal in a missing directory succeeded")
	}
	v := e.attachViewer(ts, "build", atoll.Attachment{Viewer: "Ann", ReadOnly: true})
	v.waitForOutput("at work")
	list, err := ts.ListTerminals(e.newContext())
	if err != nil || len(list) != 2 {
		e.Fatalf("ListTerminals: %+v, %v", list, err)
	}
	t := list[0]
	wantEqual(e, "name", t.Name, "build")
	wantEqual(e, "title", t.Title, "at work")
	wantEqual(e, "size", t.Size, atoll.Size{Rows: 7, Cols: 33})
	wantEqual(e, "running", t.Running, true)
	wantEqual(e, "clients", t.Clients, 1)
	if len(t.Viewers) != 1 || t.Viewers[0].Name == "" || !t.Viewers[0].ReadOnly { // a server replaces the name
		e.Errorf("viewers %+v", t.Viewers)
	}
	if !strings.HasPrefix(t.Command, "sh -c ") || t.Created.IsZero() {
		e.Errorf("terminal %+v", t)
	}
	for _, name := range []string{"nobody", ""} {
		_, err = ts.ReadTerminal(e.newContext(), name)
		e.wantError(err, atoll.ErrNotFound, "reading an unknown terminal")
		e.wantError(ts.SendTerminal(e.newContext(), name, []byte("x")), atoll.ErrNotFound, "typing on it")
		e.wantError(ts.CloseTerminal(e.newContext(), name), atoll.ErrNotFound, "closing it")
		_, err = ts.AttachTerminal(e.newContext(), name, atoll.Attachment{Stdout: io.Discard})
		e.wantError(err, atoll.ErrNotFound, "attaching to it")
	}
}

func terminalsShowScreenToLateJoiner(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	text := `echo first; printf '\033[?1049h\033[2J\033[2;3Hsecond \033[31mred\033[4;1H漢'; read x; printf '\033[?1049l'; echo "got <$x>"; read x`
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", text}})
	v := e.attachViewer(ts, name, atoll.Attachment{})
	v.waitForOutput("漢")
	s, err := ts.ReadTerminal(e.newContext(), name)
	if err != nil {
		e.Fatalf("ReadTerminal: %v", err)
	}
	wantEqual(e, "lines", len(s.Lines), 24)
	wantEqual(e, "the screen", strings.Join(s.Lines[:4], "\n"), "\n  second red\n\n漢")
	wantEqual(e, "the cursor", fmt.Sprint(s.Row, s.Col), "3 2")
	wantEqual(e, "the alternate screen", s.Alternate, true)
	late := e.attachViewer(ts, name, atoll.Attachment{})
	late.waitForOutput(`(?s)first.*\x1b\[\?1049h.*second .*\x1b\[[0-9;]*31mred.*漢`)
	late.typeText("yes\r")
	late.waitForOutput(`(?s)\x1b\[\?1049l.*got <yes>`)
	v.waitForOutput(`(?s)\x1b\[\?1049l.*got <yes>`)
	s, err = ts.ReadTerminal(e.newContext(), name)
	if err != nil || s.Alternate || s.Lines[0] != "first" || s.Lines[1] != "got <yes>" {
		e.Errorf("after the alternate screen was left: %+v, %v", s, err)
	}
}

func terminalsAreShared(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "echo ready; while read x; do echo \"got <$x>\"; done"}})
	a, b := e.attachViewer(ts, name, atoll.Attachment{}), e.attachViewer(ts, name, atoll.Attachment{})
	watcher := e.attachViewer(ts, name, atoll.Attachment{ReadOnly: true})
	for _, v := range []*viewer{a, b, watcher} {
		v.waitForOutput("ready")
	}
	a.typeText("from a\r")
	b.waitForOutput("got <from a>")
	b.typeText("from b\r")
	a.waitForOutput("got <from b>")
	if err := ts.SendTerminal(e.newContext(), name, []byte("sent\r")); err != nil {
		e.Errorf("SendTerminal: %v", err)
	}
	watcher.waitForOutput("(?s)got <from a>.*got <from b>.*got <sent>")
	b.waitForOutput("got <sent>")
}

func terminalsUseSmallestWindow(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", `trap 'echo "now $(stty size)"' WINCH; echo ready; while :; do sleep 0.05; done`}})
	e.attachViewer(ts, name, atoll.Attachment{ReadOnly: true}).waitForOutput("ready") // only then does the trap exist
	a := e.attachViewer(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 30, Cols: 100}})
	a.waitForOutput("now 30 100")
	b := e.attachViewer(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 40, Cols: 90}})
	b.waitForOutput("now 30 90")
	e.attachViewer(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 5, Cols: 5}, ReadOnly: true})
	e.mustFinish("a new size", func() { a.sizes <- atoll.Size{Rows: 50, Cols: 120} })
	b.waitForOutput("now 40 90")
	b.leave()
	a.waitForOutput("now 50 120")
	t, err := ts.ListTerminals(e.newContext())
	if err != nil || len(t) != 1 {
		e.Fatalf("ListTerminals: %+v, %v", t, err)
	}
	wantEqual(e, "size", t[0].Size, atoll.Size{Rows: 50, Cols: 120})
}

// blockedWriter is a writer that blocks until free is closed.
type blockedWriter struct {
	free chan struct{}
	out  *outputBuffer
}

func (s *blockedWriter) Write(b []byte) (int, error) {
	<-s.free
	return s.out.Write(b)
}

func terminalsSlowViewerBlocksNoOther(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	const lines = 15_000
	line := strings.Repeat("0123456789", 20)
	text := fmt.Sprintf("read x; yes %s | head -n %d; echo the end; read x", line, lines)
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", text}})
	slow := &blockedWriter{free: make(chan struct{}), out: newOutputBuffer()}
	s := e.attachViewer(ts, name, atoll.Attachment{Stdout: slow})
	s.out = slow.out
	v := e.attachViewer(ts, name, atoll.Attachment{})
	v.typeText("go\r")
	v.waitForOutput("the end")
	close(slow.free)
	s.waitForOutput("the end")
	if n := len(s.out.String()); n > lines*len(line)/2 {
		e.Errorf("a slow viewer got %d bytes: want only the newest screen", n)
	}
	v.typeText("\r")
	wantEqual(e, "exit status", v.waitForExit().Code, 0)
	wantEqual(e, "exit status for the slow viewer", s.waitForExit().Code, 0)
}

func terminalsOutliveTheirViewers(e *env) {
	sb, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.openTerminal(ts, atoll.TerminalSpec{Name: "mine", Args: []string{"sh"}})
	v := e.attachViewer(ts, name, atoll.Attachment{})
	v.typeText("x=kept; echo is$((1+1))\r")
	v.waitForOutput("is2")
	v.leave()
	e.mustFinish("an attachment whose context was cancelled", func() { <-v.done })
	e.wantError(v.err, context.Canceled, "leaving")
	again, err := e.driver.Open(e.newContext(), sb.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	if ts = joinTerminals(again); ts == nil {
		e.Fatal("a sandbox that was reopened has no terminals")
	}
	v = e.attachViewer(ts, name, atoll.Attachment{})
	v.waitForOutput("is2")
	v.typeText("echo \"<$x>\"\r")
	v.waitForOutput("<kept>")
}

func terminalsStayAfterExit(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "read x; echo last words; exit 7"}})
	v := e.attachViewer(ts, name, atoll.Attachment{})
	v.typeText("\r")
	wantEqual(e, "exit status", v.waitForExit().Code, 7)
	v = e.attachViewer(ts, name, atoll.Attachment{})
	wantEqual(e, "exit status for a later viewer", v.waitForExit().Code, 7)
	if !strings.Contains(v.out.String(), "last words") {
		e.Errorf("a later viewer sees %q", v.out.String())
	}
	list, err := ts.ListTerminals(e.newContext())
	if err != nil || len(list) != 1 || list[0].Running || list[0].Code != 7 {
		e.Errorf("ListTerminals: %+v, %v", list, err)
	}
	e.wantError(ts.SendTerminal(e.newContext(), name, []byte("x")), atoll.ErrState, "typing on a terminal whose command has ended")
	if err := ts.CloseTerminal(e.newContext(), name); err != nil {
		e.Errorf("CloseTerminal: %v", err)
	}
	_, err = ts.ReadTerminal(e.newContext(), name)
	e.wantError(err, atoll.ErrNotFound, "reading a terminal that was closed")
}

func terminalsCloseKills(e *env) {
	sb, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.openTerminal(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "trap '' HUP INT TERM; " + heartbeatScript}})
	v := e.attachViewer(ts, name, atoll.Attachment{})
	v.waitForOutput("started")
	if err := ts.CloseTerminal(e.newContext(), name); err != nil {
		e.Fatalf("CloseTerminal: %v", err)
	}
	wantEqual(e, "exit status", v.waitForExit().Code, 137)
	e.checkStopped(sb)
	list, err := ts.ListTerminals(e.newContext())
	if err != nil || len(list) != 0 {
		e.Errorf("ListTerminals after all were closed: %+v, %v", list, err)
	}
}
