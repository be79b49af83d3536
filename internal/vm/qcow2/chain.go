package qcow2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// Layer is a file of a chain.
type Layer struct {
	File   string
	Format string // Raw or Qcow2
	Size   int64  // of the virtual disk, in bytes
	Used   int64  // bytes of the host's disk
}

// Stat returns a layer without looking at its backing file.
func Stat(file, format string) (Layer, error) {
	l, _, err := stat(file, format)
	return l, err
}

func stat(file, format string) (Layer, header, error) {
	f, err := open(file)
	if err != nil {
		return Layer{}, header{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Layer{}, header{}, err
	}
	l, h := Layer{File: file, Format: format, Size: info.Size(), Used: diskUsage(info)}, header{}
	switch format {
	case Raw:
	case Qcow2:
		if h, err = readHeader(f); err != nil {
			return Layer{}, header{}, fmt.Errorf("%s: %w", file, err)
		}
		l.Size = h.size
	default:
		return Layer{}, header{}, fmt.Errorf("%w: %s: format %q: must be raw or qcow2", atoll.ErrInvalid, file, format)
	}
	return l, h, nil
}

// ReadChain returns a disk and its backing files, topmost first. Before it opens a backing file, it
// calls find with the absolute path in the header, to get the file's real path; false refuses it. A
// refused file, a loop, and a file with features that could refer to other files (external data) or
// encryption are ErrInvalid.
func ReadChain(top, format string, find func(name string) (file string, ok bool)) ([]Layer, error) {
	l, h, err := stat(top, format)
	if err == nil {
		err = checkComplete(l)
	}
	if err != nil {
		return nil, err
	}
	chain := []Layer{l}
	for h.backing != "" {
		if len(chain) > maxBacking {
			return nil, fmt.Errorf("%w: %s: more than %d layers, or a loop", atoll.ErrInvalid, top, maxBacking)
		}
		name, ok := "", filepath.IsAbs(h.backing) && filepath.Clean(h.backing) == h.backing
		if ok {
			name, ok = find(h.backing)
		}
		if !ok {
			return nil, fmt.Errorf("%w: %s has the backing file %.200q, which does not belong to it", atoll.ErrInvalid, l.File, h.backing)
		}
		if l, h, err = stat(name, h.format); err == nil {
			err = checkComplete(l)
		}
		if err != nil {
			return nil, fmt.Errorf("backing file of %s: %w", top, err)
		}
		chain = append(chain, l)
	}
	return chain, nil
}

// checkComplete returns an error that matches ErrInvalid if a qcow2 file ends before data or tables
// that it refers to: QEMU would read zeros there.
func checkComplete(l Layer) (err error) {
	if l.Format != Qcow2 {
		return nil
	}
	f, err := open(l.File)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := readHeader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", l.File, err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	cluster, end := int64(1)<<h.bits, info.Size()
	truncated := func(what string, at int64) error {
		return fmt.Errorf("%w: %s is truncated: it has %d bytes, and its %s is at %d", atoll.ErrInvalid, l.File, end, what, at)
	}
	if h.first > end-h.entries*8 {
		return truncated("first table", h.first)
	}
	first, table, seen := make([]byte, h.entries*8), make([]byte, cluster), make(map[int64]bool)
	if _, err := f.ReadAt(first, h.first); err != nil {
		return err
	}
	for i := 0; i < len(first); i += 8 {
		at := int64(be.Uint64(first[i:]) & offsets)
		switch {
		case at == 0:
			continue
		case at > end-cluster:
			return truncated("table", at)
		case seen[at]: // bounds the work
			return fmt.Errorf("%w: %s refers to the table at %d twice", atoll.ErrInvalid, l.File, at)
		}
		seen[at] = true
		if _, err := f.ReadAt(table, at); err != nil {
			return err
		}
		for j := 0; j < len(table); j += 8 {
			e := be.Uint64(table[j:])
			if e&isPacked != 0 {
				continue // a compressed cluster has another form
			}
			if data := int64(e & offsets); data >= end { // QEMU may leave out zeros at the end of the last cluster
				return truncated("data", data)
			}
		}
	}
	return nil
}

// disk is an open chain.
type disk struct{ layers []*layer }

type layer struct {
	f      *os.File
	raw    bool
	size   int64
	h      header
	first  []byte
	second map[int64][]byte // second-level tables that were read
}

// openDisk opens a chain for reading; an empty chain is a disk of zeros.
func openDisk(chain []Layer) (*disk, error) {
	d := &disk{}
	for _, l := range chain {
		f, err := open(l.File)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		o := &layer{f: f, raw: l.Format == Raw, size: l.Size, second: make(map[int64][]byte)}
		d.layers = append(d.layers, o)
		if o.raw {
			continue
		}
		if o.h, err = readHeader(f); err == nil {
			o.first = make([]byte, o.h.entries*8)
			_, err = f.ReadAt(o.first, o.h.first)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", l.File, err), d.close())
		}
	}
	return d, nil
}

func (d *disk) close() error {
	var errs []error
	for _, l := range d.layers {
		errs = append(errs, l.f.Close())
	}
	return errors.Join(errs...)
}

// read fills b with the disk's content at an offset, with zeros beyond its end. It reports whether
// any of that was ever written.
func (d *disk) read(b []byte, at int64) (written bool, err error) {
	return readLayers(d.layers, b, at)
}

func readLayers(layers []*layer, b []byte, at int64) (written bool, err error) {
	if len(layers) == 0 {
		clear(b)
		return false, nil
	}
	l, beneath := layers[0], layers[1:]
	if l.raw {
		return l.readRaw(b, at)
	}
	for len(b) > 0 {
		size := int64(1) << l.h.bits
		part := b[:min(int64(len(b)), size-at%size)]
		where, err := l.find(at >> l.h.bits)
		if err != nil {
			return false, err
		}
		some := true
		switch where {
		case unallocated:
			some, err = readLayers(beneath, part, at)
		case zeroCluster:
			clear(part)
		default:
			_, err = l.f.ReadAt(part, where+at%size)
		}
		if err != nil {
			return false, err
		}
		written = written || some
		b, at = b[len(part):], at+int64(len(part))
	}
	return written, nil
}

func (l *layer) readRaw(b []byte, at int64) (bool, error) {
	clear(b)
	if at >= l.size {
		return false, nil
	}
	from, _, err := nextData(l.f, at, l.size)
	if err != nil || from >= at+int64(len(b)) {
		return false, err
	}
	_, err = l.f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return true, err
}

// Results of find for clusters without data.
const (
	unallocated = -1 // read it from the layer below
	zeroCluster = -2 // it is zero
)

// find returns the offset of a cluster of the disk in the file.
func (l *layer) find(n int64) (int64, error) {
	inTable := int64(1) << (l.h.bits - 3)
	i := n / inTable
	if i >= l.h.entries {
		return unallocated, nil
	}
	at := be.Uint64(l.first[i*8:]) & offsets
	if at == 0 {
		return unallocated, nil
	}
	t := l.second[i]
	if t == nil {
		if len(l.second) > 1024 { // limit the memory for tables
			clear(l.second)
		}
		t = make([]byte, 1<<l.h.bits)
		if _, err := l.f.ReadAt(t, int64(at)); err != nil {
			return 0, fmt.Errorf("%w: %s: a table at %d: %w", atoll.ErrInvalid, l.f.Name(), at, err)
		}
		l.second[i] = t
	}
	e := be.Uint64(t[n%inTable*8:])
	switch {
	case e&isPacked != 0:
		return 0, fmt.Errorf("%w: %s: compressed clusters", atoll.ErrUnsupported, l.f.Name())
	case e&isZero != 0:
		return zeroCluster, nil
	case e&offsets == 0:
		return unallocated, nil
	}
	return int64(e & offsets), nil
}

// Flatten writes a chain, topmost first, to one file without a backing file, and waits until that
// is on the host's disk. After an error there is no file.
func Flatten(ctx context.Context, to string, chain []Layer) error {
	if len(chain) == 0 {
		return fmt.Errorf("%w: the chain is empty", atoll.ErrInvalid)
	}
	d, err := openDisk(chain)
	if err != nil {
		return err
	}
	defer d.close()
	err = create(to, header{size: chain[0].Size}, func(w *writer) error {
		b := make([]byte, clusterSize)
		for n := range countClusters(w.h.size) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			written, err := d.read(b, n*clusterSize)
			if err != nil {
				return err
			}
			if !written || bytes.Equal(b, zeros[:]) {
				continue
			}
			if err := w.writeCluster(n, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return wrapDiskFull(syncFile(to))
}

// syncFile flushes a file to the host's disk.
func syncFile(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Freeze moves a file's content to a layer below a new, empty file of the same name. No VM may have
// it open. It is crash-safe: at any instant the name is either the old or the new file; a hard link
// of the old file may remain at frozen, with which the same call continues.
func Freeze(file, frozen string) error {
	frozen, err := filepath.Abs(frozen)
	if err != nil {
		return err
	}
	l, err := Stat(file, Qcow2)
	if err != nil {
		return err
	}
	if err := linkFile(file, frozen); err != nil {
		return err
	}
	fresh := file + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := Create(fresh, Options{Size: l.Size, Backing: frozen, Format: Qcow2}); err != nil {
		return errors.Join(err, os.Remove(frozen))
	}
	if err := syncFile(fresh); err != nil {
		return wrapDiskFull(err)
	}
	return os.Rename(fresh, file)
}

// linkFile makes a hard link. It is no error if that exists.
func linkFile(file, name string) error {
	err := os.Link(file, name)
	if !errors.Is(err, os.ErrExist) {
		return wrapDiskFull(err)
	}
	a, err := os.Lstat(file)
	if err != nil {
		return err
	}
	b, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !os.SameFile(a, b) {
		return fmt.Errorf("%w: %s", atoll.ErrExists, name)
	}
	return nil
}
