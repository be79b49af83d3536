package fleet

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// Import unpacks a tar stream into dir, which is created if it is missing. The stream is first
// unpacked and checked as a whole out of the sandboxes' reach; an archive that is refused changes
// nothing. Then each file is moved to its place in one step, and a new directory with everything
// in it. A process that dies in between leaves some whole files of the archive, and the earlier
// versions of the others.
//
// Modes (permission bits), times, hard links, symbolic links, pipes and empty directories are
// kept. An entry replaces what has its name, except that a directory is merged and can't be
// replaced by something else. Refused, with an error that names the entry, are devices, absolute
// names, names with "..", and writing through a link, old or new.
func (f *Files) Import(ctx context.Context, dir string, tar io.Reader) error {
	rel, err := f.beginOp(ctx, atoll.ScopeRun, dir)
	if err != nil {
		return f.wrapError("import", dir, err)
	}
	done := f.a.startAudit("workspace import", f.key.Name, dir)
	err = f.wrapError("import", dir, f.importTar(ctx, rel, tar))
	done(err)
	return err
}

func (f *Files) importTar(ctx context.Context, rel string, r io.Reader) (err error) {
	ctx, leave, err := f.a.f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	store := f.a.f.workspaces
	m, err := f.a.f.newMeter(ctx, f.key)
	if err != nil {
		return err
	}
	defer m.Close()
	if m.IsLimited() { // all of it may be replaced
		held, err := store.Measure(ctx, f.key)
		if err != nil {
			return err
		}
		m.Credit(held.Bytes)
	}
	d, err := store.NewStaging(workspace.IncomingDir)
	if err != nil {
		return err
	}
	defer f.a.f.removeStaging(ctx, d)
	u, err := workspace.NewUnpacker(d, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	if err := u.Unpack(bufio.NewReaderSize(f.boundReader(ctx, r), readChunk)); err != nil {
		return err
	}
	defer store.ForgetSize(f.key)
	return u.MoveInto(ctx, f.root, rel)
}

// Export packs a file or directory as a tar stream whose entries start with its base name, "." for
// the workspace. A link as the last element of the name is followed, others are packed as links.
// Sockets and devices are left out. A file that shrinks while it is read is an error; one that
// grows is cut.
func (f *Files) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	rel, err := f.beginOp(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.wrapError("export", name, err)
	}
	info, err := f.root.Stat(rel)
	if err == nil && !info.IsDir() {
		err = workspace.CheckType(0, rel, info)
	}
	if err != nil {
		return nil, f.wrapError("export", name, err)
	}
	r, w := io.Pipe()
	x := &exportReader{r: r}
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(timeoutError(context.Cause(ctx))) }) // never fails
	x.wg.Go(func() {
		defer stop()
		err := workspace.Pack(ctx, f.root, rel, info, w, f.markUse)
		if errors.Is(err, io.ErrClosedPipe) && ctx.Err() != nil {
			err = timeoutError(context.Cause(ctx))
		}
		err = f.wrapError("export", name, err)
		_ = w.CloseWithError(err) // never fails
		if !errors.Is(err, io.ErrClosedPipe) {
			x.err = err
		}
	})
	return x, nil
}

// exportReader reads a tar stream that is being packed.
type exportReader struct {
	r    *io.PipeReader
	stop func() // ends the packing; nil: closing r does
	wg   sync.WaitGroup
	err  error // set when wg is done
	once sync.Once
}

func (x *exportReader) Read(b []byte) (int, error) { return x.r.Read(b) }

// Close ends the stream, read to its end or not, and returns the error of packing.
func (x *exportReader) Close() error {
	x.once.Do(func() {
		_ = x.r.Close() // never fails
		if x.stop != nil {
			x.stop()
		}
		x.wg.Wait()
	})
	return x.err
}
