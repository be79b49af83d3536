package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/musthave"
	"github.com/atoll-sandbox/atoll/vfs"
	"github.com/google/go-cmp/cmp"
)

// sandbox is a kernel over an empty file system with every command in /bin.
type sandbox struct {
	tb  testing.TB
	fs  *vfs.FS
	k   *kernel.Kernel
	dir string
	env []string
}

// outcome is what a command left behind.
type outcome struct {
	Stdout, Stderr string
	Code           int
}

// newSandbox makes a sandbox whose commands run in dir, with a limit of live
// memory of 64 MiB and room for files of 64 MiB.
func newSandbox(tb testing.TB, dir string, extra ...Command) *sandbox {
	tb.Helper()
	programs := Programs(append(All(), extra...))
	for name, run := range standIns {
		if programs[name] == nil {
			programs[name] = run
		}
	}
	f := vfs.New(vfs.Options{Quota: vfs.Quota{Bytes: 512 << 20, File: 64 << 20, Nodes: 100000}})
	s := &sandbox{tb: tb, fs: f, dir: dir}
	for _, d := range []string{"/bin", "/dev", "/tmp", "/etc", dir} {
		s.must(f.MkdirAll(d, 0o755))
	}
	for name := range programs {
		s.must(f.WriteFile("/bin/"+name, kernel.Stub(name), 0o755))
	}
	for name, dev := range map[string]uint32{"null": kernel.DevNull, "zero": kernel.DevZero, "full": kernel.DevFull, "urandom": kernel.DevURandom} {
		s.must(f.Mknod("/dev/"+name, fs.ModeDevice|fs.ModeCharDevice|0o666, dev))
	}
	s.must(f.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"), 0o644))
	s.must(f.WriteFile("/etc/group", []byte("root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\nnogroup:x:65534:\n"), 0o644))
	s.k = kernel.New(kernel.Config{FS: f, Programs: programs})
	s.env = []string{"PATH=/bin", "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC0"}
	return s
}

// standIns are programs that the shell brings, as far as tests of find and its
// kin need them.
var standIns = map[string]kernel.Program{
	"true":  func(*kernel.Proc) int { return 0 },
	"false": func(*kernel.Proc) int { return 1 },
	"to-file": func(p *kernel.Proc) int {
		h, err := p.OpenFile(p.Args[1], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil || copyThrough(p, h, p.Stdin) != nil {
			return 99
		}
		return 0
	},
	"to-full": func(p *kernel.Proc) int {
		o, err := p.OpenAt("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			return 99
		}
		defer o.Release()
		s, err := p.Command(p.Args[1:])
		if err != nil {
			return 98
		}
		s.Stdout = o
		st, err := p.Call(s)
		if err != nil {
			return 97
		}
		return st.Code
	},
	"echo": func(p *kernel.Proc) int {
		_, _ = p.Out().WriteString(strings.Join(p.Args[1:], " ") + "\n") // shows at the flush
		return 0
	},
}

func (s *sandbox) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// write makes a file in the sandbox's directory.
func (s *sandbox) write(name, content string) {
	s.tb.Helper()
	s.must(s.fs.WriteFile(s.path(name), []byte(content), 0o644))
}

// read returns the content of a file in the sandbox's directory.
func (s *sandbox) read(name string) string {
	s.tb.Helper()
	b, err := s.fs.ReadFile(s.path(name))
	s.must(err)
	return string(b)
}

func (s *sandbox) path(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return s.dir + "/" + name
}

// exec runs one command to its end.
func (s *sandbox) exec(stdin string, args ...string) outcome {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	o, err := s.run(ctx, strings.NewReader(stdin), nil, args...)
	if err != nil {
		s.tb.Fatalf("%q: %v\nstdout %.300q\nstderr %.300q", args, err, o.Stdout, o.Stderr)
	}
	return o
}

// run runs one command under a context. Where stdout is nil it is captured.
func (s *sandbox) run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) (outcome, error) {
	main := func(p *kernel.Proc) int { return p.Run(args...) }
	var stderr bytes.Buffer
	res, err := s.k.Run(ctx, kernel.Run{
		Args: []string{"sh"}, Env: s.env, Dir: s.dir, Main: main, Umask: 0o022,
		Stdin: stdin, Stdout: stdout, Stderr: &stderr,
	})
	return outcome{string(res.Stdout), stderr.String(), res.Status.Code}, err
}

// deed is a case that runs here and with the tools of the host, which must
// agree in standard output, standard error, exit code and the files left.
type deed struct {
	name  string
	tree  []string // "dir/", "file=content", "link->target"; "0600 file=content"
	stdin string
	run   string // commands, one a line; words in quotes as in a shell, with \n and \t in "$'…'"
	env   []string
	loose bool // standard error only has to be there or not
	mixed bool // the order of the lines of output does not matter
	times bool // modification times of what is left count too
}

// then is when everything in the tree of a deed was changed.
var then = time.Date(2024, 3, 1, 12, 30, 15, 123456789, time.UTC)

// compare runs each case on both sides.
func compare(t *testing.T, cases []deed) {
	t.Helper()
	for _, c := range cases {
		name := c.name
		if name == "" {
			name = c.run
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newSandbox(t, dir)
			s.env = append(s.env, c.env...)
			plant(t, hostSide{}, dir, c.tree)
			plant(t, s.fs, dir, c.tree)
			for _, line := range strings.Split(c.run, "\n") {
				args := words(line)
				if len(args) == 0 {
					continue
				}
				requireTool(t, args[0])
				want := hostExec(t, dir, c, args)
				got := s.exec(c.stdin, args...)
				settle(c, &want)
				settle(c, &got)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s\n(-GNU +ours)\n%s", line, d)
				}
			}
			want, got := forest(t, os.DirFS(dir), hostLink(dir), c), forest(t, under(t, s.fs.IO(), dir), s.link, c)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: files (-GNU +ours)\n%s", c.run, d)
			}
		})
	}
}

// requireTool skips a test when the host lacks a tool, or fails it where
// ATOLL_MUST says that "gnu" tools are there.
func requireTool(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	msg := "the host has no " + name + " to compare with"
	musthave.Skip(t, "gnu", "%s", msg)
}

func settle(c deed, o *outcome) {
	o.Stderr = strings.NewReplacer("‘", "'", "’", "'").Replace(o.Stderr)
	if c.loose && o.Stderr != "" {
		o.Stderr = "something"
	}
	if c.mixed {
		lines := strings.SplitAfter(o.Stdout, "\n")
		sort.Strings(lines)
		o.Stdout = strings.Join(lines, "")
	}
}

func hostExec(t *testing.T, dir string, c deed, args []string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC0"}, c.env...)
	cmd.Stdin = strings.NewReader(c.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// grounds is where a tree can be planted.
type grounds interface {
	MkdirAll(path string, perm fs.FileMode) error
	WriteFile(path string, data []byte, perm fs.FileMode) error
	Symlink(target, link string) error
	Chmod(path string, mode fs.FileMode) error
	Chtimes(path string, atime, mtime time.Time) error
}

type hostSide struct{}

func (hostSide) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }
func (hostSide) WriteFile(path string, data []byte, perm fs.FileMode) error {
	return os.WriteFile(path, data, perm)
}
func (hostSide) Symlink(target, link string) error         { return os.Symlink(target, link) }
func (hostSide) Chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }
func (hostSide) Chtimes(path string, atime, mtime time.Time) error {
	return os.Chtimes(path, atime, mtime)
}

func plant(t *testing.T, g grounds, dir string, tree []string) {
	t.Helper()
	var made []string
	for _, e := range tree {
		name, err := plantOne(g, dir, e)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			made = append(made, name)
		}
	}
	for _, name := range slices.Backward(append([]string{dir}, made...)) {
		if err := g.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// plantOne makes one entry and returns its path if its time can be set.
func plantOne(g grounds, dir, e string) (string, error) {
	perm := fs.FileMode(0)
	if len(e) > 5 && e[4] == ' ' {
		if n, err := strconv.ParseUint(e[:4], 8, 32); err == nil {
			perm, e = permMode(uint32(n)), e[5:]
		}
	}
	if name, content, ok := strings.Cut(e, "="); ok {
		path := dir + "/" + name
		err := errors.Join(g.MkdirAll(filepath.Dir(path), 0o755), g.WriteFile(path, []byte(content), 0o644), g.Chmod(path, orMode(perm, 0o644)))
		return path, err
	}
	if name, target, ok := strings.Cut(e, "->"); ok {
		return "", g.Symlink(target, dir+"/"+name)
	}
	path := dir + "/" + strings.TrimSuffix(e, "/")
	return path, errors.Join(g.MkdirAll(path, 0o755), g.Chmod(path, orMode(perm, 0o755)))
}

func orMode(m, other fs.FileMode) fs.FileMode {
	if m == 0 {
		return other
	}
	return m
}

func under(t *testing.T, f fs.FS, dir string) fs.FS {
	t.Helper()
	sub, err := fs.Sub(f, strings.TrimPrefix(dir, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func (s *sandbox) link(name string) string {
	target, _ := s.fs.Readlink(s.dir + "/" + name) // "" differs from what the host says
	return target
}

func hostLink(dir string) func(string) string {
	return func(name string) string {
		target, _ := os.Readlink(filepath.Join(dir, name)) // "" differs from what the sandbox says
		return target
	}
}

// forest describes all files below a directory, by name.
func forest(t *testing.T, f fs.FS, link func(string) string, c deed) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			what = "-> " + link(name)
		case info.Mode().IsRegular():
			b, err := fs.ReadFile(f, name)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %.400q", b)
		}
		if c.times && info.Mode().IsRegular() {
			what += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		all[name] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// words splits a line at spaces; '…' and "…" keep what is inside, $'…' reads
// \n, \t, \\, \' and \xHH.
func words(line string) []string {
	var list []string
	var w strings.Builder
	open := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			if open {
				list, open = append(list, w.String()), false
				w.Reset()
			}
			continue
		case c == '$' && i+1 < len(line) && line[i+1] == '\'':
			end := i + 2
			for line[end] != '\'' || line[end-1] == '\\' {
				end++
			}
			text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(line[i+2:end], `\'`, `'`), `"`, `\"`) + `"`)
			if err != nil {
				panic(err)
			}
			w.WriteString(text)
			i = end
		case c == '\'' || c == '"':
			end := i + 1 + strings.IndexByte(line[i+1:], c)
			w.WriteString(line[i+1 : end])
			i = end
		default:
			w.WriteByte(c)
		}
		open = true
	}
	if open {
		list = append(list, w.String())
	}
	return list
}
