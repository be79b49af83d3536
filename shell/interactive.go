package shell

import (
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
	"github.com/atoll-sandbox/atoll/vfs"
)

// interactiveState is the state of an interactive shell: its terminal and the
// command line in progress.
type interactiveState struct {
	tty           *kernel.TTY
	mode          kernel.Mode // of the terminal while commands run
	editor        *editor
	readingLine   bool   // a command line is being read
	interrupted   bool   // the command line is to be abandoned
	status        int    // status of an abandoned line
	abandonStatus int    // the status that the next SIGINT sets; 0: the default, 130
	warnedOfJobs  bool   // the warning about stopped jobs was printed
	lastStopped   bool   // the last command was stopped
	typeAhead     []byte // keys that were read before a signal was handled
}

// atTerminal reports whether a shell without a script is interactive.
func (in *interp) atTerminal() bool {
	return in.p.Stdin.IsTerminal() && in.p.Stderr.IsTerminal() && in.p.Stdin.Terminal() == in.p.Terminal()
}

// runInteractive reads and runs command lines until the shell ends.
func (in *interp) runInteractive(inv *invocation) {
	y := in.p.Terminal()
	in.takeTerminal(y)
	in.becomeInteractive(y)
	in.runStartupFiles(inv)
	for in.runOneLine() {
	}
	in.finishInteractive()
}

// takeTerminal waits until the shell is in the foreground, in a process group
// of its own.
func (in *interp) takeTerminal(y *kernel.TTY) {
	for y.Foreground() != in.p.Group() {
		_ = in.p.Kernel().KillGroup(in.p.Group(), kernel.SIGTTIN) // this process is in the group
		in.p.Sleep(0, false)
	}
	if in.p.Group() != in.p.PID() {
		in.p.SetGroup(0)
		y.SetForeground(in.p.Group())
	}
}

// becomeInteractive makes the shell interactive.
func (in *interp) becomeInteractive(y *kernel.TTY) {
	in.interactive = &interactiveState{tty: y, mode: y.Mode()}
	in.shopts |= shExpandAliases
	in.opts |= optMonitor | optHistory | optEmacs
	for _, s := range interactiveSignals {
		if _, trapped := in.traps.signals[s]; !trapped {
			in.p.SetSignal(s, kernel.Catch)
		}
	}
	in.interactive.editor = &editor{
		next: in.nextKey, write: in.writeScreen, columns: func() int { return int(y.Size().Cols) },
		complete: in.completeLine, history: in.historyLines, charge: in.chargeWork,
	}
	in.updateScreenSize()
}

// interactiveSignals are the signals that do not end an interactive shell.
var interactiveSignals = []kernel.Signal{kernel.SIGINT, kernel.SIGQUIT, kernel.SIGTERM, kernel.SIGTSTP, kernel.SIGTTIN, kernel.SIGTTOU, kernel.SIGWINCH}

// runStartupFiles runs the startup files of an interactive shell, sets the
// default prompts and loads the history.
func (in *interp) runStartupFiles(inv *invocation) {
	rc := ""
	switch {
	case in.optOn(optPosix):
		if rc = in.value("ENV"); rc != "" {
			rc = in.expandText(rc)
		}
	case !inv.noRC && !in.shoptOn(shLoginShell):
		rc = in.value("HOME") + "/.bashrc"
		if inv.rc != "" {
			rc = inv.rc
		}
	}
	if _, ok := in.get("PS1"); !ok {
		ps := `\u@\h:\w\$ `
		if in.optOn(optPosix) {
			ps = `\w \$ `
		}
		in.set("PS1", ps)
	}
	if _, ok := in.get("PS2"); !ok {
		in.set("PS2", "> ")
	}
	if _, ok := in.get("HISTFILE"); !ok && !in.optOn(optPosix) && in.value("HOME") != "" {
		in.set("HISTFILE", in.value("HOME")+"/.bash_history")
	}
	if rc != "" && in.isRegularFile(rc) {
		in.runBuiltin(bSource, []string{"source", rc})
		in.interactive.interrupted = false
	}
	if file := in.value("HISTFILE"); file != "" && in.isRegularFile(file) {
		in.loadHistory(nil)
	}
}

func (in *interp) isRegularFile(name string) bool {
	info, err := in.p.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// runOneLine reads and runs one command line. It returns false when the shell
// is to end.
func (in *interp) runOneLine() bool {
	in.reportJobs()
	if text := in.value("PROMPT_COMMAND"); text != "" {
		status := in.status
		_ = in.runText(text, source{kind: "PROMPT_COMMAND"})
		in.status = status
	}
	s := in.beginScratch()
	defer in.endScratch(s)
	typed, err := in.readCommand()
	switch {
	case errors.Is(err, errInterrupted):
		in.abandonLine(130)
		return in.resetForNextLine()
	case err != nil && typed == "":
		in.writeStderr("exit\n")
		return in.delayExitForJobs(true)
	}
	in.recordTypedLine(typed)
	f := in.runText(typed, source{})
	if f == flowExit && !in.interactive.interrupted {
		return in.delayExitForJobs(false)
	}
	in.interactive.warnedOfJobs = in.interactive.warnedOfJobs && strings.TrimSpace(typed) == ""
	return in.resetForNextLine()
}

// readCommand reads lines until they form complete commands.
func (in *interp) readCommand() (typed string, err error) {
	extglob := in.shoptOn(shExtglob)
	for prompt := "PS1"; ; prompt = "PS2" {
		line, err := in.readPromptedLine(prompt)
		if err != nil {
			return typed, err
		}
		typed += line + "\n"
		in.chargeScratch(len(line))
		if !needsMoreInput(typed, syntax.Options{Budget: in.p, ExtGlob: func() bool { return extglob }}) {
			return typed, nil
		}
	}
}

// abandonLine ends the running command line with a status.
func (in *interp) abandonLine(status int) {
	in.interactive.interrupted, in.interactive.status = true, status
}

// resetForNextLine resets the shell so that it can read the next line.
func (in *interp) resetForNextLine() bool {
	if in.interactive.interrupted {
		in.status = in.interactive.status
		in.interactive.interrupted = false
	}
	in.loops, in.ignoreFailure, in.flow = 0, 0, flowNext
	return true
}

// delayExitForJobs reports whether a shell that was asked to exit does not,
// because jobs are stopped; it warns once. eof is set at the end of input.
func (in *interp) delayExitForJobs(eof bool) bool {
	if in.interactive.warnedOfJobs {
		return false
	}
	for _, j := range in.jobs.list {
		if !in.jobs.inherited && j.proc.Stopped() {
			in.writeStderr("There are stopped jobs.\n")
			in.interactive.warnedOfJobs = true
			return in.resetForNextLine()
		}
	}
	if !eof && !in.subshell {
		in.writeStderr("exit\n")
	}
	return false
}

// finishInteractive kills stopped jobs and saves the history.
func (in *interp) finishInteractive() {
	for _, j := range in.jobs.list {
		if !in.jobs.inherited && !j.proc.Exited() && j.proc.Stopped() {
			_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGHUP) // the group may have ended
			_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGCONT)
		}
	}
	file := in.value("HISTFILE")
	if lines := in.historyLines(); file != "" && len(lines) > 0 {
		_ = in.p.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600) // the shell ends: no one reads an error
	}
}

// recordTypedLine adds a command line to the history, as HISTCONTROL allows.
func (in *interp) recordTypedLine(typed string) {
	typed = strings.TrimRight(typed, "\n")
	if strings.TrimSpace(typed) == "" || !in.optOn(optHistory) {
		return
	}
	control := in.value("HISTCONTROL")
	old := in.historyLines()
	switch {
	case (strings.Contains(control, "ignorespace") || strings.Contains(control, "ignoreboth")) && strings.HasPrefix(typed, " "):
	case (strings.Contains(control, "ignoredups") || strings.Contains(control, "ignoreboth")) && len(old) > 0 && old[len(old)-1] == typed:
	default:
		in.addHistory(typed)
	}
}

// readPromptedLine reads one line with the prompt in the variable name.
func (in *interp) readPromptedLine(name string) (string, error) {
	state := in.interactive
	prompt := in.expandPrompt(in.value(name))
	in.flushOut()
	state.readingLine = true
	defer func() { state.readingLine = false }()
	if term := in.value("TERM"); term == "" || term == "dumb" {
		return in.readPlainLine(prompt)
	}
	raw := state.mode.Raw()
	raw.In |= kernel.ICRNL // typed-ahead text may be read by a command
	raw.Out |= kernel.OPOST | kernel.ONLCR
	raw.Local |= kernel.ISIG // ^C goes to the process group in the foreground when it is typed
	state.tty.SetMode(raw)
	defer state.tty.SetMode(state.mode)
	in.writeScreen("\x1b[?2004h")
	defer in.writeScreen("\x1b[?2004l\r")
	return state.editor.readLine(prompt)
}

// readPlainLine reads a line on a terminal without escape sequences; the
// terminal's own line editing applies.
func (in *interp) readPlainLine(prompt string) (string, error) {
	in.writeScreen(prompt)
	var b []byte
	for {
		c, err := in.nextKey()
		switch {
		case err != nil && (len(b) == 0 || errors.Is(err, errInterrupted)):
			in.writeScreen("\n")
			return "", err
		case err != nil || c == '\n':
			return string(b), nil
		}
		b = append(b, c)
		in.chargeWork(1)
	}
}

// nextKey reads a byte from the terminal.
func (in *interp) nextKey() (byte, error) {
	state := in.interactive
	for {
		var b [1]byte
		n, err := 1, error(nil)
		if len(state.typeAhead) > 0 {
			b[0], state.typeAhead = state.typeAhead[0], state.typeAhead[1:]
		} else {
			n, err = in.p.Stdin.Read(b[:])
		}
		in.p.Poll() // a read that did not block has not checked for signals

		if in.p.HasCaughtSignal() && in.runSignalTraps() != flowNext { // the signal came before the key
			state.typeAhead = append(state.typeAhead, b[:n]...)
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

// writeScreen writes to the terminal.
func (in *interp) writeScreen(text string) {
	_, _ = io.WriteString(in.p.Stderr, text) // if the terminal is closed, the input ends too
}

// handleMinorSignals handles pending signals that need not interrupt a wait,
// such as a new size of the screen. It reports whether there were no others.
func (in *interp) handleMinorSignals() bool {
	if in.interactive == nil {
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
		in.handleInteractiveSignal(s)
	}
}

// handleInteractiveSignal handles a signal without a trap as an interactive
// shell does; it reports whether the command line is to be abandoned.
func (in *interp) handleInteractiveSignal(s kernel.Signal) bool {
	switch s {
	case kernel.SIGINT:
		if !in.interactive.readingLine && in.interactive.abandonStatus == 0 {
			in.writeScreen("\n")
		}
		in.abandonLine(max(130, in.interactive.abandonStatus))
		in.interactive.abandonStatus = 0
		return true
	case kernel.SIGWINCH:
		in.updateScreenSize()
	}
	return false
}

// updateScreenSize sets LINES and COLUMNS to the size of the screen.
func (in *interp) updateScreenSize() {
	size := in.interactive.tty.Size()
	in.set("LINES", itoa(int(size.Rows)))
	in.set("COLUMNS", itoa(int(size.Cols)))
	if e := in.interactive.editor; e != nil && e.active {
		e.cursorRow = 0
		e.redraw()
	}
}

// completeLine is Complete for the line being typed, in which words may be
// quoted with backslashes.
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
		list[i] = escapeWord(s)
	}
	return start, list
}

// escapeWord quotes the special characters of a word with backslashes.
func escapeWord(s string) string {
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
