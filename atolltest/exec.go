package atolltest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

var execLaws = []law{
	{"ArgsAsGiven", argsAsGiven},
	{"ShellText", shellText},
	{"ExitCodes", exitCodes},
	{"NotFoundIs127", notFoundIs127},
	{"NotExecutableIs126", notExecutableIs126},
	{"SignalIs128Plus", signalIs128Plus},
	{"StreamsAreSeparate", streamsAreSeparate},
	{"BinarySurvives", binarySurvives},
	{"TenMegabytesSurvive", tenMegabytesSurvive},
	{"LongArgumentsSurvive", longArgumentsSurvive},
	{"StdinReachesCommand", stdinReachesCommand},
	{"NoStdinIsEmpty", noStdinIsEmpty},
	{"UnreadStdinIsFine", unreadStdinIsFine},
	{"EnvReachesCommand", envReachesCommand},
	{"HostEnvIsHidden", hostEnvIsHidden},
	{"DirIsWorkingDirectory", dirIsWorkingDirectory},
	{"OutputIsBounded", outputIsBounded},
	{"SlowReaderGetsAll", slowReaderGetsAll},
	{"FailingWriterEndsCommand", failingWriterEndsCommand},
	{"ExecConcurrently", execConcurrently},
	{"ExecsShareFiles", execsShareFiles},
	{"BadCommandIsInvalid", badCommandIsInvalid},
}

func argsAsGiven(e *env) {
	sb := e.useSandbox()
	args := []string{
		"", " ", "a b", `"`, "'", `\`, `\n`, "$HOME", "`id`", "$(id)", "*", "?", "~", "-n", "--", "a\nb", "a\tb", ";", "&", "|", ">", "ü", "日本",
		"\x80\xff\x01", "", "=", "a=b", "{1,2}", "!!", "#", "%s", "",
	}
	cmd := atoll.Cmd{Args: append([]string{"sh", "-c", `for a; do printf '%s\001' "$a"; done`, "name"}, args...)}
	exit := e.exec(sb, cmd)
	// One argument contains \x01 itself: compare the whole output.
	wantEqual(e, "arguments", string(exit.Stdout), strings.Join(args, "\x01")+"\x01")
	wantEqual(e, "exit status", exit.Code, 0)
}

func shellText(e *env) {
	sb := e.useSandbox()
	wantEqual(e, "pipes, variables and quotes", e.runShell(sb, `x='a  b'; echo "$x" | cat; for i in 1 2; do echo $i; done`), "a  b\n1\n2\n")
	exit := e.exec(sb, atoll.Cmd{Shell: "exit 3"})
	wantEqual(e, "exit in the text", exit.Code, 3)
	exit = e.exec(sb, atoll.Cmd{Shell: "echo out; exit 4; echo not"})
	wantEqual(e, "exit in the middle", exit.Code, 4)
	wantEqual(e, "output before it", string(exit.Stdout), "out\n")
	exit = e.exec(sb, atoll.Cmd{Shell: "if then"})
	if exit.Code == 0 || len(exit.Stderr) == 0 {
		e.Errorf("a syntax error gives exit status %d and stderr %q", exit.Code, exit.Stderr)
	}
}

func exitCodes(e *env) {
	sb := e.useSandbox()
	for _, code := range []int{0, 1, 2, 42, 125, 126, 127, 128, 130, 137, 200, 254, 255} {
		exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", fmt.Sprintf("exit %d", code)}})
		wantEqual(e, fmt.Sprintf("exit %d", code), exit.Code, code)
		wantEqual(e, fmt.Sprintf("signal of exit %d", code), exit.Signal, "")
	}
}

func notFoundIs127(e *env) {
	sb := e.useSandbox()
	for _, args := range [][]string{{"atolltest-no-such-program"}, {"/no/such/program"}} {
		exit := e.exec(sb, atoll.Cmd{Args: args})
		wantEqual(e, args[0], exit.Code, 127)
		if !bytes.Contains(exit.Stderr, []byte(args[0])) {
			e.Errorf("stderr %q does not name %s", exit.Stderr, args[0])
		}
	}
	exit := e.exec(sb, atoll.Cmd{Shell: "atolltest-no-such-program"})
	wantEqual(e, "from the shell", exit.Code, 127)
}

func notExecutableIs126(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "mkdir -p /tmp/law && echo hi >/tmp/law/plain && chmod 644 /tmp/law/plain")
	for _, name := range []string{"/tmp/law/plain", "/tmp/law"} {
		exit := e.exec(sb, atoll.Cmd{Args: []string{name}})
		wantEqual(e, name, exit.Code, 126)
		if len(exit.Stderr) == 0 {
			e.Errorf("%s: no message on stderr", name)
		}
	}
}

func signalIs128Plus(e *env) {
	sb := e.useSandbox()
	for name, number := range map[string]int{"KILL": 9, "TERM": 15, "HUP": 1} {
		exit := e.exec(sb, atoll.Cmd{Shell: "kill -" + name + " $$; while :; do :; done"})
		wantEqual(e, name, exit.Code, 128+number)
		wantEqual(e, "name of "+name, exit.Signal, name)
	}
}

func streamsAreSeparate(e *env) {
	sb := e.useSandbox()
	exit := e.exec(sb, atoll.Cmd{Shell: "echo one; echo two >&2; echo three; echo four >&2"})
	wantEqual(e, "stdout", string(exit.Stdout), "one\nthree\n")
	wantEqual(e, "stderr", string(exit.Stderr), "two\nfour\n")
	var out, err bytes.Buffer
	exit = e.exec(sb, atoll.Cmd{Shell: "echo one; echo two >&2", Stdout: &out, Stderr: &err})
	wantEqual(e, "stdout to a writer", out.String(), "one\n")
	wantEqual(e, "stderr to a writer", err.String(), "two\n")
	wantEqual(e, "nothing kept", len(exit.Stdout)+len(exit.Stderr), 0)
}

func binarySurvives(e *env) {
	sb := e.useSandbox()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	data := bytes.Repeat(all, 1000)
	exit := e.exec(sb, atoll.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(data)})
	if !bytes.Equal(exit.Stdout, data) {
		e.Errorf("256,000 bytes of all values came back as %d other bytes", len(exit.Stdout))
	}
}

func tenMegabytesSurvive(e *env) {
	sb := e.useSandbox()
	const size = 10 << 20
	want := sha256.Sum256(bytes.Repeat([]byte("0123456789abcde\n"), size/16))
	h := sha256.New()
	n := &counter{w: h}
	e.exec(sb, atoll.Cmd{Shell: fmt.Sprintf("yes 0123456789abcde | head -c %d", size), Stdout: n})
	wantEqual(e, "bytes", n.n, size)
	if got := [32]byte(h.Sum(nil)); got != want {
		e.Error("the bytes are not those that were written")
	}
}

type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.w.Write(b)
}

func longArgumentsSurvive(e *env) {
	sb := e.useSandbox()
	long := strings.Repeat("0123456789", 15_000) // 150 kB: longer than one argument may be on Linux
	exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", `read -r x; echo ${#x}`}, Stdin: strings.NewReader(long + "\n")})
	wantEqual(e, "through stdin", strings.TrimSpace(string(exit.Stdout)), "150000")
	if err := atoll.WriteFile(e.newContext(), sb, "/tmp/long.sh", []byte("x="+long+"\necho ${#x}\n"), 0o644); err != nil {
		e.Fatal(err)
	}
	exit = e.exec(sb, atoll.Cmd{Args: []string{"sh", "/tmp/long.sh"}})
	wantEqual(e, "through a file", strings.TrimSpace(string(exit.Stdout)), "150000")
	many := make([]string, 0, 10_004)
	many = append(many, "sh", "-c", "echo $#", "name")
	for range 10_000 {
		many = append(many, "0123456789")
	}
	exit = e.exec(sb, atoll.Cmd{Args: many})
	wantEqual(e, "10,000 arguments", strings.TrimSpace(string(exit.Stdout)), "10000")
	exit, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"sh", "-c", "echo ${#1}", "name", long}})
	if err == nil {
		wantEqual(e, "one long argument", strings.TrimSpace(string(exit.Stdout)), "150000")
	} else {
		e.wantError(err, atoll.ErrInvalid, "one long argument")
	}
}

func stdinReachesCommand(e *env) {
	sb := e.useSandbox()
	exit := e.exec(sb, atoll.Cmd{Shell: "read a; read b; echo $b $a; cat", Stdin: strings.NewReader("1\n2\n3\n")})
	wantEqual(e, "lines", string(exit.Stdout), "2 1\n3\n")
	r, w := io.Pipe()
	go func() {
		for i := range 3 {
			_, _ = fmt.Fprintln(w, i) // the output of cat shows errors
		}
		_ = w.Close()
	}()
	exit = e.exec(sb, atoll.Cmd{Args: []string{"cat"}, Stdin: r})
	wantEqual(e, "a pipe", string(exit.Stdout), "0\n1\n2\n")
}

func noStdinIsEmpty(e *env) {
	sb := e.useSandbox()
	wantEqual(e, "cat", e.runShell(sb, "cat; echo end"), "end\n")
}

func unreadStdinIsFine(e *env) {
	sb := e.useSandbox()
	r, w := io.Pipe()
	defer w.Close()
	e.mustFinish("a command that reads nothing of a stdin that never ends", func() {
		exit := e.exec(sb, atoll.Cmd{Args: []string{"echo", "hi"}, Stdin: r})
		wantEqual(e, "output", string(exit.Stdout), "hi\n")
	})
	big := strings.NewReader(strings.Repeat("x", 4<<20))
	exit := e.exec(sb, atoll.Cmd{Args: []string{"head", "-c", "3"}, Stdin: big})
	wantEqual(e, "head of a big stdin", string(exit.Stdout), "xxx")
}

func envReachesCommand(e *env) {
	spec := e.newSpec()
	spec.Env = []string{"FROM_SPEC=1", "BOTH=spec"}
	sb := e.create(spec)
	text := `echo "$FROM_SPEC,$BOTH,$ODD,$EMPTY,${UNSET-unset}"`
	exit := e.exec(sb, atoll.Cmd{Shell: text, Env: []string{"BOTH=first", "BOTH=cmd", "ODD=a 'b' \"c\" $d\ne;f", "EMPTY="}})
	wantEqual(e, "variables", string(exit.Stdout), "1,cmd,a 'b' \"c\" $d\ne;f,,unset\n")
	exit = e.exec(sb, atoll.Cmd{Shell: `test -n "$HOME" && test -n "$PATH" && echo yes`})
	wantEqual(e, "HOME and PATH", string(exit.Stdout), "yes\n")
}

func hostEnvIsHidden(e *env) {
	os.Setenv("ATOLLTEST_SECRET", "of the host") // not reset: T.Setenv forbids parallel suites
	sb := e.useSandbox()
	if out := e.runShell(sb, "env"); strings.Contains(out, "ATOLLTEST_SECRET") {
		e.Error("a variable of the host is visible inside")
	}
}

func dirIsWorkingDirectory(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "mkdir -p '/tmp/a dir'")
	exit := e.exec(sb, atoll.Cmd{Args: []string{"pwd"}, Dir: "/tmp/a dir"})
	wantEqual(e, "pwd", string(exit.Stdout), "/tmp/a dir\n")
	_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"pwd"}, Dir: "/no/such/dir"})
	e.wantError(err, atoll.ErrNotFound, "a directory that is not there")
	_, err = sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"pwd"}, Dir: "relative"})
	e.wantError(err, atoll.ErrInvalid, "a relative directory")
}

func outputIsBounded(e *env) {
	sb := e.useSandbox()
	exit := e.exec(sb, atoll.Cmd{Shell: "yes | head -c 200000; echo end >&2", MaxOutput: 1000})
	wantEqual(e, "kept", len(exit.Stdout), 1000)
	wantEqual(e, "Truncated", exit.Truncated, true)
	wantEqual(e, "the other stream", string(exit.Stderr), "end\n")
	wantEqual(e, "exit status", exit.Code, 0)
	exit = e.exec(sb, atoll.Cmd{Shell: "printf 12345", MaxOutput: 5})
	wantEqual(e, "Truncated at the brim", exit.Truncated, false)
}

func slowReaderGetsAll(e *env) {
	sb := e.useSandbox()
	const size = 3 << 20
	r, w := io.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: fmt.Sprintf("yes | head -c %d", size), Stdout: w})
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
	wantEqual(e, "bytes", n, size)
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func failingWriterEndsCommand(e *env) {
	sb := e.useSandbox()
	e.mustFinish("a command whose writer fails", func() {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "yes | head -c 30000000", Stdout: failingWriter{}})
		e.wantError(err, io.ErrClosedPipe, "the writer's error")
	})
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func execConcurrently(e *env) {
	sb := e.useSandbox()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			exit, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: fmt.Sprintf("for i in 1 2 3; do echo %d; done; exit %d", i, i)})
			if err != nil {
				e.Errorf("Exec %d: %v", i, err)
				return
			}
			wantEqual(e, "output", string(exit.Stdout), strings.Repeat(fmt.Sprintln(i), 3))
			wantEqual(e, "exit status", exit.Code, i)
		})
	}
	wg.Wait()
}

func execsShareFiles(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "echo one > /tmp/shared; cd /tmp; X=1")
	wantEqual(e, "a file of an earlier command", e.runShell(sb, "cat /tmp/shared"), "one\n")
	wantEqual(e, "a variable of an earlier command", e.runShell(sb, "echo ${X-unset}"), "unset\n")
}

func badCommandIsInvalid(e *env) {
	sb := e.useSandbox()
	for what, cmd := range map[string]atoll.Cmd{
		"nothing":           {},
		"both":              {Args: []string{"true"}, Shell: "true"},
		"an empty name":     {Args: []string{""}},
		"a NUL byte":        {Args: []string{"echo", "a\x00b"}},
		"NUL in the text":   {Shell: "echo \x00"},
		"Env without name":  {Args: []string{"true"}, Env: []string{"=x"}},
		"Env without value": {Args: []string{"true"}, Env: []string{"X"}},
		"session of args":   {Args: []string{"true"}, Session: true},
	} {
		_, err := sb.Exec(e.newContext(), cmd)
		e.wantError(err, atoll.ErrInvalid, what)
	}
}
