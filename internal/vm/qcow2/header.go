package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Formats of a layer.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

var be = binary.BigEndian

// Constants of the files that this package writes.
const (
	magic       = 0x514649fb // "QFI" and 0xfb
	version     = 3
	clusterBits = 16
	clusterSize = 1 << clusterBits
	inTable     = clusterSize / 8 // entries of a second-level table
	headerSize  = 104

	formatExtension = 0xe2792aca // header extension: the format of the backing file
	noExtension     = 0

	copied   = 1 << 63 // flag of an entry: its target has no other reference
	isZero   = 1       // flag of a second-level entry
	isPacked = 1 << 62
	offsets  = 0x00fffffffffffe00
)

// Limits of the files that are read.
const (
	maxSize    = 64 << 40 // bytes of a disk
	maxName    = 1023     // bytes of a backing file's name, as in QEMU
	maxBacking = 64       // layers
	maxEntries = 4 << 20  // entries of the first-level table
)

// header is the parsed header of a file.
type header struct {
	size     int64
	bits     uint32 // log2 of the cluster size
	first    int64  // offset of the first-level table
	entries  int64  // number of its entries
	backing  string
	format   string
	features uint64
}

// features are the incompatible features by bit, with the reason to refuse a file that has one.
var features = []string{"it was not closed in order", "it is marked as corrupt", "its data lies in another file", "its compression is not known here", "its tables have sub-clusters"}

// readHeader reads and checks a file's header, which is not trusted.
func readHeader(f io.ReaderAt) (header, error) {
	b := make([]byte, clusterSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	if n < headerSize || be.Uint32(b) != magic || be.Uint32(b[4:]) != version {
		return header{}, fmt.Errorf("%w: not a qcow2 file of version %d", atoll.ErrInvalid, version)
	}
	h := header{
		size: int64(be.Uint64(b[24:])), bits: be.Uint32(b[20:]),
		entries: int64(be.Uint32(b[36:])), first: int64(be.Uint64(b[40:])), features: be.Uint64(b[72:]),
	}
	if h.size < 0 || h.size > maxSize || h.size%512 != 0 || h.bits < 9 || h.bits > 21 {
		return header{}, fmt.Errorf("%w: a qcow2 file of a disk of %d bytes in clusters of 2^%d", atoll.ErrInvalid, h.size, h.bits)
	}
	if be.Uint32(b[32:]) != 0 {
		return header{}, fmt.Errorf("%w: an encrypted qcow2 file", atoll.ErrInvalid)
	}
	for i, why := range features {
		if h.features&(1<<i) != 0 {
			return header{}, fmt.Errorf("%w: a qcow2 file: %s", atoll.ErrInvalid, why)
		}
	}
	if h.features != 0 {
		return header{}, fmt.Errorf("%w: a qcow2 file with unknown features %#x", atoll.ErrInvalid, h.features)
	}
	span := int64(1) << (2*h.bits - 3) // bytes of the disk for each entry
	if want := (h.size + span - 1) / span; h.entries < want || h.entries > maxEntries || h.first <= 0 || h.first%(1<<h.bits) != 0 {
		return header{}, fmt.Errorf("%w: a qcow2 file with %d entries at %d", atoll.ErrInvalid, h.entries, h.first)
	}
	return h, h.readBacking(b[:n])
}

// readBacking reads the name and the format of the backing file.
func (h *header) readBacking(b []byte) error {
	at, size := be.Uint64(b[8:]), be.Uint32(b[16:])
	if at == 0 {
		return nil
	}
	if at > uint64(len(b)) || size == 0 || size > maxName || at+uint64(size) > uint64(len(b)) {
		return fmt.Errorf("%w: a qcow2 file whose backing file's name is %d bytes at %d", atoll.ErrInvalid, size, at)
	}
	h.backing = string(b[at:][:size])
	e := int(be.Uint32(b[100:]))
	for e >= headerSize && e+8 <= int(at) {
		kind, size := be.Uint32(b[e:]), int(be.Uint32(b[e+4:]))
		if kind == noExtension || size < 0 || size > len(b)-e-8 {
			break
		}
		if kind == formatExtension {
			h.format = string(b[e+8:][:size])
		}
		e += 8 + (size+7)&^7
	}
	if h.format != Raw && h.format != Qcow2 {
		return fmt.Errorf("%w: a qcow2 file whose backing file has an unknown format", atoll.ErrInvalid)
	}
	return nil
}

// encode returns the header of a new file.
func (h header) encode(refs int64, refClusters uint32) ([]byte, error) {
	b := make([]byte, clusterSize)
	be.PutUint32(b, magic)
	be.PutUint32(b[4:], version)
	be.PutUint32(b[20:], clusterBits)
	be.PutUint64(b[24:], uint64(h.size))
	be.PutUint32(b[36:], uint32(h.entries))
	be.PutUint64(b[40:], uint64(h.first))
	be.PutUint64(b[48:], uint64(refs))
	be.PutUint32(b[56:], refClusters)
	be.PutUint32(b[96:], 4) // reference counts of 16 bits
	be.PutUint32(b[100:], headerSize)
	if h.backing == "" {
		return b, nil
	}
	if len(h.backing) > maxName || strings.ContainsRune(h.backing, 0) || !filepath.IsAbs(h.backing) {
		return nil, fmt.Errorf("%w: a backing file %.100q: must be an absolute path of at most %d bytes", atoll.ErrInvalid, h.backing, maxName)
	}
	if h.format != Raw && h.format != Qcow2 {
		return nil, fmt.Errorf("%w: a backing file's format %q: must be raw or qcow2", atoll.ErrInvalid, h.format)
	}
	e := b[headerSize:]
	be.PutUint32(e, formatExtension)
	be.PutUint32(e[4:], uint32(len(h.format)))
	copy(e[8:16], h.format)
	const name = headerSize + 16 + 8
	be.PutUint64(b[8:], name)
	be.PutUint32(b[16:], uint32(len(h.backing)))
	copy(b[name:], h.backing)
	return b, nil
}

// open opens a regular file; it follows no link.
func open(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", atoll.ErrInvalid, file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
