package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of what the host believes of a directory.
const maxListing = 64 << 20 // bytes of its JSON

// named checks a path and puts it in a request.
func named(name string) (fileRequest, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return fileRequest{}, fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	return fileRequest{Path: []byte(path.Clean(name))}, nil
}

// openFile begins an operation on a file.
func (c *Client) openFile(ctx context.Context, op Op, r fileRequest) (*yamux.Stream, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, &Request{Op: op, Body: b})
}

// download begins to take bytes. cancel is called when it is over.
func (c *Client) download(ctx context.Context, cancel context.CancelFunc, op Op, r fileRequest) (*download, error) {
	st, err := c.openFile(ctx, op, r)
	if err != nil {
		cancel()
		return nil, err
	}
	d := &download{ctx: ctx, cancel: cancel, st: st, data: dataReader{r: st}}
	d.stop = context.AfterFunc(ctx, func() { _ = st.Reset() })
	return d, nil
}

// download is bytes that come from a guest.
type download struct {
	ctx    context.Context //nolint:containedctx // it is the transfer's, which the reader is
	cancel context.CancelFunc
	stop   func() bool
	st     *yamux.Stream
	data   dataReader
	fail   func(error) error // dresses errors; may be nil

	once sync.Once
	err  error // what Close returns
}

// Read takes bytes; after the last it returns io.EOF only if the guest has said
// that it was the last.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.data.Read(p)
	if err == nil || err == io.EOF { //nolint:errorlint // it is as it is
		return n, err
	}
	return n, d.dress(err)
}

func (d *download) dress(err error) error {
	err = ended(d.ctx, err)
	if d.fail != nil {
		err = d.fail(err)
	}
	return err
}

// Close ends the transfer, read to its end or not, and returns its first error.
func (d *download) Close() error {
	d.once.Do(func() {
		if err := d.data.err; err != nil && err != io.EOF { //nolint:errorlint // as above
			d.err = d.dress(err)
		}
		d.stop()
		d.cancel()
		_ = d.st.Reset() // nothing more is wanted
	})
	return d.err
}

// ended returns why an operation has failed: its context's reason, if that is
// done.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, atoll.ErrTimeout):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
	}
	return cause
}

// upload sends bytes and waits for what the guest says to them. When ctx is
// done it returns; the content is then read on only as long as the Read that it
// is in.
func (c *Client) upload(ctx context.Context, op Op, r fileRequest, content io.Reader) error {
	st, err := c.openFile(ctx, op, r)
	if err != nil {
		return ended(ctx, err)
	}
	defer st.Reset() //nolint:errcheck // it is over, or nothing more is wanted
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		w := newDataWriter(st)
		_, err := w.ReadFrom(&honest{r: content})
		sent <- err
		if w.end(err) != nil {
			_ = st.Reset() // there is nobody, or no end to be told
		}
	}()
	d := dataReader{r: st}
	_, err = d.Read(make([]byte, 1))
	if err == io.EOF { //nolint:errorlint // it is as it is
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: data where there should be none", errWire)
	}
	select {
	case serr := <-sent:
		var own *contentError
		if errors.As(serr, &own) {
			return own.error
		}
	default:
	}
	return ended(ctx, err)
}

// honest tells the errors of a caller's reader from those of the wire.
type honest struct{ r io.Reader }

type contentError struct{ error }

func (h *honest) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it as it is
		err = &contentError{err}
	}
	return n, err
}

// OpenFile opens a file for reading; see atoll.FS.
func (l *Link) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	return l.take(ctx, "read", OpRead, name)
}

// take begins a download.
func (l *Link) take(ctx context.Context, verb string, op Op, name string) (io.ReadCloser, error) {
	r, err := named(name)
	if err != nil {
		return nil, l.fail(verb, err)
	}
	ctx, cancel := l.transfer(ctx)
	var d *download
	err = l.do(ctx, verb, func(c *Client) (err error) {
		d, err = c.download(ctx, func() {}, op, r)
		return ended(ctx, err)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	d.cancel = cancel
	d.fail = func(err error) error { return l.fail(verb, err) }
	return d, nil
}

// WriteFile replaces a file in one step; see atoll.FS.
func (l *Link) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	return l.give(ctx, "write", OpWrite, name, perm, content)
}

// give does an upload. What has begun is not done again: its content is read.
func (l *Link) give(ctx context.Context, verb string, op Op, name string, perm fs.FileMode, content io.Reader) error {
	r, err := named(name)
	if err != nil {
		return l.fail(verb, err)
	}
	r.Perm = perm.Perm()
	ctx, cancel := l.transfer(ctx)
	defer cancel()
	return l.do(ctx, verb, func(c *Client) error { return c.upload(ctx, op, r, content) })
}

// transfer bounds a transfer by its sandbox's timeout.
func (l *Link) transfer(ctx context.Context) (context.Context, context.CancelFunc) {
	d := timeout(l.Spec.Timeouts.Transfer, atoll.DefaultTransferTimeout)
	if d < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
}

// ask does an operation on a file that is a question and an answer.
func (l *Link) ask(ctx context.Context, verb string, op Op, name string, perm fs.FileMode, value any) error {
	r, err := named(name)
	if err != nil {
		return l.fail(verb, err)
	}
	r.Perm = perm.Perm()
	ctx, cancel := l.transfer(ctx)
	defer cancel()
	return l.do(ctx, verb, func(c *Client) error { return ended(ctx, c.call(ctx, op, r, value)) })
}

// StatFile describes a name; a last symbolic link is not followed.
func (l *Link) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	var i fileInfo
	if err := l.ask(ctx, "stat", OpStat, name, 0, &i); err != nil {
		return nil, err
	}
	return i.info(), nil
}

// ReadDir lists a directory in the order of names.
func (l *Link) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	rc, err := l.take(ctx, "list", OpList, name)
	if err != nil {
		return nil, err
	}
	list, err := readList(rc)
	if err = errors.Join(err, rc.Close()); err != nil {
		return nil, l.fail("list", err)
	}
	return list, nil
}

// readList reads what a guest says is in a directory.
func readList(r io.Reader) ([]fs.FileInfo, error) {
	var list []fs.FileInfo
	bounded := &io.LimitedReader{R: r, N: maxListing}
	for dec := json.NewDecoder(bounded); ; {
		var i fileInfo
		err := dec.Decode(&i)
		switch {
		case bounded.N <= 0:
			return nil, fmt.Errorf("%w: the directory is too big to be listed", atoll.ErrQuota)
		case err == io.EOF: //nolint:errorlint // the decoder returns it as it is
			slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, i.info())
	}
}

// Mkdir makes a directory and those above it.
func (l *Link) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return l.ask(ctx, "mkdir", OpMkdir, name, perm, nil)
}

// Remove removes a name and all below it.
func (l *Link) Remove(ctx context.Context, name string) error {
	return l.ask(ctx, "remove", OpRemove, name, 0, nil)
}

// Import unpacks a tar stream; see atoll.Sandbox. Each file appears as a whole.
func (l *Link) Import(ctx context.Context, dir string, tar io.Reader) error {
	return l.give(ctx, "import", OpImport, dir, 0, tar)
}

// Export packs a file or directory; see atoll.Sandbox.
func (l *Link) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	return l.take(ctx, "export", OpExport, name)
}

var _ interface {
	atoll.DirFS
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, path string) (io.ReadCloser, error)
} = (*Link)(nil)
