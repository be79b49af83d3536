package qcow2

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// Options configure a new file.
type Options struct {
	// Size is the size of the disk in bytes, a multiple of 512; 0: that of the backing file.
	Size int64
	// Backing is the file below, whose content shows where nothing was written; empty: zeros.
	Backing string
	Format  string // of Backing
	// Patches are written to the new file. The rest of their clusters is copied from the backing
	// file.
	Patches []Patch
}

// Patch is content at an offset of the disk.
type Patch struct {
	Offset int64
	Data   []byte
}

// Create creates a file; if it exists, the error is ErrExists. After an error there is none. It
// does not flush the file to the host's disk: a new VM's disk has no data yet that could be lost.
func Create(file string, o Options) error {
	var chain []Layer
	if o.Backing != "" {
		abs, err := filepath.Abs(o.Backing)
		if err != nil {
			return err
		}
		l, err := Stat(abs, o.Format)
		if err != nil {
			return fmt.Errorf("the backing file: %w", err)
		}
		o.Backing, chain = abs, []Layer{l}
		if o.Size == 0 {
			o.Size = l.Size
		}
	}
	return create(file, header{size: o.Size, backing: o.Backing, format: o.Format}, func(w *writer) error {
		if len(o.Patches) == 0 {
			return nil
		}
		d, err := openDisk(chain)
		if err != nil {
			return err
		}
		defer d.close()
		return w.applyPatches(d, o.Patches)
	})
}

// create creates a file with the content that fill writes.
func create(file string, h header, fill func(*writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", atoll.ErrExists, err)
	}
	if err != nil {
		return wrapDiskFull(err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = wrapDiskFull(errors.Join(err, os.Remove(file)))
		}
	}()
	w, err := newWriter(f, h)
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		return err
	}
	return w.writeTables()
}

var zeros [clusterSize]byte

// writer writes a file from beginning to end, but the header and the first-level table, whose
// offsets are known, last.
type writer struct {
	f      *os.File
	h      header
	next   int64 // next cluster to allocate
	tables map[int64][]byte
}

func newWriter(f *os.File, h header) (*writer, error) {
	if h.size <= 0 || h.size > maxSize || h.size%512 != 0 {
		return nil, fmt.Errorf("%w: a disk of %d bytes: must be a multiple of 512, to 64 TB", atoll.ErrInvalid, h.size)
	}
	const span = clusterSize * inTable
	h.entries, h.first, h.bits = (h.size+span-1)/span, clusterSize, clusterBits
	if _, err := h.encode(0, 0); err != nil {
		return nil, err
	}
	return &writer{f: f, h: h, next: 1 + countClusters(h.entries*8), tables: make(map[int64][]byte)}, nil
}

func countClusters(bytes int64) int64 { return (bytes + clusterSize - 1) / clusterSize }

// writeCluster writes a cluster of the disk.
func (w *writer) writeCluster(n int64, data []byte) error {
	if err := w.writePages(data, w.next*clusterSize); err != nil {
		return err
	}
	t := w.tables[n/inTable]
	if t == nil {
		t = make([]byte, clusterSize)
		w.tables[n/inTable] = t
	}
	be.PutUint64(t[n%inTable*8:], uint64(w.next)*clusterSize|copied)
	w.next++
	return nil
}

// writePages writes a cluster without pages of zeros, which remain holes.
func (w *writer) writePages(b []byte, at int64) error {
	const page = 4096
	zero := func(i int) bool { return bytes.Equal(b[i:i+page], zeros[:page]) }
	for i := 0; i < len(b); {
		for i < len(b) && zero(i) {
			i += page
		}
		from := i
		for i < len(b) && !zero(i) {
			i += page
		}
		if _, err := w.f.WriteAt(b[from:i], at+int64(from)); err != nil {
			return err
		}
	}
	return nil
}

// applyPatches writes the clusters of patches, with the content of the backing file around them.
func (w *writer) applyPatches(beneath *disk, patches []Patch) error {
	changed := make(map[int64][]byte)
	var order []int64
	for _, p := range patches {
		if p.Offset < 0 || p.Offset+int64(len(p.Data)) > w.h.size {
			return fmt.Errorf("%w: %d bytes at %d, beyond the disk", atoll.ErrInvalid, len(p.Data), p.Offset)
		}
		for at, data := p.Offset, p.Data; len(data) > 0; {
			n := at / clusterSize
			c := changed[n]
			if c == nil {
				c = make([]byte, clusterSize)
				if _, err := beneath.read(c, n*clusterSize); err != nil {
					return err
				}
				changed[n] = c
				order = append(order, n)
			}
			done := copy(c[at%clusterSize:], data)
			at, data = at+int64(done), data[done:]
		}
	}
	for _, n := range order {
		if err := w.writeCluster(n, changed[n]); err != nil {
			return err
		}
	}
	return nil
}

// writeTables writes the tables and the header.
func (w *writer) writeTables() error {
	first := make([]byte, countClusters(w.h.entries*8)*clusterSize)
	for i := range w.h.entries {
		t := w.tables[i]
		if t == nil {
			continue
		}
		if err := w.writePages(t, w.next*clusterSize); err != nil {
			return err
		}
		be.PutUint64(first[i*8:], uint64(w.next)*clusterSize|copied)
		w.next++
	}
	if _, err := w.f.WriteAt(first, w.h.first); err != nil {
		return err
	}
	refs, refClusters, err := w.writeRefcounts()
	if err != nil {
		return err
	}
	b, err := w.h.encode(refs, refClusters)
	if err != nil {
		return err
	}
	_, err = w.f.WriteAt(b, 0)
	return err
}

// writeRefcounts writes the reference counts, which are 1 for each cluster, and returns the offset
// of their table.
func (w *writer) writeRefcounts() (table int64, tableClusters uint32, err error) {
	const inBlock = clusterSize / 2
	blocks, tables := int64(0), int64(0)
	for { // the counts' own clusters are counted too
		all := w.next + blocks + tables
		b, t := (all+inBlock-1)/inBlock, int64(0)
		if t = countClusters(b * 8); b == blocks && t == tables {
			break
		}
		blocks, tables = b, t
	}
	left := w.next + blocks + tables
	table = (w.next + blocks) * clusterSize
	b := make([]byte, tables*clusterSize)
	for i := range blocks {
		block := make([]byte, clusterSize)
		for j := range min(left, inBlock) {
			be.PutUint16(block[j*2:], 1)
		}
		left -= inBlock
		be.PutUint64(b[i*8:], uint64(w.next+i)*clusterSize)
		if _, err := w.f.WriteAt(block, (w.next+i)*clusterSize); err != nil {
			return 0, 0, err
		}
	}
	_, err = w.f.WriteAt(b, table)
	return table, uint32(tables), err
}
