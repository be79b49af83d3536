package shellexec

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// shells are those that run the scripts in tests of what shells do differently.
var shells = []string{"", "dash", "bash"}

// made returns a container that ends with the test.
func made(t *testing.T, shell string) *box {
	t.Helper()
	d := newDriver(t, shell)
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb.(*box)
}

// alone fails when there are processes in a container besides the first, what it
// waits with, and those that look.
func alone(t *testing.T, b *box) {
	t.Helper()
	var out bytes.Buffer
	const text = `for f in /proc/[0-9]*; do read -r s <$f/stat && case ${s##*) } in [ZX]*) ;; *) echo "${f#/proc/} $(tr '\0' ' ' <$f/cmdline | head -c 80)";; esac; done`
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	if !testenv.Poll(ctx, func() bool { // a killed process takes a moment to exit
		out.Reset()
		if _, err := b.run(t.Context(), &Call{Args: []string{"sh", "-c", text}, Out: &out}); err != nil {
			t.Fatal(err)
		}
		return bytes.Count(out.Bytes(), []byte("\n")) <= 3
	}) {
		t.Fatalf("processes are left:\n%s", out.String())
	}
}

func TestNoProcessIsLeft(t *testing.T) {
	for _, shell := range shells {
		t.Run(or(shell, "busybox"), func(t *testing.T) {
			b := made(t, shell)
			for _, text := range []string{
				"sleep 1000 & sleep 1000 & echo",
				"setsid sleep 1000 & echo",
				"setsid sh -c 'sleep 1000 & setsid sleep 1000 & sleep 1000' & sleep 0.1",
				"(trap '' TERM HUP INT; while :; do sleep 0.01; done) & echo",
				"f() { sleep 0.01; [ $1 = 0 ] || f $(($1 - 1)) & }; f 300", // a chain in which each ends when the next begins
			} {
				if _, err := b.Exec(t.Context(), atoll.Cmd{Shell: text}); err != nil {
					t.Errorf("%s: %v", text, err)
				}
				alone(t, b)
				_, err := b.Exec(t.Context(), atoll.Cmd{Shell: text + "; sleep 1000", Timeout: 300 * time.Millisecond})
				if !errors.Is(err, atoll.ErrTimeout) {
					t.Errorf("%s: %v", text, err)
				}
				alone(t, b)
			}
		})
	}
}

// TestKilledSubshellIsAnError runs commands that kill the shell that waits for them: their status
// is unknown, and no process is left.
func TestKilledSubshellIsAnError(t *testing.T) {
	for _, shell := range shells {
		t.Run(or(shell, "busybox"), func(t *testing.T) {
			b := made(t, shell)
			for _, in := range []io.Reader{nil, strings.NewReader("input")} {
				exit, err := b.Exec(t.Context(), atoll.Cmd{Shell: "kill -9 $PPID; exit 3", Stdin: in})
				if err == nil || errors.Is(err, atoll.ErrTimeout) {
					t.Errorf("%+v, %v", exit, err)
				}
			}
			alone(t, b)
		})
	}
}

// cut makes a container's streams end early, as if all were well.
type cut struct {
	w    io.Writer
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	if _, err := c.w.Write(b[:n]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// TestTruncationIsDetected lets streams lose their ends, wherever, with exit status 0.
func TestTruncationIsDetected(t *testing.T) {
	b := made(t, "")
	if _, err := b.Exec(t.Context(), atoll.Cmd{Shell: "yes | head -c 100000 >/tmp/f"}); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{0, 10, 1000, 50_000, 100_000, 102_400, 102_440} {
		s := b.Shell
		s.Run = func(ctx context.Context, c *Call) (int, error) {
			if len(c.Args) < 6 {
				return b.run(ctx, c) // what ends the command
			}
			k := *c
			k.Out = &cut{c.Out, left}
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			_, _ = b.run(ctx, &k)
			return 0, nil
		}
		if exit, err := s.Exec(t.Context(), atoll.Cmd{Args: []string{"cat", "/tmp/f"}}); !errors.Is(err, atoll.ErrUnavailable) && left < 100_000 {
			t.Errorf("after %d bytes: %d bytes with status %d and error %v", left, len(exit.Stdout), exit.Code, err)
		}
		rc, err := s.Export(t.Context(), "/tmp/f")
		if err == nil {
			_, err = io.Copy(io.Discard, rc)
			err = errors.Join(err, rc.Close())
		}
		if !errors.Is(err, atoll.ErrUnavailable) && left <= 100_000 {
			t.Errorf("an export after %d bytes: %v", left, err)
		}
	}
	alone(t, b)
}

// TestLostHostEndsCommand closes the streams under a command.
func TestLostHostEndsCommand(t *testing.T) {
	for _, shell := range shells {
		t.Run(or(shell, "busybox"), func(t *testing.T) {
			b := made(t, shell)
			s := b.Shell
			ctx, cancel := context.WithCancel(t.Context())
			s.Run = func(_ context.Context, c *Call) (int, error) {
				if len(c.Args) < 6 {
					return 0, nil // the kill has no effect
				}
				k := *c
				k.In = readerUntil{ctx, c.In}
				return b.run(t.Context(), &k)
			}
			began := make(chan struct{}, 1)
			ended := make(chan error, 1)
			go func() {
				_, err := s.Exec(t.Context(), atoll.Cmd{Shell: "sleep 1000 & echo began; sleep 1000", Stdout: tell(began)})
				ended <- err
			}()
			<-began
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, atoll.ErrUnavailable) {
				t.Error(err)
			}
			alone(t, b)
		})
	}
}

// readerUntil ends when its context does.
type readerUntil struct {
	ctx context.Context //nolint:containedctx // it is the test's
	r   io.Reader
}

func (r readerUntil) Read(b []byte) (int, error) {
	type read struct {
		n   int
		err error
	}
	done := make(chan read, 1)
	own := make([]byte, len(b))
	go func() {
		n, err := r.r.Read(own)
		done <- read{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, io.EOF
	case d := <-done:
		return copy(b, own[:d.n]), d.err
	}
}

// tell says on a channel that something was written.
type tell chan struct{}

func (c tell) Write(b []byte) (int, error) {
	select {
	case c <- struct{}{}:
	default:
	}
	return len(b), nil
}

// TestWaitsUntilOutputIsRead reads the last output of a command only when the command has written
// all of it.
func TestWaitsUntilOutputIsRead(t *testing.T) {
	b := made(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	ended := make(tell, 1)
	out := &lateReader{most: 1_980_000, wait: func() {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		if _, err := b.run(ctx, &Call{Args: []string{"true"}}); err != nil { // meanwhile Exec could return
			t.Error(err)
		}
	}}
	exit, err := b.Exec(ctx, atoll.Cmd{Shell: "cat; yes | head -c 2000000; echo end >&2", Stdin: strings.NewReader("in\n"), Stdout: out, Stderr: ended})
	if err != nil || out.n != 2_000_003 || exit.Code != 0 {
		t.Errorf("%d bytes, exit code %d, %v", out.n, exit.Code, err)
	}
	alone(t, b)
}

// lateReader reads up to most bytes, then waits, and reads the others.
type lateReader struct {
	n, most int
	wait    func()
}

func (r *lateReader) Write(b []byte) (int, error) {
	if r.n <= r.most && r.n+len(b) > r.most {
		r.wait()
	}
	r.n += len(b)
	return len(b), nil
}

func TestDifferentShells(t *testing.T) {
	for _, shell := range shells {
		t.Run(or(shell, "busybox"), func(t *testing.T) {
			b := made(t, shell)
			args := []string{"sh", "-c", `for a; do printf '%s\001' "$a"; done`, "x", "", "a\nb\n", "\x80\xff\x81\x88", `\`, `\0101`, "%s", "%", "=", "*", "ü日\u0000"[:5], "$(id)", "\t \n"}
			exit, err := b.Exec(t.Context(), atoll.Cmd{Args: args})
			if want := strings.Join(args[4:], "\x01") + "\x01"; err != nil || string(exit.Stdout) != want {
				t.Errorf("%q, want %q, %v", exit.Stdout, want, err)
			}
			exit, err = b.Exec(t.Context(), atoll.Cmd{Args: []string{"env"}, Env: []string{"a.b=c d", "UID=7", "__t=x", "IFS=y", "PS4=z", "T=\\0101\n\n", "_x="}})
			for _, want := range []string{"a.b=c d\n", "UID=7\n", "__t=x\n", "IFS=y\n", "PS4=z\n", "T=\\0101\n\n\n", "_x=\n"} {
				if !strings.Contains(string(exit.Stdout), want) {
					t.Errorf("%q is not in %q, %v", want, exit.Stdout, err)
				}
			}
			for text, want := range map[string]string{
				"exit 137": "137 ", "kill -KILL $$": "137 KILL", "exit 129": "129 ", "kill -HUP $$; sleep 9": "129 HUP", "exit 143": "143 ", "kill -SEGV $$; sleep 9": "139 SEGV", "exit 70": "70  ",
			} {
				exit, err := b.Exec(t.Context(), atoll.Cmd{Shell: text})
				if shell == "bash" {
					want = want[:4] + exit.Signal // it does not tell
				}
				if got := fmt.Sprintf("%-3d %s", exit.Code, exit.Signal); got != want || err != nil {
					t.Errorf("%s: %q, want %q, %v", text, got, want, err)
				}
			}
			alone(t, b)
		})
	}
}

// TestImportMerges unpacks more than one mv takes, over what is there.
func TestImportMerges(t *testing.T) {
	for _, shell := range shells {
		t.Run(or(shell, "busybox"), func(t *testing.T) {
			b := made(t, shell)
			var archive bytes.Buffer
			tw := tar.NewWriter(&archive)
			add := func(h *tar.Header, content string) {
				h.Size = int64(len(content))
				if err := tw.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(tw, content) // what is wrong shows at Close
			}
			when := time.Unix(1e9, 0)
			add(&tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o500, ModTime: when}, "")
			add(&tar.Header{Typeflag: tar.TypeDir, Name: "d/locked/", Mode: 0o500, ModTime: when}, "")
			add(&tar.Header{Typeflag: tar.TypeReg, Name: "d/locked/f", Mode: 0o400, ModTime: when}, "locked")
			for i := range 1000 {
				add(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("many/-f %d", i), Mode: 0o644}, fmt.Sprint(i))
			}
			add(&tar.Header{Typeflag: tar.TypeReg, Name: "many/.hidden", Mode: 0o644}, "h")
			add(&tar.Header{Typeflag: tar.TypeReg, Name: "many/..odd", Mode: 0o644}, "o")
			if err := tw.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time over the first
				if err := b.Import(t.Context(), "/tmp/here", bytes.NewReader(archive.Bytes())); err != nil {
					t.Fatal(err)
				}
			}
			exit, err := b.Exec(t.Context(), atoll.Cmd{Shell: "cd /tmp/here; ls -A; ls -A many | wc -l; cat many/.hidden many/..odd 'many/-f 999' d/locked/f; stat -c '%a %Y' d d/locked"})
			if want := "d\nmany\n1002\nho999locked500 1000000000\n500 1000000000\n"; string(exit.Stdout) != want || err != nil {
				t.Errorf("%q, want %q, %v %s", exit.Stdout, want, err, exit.Stderr)
			}
			alone(t, b)
		})
	}
}
