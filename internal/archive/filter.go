package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Limits bound what an archive may contain; 0 is the default.
type Limits struct {
	Bytes   int64 // of all files, with their holes
	Entries int   // files, directories and links
}

// Defaults of Limits.
const (
	DefaultBytes   = 64 << 30
	DefaultEntries = 4 << 20
)

// What a stream may have besides the content of files: headers with their attributes, and padding after its end.
const (
	entryOverhead = 4 << 10 // bytes for each entry that Limits allow
	maxTrailing   = 1 << 20
)

// Limits of names, as Linux has them, and of nested directories.
const (
	maxPath  = 4096
	maxName  = 255
	maxDepth = 256
)

// Filter returns the tar stream r with only what a driver may unpack: files, directories, links and
// pipes with relative names that do not contain "..", of their attributes only those of users, and
// holes as zeros. Devices are left out; any other entry is ErrInvalid, and more than the limits
// allow is ErrQuota. The stream ends as an archive only when r has been read to its end.
//
// keep may change the name of an entry and the target of a hard link, or return false to leave the
// entry out; nil keeps all. The caller must close the stream, which ends the reading of r.
func Filter(r io.Reader, limits Limits, keep func(*tar.Header) (bool, error)) io.ReadCloser {
	if limits.Bytes == 0 {
		limits.Bytes = DefaultBytes
	}
	if limits.Entries == 0 {
		limits.Entries = DefaultEntries
	}
	pr, pw := io.Pipe()
	s := &filtered{PipeReader: pr}
	// Compressed, endless headers or zeros cost their sender nothing.
	r = &boundedReader{r: r, left: limits.Bytes + int64(limits.Entries)*entryOverhead + maxTrailing}
	f := &filter{src: r, tr: tar.NewReader(r), tw: tar.NewWriter(pw), limits: limits, keep: keep, buf: make([]byte, 64<<10)}
	s.wg.Go(func() { _ = pw.CloseWithError(f.copyAll()) }) // never fails
	return s
}

// boundedReader fails when a stream is longer than anything that the limits allow.
type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("%w: the archive has more than its files may need", atoll.ErrQuota)
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// filtered is a stream that a goroutine filters.
type filtered struct {
	*io.PipeReader
	wg sync.WaitGroup
}

// Close ends the stream and waits until its source is read no more.
func (s *filtered) Close() error {
	err := s.PipeReader.Close()
	s.wg.Wait()
	return err
}

type filter struct {
	src     io.Reader
	tr      *tar.Reader
	tw      *tar.Writer
	limits  Limits
	keep    func(*tar.Header) (bool, error)
	buf     []byte
	bytes   int64
	entries int
}

func (f *filter) copyAll() error {
	for {
		h, err := f.tr.Next()
		if err == io.EOF { //nolint:errorlint // the reader does not wrap it
			break
		}
		if err != nil {
			return wrapBroken(err, "its files end too early")
		}
		if err := f.copyEntry(h); err != nil {
			return fmt.Errorf("%.200q in the archive: %w", h.Name, err)
		}
	}
	for trailing := 0; trailing <= maxTrailing; { // what follows the end of a tar stream counts for its digest
		n, err := f.src.Read(f.buf)
		if err == io.EOF { //nolint:errorlint // io.Reader's contract
			return f.tw.Close()
		} else if err != nil {
			return err
		}
		trailing += n
	}
	return fmt.Errorf("%w: the archive is broken: more than %d bytes follow its files", atoll.ErrInvalid, maxTrailing)
}

func (f *filter) copyEntry(h *tar.Header) error {
	if f.entries++; f.entries > f.limits.Entries { // also those that are left out: they take time
		return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, f.limits.Entries)
	}
	clean, err := checkEntry(h)
	if err != nil || clean == nil {
		return err
	}
	if clean.Size > f.limits.Bytes-f.bytes {
		return fmt.Errorf("%w: more than %d bytes of files", atoll.ErrQuota, f.limits.Bytes)
	}
	f.bytes += clean.Size
	if f.keep != nil {
		if kept, err := f.keep(clean); err != nil || !kept {
			return err
		}
	}
	if err := f.tw.WriteHeader(clean); err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{f.tw}, f.tr, f.buf)
	if err == nil && n < clean.Size {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return wrapBroken(err, "its files end too early")
}

// onlyWriter hides the other methods of a writer.
type onlyWriter struct{ io.Writer }

// checkEntry returns the header of an entry with a clean name and the fields that drivers need; nil
// if the entry is skipped.
func checkEntry(h *tar.Header) (*tar.Header, error) {
	c := &tar.Header{
		Typeflag: h.Typeflag, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime, Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader, tar.TypeChar, tar.TypeBlock:
		return nil, nil
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // of old archives
		c.Typeflag, c.Size = tar.TypeReg, h.Size
	case tar.TypeDir, tar.TypeFifo:
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) >= maxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return nil, fmt.Errorf("%w: a symbolic link with a target of %d bytes", atoll.ErrInvalid, len(h.Linkname))
		}
		c.Linkname = h.Linkname
	case tar.TypeLink:
		var err error
		if c.Linkname, err = cleanName(h.Linkname); err != nil {
			return nil, fmt.Errorf("a hard link to %.200q: %w", h.Linkname, err)
		}
	default:
		return nil, fmt.Errorf("%w: an entry of the unknown kind %q", atoll.ErrInvalid, h.Typeflag)
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid > 1<<32-2 || h.Gid > 1<<32-2 || h.Size < 0 {
		return nil, fmt.Errorf("%w: owner %d:%d, size %d", atoll.ErrInvalid, h.Uid, h.Gid, h.Size)
	}
	var err error
	if c.Name, err = cleanName(h.Name); err != nil {
		return nil, err
	}
	if c.Typeflag == tar.TypeDir {
		c.Name += "/"
	} else if c.Name == "." {
		return nil, fmt.Errorf("%w: the top is not a directory", atoll.ErrInvalid)
	}
	c.PAXRecords = userAttributes(h.PAXRecords)
	return c, nil
}

// userAttributes returns the extended attributes that users set. Those of overlayfs would change
// what a directory shows.
func userAttributes(records map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range records {
		if strings.HasPrefix(k, "SCHILY.xattr.user.") && !strings.HasPrefix(k, "SCHILY.xattr.user.overlay.") {
			if kept == nil {
				kept = make(map[string]string)
			}
			kept[k] = v
		}
	}
	return kept
}

// cleanName returns a relative name without needless parts; "." is the top.
func cleanName(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%w: an empty name", atoll.ErrInvalid)
	case strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("%w: an absolute name", atoll.ErrInvalid)
	case strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("%w: a name with a NUL byte", atoll.ErrInvalid)
	case len(name) >= maxPath:
		return "", fmt.Errorf("%w: a name of %d bytes", atoll.ErrInvalid, len(name))
	}
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: a name that leads out of the directory", atoll.ErrInvalid)
		}
		if len(part) > maxName {
			return "", fmt.Errorf("%w: a name of %d bytes", atoll.ErrInvalid, len(part))
		}
		if depth++; depth > maxDepth {
			return "", fmt.Errorf("%w: directories nested deeper than %d", atoll.ErrInvalid, maxDepth)
		}
	}
	return path.Clean(name), nil
}

// Below returns a function for Filter that keeps the entries below dir, a clean relative name, with
// names relative to it. Hard links to files outside of it are ErrUnsupported.
func Below(dir string) func(*tar.Header) (bool, error) {
	strip := func(name string) (string, bool) {
		name = strings.TrimSuffix(name, "/")
		if dir == "." {
			return name, true
		}
		if name == dir {
			return ".", true
		}
		return strings.CutPrefix(name, dir+"/")
	}
	return func(h *tar.Header) (bool, error) {
		name, ok := strip(h.Name)
		if !ok {
			return false, nil
		}
		if h.Typeflag == tar.TypeLink {
			if h.Linkname, ok = strip(h.Linkname); !ok {
				return false, fmt.Errorf("%w: it is a hard link to a file outside of %s, which only the driver that packed it can unpack", atoll.ErrUnsupported, dir)
			}
		}
		if h.Name = name; h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		return true, nil
	}
}
