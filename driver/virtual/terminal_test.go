package virtual_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// terminalClient is a client of a terminal of a sandbox.
type terminalClient struct {
	t    *testing.T
	in   *io.PipeWriter
	news chan struct{}
	done chan struct{}
	exit atoll.Exit // set before done is closed, like err
	err  error

	mu     sync.Mutex
	screen bytes.Buffer // guarded by mu, like seen
	seen   int
}

func (d *terminalClient) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
	return d.screen.Write(b)
}

// openTerminalClient starts a command on a terminal of a new sandbox.
func openTerminalClient(t *testing.T, cmd atoll.Cmd) (*terminalClient, atoll.Sandbox) {
	t.Helper()
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return openTerminalClientAt(t, sb, cmd), sb
}

func openTerminalClientAt(t *testing.T, sb atoll.Sandbox, cmd atoll.Cmd) *terminalClient {
	r, w := io.Pipe()
	d := &terminalClient{t: t, in: w, news: make(chan struct{}, 1), done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Timeout = r, d, time.Minute
	if cmd.TTY == nil {
		cmd.TTY = &atoll.TTY{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(d.done)
		d.exit, d.err = sb.Exec(ctx, cmd)
		_ = r.Close() // unblocks writers
	}()
	t.Cleanup(func() {
		cancel()
		_ = w.Close()
		<-d.done
	})
	return d
}

// escapes matches the control sequences of a terminal.
var escapes = regexp.MustCompile("\x1b\\[[?0-9;]*[A-Za-z]|\r")

// waitForText waits until the screen shows a text after the one before.
func (d *terminalClient) waitForText(text string) {
	d.t.Helper()
	timeout := time.After(time.Minute)
	for {
		d.mu.Lock()
		all := escapes.ReplaceAllString(d.screen.String(), "")
		i := strings.Index(all[min(d.seen, len(all)):], text)
		if i >= 0 {
			d.seen += i + len(text)
			d.mu.Unlock()
			return
		}
		rest := all[min(d.seen, len(all)):]
		d.mu.Unlock()
		select {
		case <-d.news:
		case <-timeout:
			d.t.Fatalf("the screen does not show %q, but %q", text, rest)
		case <-d.done:
			if !strings.Contains(escapes.ReplaceAllString(d.screen.String(), "")[d.seen:], text) {
				d.t.Fatalf("it ended (%+v, %v) and did not show %q, but %q", d.exit, d.err, text, rest)
			}
		}
	}
}

func (d *terminalClient) typeKeys(keys string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, keys); err != nil {
		d.t.Fatalf("typing %q: %v", keys, err)
	}
}

// waitForExit waits for the end of the command and returns its exit status.
func (d *terminalClient) waitForExit() int {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		d.t.Fatal("the shell does not end")
	}
	if d.err != nil {
		d.t.Errorf("Exec: %v", d.err)
	}
	return d.exit.Code
}

func bashCommand() atoll.Cmd { return atoll.Cmd{Args: []string{"bash"}} }

const prompt = "root@atoll:/# "

func TestInteractiveShell(t *testing.T) {
	d, _ := openTerminalClient(t, bashCommand())
	d.waitForText(prompt)
	for _, c := range []struct{ keys, want string }{
		{"echo hi\r", "hi\n" + prompt},
		{"echo $-; [ -t 0 ] && tty\r", "himBs\n/dev/pts/0\n" + prompt},
		{"for i in 1 2\rdo echo n$i; done\r", "n1\nn2\n" + prompt},
		{"cat <<E\rline\rE\r", "\nline\n" + prompt},
		{"echo 'a\rb'\r", "\na\nb\n" + prompt},
		{"echo one \\\rtwo\r", "\none two\n" + prompt},
		{"nosuchcmd\r", "bash: nosuchcmd: command not found\n"},
		{"if fi\r", "bash: syntax error near unexpected token `fi'\n"},
		{"echo ${x?is unset}; echo not\r", "bash: x: is unset\n" + prompt},
		{"echo $?\r", "1\n" + prompt},
		{"abc\x03echo $?\r", "130\n" + prompt},
		{"echo 'open\r\x03echo still\r", "\nstill\n" + prompt},
		{"sleep 60\r\x03", "^C\n" + prompt},
		{"echo $?\r", "130\n" + prompt},
		{"while :; do :; done; echo not\r", "not\n"},
		{"\x03", prompt},
		{"while :; do sleep 60; done\r\x03", prompt},
		{"f() { read x; echo not; }; f\r", "f\n"},
		{"\x03", prompt},
		{"read -p 'name? ' x; echo \"<$x>\"\r", "\nname? "},
		{"jo\x7fim\r", "<jim>\n" + prompt},
		{"read -s x; echo \"<$x>\"\r", "\n"},
		{"hidden\r", "<hidden>\n" + prompt},
		{"read -n 2 x; echo \"<$x>\"\r", "\n"},
		{"abc", "<ab>\n" + prompt},
		{"\x15sh -c 'echo go; cat'\r", "\ngo\n"},
		{"data\r\x04", "data\ndata\n" + prompt},
		{"\x1b[A\x1b[A\x1b[A\x1b[H: \x1b[F\r", prompt},
		{"PS1='> '; PS2='more '\r", "\n> "},
		{"{\recho in\r}\r", "in\n> "},
		{"PS1='\\w \\$ '; cd /tmp\r", "/tmp # "},
		{"trap 'echo trapped' INT; sh -c 'echo go; sleep 60'\r", "\ngo\n"},
		{"\x03", "trapped\n/tmp # "},
		{"trap - INT; while :; do :; done\r", "\n"},
		{"\x03", "/tmp # "},
		{"exit 3\r", "exit\n"},
	} {
		d.typeKeys(c.keys)
		d.waitForText(c.want)
	}
	if code := d.waitForExit(); code != 3 {
		t.Errorf("exit status %d", code)
	}
}

func TestInteractiveShellJobs(t *testing.T) {
	d, _ := openTerminalClient(t, bashCommand())
	d.waitForText(prompt)
	for _, c := range []struct{ keys, want string }{
		{"printf '%s\\n' 'trap \"echo cont\" CONT' 'echo go; while :; do sleep 0.02; done' > s; chmod +x s\r", "\n" + prompt},
		{"./s\r", "\ngo\n"},
		{"\x1a", "[1]+  Stopped                 ./s\n" + prompt},
		{"echo $?\r", "148\n" + prompt},
		{"./s | cat\r", "\ngo\n"},
		{"\x1a", "[2]+  Stopped                 ./s | cat\n" + prompt},
		{"jobs\r", "[1]-  Stopped                 ./s\n[2]+  Stopped                 ./s | cat\n" + prompt},
		{"bg %1\r", "./s &\n"},
		{"", "cont\n"},
		{"kill %1; sleep 0.3\r", "Terminated              ./s\n" + prompt},
		{"fg\r", "./s | cat\ncont\n"},
		{"\x03", prompt},
		{"jobs\r", "jobs\n" + prompt},
		{"(./s; echo not)\r", "\ngo\n"},
		{"\x1a", "Stopped                 ( ./s; echo not )\n" + prompt},
		{"exit\r", "There are stopped jobs.\n" + prompt},
		{"fg; echo $?\r", "echo not )\ncont\n"},
		{"\x03", prompt},
		{"cat & sleep 0.3\r", "Stopped                 cat\n" + prompt},
		{"kill -9 %1; wait %1\r", prompt},
		{"sh -c 'kill -STOP $$; echo on'\r", "Stopped"},
		{"fg\r", "on\n" + prompt},
		{"sleep 0.01 & wait; echo waited\r", "waited\n"},
		{"bash\r", prompt},
		{"./s\r", "\ngo\n"},
		{"\x1a", "Stopped                 ./s\n" + prompt},
		{"exit\r", "There are stopped jobs.\n" + prompt},
		{"exit\r", "exit\n" + prompt},
		{"stty -echo; stty size\r", "24 80\n" + prompt},
		{"exit\r", "exit\n"},
	} {
		if c.keys != "" {
			d.typeKeys(c.keys)
		}
		d.waitForText(c.want)
	}
	if code := d.waitForExit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestInteractiveShellRemembers checks that the history outlives the shell, and that Tab completes files.
func TestInteractiveShellRemembers(t *testing.T) {
	d, sb := openTerminalClient(t, bashCommand())
	d.waitForText(prompt)
	d.typeKeys("mkdir -p /w/alpha '/w/be ta'; echo remembered\r")
	d.waitForText("remembered\n" + prompt)
	d.typeKeys("cd /w/al\t\rpwd\r")
	d.waitForText("/w/alpha\n")
	d.typeKeys("cd ../b\t\rpwd\r")
	d.waitForText("/w/be ta\nroot@atoll:/w/be ta# ") // before it, the end of input would be that of pwd
	d.typeKeys("\x04")
	if code := d.waitForExit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	d = openTerminalClientAt(t, sb, bashCommand())
	d.waitForText(prompt)
	d.typeKeys("\x12reme\r")
	d.waitForText("\nremembered\n" + prompt)
	d.typeKeys("exit\r")
	d.waitForExit()
}

// TestInteractiveShellResized checks that a new size of the screen does not disturb the line.
func TestInteractiveShellResized(t *testing.T) {
	sizes := make(chan atoll.Size)
	cmd := bashCommand()
	cmd.TTY = &atoll.TTY{Resize: sizes}
	d, _ := openTerminalClient(t, cmd)
	d.waitForText(prompt)
	d.typeKeys("echo un")
	sizes <- atoll.Size{Rows: 10, Cols: 40}
	sizes <- atoll.Size{Rows: 11, Cols: 41}
	sizes <- atoll.Size{Rows: 11, Cols: 41} // when this is received, the size before was handled
	d.typeKeys("touched; echo $LINES $COLUMNS\r")
	d.waitForText("untouched\n11 41\n" + prompt)
	d.typeKeys("read x; echo \"<$x>\"\r")
	d.waitForText("\n")
	d.typeKeys("be")
	sizes <- atoll.Size{Rows: 12, Cols: 42}
	sizes <- atoll.Size{Rows: 13, Cols: 43}
	d.typeKeys("fore\r")
	d.waitForText("<before>\n" + prompt)
	d.typeKeys("sleep 0.2 & wait $!; echo $?\r")
	sizes <- atoll.Size{Rows: 14, Cols: 44}
	d.waitForText("\n0\n" + prompt)
}

// TestResizeWhileSttyReads changes the size while commands read it: stty, which only prints, must not bring back an older one.
func TestResizeWhileSttyReads(t *testing.T) {
	sizes := make(chan atoll.Size)
	cmd := bashCommand()
	cmd.TTY = &atoll.TTY{Resize: sizes}
	d, _ := openTerminalClient(t, cmd)
	d.waitForText(prompt)
	const last = 200
	d.typeKeys(fmt.Sprintf("n=1; while [ $n -le %d ]; do until [ \"$(stty size)\" = \"$n 99\" ]; do :; done; echo at $n.; n=$((n+1)); done\r", last))
	for n := 1; n <= last; n++ {
		sizes <- atoll.Size{Rows: uint16(n), Cols: 99}
		d.waitForText(fmt.Sprintf("at %d.\n", n))
	}
}

// TestInteractiveShellPlain checks that a dumb terminal uses the terminal's own line editing.
func TestInteractiveShellPlain(t *testing.T) {
	cmd := bashCommand()
	cmd.Env = []string{"TERM=dumb", "PS1=% "}
	d, _ := openTerminalClient(t, cmd)
	d.waitForText("% ")
	d.typeKeys("echo xy\x7f\x7fab\r")
	d.waitForText("\nab\n% ")
	d.typeKeys("half\x03")
	d.waitForText("^C\n% ")
	d.typeKeys("\x04")
	if code := d.waitForExit(); code != 130 { // the exit status of the last line
		t.Errorf("exit status %d", code)
	}
	if s := d.screen.String(); strings.Contains(s, "\x1b") {
		t.Errorf("escape sequences on a dumb terminal: %q", s)
	}
}

// TestInteractiveShellEnds checks that only the end of its input or a hang-up ends the shell.
func TestInteractiveShellEnds(t *testing.T) {
	d, _ := openTerminalClient(t, bashCommand())
	d.waitForText(prompt)
	_ = d.in.Close()
	if code := d.waitForExit(); code != 0 {
		t.Errorf("exit status at the end of the input: %d", code)
	}
	signals := make(chan string)
	cmd := bashCommand()
	cmd.Signals = signals
	d, _ = openTerminalClient(t, cmd)
	d.waitForText(prompt)
	for _, name := range []string{"TERM", "QUIT", "TSTP", "INT"} {
		signals <- name
	}
	d.waitForText("^C\n" + prompt)
	signals <- "HUP"
	if code := d.waitForExit(); code != 129 {
		t.Errorf("exit status after a hang-up: %d", code)
	}
}

// TestCommandsKnowTerminals checks commands whose output differs on a terminal.
func TestCommandsKnowTerminals(t *testing.T) {
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "mkdir /d; cd /d; touch a 'b c' d; echo x > e; for i in 1 2 3 4 5 6; do touch long-name-$i; done"}); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"cd /d; ls | head -3": "a\nb c\nd\n",
		"cd /d; ls":           "a      d  long-name-1  long-name-3  long-name-5\n'b c'  e  long-name-2  long-name-4  long-name-6\n",
		"cd /d; ls -1 a b*":   "a\n'b c'\n",
		"ls -d --color=auto /d; ls -d --color=auto /d | cat": "\x1b[0m\x1b[01;34m/d\x1b[0m\n/d\n",
		"grep --color=auto x /d/e":                           "\x1b[01;31m\x1b[Kx\x1b[m\x1b[K\n",
		"tput cols; tput lines":                              "50\n10\n",
		"ps -o tty= -p $$":                                   "pts/0\n",
		"stty -g | wc -c; s=$(stty -g); stty raw -echo; stty $s; stty | tail -1": "89\nspeed 38400 baud; line = 0;\n",
		"stty rows 5 cols 7; stty size":                                          "5 7\n",
		"stty -F /dev/tty size":                                                  "10 50\n",
		"stty nonsense":                                                          "stty: invalid argument 'nonsense'\nTry 'stty --help' for more information.\n",
		"stty size < /dev/null":                                                  "stty: 'standard input': Inappropriate ioctl for device\n",
		"ls -l /dev/pts | cut -c1-10":                                            "total 0\ncrw--w----\n",
		"tty < /dev/null":                                                        "not a tty\n",
		"echo to | tee /dev/tty":                                                 "to\nto\n",
	} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script, TTY: &atoll.TTY{Size: atoll.Size{Rows: 10, Cols: 50}}})
		if got := strings.ReplaceAll(string(exit.Stdout), "\r", ""); err != nil || got != want {
			t.Errorf("%s:\n%q, want\n%q (%v)", script, got, want, err)
		}
	}
}
