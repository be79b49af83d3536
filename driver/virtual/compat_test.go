package virtual_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

var (
	compatUpdate = flag.Bool("update", false, "record what bash and the GNU tools on this machine do")
	compatOnly   = flag.String("compat", "", "only the cases whose name begins so, with all differences shown")
)

// compatDir is the directory of the scripts; outputs of the oracle, which ran elsewhere, have this name instead.
const compatDir = "/work"

// compatEnv is the environment of both sides.
var compatEnv = []string{"LC_ALL=C.UTF-8", "TZ=UTC", "TERM=dumb"}

const compatTimeout = 10 * time.Second

// TestCompat runs each script of the table in this shell and in real bash with
// GNU tools: standard output, exit status and the files left must be equal.
// Where the tools are missing, what was recorded of them counts.
func TestCompat(t *testing.T) {
	cases := compatCases(t)
	known := compatKnown(t)
	live := testenv.All() && !testing.Short() && hasOracle()
	if *compatUpdate {
		compatRecord(t, cases)
	}
	want := compatWants(t, cases, live)
	got := make([]scriptOutcome, len(cases))
	runForEach(len(cases), func(i int) { got[i] = runVirtual(cases[i].script) })

	var equal, equalErr, counted int
	for i, c := range cases {
		diff := want[i].diff(got[i])
		if _, listed := known[c.name]; diff != "" && !listed && live && answersAgain(t, c.script, got[i]) {
			t.Logf("%s: bash has answered so only when it was asked again", c.name)
			diff = ""
		}
		counted++
		if diff == "" {
			equal++
		}
		if sameMessages(want[i].stderr, got[i].stderr) {
			equalErr++
		}
		reason, listed := known[c.name]
		switch {
		case diff == "" && listed:
			t.Errorf("%s agrees with bash: strike it from known.txt", c.name)
		case diff != "" && !listed:
			t.Errorf("%s differs:\n%s%s", c.name, indent(c.script), diff)
		case diff != "" && *compatOnly != "":
			t.Logf("%s differs (%s):\n%s%s", c.name, reason, indent(c.script), diff)
		}
	}
	rate := 100 * float64(equal) / float64(counted)
	t.Logf("%d of %d scripts agree with bash: %.2f %%; messages: %.2f %%",
		equal, counted, rate, 100*float64(equalErr)/float64(counted))
	if rate < 99 && *compatOnly == "" {
		t.Errorf("only %.2f %% agree", rate)
	}
}

// answersAgain reports whether bash does the same as got when it runs a script some more times: what jobs in the
// background print has no order.
func answersAgain(t *testing.T, script string, got scriptOutcome) bool {
	t.Helper()
	for range 5 {
		o, err := runBash(script)
		if err != nil {
			t.Fatal(err)
		}
		if o.diff(got) == "" {
			return true
		}
	}
	return false
}

// runForEach runs f for every index, two at a time.
func runForEach(n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// TestBackgroundOutput runs a background process that still has to read to the end of its input and to write
// when the command's first process exits: it must not be taken for one that waits forever, also on a busy
// host.
func TestBackgroundOutput(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if o := runVirtual("seq 3 | tee >(wc -l) > /dev/null"); o.stdout != "3\n" {
					t.Errorf("%+v", o)
				}
			}
		})
	}
	wg.Wait()
}

// hasOracle reports whether the bash here is the one the shell is made after,
// with GNU tools.
func hasOracle() bool {
	out, err := exec.Command("bash", "-c", "echo $BASH_VERSION; ls --version; gawk --version").CombinedOutput()
	return err == nil && strings.HasPrefix(string(out), "5.2") && strings.Contains(string(out), "GNU coreutils") &&
		strings.Contains(string(out), "GNU Awk")
}

// scriptOutcome is the result of a script.
type scriptOutcome struct {
	stdout, stderr string
	code           int
	files          map[string]string // path to type, mode and content
}

// diff describes the differences of two outcomes, "" when they are equal.
func (want scriptOutcome) diff(got scriptOutcome) string {
	var b strings.Builder
	if want.code != got.code {
		fmt.Fprintf(&b, "  exit %d, bash %d\n", got.code, want.code)
	}
	if want.stdout != got.stdout {
		fmt.Fprintf(&b, "  stdout %.600q\n    bash %.600q\n", got.stdout, want.stdout)
	}
	for _, name := range unionKeys(want.files, got.files) {
		if w, g := want.files[name], got.files[name]; w != g {
			fmt.Fprintf(&b, "  file %s %.200q\n    bash %.200q\n", name, g, w)
		}
	}
	if b.Len() > 0 && got.stderr != want.stderr {
		fmt.Fprintf(&b, "  stderr %.300q\n    bash %.300q\n", got.stderr, want.stderr)
	}
	return b.String()
}

func unionKeys(a, b map[string]string) []string {
	var all []string
	for k := range a {
		all = append(all, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			all = append(all, k)
		}
	}
	sort.Strings(all)
	return all
}

// sameMessages compares standard error loosely: without the name that the
// shell gives itself, and line numbers.
func sameMessages(a, b string) bool {
	trim := func(s string) string {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			l = strings.TrimPrefix(l, "bash: ")
			l = strings.TrimPrefix(l, "-c: ")
			if rest, ok := strings.CutPrefix(l, "line "); ok {
				_, l, _ = strings.Cut(rest, ": ")
			}
			lines[i] = l
		}
		return strings.Join(lines, "\n")
	}
	return trim(a) == trim(b)
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
}

// runVirtual runs a script in a new sandbox.
func runVirtual(script string) scriptOutcome {
	ctx, cancel := context.WithTimeout(context.Background(), 2*compatTimeout)
	defer cancel()
	sb, err := virtual.New().Create(ctx, atoll.Spec{Dir: compatDir, Env: append([]string{"HOME=" + compatDir}, compatEnv...)})
	if err != nil {
		return scriptOutcome{stderr: err.Error(), code: -1}
	}
	defer sb.Destroy(ctx)
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: compatTimeout})
	o := scriptOutcome{stdout: string(exit.Stdout), stderr: string(exit.Stderr), code: exit.Code}
	if err != nil {
		o.code = -1
		o.stderr += err.Error()
	}
	r, err := sb.Export(ctx, compatDir)
	if err != nil {
		o.files = map[string]string{".": err.Error()}
		return o
	}
	defer r.Close()
	o.files = readTar(r)
	return o
}

func readTar(r io.Reader) map[string]string {
	files := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			files["."] = err.Error()
			return files
		}
		name := strings.Trim(h.Name, "/")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "work"), "/")
		if name == "" || name == "." {
			continue
		}
		mode := h.FileInfo().Mode()
		content, _ := io.ReadAll(tr)
		if h.Typeflag == tar.TypeLink {
			target := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(h.Linkname, "/"), "work"), "/")
			files[name] = files[target]
			continue
		}
		files[name] = describe(name, mode, h.Linkname, content)
	}
}

var archive = regexp.MustCompile(`\.(tar|tgz|gz|zip|z|bz2|xz)$`)

const longFile = 16 << 10 // bytes; a longer file is described by its sum

// describe is a file in one line. Of an archive, which holds the times of its
// members, only the mode counts.
func describe(name string, mode fs.FileMode, target string, content []byte) string {
	switch {
	case archive.MatchString(name):
		return mode.String()
	case mode&fs.ModeSymlink != 0:
		return "-> " + target
	case mode.IsRegular() && len(content) > longFile:
		return fmt.Sprintf("%v %d bytes, SHA-256 %x", mode, len(content), sha256.Sum256(content))
	case mode.IsRegular():
		return fmt.Sprintf("%v %s", mode, content)
	}
	return mode.String()
}

// runBash runs a script in real bash, in a directory of its own.
func runBash(script string) (scriptOutcome, error) {
	top, err := os.MkdirTemp("", "compat")
	if err != nil {
		return scriptOutcome{}, err
	}
	defer os.RemoveAll(top)
	dir := filepath.Join(top, "w")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return scriptOutcome{}, err
	}
	if gawk, err := exec.LookPath("gawk"); err == nil {
		if err := os.Symlink(gawk, filepath.Join(top, "awk")); err != nil {
			return scriptOutcome{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), compatTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, "env", "--default-signal", "bash", "-c", script) // the parent process may ignore some
	c.Dir = dir
	c.Env = append([]string{"HOME=" + dir, "PATH=" + top + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, compatEnv...)
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err = c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return scriptOutcome{}, err
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	here := func(s string) string { return strings.ReplaceAll(s, dir, compatDir) }
	o := scriptOutcome{stdout: here(stdout.String()), stderr: here(stderr.String()), code: c.ProcessState.ExitCode()}
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		o.code = 128 + int(ws.Signal())
	}
	o.files = readDir(dir, here)
	return o, nil
}

func readDir(dir string, here func(string) string) map[string]string {
	files := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		target := ""
		switch {
		case info.Mode().IsRegular():
			content, _ = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ = os.Readlink(path)
		}
		name, _ := filepath.Rel(dir, path)
		files[name] = here(describe(name, info.Mode(), target, content))
		return nil
	})
	return files
}
