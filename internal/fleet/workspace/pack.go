package workspace

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

	"github.com/atoll-sandbox/atoll"
)

// Pack writes a file or directory beneath root as a tar stream whose entries start with
// its base name. Use is called before each entry of a directory; nil is fine.
func Pack(ctx context.Context, root *os.Root, rel string, info fs.FileInfo, w io.Writer, use func(context.Context) error) error {
	p := packer{use: use, ctx: ctx, tw: tar.NewWriter(w), seen: make(map[fileID]string)}
	name := path.Base(rel)
	var err error
	if info.IsDir() {
		var sub *os.Root
		if sub, err = OpenDir(root, rel); err != nil {
			return err
		}
		err = errors.Join(p.writeTree(sub, info, name, 0), sub.Close())
	} else {
		err = p.writeFile(root, rel, name)
	}
	if err != nil {
		return err
	}
	return p.tw.Close()
}

// PackContent writes all that is beneath root as a tar stream, without root itself.
func PackContent(ctx context.Context, root *os.Root, w io.Writer, use func(context.Context) error) error {
	p := packer{use: use, ctx: ctx, tw: tar.NewWriter(w), seen: make(map[fileID]string)}
	if err := p.writeContent(root, ".", 0); err != nil {
		return err
	}
	return p.tw.Close()
}

// packer writes a tar stream.
type packer struct {
	use  func(context.Context) error // called before each entry; nil: nothing
	ctx  context.Context             //nolint:containedctx // it lives as long as one call
	tw   *tar.Writer
	seen map[fileID]string // entries of files with several names
}

// writeTree writes a directory with everything in it, parents first, sorted by name.
func (p *packer) writeTree(dir *os.Root, info fs.FileInfo, name string, depth int) error {
	if depth == MaxDepth {
		return fmt.Errorf("%w: entry %q: directories nested more than %d deep", atoll.ErrInvalid, shorten(name, 200), MaxDepth)
	}
	if err := p.writeHeader(tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}, info); err != nil {
		return err
	}
	return p.writeContent(dir, name, depth)
}

// writeContent writes the content of a directory.
func (p *packer) writeContent(dir *os.Root, name string, depth int) error {
	var names []string
	err := ForEachName(dir, ".", func(child string) error {
		if len(names) == MaxNames {
			return fmt.Errorf("%w: %q holds more than %d names", atoll.ErrQuota, shorten(name, 200), MaxNames)
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
			return timeoutError(err)
		}
		if p.use != nil {
			if err := p.use(p.ctx); err != nil {
				return err
			}
		}
		if err := p.writeEntry(dir, child, name+"/"+child, depth); err != nil && !errors.Is(err, errVanished) {
			return err
		}
	}
	return nil
}

// errVanished is the error of a file that was removed while it was packed.
var errVanished = errors.New("it was removed")

func orVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errVanished
	}
	return err
}

// writeEntry writes the entry of a name in a directory.
func (p *packer) writeEntry(dir *os.Root, child, name string, depth int) error {
	info, err := dir.Lstat(child)
	if err != nil {
		return orVanished(err)
	}
	if len(name) > MaxName {
		return fmt.Errorf("%w: entry %q: too long a name", atoll.ErrInvalid, shorten(name, 200))
	}
	if info.IsDir() {
		sub, err := OpenDir(dir, child)
		if err != nil {
			return orVanished(err)
		}
		return errors.Join(p.writeTree(sub, info, name, depth+1), sub.Close())
	}
	id, n := linkInfo(info)
	if first, ok := p.seen[id]; ok && n > 1 {
		return p.writeHeader(tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first}, info)
	}
	written, err := p.writeLeaf(dir, child, info, name)
	if written && n > 1 && len(p.seen) < MaxNames {
		p.seen[id] = name
	}
	return err
}

// writeLeaf writes an entry that is no directory, unless Import would refuse it.
func (p *packer) writeLeaf(dir *os.Root, child string, info fs.FileInfo, name string) (bool, error) {
	switch info.Mode().Type() {
	case 0:
		err := p.writeFile(dir, child, name)
		return err == nil, err
	case fs.ModeSymlink:
		target, err := dir.Readlink(child)
		if err != nil {
			return false, orVanished(err)
		}
		return true, p.writeHeader(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, info)
	case fs.ModeNamedPipe:
		return true, p.writeHeader(tar.Header{Typeflag: tar.TypeFifo, Name: name}, info)
	}
	return false, nil
}

func (p *packer) writeHeader(h tar.Header, info fs.FileInfo) error {
	h.Format, h.Mode, h.ModTime = tar.FormatPAX, int64(info.Mode().Perm()), info.ModTime()
	return p.tw.WriteHeader(&h)
}

// writeFile writes a file, with the length that it has when it is opened.
func (p *packer) writeFile(dir *os.Root, child, name string) (err error) {
	file, err := OpenFile(dir, child, 0)
	if err != nil {
		return orVanished(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := p.writeHeader(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size()}, info); err != nil {
		return err
	}
	n, err := io.CopyN(p.tw, file, info.Size())
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: entry %q shrank while it was read: %d bytes of %d", atoll.ErrUnavailable, shorten(name, 200), n, info.Size())
	}
	return err
}
