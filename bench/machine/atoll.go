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
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// memory is that of each machine, atoll's and the peer's, in bytes.
const memory = 256 << 20

// ours measures machines of atoll.
func ours(ctx context.Context, o options, r *results) error {
	image, err := busybox(ctx)
	if err != nil {
		return err
	}
	d := &microvm.Driver{Dir: filepath.Join(o.dir, "a"), Image: "bench/busybox:1", Memory: memory, LeastMemory: memory, CPUs: 1}
	if _, err := d.Probe(ctx); err != nil {
		return err
	}
	if _, err := d.ImportImage(ctx, d.Image, image, nil); err != nil {
		return err
	}
	cold := &microvm.Driver{Dir: d.Dir, Image: d.Image, Memory: memory, LeastMemory: memory, CPUs: 1, NoTemplates: true}
	if err := r.rounds("cold-boot-to-first-exec", atolls, max(3, o.n/2), 1, func() (time.Duration, error) { return created(ctx, cold) }); err != nil {
		return err
	}
	if err := r.rounds("template-to-first-exec", atolls, o.n, 1, func() (time.Duration, error) { return created(ctx, d) }); err != nil {
		return err
	}
	if err := r.rounds("pool-to-first-exec", atolls, o.n, 1, func() (time.Duration, error) { return claimed(ctx, d) }); err != nil {
		return err
	}
	if err := inOne(ctx, o, d, r); err != nil {
		return err
	}
	return weighed(ctx, o, d, r)
}

// busybox is the archive of an image.
func busybox(ctx context.Context) (io.Reader, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("busybox is missing: apt-get install busybox-static: %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	names, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"bin/", "etc/", "tmp/", "root/"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o777}))
	}
	err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))}))
	if err == nil {
		_, err = w.Write(program)
	}
	for name := range strings.FieldsSeq(string(names)) {
		if name != "busybox" {
			err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
		}
	}
	return &b, errors.Join(err, w.Close())
}

// hello runs a program that says something.
func hello(ctx context.Context, sb atoll.Sandbox) error {
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err == nil && string(exit.Stdout) != "hi\n" {
		err = fmt.Errorf("echo: status %d: %q", exit.Code, exit.Stderr)
	}
	return err
}

// created is how long it takes from nothing to the answer of a first command.
func created(ctx context.Context, d *microvm.Driver) (time.Duration, error) {
	began := time.Now()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return 0, err
	}
	err = hello(ctx, sb)
	took := time.Since(began)
	return took, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
}

// claimed is how long the first command takes in a machine that waited to be
// claimed, for who opens it then. What the fleet writes down of a claim is what it
// writes for every driver: bench/server has that.
func claimed(ctx context.Context, d *microvm.Driver) (time.Duration, error) {
	made, err := d.Create(ctx, atoll.Spec{Labels: map[string]string{atoll.PoolLabel: "bench"}})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	sb, err := d.Open(ctx, made.ID())
	if err == nil {
		err = hello(ctx, sb)
	}
	took := time.Since(began)
	return took, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
}

// inOne measures what goes on in one machine.
func inOne(ctx context.Context, o options, d *microvm.Driver, r *results) (err error) {
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	err = r.rounds("exec", atolls, 5*o.n, 5, func() (time.Duration, error) { return since(func() error { return hello(ctx, sb) }) })
	if err != nil {
		return err
	}
	run := func(cmd atoll.Cmd) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			if cmd.Stdout == nil {
				cmd.Stdin = io.LimitReader(zeros{}, o.big)
			}
			return since(func() error {
				exit, err := sb.Exec(ctx, cmd)
				if err == nil && exit.Code != 0 {
					err = fmt.Errorf("%s: status %d: %s", cmd.Shell, exit.Code, exit.Stderr)
				}
				return err
			})
		}
	}
	if err := r.rounds(inName(o), atolls, 3, 1, run(atoll.Cmd{Shell: "cat >/tmp/big"})); err != nil {
		return err
	}
	return r.rounds(outName(o), atolls, 3, 1, run(atoll.Cmd{Shell: "cat /tmp/big", Stdout: io.Discard}))
}

func inName(o options) string  { return fmt.Sprintf("%d-MiB-in", o.big>>20) }
func outName(o options) string { return fmt.Sprintf("%d-MiB-out", o.big>>20) }

// zeros is a source without an end.
type zeros struct{}

// Read fills p with zeros.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// weighed weighs machines that have run one command, all at once.
func weighed(ctx context.Context, o options, d *microvm.Driver, r *results) (err error) {
	var list []atoll.Sandbox
	defer func() {
		for _, sb := range list {
			err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
		}
	}()
	for range o.crowd {
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return err
		}
		list = append(list, sb)
		if err := hello(ctx, sb); err != nil {
			return err
		}
	}
	for _, sb := range list {
		m, err := machine.Open(filepath.Join(d.Dir, sb.ID()))
		if err != nil {
			return err
		}
		s, err := m.Status(ctx)
		if err = errors.Join(err, m.Close()); err != nil {
			return err
		}
		q, err1 := pss(s.Facts.PID)
		w, err2 := pss(s.Facts.Monitor)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		r.add("memory-of-an-idle-one", atolls, "PSS-bytes", q+w)
	}
	return nil
}

// pss is what a process takes of the host's memory: what several have in common
// counts in parts.
func pss(pid int) (float64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			n, err := strconv.ParseFloat(f[1], 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("smaps_rollup has no Pss")
}
