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

// Options say what a new file is.
type Options struct {
	// Size is the disk's, in bytes, a multiple of 512; 0: that of the backing file.
	Size int64
	// Backing is what is read where nothing has been written; empty: zeros.
	Backing string
	Format  string // of Backing
	// Patches are written at once, the rest of their clusters as it is beneath.
	Patches []Patch
}

// Patch is content at a place of the disk.
type Patch struct {
	Offset int64
	Data   []byte
}

// Create makes a file; one that is there is ErrExists. On failure there is none.
// It is not waited for until it is on the host's disk: a new machine's disk holds
// nothing yet that could be lost.
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
		return w.patch(d, o.Patches)
	})
}

// create makes a file with what fill writes.
func create(file string, h header, fill func(*writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", atoll.ErrExists, err)
	}
	if err != nil {
		return full(err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = full(errors.Join(err, os.Remove(file)))
		}
	}()
	w, err := newWriter(f, h)
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		return err
	}
	return w.finish()
}

var zeros [clusterSize]byte

// writer writes a file from its beginning to its end: the header and the table
// of the first level, whose places are known, last.
type writer struct {
	f      *os.File
	h      header
	next   int64 // cluster
	tables map[int64][]byte
}

func newWriter(f *os.File, h header) (*writer, error) {
	if h.size <= 0 || h.size > mostSize || h.size%512 != 0 {
		return nil, fmt.Errorf("%w: a disk of %d bytes: must be a multiple of 512, to 64 TB", atoll.ErrInvalid, h.size)
	}
	const span = clusterSize * inTable
	h.entries, h.first, h.bits = (h.size+span-1)/span, clusterSize, clusterBits
	if _, err := h.encode(0, 0); err != nil {
		return nil, err
	}
	return &writer{f: f, h: h, next: 1 + clusters(h.entries*8), tables: make(map[int64][]byte)}, nil
}

func clusters(bytes int64) int64 { return (bytes + clusterSize - 1) / clusterSize }

// cluster writes a cluster of the disk.
func (w *writer) cluster(n int64, data []byte) error {
	if err := w.put(data, w.next*clusterSize); err != nil {
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

// put writes a cluster, but for pages of zeros: they are holes, and read as such.
func (w *writer) put(b []byte, at int64) error {
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

// patch writes patches, and around them what lies beneath.
func (w *writer) patch(beneath *disk, patches []Patch) error {
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
		if err := w.cluster(n, changed[n]); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the tables.
func (w *writer) finish() error {
	first := make([]byte, clusters(w.h.entries*8)*clusterSize)
	for i := range w.h.entries {
		t := w.tables[i]
		if t == nil {
			continue
		}
		if err := w.put(t, w.next*clusterSize); err != nil {
			return err
		}
		be.PutUint64(first[i*8:], uint64(w.next)*clusterSize|copied)
		w.next++
	}
	if _, err := w.f.WriteAt(first, w.h.first); err != nil {
		return err
	}
	refs, refClusters, err := w.counts()
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

// counts writes that each cluster is used once, and returns where that is
// written.
func (w *writer) counts() (table int64, tableClusters uint32, err error) {
	const inBlock = clusterSize / 2
	blocks, tables := int64(0), int64(0)
	for { // what is written counts itself
		all := w.next + blocks + tables
		b, t := (all+inBlock-1)/inBlock, int64(0)
		if t = clusters(b * 8); b == blocks && t == tables {
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
