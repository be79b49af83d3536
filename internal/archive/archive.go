// Package archive reads and writes archives of sandboxes: a description, then the files as a tar
// stream, then their digest. An archive is a tar file compressed with zstd, in which the stream of
// files is cut into entries of at most one MiB, so that it can be written without its size being
// known: `tar -xOf A 'files/*'` puts it together again.
package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/atoll-sandbox/atoll"
)

// Names of the entries of an archive.
const (
	manifestName = "atoll-sandbox.json"
	partPrefix   = "files/"
	summaryName  = "summary.json"
)

// Sizes of the parts of an archive.
const (
	partSize    = 1 << 20 // bytes of the tar stream in an entry
	maxManifest = 4 << 20 // bytes
	window      = 4 << 20 // bytes that a decoder keeps
)

// summary is the last entry of an archive.
type summary struct {
	Bytes  int64  `json:"bytes"`  // of the tar stream
	SHA256 string `json:"sha256"` // of the tar stream, hexadecimal
}

// Write writes an archive with the files of m, which it reads to their end and does not close.
func Write(ctx context.Context, w io.Writer, m *atoll.SandboxArchive) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	tw := tar.NewWriter(z)
	err = writeEntries(ctx, tw, m)
	if err != nil {
		return err // what was written is incomplete, and does not end like an archive
	}
	return errors.Join(tw.Close(), z.Close())
}

func writeEntries(ctx context.Context, tw *tar.Writer, m *atoll.SandboxArchive) error {
	if err := writeJSON(tw, manifestName, m); err != nil {
		return err
	}
	sum := sha256.New()
	part := make([]byte, partSize)
	s := summary{}
	for i := 0; ; i++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := io.ReadFull(m.Files, part)
		if n > 0 {
			sum.Write(part[:n])
			s.Bytes += int64(n)
			if err := writeEntry(tw, fmt.Sprintf("%s%08d", partPrefix, i), part[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n < partSize && isEnd(m.Files) {
			break
		}
		if err != nil {
			return err
		}
	}
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return writeJSON(tw, summaryName, s)
}

// isEnd reports whether a reader is at its end: a stream may itself fail with io.ErrUnexpectedEOF.
func isEnd(r io.Reader) bool {
	n, err := r.Read(make([]byte, 1))
	return n == 0 && err == io.EOF //nolint:errorlint // io.Reader's contract: EOF itself is the end
}

func writeJSON(tw *tar.Writer, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if len(b) > maxManifest {
		return fmt.Errorf("%w: the description of the sandbox has %d bytes, more than %d", atoll.ErrUnsupported, len(b), maxManifest)
	}
	return writeEntry(tw, name, append(b, '\n'))
}

func writeEntry(tw *tar.Writer, name string, content []byte) error {
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
		return err
	}
	_, err := tw.Write(content)
	return err
}

// Reader reads an archive: its description, and as an io.Reader the tar stream of the files. It
// returns io.EOF only when the stream was complete and has the digest that it was written with.
type Reader struct {
	Manifest atoll.SandboxArchive

	z    *zstd.Decoder
	tr   *tar.Reader
	part int       // number of the current part
	in   io.Reader // the current part; nil: none
	sum  hash.Hash
	read int64
	err  error // of an earlier Read
}

// NewReader reads the description of an archive. The caller must close the Reader. An archive that
// is broken, or of a later version, is ErrInvalid or ErrUnsupported.
func NewReader(r io.Reader) (*Reader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(2*window))
	if err != nil {
		return nil, err
	}
	a := &Reader{z: z, tr: tar.NewReader(z), sum: sha256.New()}
	if err := a.readManifest(); err != nil {
		z.Close()
		return nil, err
	}
	return a, nil
}

// Close releases the memory of the Reader.
func (a *Reader) Close() { a.z.Close() }

func (a *Reader) readManifest() error {
	h, err := a.tr.Next()
	if err != nil {
		return wrapBroken(err, "it does not begin like an archive of a sandbox")
	}
	if h.Name != manifestName || h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: it is no archive of a sandbox: it begins with %.100q instead of %s; 'atoll export-sandbox' writes one", atoll.ErrInvalid, h.Name, manifestName)
	}
	b, err := a.readEntry(h)
	if err != nil {
		return err
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("%w: the archive: %s: %w", atoll.ErrInvalid, manifestName, err)
	}
	if v.Version != atoll.SandboxArchiveVersion {
		return fmt.Errorf("%w: the archive has version %d, and this atoll reads version %d: use the atoll that wrote it, or a later one", atoll.ErrUnsupported, v.Version, atoll.SandboxArchiveVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields() // a setting that is not understood must not be lost silently
	if err := d.Decode(&a.Manifest); err != nil {
		return fmt.Errorf("%w: the archive: %s: %w", atoll.ErrInvalid, manifestName, err)
	}
	return nil
}

// readEntry reads an entry that fits in memory.
func (a *Reader) readEntry(h *tar.Header) ([]byte, error) {
	if h.Size > maxManifest {
		return nil, fmt.Errorf("%w: the archive: %.100q has %d bytes, more than %d", atoll.ErrInvalid, h.Name, h.Size, maxManifest)
	}
	b, err := io.ReadAll(io.LimitReader(a.tr, maxManifest+1))
	return b, wrapBroken(err, "it ends too early")
}

// wrapBroken makes the errors of a broken archive match ErrInvalid. Those of its source stay.
func wrapBroken(err error, how string) error {
	if err == nil {
		return nil
	}
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, tar.ErrHeader, tar.ErrInsecurePath, zstd.ErrMagicMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrCRCMismatch,
		zstd.ErrReservedBlockType, zstd.ErrCompressedSizeTooBig, zstd.ErrBlockTooSmall, zstd.ErrUnexpectedBlockSize, zstd.ErrUnknownDictionary,
		zstd.ErrDecoderSizeExceeded, zstd.ErrWindowSizeTooSmall, zstd.ErrFrameSizeExceeded, zstd.ErrFrameSizeMismatch,
	} {
		if errors.Is(err, broken) {
			return fmt.Errorf("%w: the archive is broken: %s (%w)", atoll.ErrInvalid, how, err)
		}
	}
	return err
}

// Read reads the tar stream of the files.
func (a *Reader) Read(p []byte) (int, error) {
	if a.err != nil || len(p) == 0 {
		return 0, a.err
	}
	for {
		if a.in == nil {
			if err := a.nextPart(); err != nil {
				a.err = err
				return 0, err
			}
		}
		n, err := a.in.Read(p)
		a.sum.Write(p[:n])
		a.read += int64(n)
		if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
			a.in, err = nil, nil
		}
		if err != nil {
			a.err = wrapBroken(err, "it ends too early")
		}
		if n > 0 || a.err != nil {
			return n, a.err
		}
	}
}

// nextPart begins the next part of the stream. After the last it checks the digest and returns
// io.EOF.
func (a *Reader) nextPart() error {
	h, err := a.tr.Next()
	if err != nil {
		return wrapBroken(err, "it ends before its digest")
	}
	if h.Typeflag == tar.TypeReg && strings.HasPrefix(h.Name, partPrefix) {
		if want := fmt.Sprintf("%s%08d", partPrefix, a.part); h.Name != want || h.Size > partSize || h.Size == 0 { // empty ones could go on without end
			return fmt.Errorf("%w: the archive is broken: %.100q of %d bytes where %s belongs", atoll.ErrInvalid, h.Name, h.Size, want)
		}
		a.part++
		a.in = a.tr
		return nil
	}
	if h.Typeflag != tar.TypeReg || h.Name != summaryName {
		return fmt.Errorf("%w: the archive is broken: an entry %.100q", atoll.ErrInvalid, h.Name)
	}
	b, err := a.readEntry(h)
	if err != nil {
		return err
	}
	var s summary
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: the archive: %s: %w", atoll.ErrInvalid, summaryName, err)
	}
	if got := hex.EncodeToString(a.sum.Sum(nil)); s.Bytes != a.read || s.SHA256 != got {
		return fmt.Errorf("%w: the archive is broken: its files have %d bytes and the digest %s, not %d and %.64s", atoll.ErrInvalid, a.read, got, s.Bytes, s.SHA256)
	}
	return a.checkEnd()
}

// checkEnd reads to the end of the compressed stream, whose checksum covers the description too. It
// returns io.EOF.
func (a *Reader) checkEnd() error {
	if h, err := a.tr.Next(); err == nil {
		return fmt.Errorf("%w: the archive is broken: %.100q follows its digest", atoll.ErrInvalid, h.Name)
	} else if err != io.EOF { //nolint:errorlint // the reader does not wrap it
		return wrapBroken(err, "it ends too early")
	}
	n, err := io.CopyN(io.Discard, a.z, maxManifest)
	if err == nil {
		return fmt.Errorf("%w: the archive is broken: %d bytes and more follow its end", atoll.ErrInvalid, n)
	}
	if err == io.EOF { //nolint:errorlint // io.CopyN does not wrap it
		return io.EOF
	}
	return wrapBroken(err, "it ends too early")
}
