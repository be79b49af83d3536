package virtual

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/archive"
	"github.com/atoll-sandbox/atoll/vfs"
)

var (
	_ atoll.FilePacker   = (*Sandbox)(nil)
	_ atoll.FilePacker   = (*sealedSandbox)(nil)
	_ atoll.FileUnpacker = (*Driver)(nil)
)

// whiteout begins the names of entries that remove a file of the image.
const whiteout = ".wh."

// PackFiles packs what differs from the files of a new sandbox. The state of the session, such as
// its variables, is not packed.
func (s *Sandbox) PackFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	p, err := s.packFiles(ctx, snapshot)
	return p, s.wrapError("read files of", err)
}

func (s *Sandbox) packFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, err
	}
	defer op.close()
	files, _, _ := s.currentParts()
	state := files.Snapshot()
	if snapshot != "" {
		shot, err := s.getSnapshot(snapshot)
		if err != nil {
			return nil, err
		}
		state = shot.files
	}
	r, w := io.Pipe()
	var all sync.WaitGroup
	all.Go(func() { _ = w.CloseWithError(state.ExportTar("/", w)) }) // never fails
	return s.d.packDifference(&packSource{ReadCloser: r, wait: all.Wait}, s.workingDir(), nil)
}

// packSource is a stream that a goroutine writes.
type packSource struct {
	io.ReadCloser
	wait func()
}

// Close ends the stream.
func (p *packSource) Close() error {
	err := p.ReadCloser.Close()
	p.wait()
	return err
}

// PackFiles packs what differs from the files of a new sandbox.
func (s *sealedSandbox) PackFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	if snapshot != "" {
		return nil, s.wrapError("read files of", fmt.Errorf("%w: the files of a sealed sandbox can be packed only as they are now: fork the snapshot and read those of the fork", atoll.ErrUnsupported))
	}
	rc, err := s.Export(ctx, "/")
	if err != nil {
		return nil, err
	}
	dir := s.spec.Dir
	if dir == "" {
		dir = DefaultDir
	}
	var mounts []string
	for _, m := range s.spec.Mounts {
		mounts = append(mounts, strings.TrimPrefix(path.Clean(m.Target), "/"))
	}
	return s.d.packDifference(rc, dir, mounts)
}

// packDifference returns the part of an export of "/" that differs from the files of a new sandbox,
// without what is below mounts. It closes the export.
func (d *Driver) packDifference(all io.ReadCloser, dir string, mounts []string) (*atoll.PackedFiles, error) {
	im, err := d.loadImage()
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	base := vfs.New(d.fileOptions(im, atoll.Spec{}))
	r, w := io.Pipe()
	p := &differencePacker{base: base, mounts: mounts, seen: make(map[string]bool), tr: tar.NewReader(all), tw: tar.NewWriter(w)}
	var packing sync.WaitGroup
	packing.Go(func() {
		err := p.copyAll()
		if cerr := all.Close(); err == nil {
			err = cerr
		}
		_ = w.CloseWithError(err) // never fails
	})
	return &atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: path.Clean(dir), ReadCloser: &packSource{ReadCloser: r, wait: packing.Wait}}, nil
}

// differencePacker copies the entries of an export that a new sandbox does not have.
type differencePacker struct {
	base   *vfs.FS
	mounts []string
	seen   map[string]bool // names of base that the export has
	tr     *tar.Reader
	tw     *tar.Writer
}

func (p *differencePacker) copyAll() error {
	for {
		h, err := p.tr.Next()
		if err == io.EOF { //nolint:errorlint // the reader does not wrap it
			break
		}
		if err != nil {
			return err
		}
		if err := p.copyEntry(h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	if err := p.writeWhiteouts("."); err != nil {
		return err
	}
	return p.tw.Close()
}

func (p *differencePacker) copyEntry(h *tar.Header) error {
	name := path.Clean(h.Name)
	for _, m := range p.mounts {
		if strings.HasPrefix(name, m+"/") {
			return nil
		}
	}
	if strings.HasPrefix(path.Base(name), whiteout) {
		return fmt.Errorf("%w: an archive can't have files whose names begin with %s: rename it", atoll.ErrUnsupported, whiteout)
	}
	var content io.Reader = p.tr
	if info, err := p.base.Lstat("/" + name); err == nil {
		p.seen[name] = true
		switch {
		case h.Typeflag == tar.TypeSymlink:
			if target, err := p.base.Readlink("/" + name); err == nil && target == h.Linkname {
				return nil
			}
		case h.Typeflag == tar.TypeReg && info.Mode().IsRegular() && info.Size() == h.Size && info.Mode().Perm() == h.FileInfo().Mode().Perm():
			now, err := io.ReadAll(p.tr) // as long as a file of the image
			if err != nil {
				return err
			}
			if old, err := p.base.ReadFile("/" + name); err == nil && bytes.Equal(old, now) {
				return nil
			}
			content = bytes.NewReader(now)
		}
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(p.tw, content)
	return err
}

// writeWhiteouts marks the files of a directory of a new sandbox that the export does not have.
func (p *differencePacker) writeWhiteouts(dir string) error {
	entries, err := p.base.ReadDir("/" + dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Type()&fs.ModeDevice != 0 {
			continue // no export has devices
		}
		if !p.seen[name] {
			if err := p.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, whiteout+e.Name())}); err != nil {
				return err
			}
			continue
		}
		if e.IsDir() {
			if err := p.writeWhiteouts(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// CreatePacked creates a sandbox with the files of another.
func (d *Driver) CreatePacked(ctx context.Context, spec atoll.Spec, files *atoll.PackedFiles) (atoll.Sandbox, error) {
	if files.Kind != atoll.PackedLayer {
		return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: fmt.Errorf("%w: the virtual driver unpacks files of the kind layer, not %s", atoll.ErrInvalid, files.Kind)}
	}
	im, err := d.loadImage()
	if err != nil {
		return nil, err
	}
	sb, err := d.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := unpackDifference(ctx, sb, vfs.New(d.fileOptions(im, atoll.Spec{})), files); err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return sb, nil
}

// unpackDifference imports the files of another sandbox into a new one.
func unpackDifference(ctx context.Context, sb atoll.Sandbox, base *vfs.FS, files io.Reader) error {
	var removed []string // files of base: not more than it has
	seen := make(map[string]bool)
	rc := archive.Filter(files, archive.Limits{}, func(h *tar.Header) (bool, error) {
		dir, name := path.Split(h.Name)
		name, ok := strings.CutPrefix(name, whiteout)
		if !ok {
			return true, nil
		}
		if name == "" || name == "." || name == ".." {
			return false, fmt.Errorf("%w: a whiteout of %q", atoll.ErrInvalid, name)
		}
		victim := path.Join("/", dir, name)
		if _, err := base.Lstat(victim); err == nil && !seen[victim] {
			removed, seen[victim] = append(removed, victim), true
		}
		return false, nil
	})
	if err := errors.Join(sb.Import(ctx, "/", rc), rc.Close()); err != nil {
		return err
	}
	for _, name := range removed {
		if err := atoll.Remove(ctx, sb, name); err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
	}
	return nil
}
