package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
)

// measureFiles measures the transfer of a big file in both directions. The
// content is verified outside of the measured time.
func (b *bench) measureFiles(ctx context.Context) error {
	data := make([]byte, b.big)
	_, _ = rand.Read(data) // never fails
	sum := sha256.Sum256(data)
	const name = "/workspace/big"
	same := func(sb atoll.Sandbox) error {
		exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"sha256sum", name}})
		if err == nil && !strings.HasPrefix(string(exit.Stdout), hex.EncodeToString(sum[:])) {
			err = fmt.Errorf("the file in the sandbox differs from what was sent: %s%s", exit.Stdout, exit.Stderr)
		}
		return err
	}
	equal := func(got []byte) error {
		if !bytes.Equal(got, data) {
			return fmt.Errorf("%d bytes came back, which differ from what was sent", len(got))
		}
		return nil
	}
	return errors.Join(
		withSandbox(ctx, b.newDriver(kubernetes.PlaceCopy), atoll.Spec{}, func(sb atoll.Sandbox) error {
			b.measureTransfers(sb, "atoll, through its tunnel", func() error { return atoll.WriteFile(ctx, sb, name, data, 0o644) }, func() ([]byte, error) { return readInto(ctx, sb, name, len(data)) }, same, equal)
			return nil
		}),
		withSandbox(ctx, b.newDriver(kubernetes.PlaceNone), atoll.Spec{}, func(sb atoll.Sandbox) error {
			b.measureTransfers(sb, "tar by client-go's exec, unchecked", func() error { return b.peerPut(ctx, podOf(sb), data) }, func() ([]byte, error) { return b.peerGet(ctx, podOf(sb), len(data)) }, same, equal)
			b.measureTransfers(sb, "atoll without a guest, tar by exec, checked", func() error { return atoll.WriteFile(ctx, sb, name, data, 0o644) }, func() ([]byte, error) { return readInto(ctx, sb, name, len(data)) }, same, equal)
			return nil
		}),
	)
}

// measureTransfers measures one method of transfer in both directions.
func (b *bench) measureTransfers(sb atoll.Sandbox, what string, put func() error, get func() ([]byte, error), same func(atoll.Sandbox) error, equal func([]byte) error) {
	const rounds = 3
	var in, out []time.Duration
	var err error
	for range rounds {
		begin := time.Now()
		err = errors.Join(err, put())
		in = append(in, time.Since(begin))
		err = errors.Join(err, same(sb))
		begin = time.Now()
		got, gerr := get()
		out = append(out, time.Since(begin))
		if err = errors.Join(err, gerr); err == nil {
			err = equal(got)
		}
	}
	rate := func(list []time.Duration) string {
		best := list[0]
		for _, d := range list {
			best = min(best, d)
		}
		return fmt.Sprintf("best %.0f MiB/s", float64(b.big>>20)/best.Seconds())
	}
	b.addRow(fmt.Sprintf("%d MiB in", b.big>>20), what, in, rate(in), err)
	b.addRow(fmt.Sprintf("%d MiB out", b.big>>20), what, out, rate(out), err)
}

// readInto reads a file into memory of its size.
func readInto(ctx context.Context, sb atoll.Sandbox, name string, size int) ([]byte, error) {
	rc, err := atoll.OpenFile(ctx, sb, name)
	if err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = buf.ReadFrom(rc)
	return buf.Bytes(), errors.Join(err, rc.Close())
}

// peerPut unpacks an archive of one file as kubectl cp does.
func (b *bench) peerPut(ctx context.Context, pod string, data []byte) error {
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Mode: 0o644, Size: int64(len(data))})
		if err == nil {
			_, err = tw.Write(data)
		}
		_ = w.CloseWithError(errors.Join(err, tw.Close())) // never fails
	}()
	return b.execLikeKubectl(ctx, pod, container, r, io.Discard, "tar", "-xmf", "-", "-C", "/workspace")
}

// peerGet reads one file's archive.
func (b *bench) peerGet(ctx context.Context, pod string, size int) ([]byte, error) {
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(b.execLikeKubectl(ctx, pod, container, nil, w, "tar", "-cf", "-", "-C", "/workspace", "big"))
	}()
	defer r.Close() // never fails
	tr := tar.NewReader(r)
	if _, err := tr.Next(); err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := buf.ReadFrom(tr)
	_, _ = io.Copy(io.Discard, r) // padding after the archive
	return buf.Bytes(), err
}
