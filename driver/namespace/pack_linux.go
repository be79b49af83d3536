package namespace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/sparse"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

var (
	_ atoll.FilePacker   = (*Sandbox)(nil)
	_ atoll.FileUnpacker = (*Driver)(nil)
)

// Names in the tar stream of a layer that remove files of the image.
const (
	whiteout      = ".wh."
	whiteoutWhole = ".wh..wh..opq"
)

// upperDir is the directory with the changes to an image, among the own files of a sandbox; see
// jail.Inside.
const upperDir = "upper"

// PackFiles packs the sandbox's own files from a copy, which is made while its commands are frozen
// and removed when the stream is closed. A process that dies meanwhile leaves the copy, which the
// next PackFiles, or the end of the sandbox, removes.
func (s *Sandbox) PackFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	var p *atoll.PackedFiles
	err := s.withLock(ctx, "read files of", func(r *record) (err error) {
		var k statedir.Snapshot
		done := func() error { return nil }
		if snapshot != "" {
			if k, err = s.d.stateHome().Snapshots(s.id).Find(snapshot); err != nil {
				return err
			}
		} else {
			var held *os.File
			if k, held, err = s.d.copyForPack(ctx, r); err != nil {
				return err
			}
			done = func() error {
				return errors.Join(removeAll(s.d.stateHome().Snapshots(s.id).Path(k.ID)), held.Close())
			}
		}
		if p, err = s.d.packTree(ctx, r, &k, done); err != nil {
			return errors.Join(err, done())
		}
		return nil
	})
	return p, err
}

// packLock is a file in the directory of a copy that is being packed. The process that packs it has
// the lock.
const packLock = "packing"

// copyForPack copies the own files of a sandbox to a snapshot that is not listed. The copy is in use
// until held is closed.
func (d *Driver) copyForPack(ctx context.Context, r *record) (k statedir.Snapshot, held *os.File, err error) {
	if err := d.removeLeftCopies(r.ID); err != nil {
		return k, nil, err
	}
	err = d.stateHome().RunAct(r.ID, r, actSnapshot, nil, func(*journal.Act) (err error) {
		if k, err = d.stateHome().Snapshots(r.ID).New(""); err != nil {
			return err
		}
		if held, err = lockCopy(d.stateHome().Snapshots(r.ID).Path(k.ID), os.O_CREATE); err != nil {
			return err
		}
		k.FirstUID = r.Base
		private, done, err := d.openPrivate(ctx, r)
		if err != nil {
			return err
		}
		defer done()
		return d.withFrozenCommands(ctx, r, func() error {
			_, _, err := copyTree(ctx, private, d.snapshotRoot(r.ID, &k), 0, overlayWorkDir(r))
			return err
		})
	})
	if err != nil && held != nil {
		err = errors.Join(err, held.Close())
	}
	return k, held, err
}

// lockCopy locks a copy; nil if another process has the lock.
func lockCopy(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, packLock), os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if ours, err := filelock.Try(f); err != nil || !ours {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeLeftCopies removes the copies that dead processes were packing.
func (d *Driver) removeLeftCopies(id string) error {
	dirs, err := filepath.Glob(filepath.Join(d.stateHome().Snapshots(id).Dir, "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		held, err := lockCopy(dir, 0)
		if errors.Is(err, os.ErrNotExist) || err == nil && held == nil {
			continue // a snapshot, or in use
		}
		if err == nil {
			err = errors.Join(removeAll(dir), held.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packTree packs the files of a snapshot. done is called at the end of the stream.
func (d *Driver) packTree(ctx context.Context, r *record, k *statedir.Snapshot, done func() error) (*atoll.PackedFiles, error) {
	p := &atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: path.Clean(r.Spec.Dir)}
	if r.Spec.Dir == "" {
		p.Dir = atoll.DefaultDir
	}
	from := d.snapshotRoot(r.ID, k)
	if r.Spec.Image != "" {
		im, err := d.imageStore().ImageOf(r.ID)
		if err != nil {
			return nil, err
		}
		p.Image, from = im.Image.Digest, filepath.Join(from, upperDir)
	}
	dir, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: from, Err: err}
	}
	var skip []string
	for _, m := range r.Spec.Mounts {
		skip = append(skip, strings.TrimPrefix(path.Clean(m.Target), "/"))
	}
	pr, pw := io.Pipe()
	t := &packer{w: pw, tw: tar.NewWriter(pw), base: k.FirstUID, whole: r.Spec.Image == "", skip: skip, links: make(map[[2]uint64]string), buf: make([]byte, 128<<10)}
	stream := &packStream{PipeReader: pr, done: done}
	stream.wg.Go(func() {
		defer unix.Close(dir)
		err := t.packDir(ctx, dir, ".")
		if err == nil {
			err = t.tw.Close()
		}
		_ = pw.CloseWithError(err) // never fails
	})
	p.ReadCloser = stream
	return p, nil
}

// packStream is a tar stream that a goroutine writes.
type packStream struct {
	*io.PipeReader
	wg   sync.WaitGroup
	once sync.Once
	done func() error
	err  error // set by once
}

// Close ends the stream and removes what it was read from.
func (p *packStream) Close() error {
	p.once.Do(func() {
		_ = p.PipeReader.Close() // never fails
		p.wg.Wait()
		p.err = p.done()
	})
	return p.err
}

// packer writes a tree to a tar stream in the form of a layer. It reaches everything by descriptors
// of directories and follows no link.
type packer struct {
	w     io.Writer
	tw    *tar.Writer
	base  int      // first user ID of the sandbox on the host; 0: all files belong to the user of its commands
	whole bool     // it is no overlay: there are no whiteouts
	skip  []string // directories whose content is left out
	depth int
	buf   []byte

	links     map[[2]uint64]string // first name of files with several names
	linkBytes int                  // memory that links need, about
}

// maxLinkBytes limits the memory of a packer for files with several names, which programs inside choose.
const maxLinkBytes = 256 << 20

// linkCost is the memory for a name of packer.links besides its bytes.
const linkCost = 64

func (p *packer) packDir(ctx context.Context, fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return pathError("stat", name, err)
	}
	h := p.header(name, &st)
	h.Typeflag, h.Name = tar.TypeDir, name+"/"
	if err := p.readAttributes(h, fd, name); err != nil {
		return err
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	if !p.whole && isOpaque(fd) {
		if err := p.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, whiteoutWhole)}); err != nil {
			return err
		}
	}
	for _, s := range p.skip {
		if name == s {
			return nil
		}
	}
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	list := os.NewFile(uintptr(again), name)
	defer list.Close()
	for {
		names, err := list.Readdirnames(1000)
		for _, n := range names {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := p.packEntry(ctx, fd, n, path.Join(name, n)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *packer) packEntry(ctx context.Context, dir int, base, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return pathError("stat", name, err)
	}
	kind := st.Mode & unix.S_IFMT
	if strings.HasPrefix(base, whiteout) {
		return fmt.Errorf("%w: %s: an archive can't have files whose names begin with %s: rename it", atoll.ErrUnsupported, name, whiteout)
	}
	if kind == unix.S_IFCHR && st.Rdev == 0 {
		if p.whole {
			return nil
		}
		return p.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(name), whiteout+base)})
	}
	h := p.header(name, &st)
	if kind != unix.S_IFDIR && st.Nlink > 1 {
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := p.links[key]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return p.tw.WriteHeader(h)
		}
		if p.linkBytes += len(name) + linkCost; p.linkBytes > maxLinkBytes {
			return fmt.Errorf("%w: the names of files with several names have more than %d bytes", atoll.ErrQuota, maxLinkBytes)
		}
		p.links[key] = name
	}
	switch kind {
	case unix.S_IFDIR:
		return p.packSubdir(ctx, dir, base, name)
	case unix.S_IFREG:
		return p.packFile(ctx, dir, base, h)
	case unix.S_IFLNK:
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, base, b)
		if err != nil {
			return pathError("readlink", name, err)
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(b[:n])
		return p.tw.WriteHeader(h)
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
		return p.tw.WriteHeader(h)
	}
	return nil // a socket: nothing listens there after an import
}

func (p *packer) packSubdir(ctx context.Context, dir int, base, name string) error {
	if p.depth >= maxDepth {
		return fmt.Errorf("%w: directories nested deeper than %d", atoll.ErrQuota, maxDepth)
	}
	p.depth++
	defer func() { p.depth-- }()
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	defer unix.Close(fd)
	return p.packDir(ctx, fd, name)
}

// packFile writes a file with its holes.
func (p *packer) packFile(ctx context.Context, dir int, base string, h *tar.Header) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", h.Name, err)
	}
	f := os.NewFile(uintptr(fd), h.Name)
	defer f.Close()
	if err := p.readAttributes(h, fd, h.Name); err != nil {
		return err
	}
	h.Typeflag = tar.TypeReg
	segments, err := listData(fd, h.Size)
	if err != nil {
		return pathError("read", h.Name, err)
	}
	data := int64(0)
	for _, s := range segments {
		data += s.Length
	}
	if data < h.Size && len(h.PAXRecords) == 0 { // an entry with holes has no attributes
		return sparse.WriteEntry(p.w, p.tw, h, segments, f)
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{p.tw}, io.NewSectionReader(f, 0, h.Size), p.buf)
	return err
}

// listData returns the parts of a file that hold data.
func listData(fd int, size int64) ([]sparse.Segment, error) {
	var list []sparse.Segment
	for at := int64(0); at < size; {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, err
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		list = append(list, sparse.Segment{Offset: from, Length: min(to, size) - from})
		at = to
		if len(list) >= 2*sparse.MaxSegments {
			list = sparse.Limit(list, sparse.MaxSegments)
		}
	}
	return sparse.Limit(list, sparse.MaxSegments), nil
}

// header returns the header of an entry, without its kind.
func (p *packer) header(name string, st *unix.Stat_t) *tar.Header {
	h := &tar.Header{
		Name: name, Mode: int64(st.Mode & 0o7777), Uid: guest.UserID, Gid: guest.UserID, ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX,
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		h.Size = st.Size
	}
	if p.base != 0 {
		h.Uid, h.Gid = int(st.Uid)-p.base, int(st.Gid)-p.base
		if h.Uid < 0 || h.Uid >= perID || h.Gid < 0 || h.Gid >= perID {
			h.Uid, h.Gid = 0, 0
		}
	}
	return h
}

// readAttributes adds the extended attributes that users set.
func (p *packer) readAttributes(h *tar.Header, fd int, name string) error {
	size, err := unix.Flistxattr(fd, nil)
	if size == 0 || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return pathError("list attributes", name, err)
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return pathError("list attributes", name, err)
	}
	value := make([]byte, 64<<10)
	for _, attr := range strings.Split(strings.TrimSuffix(string(list[:size]), "\x00"), "\x00") {
		if !strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "user.overlay.") || strings.Contains(attr, "=") {
			continue
		}
		n, err := unix.Fgetxattr(fd, attr, value)
		if err != nil {
			return pathError("read attribute", name, err)
		}
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords["SCHILY.xattr."+attr] = string(value[:n])
	}
	return nil
}

// isOpaque reports whether a directory hides those of the layers below.
func isOpaque(fd int) bool {
	b := make([]byte, 8)
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", b)
	return err == nil && n == 1 && b[0] == 'y'
}

// CreatePacked creates a sandbox with the own files of another.
func (d *Driver) CreatePacked(ctx context.Context, spec atoll.Spec, files *atoll.PackedFiles) (atoll.Sandbox, error) {
	s, err := d.createPacked(ctx, spec, files)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: err}
	}
	return s, nil
}

func (d *Driver) createPacked(ctx context.Context, spec atoll.Spec, files *atoll.PackedFiles) (*Sandbox, error) {
	if files.Kind != atoll.PackedLayer || (files.Image == "") != (spec.Image == "") {
		return nil, fmt.Errorf("%w: the namespace driver unpacks files of the kind layer, with an image only if the sandbox has one", atoll.ErrInvalid)
	}
	if spec.Runtime == runtimeRunsc { // it mounts directories of the root, which could be links to the host's
		return nil, fmt.Errorf("%w: a sandbox with the runtime %s can't be created with the files of another; another driver imports those of the working directory (--driver)", atoll.ErrUnsupported, runtimeRunsc)
	}
	if err := d.check(&spec); err != nil {
		return nil, err
	}
	ctx, cancel := guest.WithCreateTimeout(ctx, spec.Timeouts.Create)
	defer cancel()
	return d.newSandbox(ctx, spec, func(r *record, private string) error {
		if err := d.useImageWithDigest(ctx, r, files.Image); err != nil {
			return err
		}
		to := private
		if r.Spec.Image != "" {
			to = filepath.Join(private, upperDir)
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
			if r.Base != 0 {
				if err := os.Lchown(to, r.Base, r.Base); err != nil {
					return err
				}
			}
		}
		if err := image.ExtractLayer(ctx, to, files, image.ExtractOptions{FirstID: r.Base, IDs: perID}); err != nil {
			return err
		}
		return syncFiles(to)
	})
}

// syncFiles writes the file system of a directory to its disk, since the sender of the files may remove its copy.
func syncFiles(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// useImageWithDigest marks the image of a new sandbox as used by it, if it is the image that an
// archive was made with.
func (d *Driver) useImageWithDigest(ctx context.Context, r *record, digest string) error {
	if err := d.useImage(ctx, r); err != nil || r.Spec.Image == "" {
		return err
	}
	im, err := d.imageStore().ImageOf(r.ID)
	if err != nil || im.Image.Digest == digest {
		return err
	}
	return fmt.Errorf("%w: the files belong on image %s with the digest %.100s, and here it has %s: pull that one (its name with @ and the digest) and import it under that name, "+
		"or import only the files of the working directory with another driver", atoll.ErrUnsupported, r.Spec.Image, digest, im.Image.Digest)
}
