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
	{"TerminalsLateJoinerSeesTheScreen", terminalsLateJoiner},
	{"TerminalsAreShared", terminalsAreShared},
	{"TerminalsSmallestWindowCounts", terminalsSmallestWindow},
	{"TerminalsSlowViewerHoldsNobodyUp", terminalsSlowViewer},
	{"TerminalsOutliveTheirViewers", terminalsOutlive},
	{"TerminalsEndedStay", terminalsEnded},
	{"TerminalsCloseKills", terminalsCloseKills},
}

// persistent is a sandbox with terminals.
type persistent interface {
	atoll.Terminals
	atoll.TerminalUser
}

// withTerminals returns a sandbox of drivers whose terminals stay; nil of others.
func (e *env) withTerminals() (atoll.Sandbox, persistent) {
	e.Helper()
	sb := e.sandbox()
	ts, ok := atoll.As[persistent](sb)
	if _, chosen := atoll.As[atoll.Terminals](sb); !e.features.Terminal {
		if chosen {
			e.Error("a sandbox has terminals that its driver's Features don't tell of")
		}
		return sb, nil
	}
	if !ok {
		ts = parts(sb)
	}
	if ts == nil {
		e.Fatal("Features.Terminal, but the sandbox is no Terminals and TerminalUser")
	}
	return sb, ts
}

// parts joins the two abilities of a sandbox that chooses them one by one.
func parts(sb atoll.Sandbox) persistent {
	a, ok := atoll.As[atoll.Terminals](sb)
	b, also := atoll.As[atoll.TerminalUser](sb)
	if !ok || !also {
		return nil
	}
	return struct {
		atoll.Terminals
		atoll.TerminalUser
	}{a, b}
}

func (e *env) open(ts persistent, spec atoll.TerminalSpec) string {
	e.Helper()
	t, err := ts.OpenTerminal(e.ctx(), spec)
	if err != nil {
		e.Fatalf("OpenTerminal: %v", err)
	}
	return t.Name
}

// viewer is one who is attached to a terminal.
type viewer struct {
	running
	leave context.CancelFunc
	sizes chan atoll.Size
}

// view attaches to a terminal; keys can be typed.
func (e *env) view(ts persistent, name string, a atoll.Attachment) *viewer {
	r, w := io.Pipe()
	v := &viewer{running: running{e: e, out: newScreen(), in: w, done: make(chan struct{})}, sizes: make(chan atoll.Size)}
	a.Stdin, a.Resize = r, v.sizes
	if a.Stdout == nil {
		a.Stdout = v.out
	}
	ctx, leave := context.WithCancel(e.ctx())
	v.leave = leave
	go func() {
		defer close(v.done)
		v.exit, v.err = ts.AttachTerminal(ctx, name, a)
		_ = r.Close() // so that nobody waits to be read
	}()
	e.Cleanup(func() {
		leave()
		_ = w.Close()
		e.soon("an attachment that is left", func() { <-v.done })
	})
	return v
}

func terminalsAreListed(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	e.open(ts, atoll.TerminalSpec{Name: "build", Args: []string{"sh", "-c", "printf '\\033]2;at work\\a'; sleep 60"}, Size: atoll.Size{Rows: 7, Cols: 33}})
	number := e.open(ts, atoll.TerminalSpec{})
	if number == "" || number == "build" {
		e.Errorf("a terminal without a name is called %q", number)
	}
	_, err := ts.OpenTerminal(e.ctx(), atoll.TerminalSpec{Name: "build"})
	e.want(err, atoll.ErrExists, "a name that is taken")
	_, err = ts.OpenTerminal(e.ctx(), atoll.TerminalSpec{Name: "../x", Dir: "tmp"})
	e.want(err, atoll.ErrInvalid, "a name that is none")
	_, err = ts.OpenTerminal(e.ctx(), atoll.TerminalSpec{Dir: "/not/there"})
	if err == nil {
		e.Error("a directory that is not there: no error")
	}
	v := e.view(ts, "build", atoll.Attachment{ReadOnly: true})
	v.shows("at work")
	list, err := ts.ListTerminals(e.ctx())
	if err != nil || len(list) != 2 {
		e.Fatalf("ListTerminals: %+v, %v", list, err)
	}
	t := list[0]
	eq(e, "name", t.Name, "build")
	eq(e, "title", t.Title, "at work")
	eq(e, "size", t.Size, atoll.Size{Rows: 7, Cols: 33})
	eq(e, "running", t.Running, true)
	eq(e, "clients", t.Clients, 1)
	if !strings.HasPrefix(t.Command, "sh -c ") || t.Created.IsZero() {
		e.Errorf("terminal %+v", t)
	}
	for _, name := range []string{"nobody", ""} {
		_, err = ts.ReadTerminal(e.ctx(), name)
		e.want(err, atoll.ErrNotFound, "reading a terminal that is not there")
		e.want(ts.SendTerminal(e.ctx(), name, []byte("x")), atoll.ErrNotFound, "typing on it")
		e.want(ts.CloseTerminal(e.ctx(), name), atoll.ErrNotFound, "closing it")
		_, err = ts.AttachTerminal(e.ctx(), name, atoll.Attachment{Stdout: io.Discard})
		e.want(err, atoll.ErrNotFound, "attaching to it")
	}
}

func terminalsLateJoiner(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	text := `echo first; printf '\033[?1049h\033[2J\033[2;3Hsecond \033[31mred\033[4;1H漢'; read x; printf '\033[?1049l'; echo "got <$x>"; read x`
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", text}})
	v := e.view(ts, name, atoll.Attachment{})
	v.shows("漢")
	s, err := ts.ReadTerminal(e.ctx(), name)
	if err != nil {
		e.Fatalf("ReadTerminal: %v", err)
	}
	eq(e, "lines", len(s.Lines), 24)
	eq(e, "what is seen", strings.Join(s.Lines[:4], "\n"), "\n  second red\n\n漢")
	eq(e, "the cursor", fmt.Sprint(s.Row, s.Col), "3 2")
	eq(e, "the alternate screen", s.Alternate, true)
	late := e.view(ts, name, atoll.Attachment{})
	late.shows(`(?s)first.*\x1b\[\?1049h.*second .*\x1b\[[0-9;]*31mred.*漢`)
	late.keys("yes\r")
	late.shows(`(?s)\x1b\[\?1049l.*got <yes>`)
	v.shows(`(?s)\x1b\[\?1049l.*got <yes>`)
	s, err = ts.ReadTerminal(e.ctx(), name)
	if err != nil || s.Alternate || s.Lines[0] != "first" || s.Lines[1] != "got <yes>" {
		e.Errorf("after it has left the alternate screen: %+v, %v", s, err)
	}
}

func terminalsAreShared(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "echo ready; while read x; do echo \"got <$x>\"; done"}})
	a, b := e.view(ts, name, atoll.Attachment{}), e.view(ts, name, atoll.Attachment{})
	watcher := e.view(ts, name, atoll.Attachment{ReadOnly: true})
	for _, v := range []*viewer{a, b, watcher} {
		v.shows("ready")
	}
	a.keys("from a\r")
	b.shows("got <from a>")
	b.keys("from b\r")
	a.shows("got <from b>")
	if err := ts.SendTerminal(e.ctx(), name, []byte("sent\r")); err != nil {
		e.Errorf("SendTerminal: %v", err)
	}
	watcher.shows("(?s)got <from a>.*got <from b>.*got <sent>")
	b.shows("got <sent>")
}

func terminalsSmallestWindow(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", `trap 'echo "now $(stty size)"' WINCH; echo ready; while :; do sleep 0.05; done`}})
	e.view(ts, name, atoll.Attachment{ReadOnly: true}).shows("ready") // it would not hear of sizes before
	a := e.view(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 30, Cols: 100}})
	a.shows("now 30 100")
	b := e.view(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 40, Cols: 90}})
	b.shows("now 30 90")
	e.view(ts, name, atoll.Attachment{Size: atoll.Size{Rows: 5, Cols: 5}, ReadOnly: true})
	e.soon("a new size", func() { a.sizes <- atoll.Size{Rows: 50, Cols: 120} })
	b.shows("now 40 90")
	b.leave()
	a.shows("now 50 120")
	t, err := ts.ListTerminals(e.ctx())
	if err != nil || len(t) != 1 {
		e.Fatalf("ListTerminals: %+v, %v", t, err)
	}
	eq(e, "size", t[0].Size, atoll.Size{Rows: 50, Cols: 120})
}

// stuck is a window that shows nothing until it is freed.
type stuck struct {
	free chan struct{}
	out  *screen
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.free
	return s.out.Write(b)
}

func terminalsSlowViewer(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	const lines = 15_000
	line := strings.Repeat("0123456789", 20)
	text := fmt.Sprintf("read x; yes %s | head -n %d; echo the end; read x", line, lines)
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", text}})
	slow := &stuck{free: make(chan struct{}), out: newScreen()}
	s := e.view(ts, name, atoll.Attachment{Stdout: slow})
	s.out = slow.out
	v := e.view(ts, name, atoll.Attachment{})
	v.keys("go\r")
	v.shows("the end")
	close(slow.free)
	s.shows("the end")
	if n := len(s.out.String()); n > lines*len(line)/2 {
		e.Errorf("one that was slow got %d bytes later: it was to get the newest screen", n)
	}
	v.keys("\r")
	eq(e, "exit status", v.ends().Code, 0)
	eq(e, "exit status for the slow one", s.ends().Code, 0)
}

func terminalsOutlive(e *env) {
	sb, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.open(ts, atoll.TerminalSpec{Name: "mine", Args: []string{"sh"}})
	v := e.view(ts, name, atoll.Attachment{})
	v.keys("x=kept; echo is$((1+1))\r")
	v.shows("is2")
	v.leave()
	e.soon("an attachment that is left", func() { <-v.done })
	e.want(v.err, context.Canceled, "leaving")
	again, err := e.driver.Open(e.ctx(), sb.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	if ts = parts(again); ts == nil {
		e.Fatal("a sandbox that was opened has no terminals")
	}
	v = e.view(ts, name, atoll.Attachment{})
	v.shows("is2")
	v.keys("echo \"<$x>\"\r")
	v.shows("<kept>")
}

func terminalsEnded(e *env) {
	_, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "read x; echo last words; exit 7"}})
	v := e.view(ts, name, atoll.Attachment{})
	v.keys("\r")
	eq(e, "exit status", v.ends().Code, 7)
	v = e.view(ts, name, atoll.Attachment{})
	eq(e, "exit status for one who comes later", v.ends().Code, 7)
	if !strings.Contains(v.out.String(), "last words") {
		e.Errorf("who comes later sees %q", v.out.String())
	}
	list, err := ts.ListTerminals(e.ctx())
	if err != nil || len(list) != 1 || list[0].Running || list[0].Code != 7 {
		e.Errorf("ListTerminals: %+v, %v", list, err)
	}
	e.want(ts.SendTerminal(e.ctx(), name, []byte("x")), atoll.ErrState, "typing on a terminal whose command has ended")
	if err := ts.CloseTerminal(e.ctx(), name); err != nil {
		e.Errorf("CloseTerminal: %v", err)
	}
	_, err = ts.ReadTerminal(e.ctx(), name)
	e.want(err, atoll.ErrNotFound, "reading a terminal that was closed")
}

func terminalsCloseKills(e *env) {
	sb, ts := e.withTerminals()
	if ts == nil {
		return
	}
	name := e.open(ts, atoll.TerminalSpec{Args: []string{"sh", "-c", "trap '' HUP INT TERM; " + heart}})
	v := e.view(ts, name, atoll.Attachment{})
	v.shows("started")
	if err := ts.CloseTerminal(e.ctx(), name); err != nil {
		e.Fatalf("CloseTerminal: %v", err)
	}
	eq(e, "exit status", v.ends().Code, 137)
	e.stopped(sb)
	list, err := ts.ListTerminals(e.ctx())
	if err != nil || len(list) != 0 {
		e.Errorf("ListTerminals after all were closed: %+v, %v", list, err)
	}
}
