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
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// vmMemory is the memory of each VM, atoll's and the peer's, in bytes.
const vmMemory = 256 << 20

// measureAtoll measures atoll's VMs.
func measureAtoll(ctx context.Context, o options, r *results) error {
	image, err := buildImage(ctx)
	if err != nil {
		return err
	}
	d := &microvm.Driver{Dir: filepath.Join(o.dir, "a"), Image: "bench/busybox:1", Memory: vmMemory, MinMemory: vmMemory, CPUs: 1}
	if _, err := d.Probe(ctx); err != nil {
		return err
	}
	if _, err := d.ImportImage(ctx, d.Image, image, nil); err != nil {
		return err
	}
	cold := &microvm.Driver{Dir: d.Dir, Image: d.Image, Memory: vmMemory, MinMemory: vmMemory, CPUs: 1, NoTemplates: true}
	if err := r.measureRounds("cold-boot-to-first-exec", atolls, max(3, o.n/2), 1, func() (time.Duration, error) { return timeCreate(ctx, cold) }); err != nil {
		return err
	}
	if err := r.measureRounds("template-to-first-exec", atolls, o.n, 1, func() (time.Duration, error) { return timeCreate(ctx, d) }); err != nil {
		return err
	}
	if err := r.measureRounds("pool-to-first-exec", atolls, o.n, 1, func() (time.Duration, error) { return timeClaim(ctx, d) }); err != nil {
		return err
	}
	if err := measureInOne(ctx, o, d, r); err != nil {
		return err
	}
	return measureMemory(ctx, o, d, r)
}

// buildImage returns the archive of an image with busybox.
func buildImage(ctx context.Context) (io.Reader, error) {
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

// runHello runs a program and checks its output.
func runHello(ctx context.Context, sb atoll.Sandbox) error {
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err == nil && string(exit.Stdout) != "hi\n" {
		err = fmt.Errorf("echo: status %d: %q", exit.Code, exit.Stderr)
	}
	return err
}

// timeCreate returns the time from nothing to the end of the first command.
func timeCreate(ctx context.Context, d *microvm.Driver) (time.Duration, error) {
	began := time.Now()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return 0, err
	}
	err = runHello(ctx, sb)
	took := time.Since(began)
	return took, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
}

// timeClaim returns the time of the first command in a VM of a pool, for a
// caller that opens it. The cost of the claim in the fleet is the same for every
// driver: see bench/server.
func timeClaim(ctx context.Context, d *microvm.Driver) (time.Duration, error) {
	made, err := d.Create(ctx, atoll.Spec{Labels: map[string]string{atoll.PoolLabel: "bench"}})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	sb, err := d.Open(ctx, made.ID())
	if err == nil {
		err = runHello(ctx, sb)
	}
	took := time.Since(began)
	return took, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
}

// measureInOne measures operations in one running VM.
func measureInOne(ctx context.Context, o options, d *microvm.Driver, r *results) (err error) {
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	err = r.measureRounds("exec", atolls, 5*o.n, 5, func() (time.Duration, error) { return timeCall(func() error { return runHello(ctx, sb) }) })
	if err != nil {
		return err
	}
	run := func(cmd atoll.Cmd) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			if cmd.Stdout == nil {
				cmd.Stdin = io.LimitReader(zeros{}, o.big)
			}
			return timeCall(func() error {
				exit, err := sb.Exec(ctx, cmd)
				if err == nil && exit.Code != 0 {
					err = fmt.Errorf("%s: status %d: %s", cmd.Shell, exit.Code, exit.Stderr)
				}
				return err
			})
		}
	}
	if err := r.measureRounds(inName(o), atolls, 3, 1, run(atoll.Cmd{Shell: "cat >/tmp/big"})); err != nil {
		return err
	}
	return r.measureRounds(outName(o), atolls, 3, 1, run(atoll.Cmd{Shell: "cat /tmp/big", Stdout: io.Discard}))
}

func inName(o options) string  { return fmt.Sprintf("%d-MiB-in", o.big>>20) }
func outName(o options) string { return fmt.Sprintf("%d-MiB-out", o.big>>20) }

// zeros is an endless source of zeros.
type zeros struct{}

// Read fills p with zeros.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// measureMemory measures VMs that have run one command and are all idle.
func measureMemory(ctx context.Context, o options, d *microvm.Driver, r *results) (err error) {
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
		if err := runHello(ctx, sb); err != nil {
			return err
		}
	}
	for _, sb := range list {
		m, err := hypervisor.Open(filepath.Join(d.Dir, sb.ID()))
		if err != nil {
			return err
		}
		s, err := m.Status(ctx)
		if err = errors.Join(err, m.Close()); err != nil {
			return err
		}
		q, err1 := proportionalMemory(s.Facts.PID)
		w, err2 := proportionalMemory(s.Facts.Monitor)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		r.add("memory-of-an-idle-one", atolls, "PSS-bytes", q+w)
	}
	return nil
}

// proportionalMemory returns the proportional set size of a process in bytes:
// memory that several processes share counts in parts.
func proportionalMemory(pid int) (float64, error) {
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
