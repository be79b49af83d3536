package virtual_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/shell/command/python"
)

// newPython returns a sandbox with python3, sealed or not.
func newPython(t *testing.T, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	testenv.Real(t, "sealed")
	if _, err := (helper.Finder{}).FindPython(); err != nil {
		testenv.Skip(t, "python", "%v", err)
	}
	d := &virtual.Driver{Commands: python.Commands()}
	t.Cleanup(func() { _ = d.Close() })
	box, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Destroy(context.Background()) })
	return box
}

// runScript runs a script of bash.
func runScript(t *testing.T, box atoll.Sandbox, script string) atoll.Exit {
	t.Helper()
	exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return exit
}

// TestPythonAgreesWithCPython runs the scripts of testdata, whose output was recorded with the python3 of a host.
func TestPythonAgreesWithCPython(t *testing.T) {
	scripts, err := filepath.Glob("testdata/python/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v", err)
	}
	for _, sealed := range []string{"", virtual.Sealed} {
		box := newPython(t, atoll.Spec{Runtime: sealed})
		for _, file := range scripts {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".py")+sealed, func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(strings.TrimSuffix(file, ".py") + ".out")
				if err != nil {
					t.Fatal(err)
				}
				name := "/tmp/" + filepath.Base(file)
				if err := atoll.WriteFile(t.Context(), box, name, text, 0o644); err != nil {
					t.Fatal(err)
				}
				exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"python3", filepath.Base(file), "a", "b c"}, Dir: "/tmp", Stdin: strings.NewReader("in\n")})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), string(exit.Stdout)); d != "" || len(exit.Stderr) > 0 {
					t.Errorf("(-recorded +here)\n%s\n%s", d, exit.Stderr)
				}
			})
		}
	}
}

// TestRecordedPythonIsReal runs the scripts with the python3 of this host.
func TestRecordedPythonIsReal(t *testing.T) {
	testenv.Real(t, "python3")
	real, err := exec.LookPath("python3")
	if err == nil {
		err = exec.CommandContext(t.Context(), real, "-c", "import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))").Run()
	}
	if err != nil {
		testenv.Skip(t, "python3", "python3 of this host, 3.11 or 3.12: %v", err)
	}
	scripts, _ := filepath.Glob("testdata/python/*.py") // the pattern is well-formed
	for _, file := range scripts {
		cmd := exec.CommandContext(t.Context(), real, filepath.Base(file), "a", "b c")
		cmd.Dir, cmd.Stdin = filepath.Dir(file), strings.NewReader("in\n")
		out, _ := cmd.Output() // the status is that of the script
		want, err := os.ReadFile(strings.TrimSuffix(file, ".py") + ".out")
		if err != nil || !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n%s", file, err, cmp.Diff(string(want), string(out)))
		}
	}
}

// TestPythonInShell runs python3 between other commands.
func TestPythonInShell(t *testing.T) {
	for _, sealed := range []string{"", virtual.Sealed} {
		box := newPython(t, atoll.Spec{Runtime: sealed})
		for _, c := range []struct{ script, out, errs string }{
			{`seq 1 1000 | python3 -c 'import sys; print(sum(map(int, sys.stdin)))' | sed s/^/=/`, "=500500\n", ""},
			{`echo '{"b": [1], "a": "ü"}' | python3 -m json.tool --sort-keys --compact --no-ensure-ascii`, `{"a":"ü","b":[1]}` + "\n", ""},
			{`cd /tmp; printf 'import sys\nprint(sys.argv)' > s.py; python3 s.py 1 '2 3'; python3 - x < s.py; python3 < s.py`, "['s.py', '1', '2 3']\n['-', 'x']\n['']\n", ""},
			{`cd /tmp; mkdir p; echo 'def f(): return 5' > p/lib.py; printf '#!/usr/bin/env python3\nfrom lib import f\nprint(f())\n' > p/main; chmod +x p/main; p/main; cat p/__pycache__/lib.cpython-312.pyc | wc -c | grep -c .`, "5\n1\n", ""},
			{`echo 'print(__name__)' > /m.py; cd /; python3 -m m; python3 -c 'import m'`, "__main__\nm\n", ""},
			{`A=1 python3 -c 'import os; print(os.environ["A"], os.getcwd(), os.environ.get("B"))'`, "1 / None\n", ""},
			{`PYTHONPATH=/tmp/p python3 -O -c 'import lib, sys; print(__debug__, lib.f(), sys.flags.optimize)'`, "False 5 1\n", ""},
			{`python3 -c 'import sys; sys.exit(3)'; echo $?; python3 -c 'raise SystemExit("bye")'; echo $?`, "3\n1\n", "bye\n"},
			{`python3 -c '1/0'; echo $?`, "1\n", "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nZeroDivisionError: division by zero\n"},
			{`python3 -c 'print(1'; echo $?`, "1\n", "  File \"<string>\", line 1\n    print(1\n         ^\nSyntaxError: '(' was never closed\n"},
			{`python3 nosuch.py; echo $?`, "2\n", "/usr/bin/python3: can't open file '/nosuch.py': [Errno 44] No such file or directory\n"},
			{`python3 -c 'print("x" * 100000); import sys; print("e", file=sys.stderr)' 2>&1 >/dev/null | cat`, "e\n", ""},
			{`python3 -c 'open("/tmp/w", "w").write("from python\n")'; cat /tmp/w; echo shell >> /tmp/w; python3 -c 'print(len(open("/tmp/w").read()))'`, "from python\n18\n", ""},
			{`python3 -c 'open("/bin/nosuch/x", "w")' 2>&1 | tail -n 1`, "FileNotFoundError: [Errno 44] No such file or directory: '/bin/nosuch/x'\n", ""},
			{`python3 -c 'import socket; socket.create_connection(("10.0.0.1", 80))' 2>&1 | grep -o 'no sockets'`, "no sockets\n", ""},
			{`python3 -c 'import urllib.request; urllib.request.urlopen("http://example.com")' 2>&1 | grep -o 'no sockets' | uniq`, "no sockets\n", ""},
			{`python3 -c 'import subprocess; subprocess.run(["ls"])' 2>&1 | tail -n 1`, "OSError: [Errno 58] wasi does not support processes.\n", ""},
			{`python3 -c 'import os; os.fork()' 2>&1 | tail -n 1`, "AttributeError: module 'os' has no attribute 'fork'\n", ""},
			{`python3 -c 'import threading; threading.Thread(target=print).start()' 2>&1 | tail -n 1`, "RuntimeError: can't start new thread\n", ""},
		} {
			if exit := runScript(t, box, c.script); string(exit.Stdout) != c.out || string(exit.Stderr) != c.errs {
				t.Errorf("%s (%q)\n%s\n%s", c.script, sealed, exit.Stdout, exit.Stderr)
			}
		}
	}
}

// TestPythonIsBounded runs what takes memory, time, files and output without end. The sandbox works on after each.
func TestPythonIsBounded(t *testing.T) {
	for _, sealed := range []string{"", virtual.Sealed} {
		box := newPython(t, atoll.Spec{Runtime: sealed, Limits: atoll.Resources{Memory: 64 << 20, Disk: 16 << 20}})
		for script, want := range map[string]string{
			`python3 -c 'a = []
while True: a.append(" " * 1000000)' 2>&1 | tail -n 1`: "MemoryError\n",
			`python3 -c '"x" * (1 << 31 - 1)' 2>&1 | tail -n 1`: "MemoryError\n",
			`python3 -c 'def f(n): return f(n + 1)
f(0)' 2>&1 | tail -n 1`: "RecursionError: maximum recursion depth exceeded\n",
			`python3 -c 'import sys
sys.setrecursionlimit(10 ** 6)
def f(n): return max([n], key=lambda _: f(n + 1))
f(0)' 2>&1 | tail -n 1 | cut -d: -f1`: "RecursionError\n",
			`python3 -c 'class A:
  def __repr__(self): return repr([self])
repr(A())' 2>&1 | tail -n 1 | cut -d: -f1`: "RecursionError\n",
			`python3 -c 'print(eval("-" * 100000 + "1"))' 2>&1 | tail -n 1 | cut -d: -f1`: "MemoryError\n",
			`python3 -c 'while True: print("y" * 1000)' 2>/dev/null | head -n 2 | wc -l`:  "2\n",
			`python3 -c 'f = open("/tmp/big", "wb", 0)
while True: f.write(b"x" * 65536)' 2>&1 | tail -n 1; rm /tmp/big`: "OSError: [Errno 22] File too large\n",
			`python3 -c 'for i in range(1000): open(f"/tmp/big{i}", "wb", 0).write(b"x" * 1000000)' 2>&1 | tail -n 1; rm /tmp/big*`: "OSError: [Errno 51] No space left on device\n",
			`python3 -c 'l = []
while True: l.append(open("/etc/passwd"))' 2>&1 | tail -n 1`: "OSError: [Errno 33] No file descriptors available: '/etc/passwd'\n",
			`timeout 1 python3 -c 'while True: pass'; echo $?`:                                    "124\n",
			`python3 -c 'import time; time.sleep(1000)' & kill $!; wait $!; echo $?`:              "143\n",
			`python3 -c 'import re; re.match("(a*)*b", "a" * 40)' & kill -9 $!; wait $!; echo $?`: "137\n",
		} {
			if exit := runScript(t, box, script); string(exit.Stdout) != want {
				t.Errorf("%s (%q)\n%s\n%s", script, sealed, exit.Stdout, exit.Stderr)
			}
		}
		if exit := runScript(t, box, `python3 -c 'print("works")'`); string(exit.Stdout) != "works\n" {
			t.Errorf("afterwards: %s %s", exit.Stdout, exit.Stderr)
		}
	}
}

// TestPythonEndsWithItsCommand cancels a command in the middle of a loop: its interpreter ends, and those that wait end with
// the driver.
func TestPythonEndsWithItsCommand(t *testing.T) {
	for _, sealed := range []string{"", virtual.Sealed} {
		box := newPython(t, atoll.Spec{Runtime: sealed})
		ctx, cancel := context.WithCancel(t.Context())
		out := writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
		_, err := box.Exec(ctx, atoll.Cmd{Args: []string{"python3", "-c", "print('begun', flush=True)\nwhile True: pass"}, Stdout: out})
		if err == nil {
			t.Error("the command ended")
		}
		testenv.WaitFor(t, "the interpreter to end", func() bool { return len(interpreters(t, "self")) == 0 })
	}
}

// TestPythonEndsWithItsHost kills the process that has the sandbox, in the middle of a loop: an interpreter that computes asks
// nothing, and ends all the same.
func TestPythonEndsWithItsHost(t *testing.T) {
	const child = "ATOLL_TEST_SANDBOX"
	if runtime, is := os.LookupEnv(child); is {
		box := newPython(t, atoll.Spec{Runtime: runtime})
		_, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"python3", "-c", "print('begun', flush=True)\nwhile True: pass"}, Stdout: os.Stdout})
		t.Fatal(err)
	}
	newPython(t, atoll.Spec{})
	for _, sealed := range []string{"", virtual.Sealed} {
		host := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPythonEndsWithItsHost$")
		host.Env = append(os.Environ(), child+"="+sealed)
		out, err := host.StdoutPipe()
		if err == nil {
			err = host.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "begun\n" {
			t.Errorf("%q %v", line, err)
		}
		running := interpreters(t, strconv.Itoa(host.Process.Pid))
		if len(running) == 0 {
			t.Error("no interpreter runs")
		}
		_ = host.Process.Kill() // it runs until then
		_ = host.Wait()         // it was killed
		for _, pid := range running {
			testenv.WaitFor(t, "the interpreter to end", func() bool {
				b, err := os.ReadFile("/proc/" + pid + "/stat")
				_, state, _ := strings.Cut(string(b), ") ")
				return err != nil || strings.HasPrefix(state, "Z")
			})
		}
	}
}

// TestPythonsOfSandboxAreCounted starts more programs than one sandbox may run.
func TestPythonsOfSandboxAreCounted(t *testing.T) {
	box := newPython(t, atoll.Spec{Runtime: virtual.Sealed, Limits: atoll.Resources{Memory: 512 << 20}})
	exit := runScript(t, box, `mkfifo f; for i in 1 2 3 4; do { echo "$i" | python3 -c 'print(input(), flush=True); open("/f").read()'; } & done > out; until [ "$(wc -l < out)" = 4 ]; do :; done; python3 -c 1; echo $?; for i in 1 2 3 4; do echo > f; done; wait; python3 -c 'print(2)'`)
	if string(exit.Stdout) != "127\n2\n" || !strings.Contains(string(exit.Stderr), "4 Python programs of this sandbox run already") {
		t.Errorf("%s %s", exit.Stdout, exit.Stderr)
	}
}

// TestPythonThatIsNotInstalled: without the interpreter, or with one that others could have changed, python3 is refused.
func TestPythonThatIsNotInstalled(t *testing.T) {
	testenv.Real(t, "sealed")
	dir := t.TempDir()
	t.Setenv("ATOLL_PYTHON", dir)
	for _, c := range []struct {
		prepare func() error
		want    string
	}{
		{func() error { return nil }, "run 'atoll setup python'"},
		{func() error {
			return os.WriteFile(filepath.Join(dir, helper.PythonFile), []byte("\x00asm\x01\x00\x00\x00"), 0o644)
		}, "another digest"},
		{func() error { return os.Chmod(dir, 0o777) }, "can be changed by another user"},
	} {
		if err := c.prepare(); err != nil {
			t.Fatal(err)
		}
		for _, sealed := range []string{"", virtual.Sealed} {
			d := &virtual.Driver{Commands: python.Commands()}
			t.Cleanup(func() { _ = d.Close() })
			box := mustCreate(t, d, atoll.Spec{Runtime: sealed})
			if exit := runScript(t, box, "python3 -c 1"); exit.Code == 0 || !strings.Contains(string(exit.Stderr), c.want) {
				t.Errorf("%q: %d %s", sealed, exit.Code, exit.Stderr)
			}
		}
	}
}

// writerFunc is a writer that is a function.
type writerFunc func([]byte) (int, error)

// Write calls the function.
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// interpreters returns the ids of the interpreters that are children of a process, and run a program.
func interpreters(t *testing.T, parent string) (list []string) {
	t.Helper()
	children, err := filepath.Glob("/proc/" + parent + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(b)) {
			if name, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil && strings.TrimSpace(string(name)) == helper.PythonProgram {
				list = append(list, pid)
			}
		}
	}
	return list
}
