package fleet

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// export is a tar stream under way.
type export struct {
	r    *io.PipeReader
	wg   sync.WaitGroup
	err  error // set when wg is done
	once sync.Once
}

func (x *export) Read(b []byte) (int, error) { return x.r.Read(b) }

// Close ends the stream, read to its end or not.
func (x *export) Close() error {
	x.once.Do(func() {
		_ = x.r.Close() // never fails
		x.wg.Wait()
	})
	return x.err
}

// pack writes a file or directory as a tar stream.
func (f *Files) pack(ctx context.Context, rel string, info fs.FileInfo, w io.Writer) error {
	p := packing{f: f, ctx: ctx, tw: tar.NewWriter(w), seen: make(map[fileID]string)}
	name := path.Base(rel)
	var err error
	if info.IsDir() {
		var root *os.Root
		if root, err = openDir(f.root, rel); err != nil {
			return err
		}
		err = errors.Join(p.tree(root, info, name, 0), root.Close())
	} else {
		err = p.file(f.root, rel, name)
	}
	if err != nil {
		return err
	}
	return p.tw.Close()
}

// packContent writes all that is in the workspace as a tar stream, and not the
// directory itself.
func (f *Files) packContent(ctx context.Context, w io.Writer) error {
	p := packing{f: f, ctx: ctx, tw: tar.NewWriter(w), seen: make(map[fileID]string)}
	if err := p.content(f.root, ".", 0); err != nil {
		return err
	}
	return p.tw.Close()
}

// packing is a tar stream that is being written.
type packing struct {
	f    *Files
	ctx  context.Context //nolint:containedctx // it lives as long as one call
	tw   *tar.Writer
	seen map[fileID]string // entries of files with more than one name
}

// tree writes a directory and all beneath it, parents first, in the order of
// names.
func (p *packing) tree(dir *os.Root, info fs.FileInfo, name string, depth int) error {
	if depth == deepest {
		return fmt.Errorf("%w: entry %q: more than %d directories in each other", atoll.ErrInvalid, clip(name, 200), deepest)
	}
	if err := p.header(tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}, info); err != nil {
		return err
	}
	return p.content(dir, name, depth)
}

// content writes what is in a directory.
func (p *packing) content(dir *os.Root, name string, depth int) error {
	var names []string
	err := eachName(dir, ".", func(child string) error {
		if len(names) == most {
			return fmt.Errorf("%w: %q holds more than %d names", atoll.ErrQuota, clip(name, 200), most)
		}
		names = append(names, child)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, child := range names {
		if err := context.Cause(p.ctx); err != nil {
			return late(err)
		}
		if p.f.a != nil {
			if err := p.f.mark(p.ctx); err != nil {
				return err
			}
		}
		if err := p.entry(dir, child, name+"/"+child, depth); err != nil && !errors.Is(err, errVanished) {
			return err
		}
	}
	return nil
}

// errVanished is the end of what was removed while it was packed.
var errVanished = errors.New("it was removed")

func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errVanished
	}
	return err
}

// entry writes what a directory has under a name.
func (p *packing) entry(dir *os.Root, child, name string, depth int) error {
	info, err := dir.Lstat(child)
	if err != nil {
		return vanished(err)
	}
	if len(name) > longestName {
		return fmt.Errorf("%w: entry %q: too long a name", atoll.ErrInvalid, clip(name, 200))
	}
	if info.IsDir() {
		sub, err := openDir(dir, child)
		if err != nil {
			return vanished(err)
		}
		return errors.Join(p.tree(sub, info, name, depth+1), sub.Close())
	}
	id, n := links(info)
	if first, ok := p.seen[id]; ok && n > 1 {
		return p.header(tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first}, info)
	}
	written, err := p.leaf(dir, child, info, name)
	if written && n > 1 && len(p.seen) < most {
		p.seen[id] = name
	}
	return err
}

// leaf writes what is no directory, unless no import would take it.
func (p *packing) leaf(dir *os.Root, child string, info fs.FileInfo, name string) (bool, error) {
	switch info.Mode().Type() {
	case 0:
		err := p.file(dir, child, name)
		return err == nil, err
	case fs.ModeSymlink:
		target, err := dir.Readlink(child)
		if err != nil {
			return false, vanished(err)
		}
		return true, p.header(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, info)
	case fs.ModeNamedPipe:
		return true, p.header(tar.Header{Typeflag: tar.TypeFifo, Name: name}, info)
	}
	return false, nil
}

func (p *packing) header(h tar.Header, info fs.FileInfo) error {
	h.Format, h.Mode, h.ModTime = tar.FormatPAX, int64(info.Mode().Perm()), info.ModTime()
	return p.tw.WriteHeader(&h)
}

// file writes a file, as long as it is when it is opened.
func (p *packing) file(dir *os.Root, child, name string) (err error) {
	file, err := openFile(dir, child, 0)
	if err != nil {
		return vanished(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := p.header(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size()}, info); err != nil {
		return err
	}
	n, err := io.CopyN(p.tw, file, info.Size())
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: entry %q became shorter while it was read: %d bytes of %d", atoll.ErrUnavailable, clip(name, 200), n, info.Size())
	}
	return err
}
