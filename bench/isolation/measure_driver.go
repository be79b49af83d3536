//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// firstByte records when the first output came.
type firstByte struct{ at time.Time }

// Write records the time of the first call.
func (f *firstByte) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(p), nil
}

// runEcho runs echo in a sandbox and returns when its output came.
func runEcho(ctx context.Context, sb atoll.Sandbox) (time.Time, error) {
	var out firstByte
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"/bin/echo", "hi"}, Stdout: &out})
	if err == nil && (exit.Code != 0 || out.at.IsZero()) {
		err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
	}
	return out.at, err
}

// measureDriver measures a driver.
func measureDriver(ctx context.Context, d atoll.Driver, o options, n, crowd int) []row {
	name := "atoll " + d.Name()
	rows := []row{measureRounds("create + first output", name+", cold", n, func() (time.Duration, error) {
		start := time.Now()
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return 0, err
		}
		at, err := runEcho(ctx, sb)
		return at.Sub(start), errors.Join(err, sb.Destroy(ctx))
	})}
	var ready []atoll.Sandbox
	for range n + 1 {
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return append(rows, row{what: name, err: err})
		}
		ready = append(ready, sb)
	}
	i := 0
	rows = append(rows, measureRounds("create + first output", name+", first command of one that exists", n, func() (time.Duration, error) {
		start := time.Now()
		at, err := runEcho(ctx, ready[i])
		i++
		return at.Sub(start), err
	}))
	rows = append(rows, measureRounds("exec in a running one", name, 5*n, func() (time.Duration, error) {
		start := time.Now()
		_, err := runEcho(ctx, ready[0])
		return time.Since(start), err
	}))
	rows = append(rows, measureFiles(ctx, name, ready[0], o)...)
	for _, sb := range ready {
		if err := sb.Destroy(ctx); err != nil {
			rows = append(rows, row{what: name, err: err})
		}
	}
	return append(rows, measureCrowd(ctx, d, name, crowd)...)
}

// measureCrowd creates sandboxes eight at a time and measures their memory
// while they are idle.
func measureCrowd(ctx context.Context, d atoll.Driver, name string, n int) []row {
	rows, list := createCrowd(ctx, d, name, n, atoll.Spec{})
	rows = append(rows, weighCrowd(name+", idle", n, "/atoll-guest", "/qemu-system-"), destroyCrowd(ctx, name, list))
	if d.Name() != "namespace" {
		return rows
	}
	more, list := createCrowd(ctx, d, name+" with an egress proxy", n/4, atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkNAT}})
	rows = append(append(rows, more...), weighCrowd(name+", idle egress proxy", n/4, "/atoll-egress"), destroyCrowd(ctx, name+" with an egress proxy", list))
	return append(rows, crowdRow(name+", with destroy", n, func() error {
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return err
		}
		_, err = runEcho(ctx, sb)
		return errors.Join(err, sb.Destroy(ctx))
	}))
}

// crowdPart is the part of the table about many sandboxes at once.
const crowdPart = "many at once"

// crowdRow calls f n times, eight at a time.
func crowdRow(what string, n int, f func() error) row {
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	start := time.Now()
	for range 8 {
		wg.Go(func() {
			for i := range next {
				errs[i] = f()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	took := time.Since(start)
	return row{part: crowdPart, what: what + ", 8 at a time", note: fmt.Sprintf("%d, each ran echo, in %v: %.0f a second", n, roundDuration(took), float64(n)/took.Seconds()), err: errors.Join(errs...)}
}

// createCrowd creates n sandboxes, which run echo.
func createCrowd(ctx context.Context, d atoll.Driver, name string, n int, spec atoll.Spec) ([]row, []atoll.Sandbox) {
	var mu sync.Mutex
	var list []atoll.Sandbox
	r := crowdRow(name+", create", n, func() error {
		sb, err := d.Create(ctx, spec)
		if err != nil {
			return err
		}
		mu.Lock()
		list = append(list, sb)
		mu.Unlock()
		_, err = runEcho(ctx, sb)
		return err
	})
	return []row{r}, list
}

// destroyCrowd destroys sandboxes one after the other.
func destroyCrowd(ctx context.Context, name string, list []atoll.Sandbox) row {
	var err error
	start := time.Now()
	for _, sb := range list {
		err = errors.Join(err, sb.Destroy(ctx))
	}
	return row{part: crowdPart, what: name + ", destroy", note: fmt.Sprintf("%v each", roundDuration(time.Since(start)/time.Duration(max(len(list), 1)))), err: err}
}

// idleTime is longer than a guest waits before it returns unused memory.
const idleTime = 3 * time.Second

// weighCrowd returns the memory of n idle sandboxes: that of the processes of some programs that
// this one has started.
func weighCrowd(what string, n int, programs ...string) row {
	time.Sleep(idleTime)
	r := row{part: crowdPart, what: what}
	var kb, processes int
	kb, processes, r.err = totalPSS(programs)
	r.note = fmt.Sprintf("%.2f MB each (proportional set size of %d processes of %d sandboxes)", float64(kb)/1024/float64(max(n, 1)), processes, n)
	if processes == 0 {
		r.note = "not measured: its processes are not children of this one"
	}
	return r
}

// totalPSS returns the sum of the proportional set sizes, in kB, of the descendants of this process
// whose program's path contains one of the given texts.
func totalPSS(programs []string) (kb, processes int, err error) {
	list, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	own := make(map[string]bool)
	for _, name := range list {
		dir := filepath.Dir(name)
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil || !isDescendant(filepath.Base(dir), own) || !slices.ContainsFunc(programs, func(p string) bool { return strings.Contains(exe, p) }) {
			continue
		}
		if args, err := os.ReadFile(filepath.Join(dir, "cmdline")); err != nil || strings.Contains(string(args), "\x00spawn\x00") {
			continue // it serves all sandboxes
		}
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				var n int
				_, _ = fmt.Sscan(f[1], &n)
				kb += n
				processes++
			}
		}
	}
	return kb, processes, err
}

// isDescendant reports whether a process descends from this one. It stores what it finds out in known.
func isDescendant(pid string, known map[string]bool) bool {
	if pid == strconv.Itoa(os.Getpid()) {
		return true
	}
	if is, ok := known[pid]; ok {
		return is
	}
	known[pid] = false
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	known[pid] = len(fields) > 1 && isDescendant(fields[1], known)
	return known[pid]
}

// measureFiles measures the transfer of a big file and of many small ones, in
// both directions, beside cp and tar.
func measureFiles(ctx context.Context, name string, sb atoll.Sandbox, o options) []row {
	const part = "files"
	var rows []row
	timed := func(what string, bytes int64, f func() error) {
		start := time.Now()
		err := f()
		took := time.Since(start)
		note := ""
		if bytes > 0 {
			note = fmt.Sprintf("%.0f MB a second", float64(bytes)/1e6/took.Seconds())
		}
		rows = append(rows, row{part: part, what: what, min: took, p50: took, note: note, err: err})
	}
	big := filepath.Join(o.scratch, "big")
	if err := exec.CommandContext(ctx, "dd", "if=/dev/urandom", "of="+big, "bs=1M", fmt.Sprintf("count=%d", o.big>>20), "status=none").Run(); err != nil {
		return []row{{part: part, what: "the big file", err: err}}
	}
	fs, ok := atoll.As[atoll.FS](sb)
	if !ok {
		return nil
	}
	timed("cp on the host", o.big, func() error { return exec.CommandContext(ctx, "cp", big, big+".copy").Run() })
	_ = os.Remove(big + ".copy")
	timed(name+", big file in", o.big, func() error {
		f, err := os.Open(big)
		if err != nil {
			return err
		}
		defer f.Close()
		return fs.WriteFile(ctx, "/workspace/big", f, 0o644)
	})
	timed(name+", big file out", o.big, func() error {
		r, err := fs.OpenFile(ctx, "/workspace/big")
		if err != nil {
			return err
		}
		defer r.Close()
		n, err := io.Copy(io.Discard, r)
		if err == nil && n != o.big {
			err = fmt.Errorf("got %d bytes of %d", n, o.big)
		}
		return err
	})
	small := buildArchive(o.files)
	dir := filepath.Join(o.scratch, "small")
	_ = os.MkdirAll(dir, 0o755)
	timed("tar -x on the host, small files", 0, func() error {
		cmd := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
		cmd.Stdin = bytes.NewReader(small)
		return cmd.Run()
	})
	_ = os.RemoveAll(dir)
	timed(name+", small files in", 0, func() error { return sb.Import(ctx, "/workspace/small", bytes.NewReader(small)) })
	timed(name+", small files out", 0, func() error {
		r, err := sb.Export(ctx, "/workspace/small")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return errors.Join(err, r.Close())
	})
	return rows
}

// buildArchive returns a tar stream of n files of 1 kB in 100 directories, one directory after the other.
func buildArchive(n int) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	content := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for i := range n {
		_ = tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%02d/f%d", i*100/n, i), Mode: 0o644, Size: int64(len(content)), ModTime: time.Now()}) // writes to memory don't fail
		_, _ = tw.Write(content)
	}
	_ = tw.Close()
	return b.Bytes()
}

// reportMissing prints that a driver can't be measured here.
func reportMissing(d atoll.Driver, err error) []row {
	fmt.Fprintf(os.Stderr, "bench/isolation: %s is left out: %v\n", d.Name(), err)
	return nil
}
