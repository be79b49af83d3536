package boot

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/therootcompany/xz"
)

// maxVmlinux is the size limit of a kernel, compressed or not: the largest of distributions have 80
// MiB.
const maxVmlinux = 512 << 20

// pvhEntry is the type of the note with a kernel's entry point for hypervisors without firmware:
// XEN_ELFNOTE_PHYS32_ENTRY of the owner "Xen".
const pvhEntry = 18

// extractVmlinux returns the ELF file of a kernel, from a bzImage or as it is, and checks that a VM
// can boot it.
func extractVmlinux(image []byte) ([]byte, error) {
	vmlinux := image
	if !bytes.HasPrefix(image, elfMagic) {
		payload, err := findPayload(image)
		if err != nil {
			return nil, err
		}
		if vmlinux, err = unpackPayload(payload); err != nil {
			return nil, err
		}
	}
	return vmlinux, checkVmlinux(vmlinux)
}

// findPayload returns the compressed kernel in a bzImage.
func findPayload(image []byte) ([]byte, error) {
	if len(image) < headerSize {
		return nil, errors.New("it is no kernel: it is too short")
	}
	if err := checkHeader(image); err != nil {
		return nil, err
	}
	sectors := uint64(image[offSetupSectors])
	if sectors == 0 {
		sectors = 4
	}
	start := (sectors+1)*512 + uint64(binary.LittleEndian.Uint32(image[offPayload:]))
	size := uint64(binary.LittleEndian.Uint32(image[offPayloadSize:]))
	if size < 4 || start+size > uint64(len(image)) {
		return nil, errors.New("it is damaged: it ends within the packed kernel")
	}
	return image[start : start+size], nil
}

// unpackPayload decompresses a payload, which ends with its decompressed size.
func unpackPayload(payload []byte) ([]byte, error) {
	packed, size := payload[:len(payload)-4], binary.LittleEndian.Uint32(payload[len(payload)-4:])
	if size > maxVmlinux {
		return nil, fmt.Errorf("it is damaged, or compressed in an unknown way: it would have %d bytes", size)
	}
	out, kind, err := decompressPayload(packed, payload, int(size))
	if err != nil {
		return nil, fmt.Errorf("it is damaged (%s): %w", kind, err)
	}
	return out, nil
}

// decompressPayload detects the compression by the first bytes.
func decompressPayload(packed, payload []byte, size int) (out []byte, kind string, err error) {
	var r io.Reader
	switch {
	case bytes.HasPrefix(packed, []byte{0x02, 0x21, 0x4c, 0x18}):
		out, err = unpackLZ4(packed[4:], size)
		return out, "lz4", err
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		kind = "gzip" // its own trailer is the size
		r, err = gzip.NewReader(bytes.NewReader(payload))
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		kind = "zstd"
		d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderMaxMemory(maxVmlinux), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, kind, err
		}
		defer d.Close()
		r = d
	case bytes.HasPrefix(packed, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		kind = "xz"
		r, err = xz.NewReader(bytes.NewReader(packed), 1<<28)
	case bytes.HasPrefix(packed, []byte("BZh")):
		kind, r = "bzip2", bzip2.NewReader(bytes.NewReader(packed))
	default:
		return nil, fmt.Sprintf("it begins with % x", packed[:min(4, len(packed))]), errors.New("want lz4, gzip, zstd, xz or bzip2")
	}
	if err != nil {
		return nil, kind, err
	}
	out, err = readSized(r, size)
	return out, kind, err
}

// readSized reads a known number of bytes, and checks that the stream ends there, where checksums
// are.
func readSized(r io.Reader, size int) ([]byte, error) {
	out := make([]byte, size)
	if n, err := io.ReadFull(r, out); err != nil {
		return nil, fmt.Errorf("%d bytes of %d: %w", n, size, err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("it does not end after %d bytes", size), err)
	}
	return out, nil
}

// unpackLZ4 decompresses the legacy LZ4 format of kernels: blocks of 8 MiB, each compressed and
// preceded by its size.
func unpackLZ4(in []byte, size int) ([]byte, error) {
	const block = 8 << 20
	out := make([]byte, size)
	n := 0
	for n < size {
		if len(in) < 4 {
			return nil, fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
		}
		packed := binary.LittleEndian.Uint32(in)
		in = in[4:]
		if uint64(packed) > uint64(len(in)) {
			return nil, io.ErrUnexpectedEOF
		}
		got, err := lz4.UncompressBlock(in[:packed], out[n:min(n+block, size)])
		if err != nil {
			return nil, err
		}
		if got == 0 {
			return nil, fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
		}
		n, in = n+got, in[packed:]
	}
	return out, nil
}

// checkVmlinux returns an error if hypervisors can't boot a kernel.
func checkVmlinux(vmlinux []byte) error {
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return fmt.Errorf("its payload is no ELF file: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("it is for %s: want one for x86_64", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err == nil && hasPVH(notes) {
			return nil
		}
	}
	return errors.New("it has no PVH entry, which VMs need to boot without firmware: use one built with CONFIG_PVH=y, like those of Debian, Ubuntu and Fedora")
}

// hasPVH reports whether notes contain a PVH entry.
func hasPVH(notes []byte) bool {
	for len(notes) >= 12 {
		name, desc := uint64(binary.LittleEndian.Uint32(notes)), uint64(binary.LittleEndian.Uint32(notes[4:]))
		kind := binary.LittleEndian.Uint32(notes[8:])
		notes = notes[12:]
		nameEnd := (name + 3) &^ 3
		if end := nameEnd + (desc+3)&^3; nameEnd > uint64(len(notes)) || nameEnd+desc > uint64(len(notes)) {
			return false
		} else if kind == pvhEntry && string(notes[:name]) == "Xen\x00" {
			return true
		} else {
			notes = notes[min(end, uint64(len(notes))):]
		}
	}
	return false
}
