package python

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
	"github.com/atoll-sandbox/atoll/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an interpreter for tests: its end of a connection.
type fake struct {
	net.Conn
	in *bufio.Reader
}

// call makes a call and returns the answer; the zero Reply with EIO if the connection has ended.
func (f *fake) call(op wasi.Op, data string, args ...int64) wasi.Reply {
	if err := wasi.WriteCall(f, wasi.Call{Op: op, Args: args, Data: []byte(data)}); err != nil {
		return wasi.Reply{Errno: wasi.EIO}
	}
	a, err := wasi.ReadReply(f.in)
	if err != nil {
		return wasi.Reply{Errno: wasi.EIO}
	}
	return a
}

func (f *fake) exit(status int64) {
	_ = wasi.WriteCall(f, wasi.Call{Op: wasi.OpExit, Args: []int64{status}}) // the test sees the status
}

// run runs python3 with a fake interpreter and returns its kernel and how it ended.
func run(t *testing.T, r kernel.Run, limits kernel.Limits, main func(f *fake)) (*kernel.Kernel, kernel.Result) {
	t.Helper()
	ended := make(chan struct{})
	var start kernel.Python
	if main != nil {
		start = func(context.Context, bool) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer close(ended)
				defer theirs.Close()
				main(&fake{theirs, bufio.NewReader(theirs)})
			}()
			return ours, nil
		}
	}
	k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{}), Limits: limits, Python: start})
	for _, dir := range []string{"/tmp", "/dev"} {
		if err := k.FS().MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.Main, r.Umask = Commands()[0].Run, 0o022
	if r.Args == nil {
		r.Args = []string{"python3", "-c", "code"}
	}
	res, err := k.Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if main != nil {
		<-ended // the end of the program has ended the connection
	}
	return k, res
}

// TestOptions checks what the interpreter is told for a command line, and whether it must be started for it.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		args, env []string
		cold      bool
		want      wasi.Job
		flags     []string
	}{
		{args: []string{"-c", "x", "a", "-b"}, want: wasi.Job{Mode: "c", Code: "x", Args: []string{"-c", "a", "-b"}}},
		{args: []string{"-cx"}, want: wasi.Job{Mode: "c", Code: "x", Args: []string{"-c"}}},
		{args: []string{"-m", "json.tool", "f"}, want: wasi.Job{Mode: "m", Code: "json.tool", Args: []string{"-m", "f"}}},
		{args: []string{"f.py", "-O"}, want: wasi.Job{Mode: "file", Code: "f.py", Args: []string{"f.py", "-O"}}},
		{args: []string{"--", "-f"}, want: wasi.Job{Mode: "file", Code: "-f", Args: []string{"-f"}}},
		{args: []string{"-", "a"}, want: wasi.Job{Mode: "stdin", Args: []string{"-", "a"}}},
		{want: wasi.Job{Mode: "stdin", Args: []string{""}}},
		{args: []string{"-uOOc", "x"}, cold: true, flags: []string{"-u", "-O", "-O"}, want: wasi.Job{Mode: "c", Code: "x", Args: []string{"-c"}}},
		{args: []string{"-W", "error", "-Xdev", "f"}, cold: true, flags: []string{"-W", "error", "-X", "dev"}, want: wasi.Job{Mode: "file", Code: "f", Args: []string{"f"}}},
		{args: []string{"f"}, env: []string{"PYTHONPATH=/lib"}, cold: true, want: wasi.Job{Mode: "file", Code: "f", Args: []string{"f"}}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var got wasi.Job
			var start wasi.Start
			p := kernel.Run{Args: append([]string{"python3"}, c.args...), Env: c.env, Dir: "/tmp"}
			s := &session{}
			k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{})})
			p.Main = func(proc *kernel.Proc) int {
				o, done, code := parseOptions(proc)
				s.options, s.p = o, proc
				got = s.job()
				if x := s.start(); x != nil {
					start = *x
				} else if c.cold {
					t.Error("one that was started before would do")
				}
				if done {
					return code
				}
				return 0
			}
			if _, err := k.Run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			c.want.Orig, c.want.Dir, c.want.Env = p.Args, "/tmp", c.env
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if !slices.Equal(start.Flags, c.flags) {
				t.Errorf("flags %q", start.Flags)
			}
		})
	}
}

// TestRefusals checks the sentences about what can't work.
func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"-m http.server":   "no sockets",
		"-m pip install x": "unzip a wheel",
		"-i":               "prompt",
		"-Z":               "unknown option -Z",
		"-c":               "Argument expected for the -c option",
		"-c code":          "not part of this sandbox",
	} {
		_, res := run(t, kernel.Run{Args: append([]string{"python3"}, strings.Fields(args)...)}, kernel.Limits{}, nil)
		if res.Status.Code == 0 || !strings.Contains(string(res.Stderr), want) {
			t.Errorf("%s: %d %q", args, res.Status.Code, res.Stderr)
		}
	}
	_, res := run(t, kernel.Run{Args: []string{"python3", "-V"}}, kernel.Limits{}, nil)
	if string(res.Stdout) != "Python 3.12.0\n" {
		t.Errorf("-V prints %q", res.Stdout)
	}
}

// TestFilesAreThoseOfTheSandbox makes every call on files.
func TestFilesAreThoseOfTheSandbox(t *testing.T) {
	k, res := run(t, kernel.Run{Stdin: strings.NewReader("input")}, kernel.Limits{}, func(f *fake) {
		expect := func(what string, a wasi.Reply, no wasi.Errno, data string, args ...int64) {
			if a.Errno != no || data != "*" && string(a.Data) != data || len(args) > 0 && !slices.Equal(a.Args, args) {
				t.Errorf("%s: %+v", what, a)
			}
		}
		var job wasi.Job
		if err := json.Unmarshal(f.call(wasi.OpJob, "", 1<<20).Data, &job); err != nil || job.Code != "code" {
			t.Errorf("job %+v, %v", job, err)
		}
		expect("a second job", f.call(wasi.OpJob, "", 1), wasi.EINVAL, "")
		expect("read", f.call(wasi.OpRead, "", 0, 100, -1), 0, "input")
		expect("end", f.call(wasi.OpRead, "", 0, 100, -1), 0, "")
		expect("write", f.call(wasi.OpWrite, "out", 1, -1), 0, "", 3)
		expect("mkdir", f.call(wasi.OpMkdir, "/tmp/d"), 0, "")
		expect("open", f.call(wasi.OpOpen, "/tmp/d/f", wasi.FlagRead|wasi.FlagWrite|wasi.FlagCreate), 0, "", 32, wasi.TypeRegular)
		expect("write file", f.call(wasi.OpWrite, "hello", 32, -1), 0, "", 5)
		expect("write at", f.call(wasi.OpWrite, "J", 32, 0), 0, "", 1)
		expect("seek", f.call(wasi.OpSeek, "", 32, 1, 0), 0, "", 1)
		expect("read file", f.call(wasi.OpRead, "", 32, 3, -1), 0, "ell")
		expect("read at", f.call(wasi.OpRead, "", 32, 9, 0), 0, "Jello")
		expect("truncate", f.call(wasi.OpTruncate, "", 32, 2), 0, "")
		if a := f.call(wasi.OpStatFD, "", 32); a.Arg(0) != wasi.TypeRegular || a.Arg(3) != 2 || a.Arg(7) != 0o644 {
			t.Errorf("stat %+v", a)
		}
		expect("chmod", f.call(wasi.OpChmod, "/tmp/d/f", 0o4751), 0, "")
		if a := f.call(wasi.OpStat, "/tmp/d/f", 1); a.Arg(7) != 0o4751 {
			t.Errorf("permissions %o", a.Arg(7))
		}
		expect("times", f.call(wasi.OpTimes, "/tmp/d/f", 5, 7, 1), 0, "")
		expect("close", f.call(wasi.OpClose, "", 32), 0, "")
		expect("closed", f.call(wasi.OpRead, "", 32, 1, -1), wasi.EBADF, "")
		expect("symlink", f.call(wasi.OpSymlink, "f/tmp/d/l", 1), 0, "")
		expect("readlink", f.call(wasi.OpReadlink, "/tmp/d/l", 100), 0, "f")
		expect("no follow", f.call(wasi.OpOpen, "/tmp/d/l", wasi.FlagRead|wasi.FlagNoFollow), 32, "")
		expect("link", f.call(wasi.OpLink, "/tmp/d/f/tmp/d/g", 8), 0, "")
		expect("rename", f.call(wasi.OpRename, "/tmp/d/g/tmp/d/h", 8), 0, "")
		expect("exclusive", f.call(wasi.OpOpen, "/tmp/d/h", wasi.FlagWrite|wasi.FlagCreate|wasi.FlagExclusive), 20, "")
		expect("open dir", f.call(wasi.OpOpen, "/tmp/d", wasi.FlagRead|wasi.FlagDirectory), 0, "", 32, wasi.TypeDirectory)
		list := f.call(wasi.OpReadDir, "", 32, 0, 1000)
		if text := string(list.Data); len(text) != 3*25 || text[24] != 'f' || text[49] != 'h' || text[74] != 'l' {
			t.Errorf("entries %q", text)
		}
		expect("after the last", f.call(wasi.OpReadDir, "", 32, 3, 1000), 0, "")
		expect("a part", f.call(wasi.OpReadDir, "", 32, 2, 10), 0, "*")
		expect("write a dir", f.call(wasi.OpOpen, "/tmp/d", wasi.FlagWrite), 31, "")
		expect("unlink", f.call(wasi.OpUnlink, "/tmp/d/h"), 0, "")
		expect("rmdir", f.call(wasi.OpRmdir, "/tmp/d"), 55, "")
		expect("missing", f.call(wasi.OpOpen, "/none", wasi.FlagRead), wasi.ENOENT, "")
		f.exit(7)
	})
	if res.Status.Code != 7 || string(res.Stdout) != "out" {
		t.Errorf("%+v %s %s", res.Status, res.Stdout, res.Stderr)
	}
	if b, err := k.FS().ReadFile("/tmp/d/f"); err != nil || string(b) != "Je" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if n := k.Memory(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
}

// TestMemoryIsCharged: an interpreter has no memory that its sandbox has not.
func TestMemoryIsCharged(t *testing.T) {
	var k *kernel.Kernel
	k, res := run(t, kernel.Run{}, kernel.Limits{Memory: 32 << 20}, func(f *fake) {
		if a := f.call(wasi.OpJob, "", 20<<20); a.Errno != 0 {
			t.Errorf("job: %+v", a)
		}
		for size, want := range map[int64]wasi.Errno{40 << 20: wasi.ENOMEM, 1 << 60: wasi.ENOMEM, -1: wasi.ENOMEM, 21 << 20: 0} {
			if a := f.call(wasi.OpGrow, "", size); a.Errno != want {
				t.Errorf("growing to %d: %+v", size, a)
			}
		}
		f.exit(0)
	})
	if res.Status.Code != 0 || k.Memory() != 0 {
		t.Errorf("%+v, %d bytes are charged: %s", res.Status, k.Memory(), res.Stderr)
	}
	_, res = run(t, kernel.Run{}, kernel.Limits{Memory: 8 << 20}, func(f *fake) {
		if a := f.call(wasi.OpJob, "", 20<<20); a.Errno != wasi.ENOMEM {
			t.Errorf("a job without memory: %+v", a)
		}
		f.exit(1)
	})
	if res.Status.Code != 1 {
		t.Errorf("%+v %s", res.Status, res.Stderr)
	}
}

// TestClosedDirectoriesCostNothing: a walk through a large tree is charged for the directories that are open.
func TestClosedDirectoriesCostNothing(t *testing.T) {
	_, res := run(t, kernel.Run{}, kernel.Limits{Memory: 1 << 20}, func(f *fake) {
		for i := range 100 {
			f.call(wasi.OpClose, "", f.call(wasi.OpOpen, fmt.Sprint("/tmp/", i), wasi.FlagWrite|wasi.FlagCreate).Arg(0))
		}
		for range 200 {
			fd := f.call(wasi.OpOpen, "/tmp", wasi.FlagRead|wasi.FlagDirectory).Arg(0)
			f.call(wasi.OpReadDir, "", fd, 0, 100)
			f.call(wasi.OpReadDir, "", fd, 0, 100)
			if a := f.call(wasi.OpClose, "", fd); a.Errno != 0 {
				t.Errorf("%+v", a)
				return
			}
		}
		f.exit(0)
	})
	if res.Status.Code != 0 {
		t.Errorf("%+v %s", res.Status, res.Stderr)
	}
}

// TestListingsCostNothing: a program may list a large directory as often as it likes, and is charged for the entries of once.
func TestListingsCostNothing(t *testing.T) {
	const entries, times = 5000, 20
	k, res := run(t, kernel.Run{}, kernel.Limits{Memory: 8 << 20}, func(f *fake) {
		for i := range entries {
			if a := f.call(wasi.OpLink, fmt.Sprintf("/tmp/l/tmp/%d", i), 6); a.Errno != 0 {
				f.call(wasi.OpClose, "", f.call(wasi.OpOpen, "/tmp/l", wasi.FlagWrite|wasi.FlagCreate).Arg(0))
			}
		}
		fd := f.call(wasi.OpOpen, "/tmp", wasi.FlagRead|wasi.FlagDirectory).Arg(0)
		for range times {
			if a := f.call(wasi.OpReadDir, "", fd, 0, 100); a.Errno != 0 {
				t.Errorf("%+v", a)
				return
			}
		}
		f.exit(0)
	})
	if res.Status.Code != 0 || k.Memory() != 0 {
		t.Errorf("%+v, %d bytes: %s", res.Status, k.Memory(), res.Stderr)
	}
}

// TestLongNamesAreRefused: the names of open files are no memory that nobody is charged for.
func TestLongNamesAreRefused(t *testing.T) {
	_, res := run(t, kernel.Run{}, kernel.Limits{}, func(f *fake) {
		f.call(wasi.OpClose, "", f.call(wasi.OpOpen, "/tmp/f", wasi.FlagWrite|wasi.FlagCreate).Arg(0))
		for _, name := range []string{strings.Repeat("/", 1<<19) + "tmp/f", strings.Repeat("/.", 1<<18) + "/tmp/f", strings.Repeat("/tmp/..", 1<<16) + "/tmp/f"} {
			if a := f.call(wasi.OpOpen, name, wasi.FlagRead); a.Errno == 0 {
				t.Errorf("a name of %d bytes is opened", len(name))
			}
		}
		f.exit(0)
	})
	if res.Status.Code != 0 {
		t.Errorf("%+v %s", res.Status, res.Stderr)
	}
}

// TestHostileInterpreter makes calls that no interpreter makes. None may reach more than the files of the sandbox, take memory
// that is not charged, or end more than this command.
func TestHostileInterpreter(t *testing.T) {
	k, res := run(t, kernel.Run{}, kernel.Limits{}, func(f *fake) {
		for _, a := range []wasi.Reply{
			f.call(wasi.OpStart, ""),
			f.call(wasi.OpRead, "", 1, 10, -1), f.call(wasi.OpWrite, "x", 0, -1), f.call(wasi.OpRead, "", -1, 10, -1), f.call(wasi.OpRead, "", 31, 10, -1), f.call(wasi.OpClose, "", 1<<40),
			f.call(wasi.OpSeek, "", 1, 0, 77), f.call(wasi.OpRead, ""), f.call(wasi.OpReadDir, "", 0, 0, 100),
			f.call(wasi.OpRename, "/a", 99), f.call(wasi.OpRename, "/a", -1), f.call(wasi.OpLink, "/a", 1<<62), f.call(wasi.OpSymlink, "", 1),
			f.call(wasi.OpOpen, "", wasi.FlagRead), f.call(wasi.OpOpen, strings.Repeat("a/", 400<<10), wasi.FlagRead|wasi.FlagCreate), f.call(wasi.OpOpen, "/../../../etc/shadow", wasi.FlagRead),
			f.call(wasi.OpOpen, "/tmp/\x00", wasi.FlagRead|wasi.FlagWrite|wasi.FlagCreate), f.call(wasi.OpChmod, "/none", -1), f.call(wasi.OpReadlink, "/tmp", -5), f.call(wasi.OpTruncate, "", 1, -1),
		} {
			if a.Errno == 0 {
				t.Errorf("a hostile call is answered: %+v", a)
			}
		}
		fd := f.call(wasi.OpOpen, "/tmp/f", wasi.FlagRead|wasi.FlagWrite|wasi.FlagCreate).Arg(0)
		for _, a := range []wasi.Reply{f.call(wasi.OpWrite, "x", fd, 1<<60), f.call(wasi.OpTruncate, "", fd, 1<<60), f.call(wasi.OpTruncate, "", fd, -1), f.call(wasi.OpSeek, "", fd, -5, 0), f.call(wasi.OpReadDir, "", fd, 0, 100)} {
			if a.Errno == 0 {
				t.Errorf("a hostile call on a file is answered: %+v", a)
			}
		}
		if a := f.call(wasi.OpRead, "", fd, 1<<40, -1); len(a.Data) > maxRead {
			t.Errorf("it reads %d bytes", len(a.Data))
		}
		dir := f.call(wasi.OpOpen, "/tmp", wasi.FlagRead|wasi.FlagDirectory).Arg(0)
		for _, cookie := range []int64{-1, 1 << 62, -1 << 63} {
			if a := f.call(wasi.OpReadDir, "", dir, cookie, 100); len(a.Data) > 0 {
				t.Errorf("cookie %d: %+v", cookie, a)
			}
		}
		most := 0
		for f.call(wasi.OpOpen, "/tmp/f", wasi.FlagRead).Errno == 0 {
			most++
		}
		if most > maxFiles {
			t.Errorf("it has %d files open", most)
		}
		f.exit(1 << 40)
	})
	if res.Status.Code != 0 || k.Memory() != 0 || len(k.Incidents()) > 0 {
		t.Errorf("%+v, %d bytes, %+v: %s", res.Status, k.Memory(), k.Incidents(), res.Stderr)
	}
	for name, bytes := range map[string]string{
		"unknown call": "\xf0\x00\x00\x00\x00\x00\x00", "too much data": "\x05\x00\x00\xff\xff\xff\xff", "too many arguments": "\x05\x00\xff\x00\x00\x00\x00", "half a message": "\x05\x00\x02", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			k, res := run(t, kernel.Run{}, kernel.Limits{}, func(f *fake) { _, _ = io.WriteString(f, bytes) })
			if res.Status.Code != 134 || k.Memory() != 0 || len(res.Stderr) == 0 {
				t.Errorf("%+v %s", res.Status, res.Stderr)
			}
		})
	}
}

// TestInterpreterThatDoesNotAnswer ends with the command.
func TestInterpreterThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ours, theirs := net.Pipe()
	k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{}), Python: func(context.Context, bool) (net.Conn, error) {
		cancel(atoll.ErrTimeout)
		return ours, nil
	}})
	_, err := k.Run(ctx, kernel.Run{Args: []string{"python3", "-c", ""}, Main: Commands()[0].Run})
	if !errors.Is(err, atoll.ErrTimeout) && err == nil {
		t.Errorf("it returns %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// TestReasonIsShown: why an interpreter could not be had is one sentence.
func TestReasonIsShown(t *testing.T) {
	k := kernel.New(kernel.Config{FS: vfs.New(vfs.Options{}), Python: func(context.Context, bool) (net.Conn, error) {
		return nil, fmt.Errorf("%w: run 'atoll setup python'", atoll.ErrUnavailable)
	}})
	res, err := k.Run(t.Context(), kernel.Run{Args: []string{"python3", "-c", ""}, Main: Commands()[0].Run})
	if err != nil || res.Status.Code != 127 || string(res.Stderr) != "python3: run 'atoll setup python'\n" {
		t.Errorf("%+v %q %v", res.Status, res.Stderr, err)
	}
}
