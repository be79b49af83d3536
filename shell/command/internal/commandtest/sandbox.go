// Package commandtest runs commands in a sandbox of their own and compares them with the tools of the
// host.
package commandtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/recorded"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
	"github.com/google/go-cmp/cmp"
)

// Sandbox is a kernel over an empty file system with every command in /bin.
type Sandbox struct {
	TB     testing.TB
	FS     *vfs.FS
	Kernel *kernel.Kernel
	dir    string
	Env    []string
}

// Result is the result of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// New returns a sandbox whose commands run in dir, with a memory limit of 64 MiB and files of at most
// 64 MiB.
func New(tb testing.TB, dir string, extra ...program.Command) *Sandbox {
	tb.Helper()
	return newSandbox(tb, dir, program.ByName(append(command.All(), extra...)))
}

// NewWithShell is New with the shell, which other programs start as sh and bash.
func NewWithShell(tb testing.TB, dir string, extra ...program.Command) *Sandbox {
	tb.Helper()
	programs := program.ByName(append(command.All(), extra...))
	for _, name := range []string{"sh", "bash"} {
		programs[name] = shell.Programs()[name]
	}
	return newSandbox(tb, dir, programs)
}

func newSandbox(tb testing.TB, dir string, programs map[string]kernel.Program) *Sandbox {
	tb.Helper()
	for name, run := range standIns {
		if programs[name] == nil {
			programs[name] = run
		}
	}
	f := vfs.New(vfs.Options{Quota: vfs.Quota{Bytes: 512 << 20, File: 64 << 20, Nodes: 100000}})
	s := &Sandbox{TB: tb, FS: f, dir: dir}
	for _, d := range []string{"/bin", "/dev", "/tmp", "/etc", dir} {
		s.Must(f.MkdirAll(d, 0o755))
	}
	for name := range programs {
		s.Must(f.WriteFile("/bin/"+name, kernel.StubFile(name), 0o755))
	}
	for name, dev := range map[string]uint32{"null": kernel.DevNull, "zero": kernel.DevZero, "full": kernel.DevFull, "urandom": kernel.DevURandom} {
		s.Must(f.Mknod("/dev/"+name, fs.ModeDevice|fs.ModeCharDevice|0o666, dev))
	}
	s.Must(f.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"), 0o644))
	s.Must(f.WriteFile("/etc/group", []byte("root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\nnogroup:x:65534:\n"), 0o644))
	s.Kernel = kernel.New(kernel.Config{FS: f, Programs: programs})
	s.Env = []string{"PATH=/bin", "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC0"}
	return s
}

// standIns replace builtins of the shell and other programs that tests run.
var standIns = map[string]kernel.Program{
	"true":  func(*kernel.Proc) int { return 0 },
	"false": func(*kernel.Proc) int { return 1 },
	"to-file": func(p *kernel.Proc) int {
		h, err := p.OpenFile(p.Args[1], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil || stream.Copy(p, h, p.Stdin) != nil {
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

// Must fails the test if err is not nil.
func (s *Sandbox) Must(err error) {
	s.TB.Helper()
	if err != nil {
		s.TB.Fatal(err)
	}
}

// WriteFile creates a file in the sandbox's directory.
func (s *Sandbox) WriteFile(name, content string) {
	s.TB.Helper()
	s.Must(s.FS.WriteFile(s.Path(name), []byte(content), 0o644))
}

// ReadFile returns the content of a file in the sandbox's directory.
func (s *Sandbox) ReadFile(name string) string {
	s.TB.Helper()
	b, err := s.FS.ReadFile(s.Path(name))
	s.Must(err)
	return string(b)
}

// Path returns the absolute path of a file in the sandbox's directory.
func (s *Sandbox) Path(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return s.dir + "/" + name
}

// Exec runs one command. The command must exit within 20 seconds.
func (s *Sandbox) Exec(stdin string, args ...string) Result {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	o, err := s.Run(ctx, strings.NewReader(stdin), nil, args...)
	if err != nil {
		s.TB.Fatalf("%q: %v\nstdout %.300q\nstderr %.300q", args, err, o.Stdout, o.Stderr)
	}
	return o
}

// Run runs one command under a context. If stdout is nil, the output is captured.
func (s *Sandbox) Run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) (Result, error) {
	main := func(p *kernel.Proc) int { return p.Run(args...) }
	var stderr bytes.Buffer
	res, err := s.Kernel.Run(ctx, kernel.Run{
		Args: []string{"sh"}, Env: s.Env, Dir: s.dir, Main: main, Umask: 0o022,
		Stdin: stdin, Stdout: stdout, Stderr: &stderr,
	})
	return Result{string(res.Stdout), stderr.String(), res.Status.Code}, err
}

// Case is a case that runs here and with the tools of the host. Both must agree in standard output,
// standard error, exit code and files.
type Case struct {
	Name  string
	Tree  []string // "dir/", "file=content", "link->target"; "0600 file=content"
	Stdin string
	Run   string // commands, one a line, for SplitWords: there are no pipes, redirections and variables
	Env   []string
	Loose bool // compare only whether there is standard error
	Mixed bool // ignore the order of the lines of output
	Times bool // compare modification times too

	Script  string // instead of Run: what one bash runs, which is the real one on the host and ours here
	Shell   bool   // there are sh and bash, which other programs start, as with Script
	NoFiles bool   // ignore the files that the case leaves
	Rare    bool   // a host need not have the program: without it, the recorded answer counts
}

// TreeTime is the modification time of the files of a case.
var TreeTime = time.Date(2024, 3, 1, 12, 30, 15, 123456789, time.UTC)

// answer is what the GNU tools did with a case: the result of each command, and the
// files at the end, with hostDir in the place of the case's directory.
type answer struct {
	Results []Result
	Files   map[string]string
	Clock   bool // the results hold the time of day: they are not recorded
}

const hostDir = "@DIR@"

// gnu holds what the GNU tools answered to the cases of a package.
var gnu = recorded.Book[answer]{File: "testdata/gnu.gob.gz"}

// Compare runs each case here, with the extra commands, and compares with the GNU tools: with those of the
// host in the real tier, with their recorded answers in the logic tier.
func Compare(t *testing.T, cases []Case, extra ...program.Command) {
	t.Helper()
	gnu.Save(t)
	for _, c := range cases {
		name := c.Name
		if name == "" {
			name = c.Run + c.Script
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := hostAnswer(t, dir, c)
			if want.Clock && !testenv.All() {
				testenv.Real(t, "gnu, whose answer holds the time of day")
			}
			s := New(t, dir, extra...)
			if c.Script != "" || c.Shell {
				s = NewWithShell(t, dir, extra...)
			}
			s.Env = append(s.Env, c.Env...)
			MakeTree(t, s.FS, dir, c.Tree)
			for i, words := range commandsOf(t, c) {
				got := s.Exec(c.Stdin, words...)
				Normalize(c, &got)
				got = got.shorten()
				if d := cmp.Diff(want.Results[i], got); d != "" {
					t.Errorf("%s\n(-GNU +ours)\n%s", strings.Join(words, " "), d)
				}
			}
			if c.NoFiles {
				return
			}
			if d := cmp.Diff(want.Files, ListFiles(t, Sub(t, s.FS.IO(), dir), s.Readlink, c)); d != "" {
				t.Errorf("%s: files (-GNU +ours)\n%s", c.Run, d)
			}
		})
	}
}

// commandsOf returns the words of the commands of a case.
func commandsOf(t *testing.T, c Case) [][]string {
	t.Helper()
	if c.Script != "" {
		return [][]string{{"bash", "-c", c.Script}}
	}
	var list [][]string
	for _, line := range strings.Split(c.Run, "\n") {
		words := SplitWords(line)
		for _, w := range words {
			if slices.Contains([]string{"|", ">", ">>", "<", "2>&1", "&&", "||"}, w) && !strings.Contains(line, "'"+w+"'") {
				t.Fatalf("%s: no shell reads this line: %s would be an argument; use Script", line, w)
			}
		}
		if len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// hostAnswer returns what the GNU tools do with a case in dir.
func hostAnswer(t *testing.T, dir string, c Case) answer {
	t.Helper()
	commands := commandsOf(t, c)
	text := strings.Join(append([]string{c.Run + c.Script, c.Stdin}, append(c.Env, c.Tree...)...), "\x00")
	sum := sha256.Sum256([]byte(text)) // an answer to a case that was changed since is none
	key := fmt.Sprintf("%s %x", t.Name(), sum[:6])
	if testenv.All() {
		for _, words := range commands {
			tool := words[0]
			if _, err := exec.LookPath(tool); err != nil && c.Rare {
				a, ok := gnu.Lookup(t, key)
				if !ok {
					t.Fatalf("%s has no answer for %q, and the host has no %s", gnu.File, key, tool)
				}
				return a.replace(hostDir, dir)
			}
			RequireTool(t, tool)
		}
	}
	ask := func() answer {
		a := answer{Files: map[string]string{}}
		MakeTree(t, HostFS{}, dir, c.Tree)
		for _, words := range commands {
			r := RunOnHost(t, dir, c, words)
			Normalize(c, &r)
			a.Results = append(a.Results, r.shorten())
		}
		if !c.NoFiles {
			a.Files = ListFiles(t, os.DirFS(dir), ReadHostLink(dir), c)
		}
		return a
	}
	var real answer
	recorded := gnu.Answer(t, key, func() answer {
		real = ask()
		if real.holdsTime() {
			return answer{Clock: true}
		}
		return real.replace(dir, hostDir)
	})
	if recorded.Clock {
		real.Clock = true
		return real
	}
	return recorded.replace(hostDir, dir)
}

// holdsTime reports whether a result holds the time of day, of this minute or the
// one before.
func (a answer) holdsTime() bool {
	now := time.Now().UTC()
	for _, r := range a.Results {
		if strings.Contains(r.Stdout, now.Format("15:04")) || strings.Contains(r.Stdout, now.Add(-time.Minute).Format("15:04")) {
			return true
		}
	}
	return false
}

// replace returns the answer with another name for the directory.
func (a answer) replace(old, dir string) answer {
	r := strings.NewReplacer(old, dir)
	n := answer{Files: make(map[string]string)}
	for _, o := range a.Results {
		n.Results = append(n.Results, Result{r.Replace(o.Stdout), r.Replace(o.Stderr), o.Code})
	}
	for name, text := range a.Files {
		n.Files[name] = r.Replace(text)
	}
	return n
}

// longOutput is how many bytes of output are compared as they are; of longer ones
// the beginning and the sum of all.
const longOutput = 2 << 10

// shorten returns the result with the sum of a long output.
func (r Result) shorten() Result {
	if len(r.Stdout) > longOutput {
		r.Stdout = fmt.Sprintf("%s… %d bytes, SHA-256 %x", r.Stdout[:longOutput/4], len(r.Stdout), sha256.Sum256([]byte(r.Stdout)))
	}
	return r
}

// RequireTool skips a test in the logic tier, and where the host lacks a tool,
// unless ATOLL_MUST has "gnu": then it fails.
func RequireTool(t testing.TB, name string) {
	t.Helper()
	testenv.Real(t, "gnu")
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	msg := "the host has no " + name + " to compare with"
	testenv.Skip(t, "gnu", "%s", msg)
}

// Normalize removes from a result what a case does not compare.
func Normalize(c Case, o *Result) {
	o.Stderr = strings.NewReplacer("‘", "'", "’", "'").Replace(o.Stderr)
	if c.Loose && o.Stderr != "" {
		o.Stderr = "something"
	}
	if c.Mixed {
		lines := strings.SplitAfter(o.Stdout, "\n")
		sort.Strings(lines)
		o.Stdout = strings.Join(lines, "")
	}
}

// RunOnHost runs a command with the tools of the host.
func RunOnHost(t *testing.T, dir string, c Case, args []string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC0"}, c.Env...)
	cmd.Stdin = strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TreeFS is a file system in which MakeTree creates files.
type TreeFS interface {
	MkdirAll(path string, perm fs.FileMode) error
	WriteFile(path string, data []byte, perm fs.FileMode) error
	Symlink(target, link string) error
	Chmod(path string, mode fs.FileMode) error
	Chtimes(path string, atime, mtime time.Time) error
}

// HostFS is the file system of the host.
type HostFS struct{}

func (HostFS) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }
func (HostFS) WriteFile(path string, data []byte, perm fs.FileMode) error {
	return os.WriteFile(path, data, perm)
}
func (HostFS) Symlink(target, link string) error         { return os.Symlink(target, link) }
func (HostFS) Chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }
func (HostFS) Chtimes(path string, atime, mtime time.Time) error {
	return os.Chtimes(path, atime, mtime)
}

// MakeTree creates the files that tree describes in the notation of Case.Tree, with TreeTime as their
// modification time.
func MakeTree(t *testing.T, g TreeFS, dir string, tree []string) {
	t.Helper()
	var made []string
	for _, e := range tree {
		name, err := makeEntry(g, dir, e)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			made = append(made, name)
		}
	}
	for _, name := range slices.Backward(append([]string{dir}, made...)) {
		if err := g.Chtimes(name, TreeTime, TreeTime); err != nil {
			t.Fatal(err)
		}
	}
}

// makeEntry creates one entry. It returns the path if its time can be set, else "".
func makeEntry(g TreeFS, dir, e string) (string, error) {
	perm := fs.FileMode(0)
	if len(e) > 5 && e[4] == ' ' {
		if n, err := strconv.ParseUint(e[:4], 8, 32); err == nil {
			perm, e = filemode.FromUnix(uint32(n)), e[5:]
		}
	}
	if name, content, ok := strings.Cut(e, "="); ok {
		path := dir + "/" + name
		err := errors.Join(g.MkdirAll(filepath.Dir(path), 0o755), g.WriteFile(path, []byte(content), 0o644), g.Chmod(path, modeOrDefault(perm, 0o644)))
		return path, err
	}
	if name, target, ok := strings.Cut(e, "->"); ok {
		return "", g.Symlink(target, dir+"/"+name)
	}
	path := dir + "/" + strings.TrimSuffix(e, "/")
	return path, errors.Join(g.MkdirAll(path, 0o755), g.Chmod(path, modeOrDefault(perm, 0o755)))
}

func modeOrDefault(m, other fs.FileMode) fs.FileMode {
	if m == 0 {
		return other
	}
	return m
}

// Sub returns the part of a file system below an absolute directory.
func Sub(t *testing.T, f fs.FS, dir string) fs.FS {
	t.Helper()
	sub, err := fs.Sub(f, strings.TrimPrefix(dir, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// Readlink returns the target of a symbolic link in the sandbox's directory.
func (s *Sandbox) Readlink(name string) string {
	target, _ := s.FS.Readlink(s.dir + "/" + name) // "" differs from the host's
	return target
}

// ReadHostLink returns a function that returns the targets of symbolic links
// in a directory of the host.
func ReadHostLink(dir string) func(string) string {
	return func(name string) string {
		target, _ := os.Readlink(filepath.Join(dir, name)) // "" differs from the sandbox's
		return target
	}
}

// ListFiles describes all files below a directory, by name: mode, content and, for a link, target.
func ListFiles(t *testing.T, f fs.FS, link func(string) string, c Case) map[string]string {
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
		if c.Times && info.Mode().IsRegular() {
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

// SplitWords splits a line at spaces. '…' and "…" quote, and $'…' resolves \n, \t, \\, \' and \xHH.
func SplitWords(line string) []string {
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

// HelloBzip2 is "hello\n" as bzip2 -9 writes it.
const HelloBzip2 = "BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01A\x00\x00\x10\x02D\xa0\x000\xcd\x00\xc3F)\x97\x17rE8P\x90\xc1\xc0\x80\xe2"

// GzipZeros returns n zeros compressed by gzip.
func GzipZeros(t testing.TB, n int64) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, stream.ZeroReader{}, n); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// EndlessReader reads the letter a without end.
type EndlessReader struct{}

func (EndlessReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// CountTo returns the lines from 1 to n.
func CountTo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// Pick returns one of the choices.
func Pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// Cases returns a case for each of a list of command lines.
func Cases(tree []string, stdin string, list ...string) []Case {
	var cases []Case
	for _, r := range list {
		cases = append(cases, Case{Run: r, Tree: tree, Stdin: stdin})
	}
	return cases
}

// BuildTar returns an archive of headers; the content of regular members is their name.
func BuildTar(t testing.TB, headers ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range headers {
		h := &headers[i]
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Name))
		}
		h.ModTime = TreeTime
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(h.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// WriteTar writes an archive of one file of n zeros.
func WriteTar(out io.Writer, name string, n int64) error {
	w := tar.NewWriter(out)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: n, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := io.CopyN(w, stream.ZeroReader{}, n); err != nil {
		return err
	}
	return w.Close()
}
