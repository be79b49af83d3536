package shell_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t testing.TB, s *shell.Shell, command string) shell.Result {
	t.Helper()
	res, err := s.Execute(t.Context(), command, shell.IO{})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return res
}

func wantOut(t testing.TB, s *shell.Shell, command, want string) {
	t.Helper()
	if res := run(t, s, command); string(res.Stdout) != want {
		t.Errorf("%s: %q, want %q (stderr %q)", command, res.Stdout, want, res.Stderr)
	}
}

func ExampleShell_Execute() {
	k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{}), Programs: shell.Programs()})
	s := shell.New(shell.Config{Kernel: k})
	defer s.Close()
	for _, command := range []string{`greet() { echo "hello $1"; }`, `greet world; exit 3`, `echo $?`} {
		res, err := s.Execute(context.Background(), command, shell.IO{})
		fmt.Printf("%q %d %v\n", res.Stdout, res.ExitCode, err)
	}
	// Output:
	// "" 0 <nil>
	// "hello world\n" 3 <nil>
	// "3\n" 0 <nil>
}

func TestStatePersists(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	run(t, s, `x=1; a=(1 2 3); declare -A m=([k]=v); export E=e; f() { echo "f $1"; }; alias ll='echo ll'; set -u; cd /work; umask 077; trap 'echo usr' USR1; set -- p q`)
	wantOut(t, s, `echo $x ${a[2]} ${m[k]} $E; f 1; echo $-; pwd; umask; trap; echo $2`, "1 3 v e\nf 1\nhuBc\n/work\n0077\ntrap -- 'echo usr' SIGUSR1\nq\n")
	wantOut(t, s, "kill -USR1 $$", "usr\n")
	if s.Dir() != "/work" || !slices.Contains(s.Env(), "E=e") {
		t.Errorf("dir %s, env %v", s.Dir(), s.Env())
	}
}

func TestExitEndsOnlyTheCommand(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	if res := run(t, s, "x=5; exit 3; x=6"); res.ExitCode != 3 {
		t.Errorf("status %d", res.ExitCode)
	}
	wantOut(t, s, "echo $x $?", "5 3\n")
	if res := run(t, s, "set -e; false; echo no"); res.ExitCode != 1 || len(res.Stdout) > 0 {
		t.Errorf("set -e: %d %q", res.ExitCode, res.Stdout)
	}
	wantOut(t, s, "set +e; kill -9 $$; echo no", "")
	wantOut(t, s, "echo $x", "5\n")
}

func TestKilledCommandKeepsTheSession(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	mustFinish(t, "a command past its deadline", func() {
		_, err := s.Execute(t.Context(), `x=1; f() { local x=2 y=3; z=done; while :; do :; done; }; f`, shell.IO{Timeout: 100 * time.Millisecond})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	wantOut(t, s, `echo $x ${y-unset} $z ${#FUNCNAME[@]}; break; echo $(echo sub)`, "1 unset done 0\nsub\n")
}

func TestSnapshotIsExact(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	run(t, s, `x=1; f() { echo old; }; cd /work`)
	st := s.State()
	run(t, s, `x=2; y=new; f() { echo new; }; g() { :; }; cd /; set -e`)
	if err := s.Restore(st); err != nil {
		t.Fatal(err)
	}
	wantOut(t, s, `echo $x ${y-unset}; f; type -t g; pwd; echo $-`, "1 unset\nold\n/work\nhBc\n")
	other := newShell(options{})
	defer other.Close()
	if err := other.Restore(st); err != nil {
		t.Fatal(err)
	}
	run(t, other, "x=other")
	wantOut(t, s, "echo $x", "1\n")
	if err := s.Restore(shell.State{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("empty state: %v", err)
	}
}

func TestStateSurvivesMarshaling(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	run(t, s, `x=$'a\nb\xff'; declare -i n=3; declare -A m=([k 1]=v); a=([3]=c [7]=d); declare -r ro=1; export E=e; f() { echo "f $1" <<< x; }
declare -n ref=x; alias ll='ls -l'; shopt -s extglob; set -o pipefail; trap 'echo "it'\''s"' USR1; cd /work; umask 027; set -- 1 '2 3'; pushd /tmp >/dev/null`)
	b, err := s.State().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var st shell.State
	if err := st.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	other := newShell(options{})
	defer other.Close()
	if err := other.Restore(st); err != nil {
		t.Fatal(err)
	}
	const ask = `declare -p x n m a ro E ref; declare -f f; alias; shopt extglob; shopt -o pipefail; trap; pwd; umask; echo $# "$2"; dirs; n=1+1; echo $n`
	want := run(t, s, ask)
	wantOut(t, other, ask, string(want.Stdout))
	for i := range b {
		broken := append([]byte(nil), b...)
		broken[i] ^= 0x55
		_ = new(shell.State).UnmarshalBinary(broken) // must not panic
	}
}

func TestPolicySeesEveryCommand(t *testing.T) {
	var seen []string
	policy := func(_ context.Context, c shell.Call) error {
		line := string(c.Kind) + " " + strings.Join(c.Args, " ")
		for _, r := range c.Redirs {
			line += " " + r.Op + r.Target
		}
		seen = append(seen, line)
		if slices.Contains(c.Args, "evil") || slices.ContainsFunc(c.Redirs, func(r shell.Redirection) bool { return r.Target == "/etc/x" }) {
			return errors.New("not that")
		}
		return nil
	}
	s := newShell(options{policy: policy})
	defer s.Close()
	for _, command := range []string{
		"cat evil", "x=cat; $x evil", "sh -c 'cat evil'", "(cat evil)", "f() { cat evil; }; f", "env cat evil", "eval cat evil",
		"command cat evil", "builtin echo evil", "echo hi > /etc/x", "{ echo hi; } > /etc/x", "> /etc/x", "exec cat evil", "y=$(cat evil)",
		"echo 'cat evil' > s; . ./s", "echo 'cat evil' > s; chmod +x s; ./s",
	} {
		res := run(t, s, command)
		if !strings.Contains(string(res.Stderr), "denied: not that") {
			t.Errorf("%s: status %d, %q", command, res.ExitCode, res.Stderr)
		}
	}
	if res := run(t, s, "cat evil"); res.ExitCode != 126 || string(res.Stderr) != "bash: line 1: cat: denied: not that\n" {
		t.Errorf("%d %q", res.ExitCode, res.Stderr)
	}
	if res := run(t, s, "cat /etc/x"); res.ExitCode == 0 {
		t.Error("a denied redirection made its file")
	}
	seen = nil
	run(t, s, "x=1 echo a $((1+1)) > out 2>&1")
	if want := []string{"builtin echo a 2 >out >&1"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

func TestIncompleteCommands(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	for command, want := range map[string]bool{
		"echo a": false, "echo 'a": true, "if true": true, "for x in 1; do": true, "cat <<E\na": true, "cat <<E\na\nE": false,
		"echo a \\": true, "echo a \\\\": false, "f() {": true, "echo )": false, "": false, "a &&": true, "a |": true,
	} {
		if got := s.Incomplete(command); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}

func TestCompletion(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	run(t, s, "mkdir -p sub; : > subfile; myvar=1; myfunc() { :; }")
	for line, want := range map[string]string{
		"myf": "myfunc", "echo $myv": "$myvar", "cat subf": "subfile", "cd su": "sub/", "ech": "echo", "a; unali": "unalias", "echo ${myv": "${myvar}",
	} {
		start, list := s.Complete(t.Context(), line, len(line))
		if !slices.Contains(list, want) || start > len(line) {
			t.Errorf("%q: %d %v, want %s", line, start, list, want)
		}
	}
}

func TestHints(t *testing.T) {
	f := vfs.New(vfs.Options{Base: image()})
	k := kernel.New(kernel.Config{FS: f, Programs: programs()})
	s := shell.New(shell.Config{Kernel: k, Env: []string{"PATH=/bin"}})
	defer s.Close()
	for command, want := range map[string]string{
		"ehco": "did you mean `echo'?", "python3 x": "driver with real processes", "gh pr": "use git", "vim x": "sed", "slep 1": "did you mean `sleep'?",
	} {
		res := run(t, s, command)
		first, rest, _ := strings.Cut(string(res.Stderr), "\n")
		name, _, _ := strings.Cut(command, " ")
		if first != "bash: line 1: "+name+": command not found" || !strings.Contains(rest, want) || res.ExitCode != 127 {
			t.Errorf("%s: %q", command, res.Stderr)
		}
	}
}

// TestHintsOfScripts checks that bash -c and scripts name what to use instead of a program that agents
// expect, and nothing else: bash prints no hints.
func TestHintsOfScripts(t *testing.T) {
	f := vfs.New(vfs.Options{Base: image()})
	k := kernel.New(kernel.Config{FS: f, Programs: programs()})
	s := shell.New(shell.Config{Kernel: k, Env: []string{"PATH=/bin"}})
	defer s.Close()
	for command, want := range map[string]string{
		"bash -c 'python3 x'": "bash: line 1: python3: command not found\npython3 is not part of a virtual sandbox: use awk",
		"bash -c 'sudo ls'":   "bash: line 1: sudo: command not found\nthis sandbox has only the user root: run the command without sudo",
		"bash -c 'slep 1'":    "bash: line 1: slep: command not found\n",
	} {
		res := run(t, s, command)
		if !strings.HasPrefix(string(res.Stderr), want) || strings.HasSuffix(want, "\n") && string(res.Stderr) != want || res.ExitCode != 127 {
			t.Errorf("%s: %d %q", command, res.ExitCode, res.Stderr)
		}
	}
}

type greeter struct{}

func (greeter) Name() string        { return "greet" }
func (greeter) Aliases() []string   { return []string{"hi"} }
func (greeter) Description() string { return "say hello" }
func (greeter) Usage() string       { return "greet NAME" }

func (greeter) Execute(_ context.Context, args []string, c shell.Context) shell.ExtensionResult {
	if len(args) == 0 {
		return shell.ExtensionResult{Stderr: "greet: whom?\n", ExitCode: 2}
	}
	return shell.ExtensionResult{Stdout: "hello " + args[0] + " in " + c.ResolvePath("x") + " " + c.Environment["MOOD"] + "\n"}
}

func TestExtensions(t *testing.T) {
	f := vfs.New(vfs.Options{Base: image()})
	if err := f.WriteFile("/bin/greet", kernel.StubFile("greet"), 0o755); err != nil {
		t.Fatal(err)
	}
	k := kernel.New(kernel.Config{FS: f, Programs: map[string]kernel.Program{"greet": shell.Program(greeter{})}})
	s := shell.New(shell.Config{Kernel: k, Dir: "/tmp", Env: []string{"PATH=/bin"}})
	defer s.Close()
	wantOut(t, s, "MOOD=well greet you | { read x; echo [$x]; }; greet; echo $?; greet --help", "[hello you in /tmp/x well]\n2\ngreet - say hello\nUsage: greet NAME\nAliases: hi\n")
}

func TestHelpListsEveryCommand(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	text := string(run(t, s, "myfunc() { :; }; help").Stdout)
	for _, name := range []string{"alias", "unset", "[", "cat", "sleep", "myfunc"} {
		if !strings.Contains(text, " "+name) {
			t.Errorf("help does not list %s", name)
		}
	}
	wantOut(t, s, "help cd", "cd: cd [-L|[-P [-e]] [-@]] [dir]\n    Change the shell working directory.\n")
}

func TestDescriptorsOfExecPersist(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	run(t, s, "exec 5> log; echo one >&5")
	wantOut(t, s, "echo two >&5; exec 5>&-; cat log", "one\ntwo\n")
}

func TestAnalyzeListsCommands(t *testing.T) {
	calls, err := shell.Analyze("ls | grep x; f() { rm -rf /; }; echo $(date)")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range calls {
		names = append(names, c.Name)
	}
	for _, want := range []string{"ls", "grep", "rm", "echo", "date"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing from %v", want, names)
		}
	}
}
