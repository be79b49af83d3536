package shell

import (
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
	"github.com/atoll-sandbox/atoll/vfs"
)

// person is who sits before an interactive shell: the terminal, and what is
// under way on it.
type person struct {
	tty         *kernel.TTY
	mode        kernel.Mode // of the terminal while commands run
	ed          *editor
	asking      bool   // for a line
	interrupted bool   // the command line is to be given up
	status      int    // of a line that is given up
	abandoned   int    // the status that the next SIGINT gives it; 0: its own
	warned      bool   // that there are stopped jobs
	halted      bool   // the command that ran last was stopped
	ahead       []byte // keys that were read before a signal was seen
}

// atTerminal reports whether a shell that has no script is interactive.
func (in *interp) atTerminal() bool {
	return in.p.Stdin.IsTerminal() && in.p.Stderr.IsTerminal() && in.p.Stdin.Terminal() == in.p.Terminal()
}

// interact reads commands from a person until the end.
func (in *interp) interact(inv *invocation) {
	y := in.p.Terminal()
	in.takeTerminal(y)
	in.meet(y)
	in.greet(inv)
	for in.oneLine() {
	}
	in.farewell()
}

// takeTerminal waits until the shell is in the foreground, in a group of its
// own.
func (in *interp) takeTerminal(y *kernel.TTY) {
	for y.Foreground() != in.p.Group() {
		_ = in.p.Kernel().KillGroup(in.p.Group(), kernel.SIGTTIN) // it is in it
		in.p.Sleep(0, false)
	}
	if in.p.Group() != in.p.PID() {
		in.p.SetGroup(0)
		y.SetForeground(in.p.Group())
	}
}

// meet makes the shell an interactive one.
func (in *interp) meet(y *kernel.TTY) {
	in.person = &person{tty: y, mode: y.Mode()}
	in.shopts |= shExpandAliases
	in.opts |= optMonitor | optHistory | optEmacs
	for _, s := range personal {
		if _, trapped := in.traps.signals[s]; !trapped {
			in.p.SetSignal(s, kernel.Catch)
		}
	}
	in.person.ed = &editor{
		next: in.nextKey, write: in.display, columns: func() int { return int(y.Size().Cols) },
		complete: in.completeLine, past: in.historyLines, spend: in.work,
	}
	in.resized()
}

// personal are the signals that an interactive shell survives.
var personal = []kernel.Signal{kernel.SIGINT, kernel.SIGQUIT, kernel.SIGTERM, kernel.SIGTSTP, kernel.SIGTTIN, kernel.SIGTTOU, kernel.SIGWINCH}

// greet runs the files that an interactive shell begins with, and fills in
// the prompts that they leave open.
func (in *interp) greet(inv *invocation) {
	rc := ""
	switch {
	case in.opt(optPosix):
		if rc = in.value("ENV"); rc != "" {
			rc = in.expandText(rc)
		}
	case !inv.noRC && !in.shopt(shLoginShell):
		rc = in.value("HOME") + "/.bashrc"
		if inv.rc != "" {
			rc = inv.rc
		}
	}
	if _, ok := in.get("PS1"); !ok {
		ps := `\u@\h:\w\$ `
		if in.opt(optPosix) {
			ps = `\w \$ `
		}
		in.set("PS1", ps)
	}
	if _, ok := in.get("PS2"); !ok {
		in.set("PS2", "> ")
	}
	if _, ok := in.get("HISTFILE"); !ok && !in.opt(optPosix) && in.value("HOME") != "" {
		in.set("HISTFILE", in.value("HOME")+"/.bash_history")
	}
	if rc != "" && in.plainFile(rc) {
		in.runBuiltin(bSource, []string{"source", rc})
		in.person.interrupted = false
	}
	if file := in.value("HISTFILE"); file != "" && in.plainFile(file) {
		in.loadHistory(nil)
	}
}

func (in *interp) plainFile(name string) bool {
	info, err := in.p.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// oneLine reads and runs one command line. It returns false when the shell
// is to end.
func (in *interp) oneLine() bool {
	in.tell()
	if text := in.value("PROMPT_COMMAND"); text != "" {
		status := in.status
		_ = in.runText(text, source{kind: "PROMPT_COMMAND"})
		in.status = status
	}
	s := in.scratch()
	defer in.tidy(s)
	typed, err := in.askCommand()
	switch {
	case errors.Is(err, errInterrupted):
		in.giveUp(130)
		return in.askAgain()
	case err != nil && typed == "":
		in.complain("exit\n")
		return in.stays(true)
	}
	in.enter(typed)
	f := in.runText(typed, source{})
	if f == flowExit && !in.person.interrupted {
		return in.stays(false)
	}
	in.person.warned = in.person.warned && strings.TrimSpace(typed) == ""
	return in.askAgain()
}

// askCommand reads lines until they are whole commands.
func (in *interp) askCommand() (typed string, err error) {
	extglob := in.shopt(shExtglob)
	for prompt := "PS1"; ; prompt = "PS2" {
		line, err := in.askLine(prompt)
		if err != nil {
			return typed, err
		}
		typed += line + "\n"
		in.borrow(len(line))
		if !unfinished(typed, syntax.Options{Budget: in.p, ExtGlob: func() bool { return extglob }}) {
			return typed, nil
		}
	}
}

// giveUp makes the command line that runs end, with a status.
func (in *interp) giveUp(status int) {
	in.person.interrupted, in.person.status = true, status
}

// askAgain brings the shell back to where it can ask for the next line.
func (in *interp) askAgain() bool {
	if in.person.interrupted {
		in.status = in.person.status
		in.person.interrupted = false
	}
	in.loops, in.quiet, in.flow = 0, 0, flowNext
	return true
}

// stays reports whether a shell that was asked to end stays, once, because of
// stopped jobs; it prints so. eof is set where the input ended.
func (in *interp) stays(eof bool) bool {
	if in.person.warned {
		return false
	}
	for _, j := range in.jobs.list {
		if !in.jobs.alien && j.proc.Stopped() {
			in.complain("There are stopped jobs.\n")
			in.person.warned = true
			return in.askAgain()
		}
	}
	if !eof && !in.subshell {
		in.complain("exit\n")
	}
	return false
}

// farewell ends the jobs that are stopped, and keeps the history.
func (in *interp) farewell() {
	for _, j := range in.jobs.list {
		if !in.jobs.alien && !j.proc.Exited() && j.proc.Stopped() {
			_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGHUP) // it may have ended
			_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGCONT)
		}
	}
	file := in.value("HISTFILE")
	if lines := in.historyLines(); file != "" && len(lines) > 0 {
		_ = in.p.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600) // nobody is left to tell
	}
}

// enter puts a command line into the history.
func (in *interp) enter(typed string) {
	typed = strings.TrimRight(typed, "\n")
	if strings.TrimSpace(typed) == "" || !in.opt(optHistory) {
		return
	}
	control := in.value("HISTCONTROL")
	old := in.historyLines()
	switch {
	case (strings.Contains(control, "ignorespace") || strings.Contains(control, "ignoreboth")) && strings.HasPrefix(typed, " "):
	case (strings.Contains(control, "ignoredups") || strings.Contains(control, "ignoreboth")) && len(old) > 0 && old[len(old)-1] == typed:
	default:
		in.note(typed)
	}
}

// askLine reads one line, with the prompt of that name.
func (in *interp) askLine(name string) (string, error) {
	me := in.person
	prompt := in.prompt(in.value(name))
	in.flushOut()
	me.asking = true
	defer func() { me.asking = false }()
	if term := in.value("TERM"); term == "" || term == "dumb" {
		return in.askPlain(prompt)
	}
	raw := me.mode.Raw()
	raw.In |= kernel.ICRNL // what is typed ahead may be for a command
	raw.Out |= kernel.OPOST | kernel.ONLCR
	raw.Local |= kernel.ISIG // ^C is for whoever is in the foreground when it is typed
	me.tty.SetMode(raw)
	defer me.tty.SetMode(me.mode)
	in.display("\x1b[?2004h")
	defer in.display("\x1b[?2004l\r")
	return me.ed.readLine(prompt)
}

// askPlain reads a line where the screen knows nothing but text: the
// terminal's own editing has to do.
func (in *interp) askPlain(prompt string) (string, error) {
	in.display(prompt)
	var b []byte
	for {
		c, err := in.nextKey()
		switch {
		case err != nil && (len(b) == 0 || errors.Is(err, errInterrupted)):
			in.display("\n")
			return "", err
		case err != nil || c == '\n':
			return string(b), nil
		}
		b = append(b, c)
		in.work(1)
	}
}

// nextKey reads a byte from the terminal.
func (in *interp) nextKey() (byte, error) {
	me := in.person
	for {
		var b [1]byte
		n, err := 1, error(nil)
		if len(me.ahead) > 0 {
			b[0], me.ahead = me.ahead[0], me.ahead[1:]
		} else {
			n, err = in.p.Stdin.Read(b[:])
		}
		in.p.Poll() // a read that did not wait has not looked

		if in.p.Caught() && in.signals() != flowNext { // it came before the key
			me.ahead = append(me.ahead, b[:n]...)
			return 0, errInterrupted
		}
		switch {
		case n > 0:
			return b[0], nil
		case err != nil && !errors.Is(err, vfs.EINTR):
			return 0, io.EOF
		}
	}
}

// display writes to the screen.
func (in *interp) display(text string) {
	_, _ = io.WriteString(in.p.Stderr, text) // where nobody looks any more, the input ends as well
}

// minor takes care of the signals that are no reason to stop waiting, such as
// a new size of the screen. It reports whether there were no others.
func (in *interp) minor() bool {
	if in.person == nil {
		return false
	}
	for {
		s, ok := in.p.PeekSignal()
		if !ok {
			return true
		}
		if s == kernel.SIGINT || in.traps.signals[s] != "" {
			return false
		}
		_, _ = in.p.TakeSignal()
		in.personally(s)
	}
}

// personally does what an interactive shell does about a signal without a
// trap; it reports whether the command line is to be given up.
func (in *interp) personally(s kernel.Signal) bool {
	switch s {
	case kernel.SIGINT:
		if !in.person.asking && in.person.abandoned == 0 {
			in.display("\n")
		}
		in.giveUp(max(130, in.person.abandoned))
		in.person.abandoned = 0
		return true
	case kernel.SIGWINCH:
		in.resized()
	}
	return false
}

// resized notes the size of the screen in LINES and COLUMNS.
func (in *interp) resized() {
	size := in.person.tty.Size()
	in.set("LINES", itoa(int(size.Rows)))
	in.set("COLUMNS", itoa(int(size.Cols)))
	if e := in.person.ed; e != nil && e.shown {
		e.row = 0
		e.draw()
	}
}

// completeLine is Complete for the line being typed: words may be quoted
// with backslashes.
func (in *interp) completeLine(line string, pos int) (int, []string) {
	start := pos
	for start > 0 && (!strings.ContainsRune(" \t\n;|&()<>\"'=`", rune(line[start-1])) || start > 1 && line[start-2] == '\\') {
		start--
	}
	word := strings.NewReplacer(`\\`, `\`, `\`, ``).Replace(line[start:pos])
	list := in.completeWord(line[:start], word)
	if strings.HasPrefix(word, "$") {
		return start, list
	}
	for i, s := range list {
		list[i] = backslashed(s)
	}
	return start, list
}

// backslashed quotes what would not be a part of a word.
func backslashed(s string) string {
	if !strings.ContainsAny(s, " \t\n\\'\"`$&|;<>()*?[]!{}#") {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(" \t\n\\'\"`$&|;<>()*?[]!{}#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
