package project

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// BenchmarkDrivers measures, for every driver on this machine, the commands that users
// wait for: from up to an agent that prints something, with the image present; the sync
// of one changed line; attaching to a terminal. git clone and git pull between two
// directories are the baseline.
//
//	go test ./test/project -run '^$' -bench Drivers -benchtime 5x
func BenchmarkDrivers(b *testing.B) {
	for name, on := range map[string]func(testing.TB) *fixture{"namespace": newNamespaceFixture, "docker": newDockerFixture, "microvm": newMicroVMFixture} {
		b.Run(name, func(b *testing.B) {
			w := on(b)
			w.createRepository("warm")
			w.upSandbox("warm", "warm") // so that everything that is created once for an image exists
			w.runAtoll(0, "/", "rm", "--force", "--discard", "warm")
			var start, sync, attach, nothing time.Duration
			for i := range b.N {
				name := fmt.Sprint("r", i)
				w.createRepository(name)
				start += w.measure(func() {
					w.upSandbox(name, name)
					checkEqual(b, "the agent says", w.runInSandbox(name, "/workspace", "echo working"), "working")
				})
				w.runInSandbox(name, "/workspace", "sed -i s/two/zwei/ a.txt; git commit -qam small")
				sync += w.measure(func() { w.runAtoll(0, name, "sync") })
				attach += w.measureAttach(name)
				nothing += w.measure(func() { w.runAtoll(0, "/", "version") })
				w.runAtoll(0, "/", "rm", "--force", "--discard", name)
			}
			for what, d := range map[string]time.Duration{"start": start, "sync": sync, "attach": attach, "version": nothing} {
				b.ReportMetric(float64(d.Milliseconds())/float64(b.N), "ms/"+what)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (w *fixture) measure(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// measureAttach returns the time from the attach command to the first prompt on the
// screen.
func (w *fixture) measureAttach(name string) time.Duration {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.bin, "attach", name)
	cmd.Dir, cmd.Env = w.joinPath(name), append(w.env, "TERM=xterm-256color")
	began := time.Now()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		w.t.Fatal(err)
	}
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.ContainsAny(seen.String(), "$#") { // a prompt
		n, err := f.Read(buf)
		if err != nil {
			w.t.Fatalf("attach: %v: %q", err, seen.String())
		}
		seen.Write(buf[:n])
	}
	d := time.Since(began)
	_, err = f.WriteString("\x10\x11") // Ctrl-P Ctrl-Q
	if err == nil {
		_, _ = io.Copy(io.Discard, f) // a closed terminal returns an error
	}
	var exit *exec.ExitError
	if err := errors.Join(err, cmd.Wait(), f.Close()); err != nil && !errors.As(err, &exit) && !errors.Is(err, os.ErrClosed) {
		w.t.Error(err)
	}
	return d
}
