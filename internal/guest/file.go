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

// Limits on the data that the host accepts about a directory.
const (
	maxListing = 64 << 20 // bytes of its JSON
	maxEntries = 1 << 19  // names
)

// newFileRequest checks a path and returns a request for it.
func newFileRequest(name string) (fileRequest, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return fileRequest{}, fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	return fileRequest{Path: []byte(path.Clean(name))}, nil
}

// openFile opens an operation on a file.
func (c *Client) openFile(ctx context.Context, op Op, r fileRequest) (*yamux.Stream, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, &Request{Op: op, Body: b})
}

// startDownload opens an operation that sends bytes to the host. cancel is called at its end.
func (c *Client) startDownload(ctx context.Context, cancel context.CancelFunc, op Op, r fileRequest) (*download, error) {
	st, err := c.openFile(ctx, op, r)
	if err != nil {
		cancel()
		return nil, err
	}
	d := &download{ctx: ctx, cancel: cancel, st: st, data: dataReader{r: st}}
	d.stop = context.AfterFunc(ctx, func() { _ = st.Reset() })
	return d, nil
}

// download is a reader of bytes from a guest.
type download struct {
	ctx    context.Context //nolint:containedctx // of the transfer, which the reader represents
	cancel context.CancelFunc
	stop   func() bool
	st     *yamux.Stream
	data   dataReader
	fail   func(error) error // wraps errors; may be nil

	once sync.Once
	err  error // result of Close
}

// Read reads bytes. It returns io.EOF only if the guest has sent the end of the stream.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.data.Read(p)
	if err == nil || err == io.EOF { //nolint:errorlint // never wrapped
		return n, err
	}
	return n, d.wrapError(err)
}

func (d *download) wrapError(err error) error {
	err = preferCause(d.ctx, err)
	if d.fail != nil {
		err = d.fail(err)
	}
	return err
}

// Close ends the transfer, complete or not, and returns its first error.
func (d *download) Close() error {
	d.once.Do(func() {
		if err := d.data.err; err != nil && err != io.EOF { //nolint:errorlint // never wrapped
			d.err = d.wrapError(err)
		}
		d.stop()
		d.cancel()
		_ = d.st.Reset() // no more data is needed
	})
	return d.err
}

// preferCause returns the cause of ctx if an operation has failed and ctx is done, else err.
func preferCause(ctx context.Context, err error) error {
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

// sendContent sends bytes and waits for the guest's answer. When ctx is done it returns, although a
// Read of content may still be running in another goroutine.
func (c *Client) sendContent(ctx context.Context, op Op, r fileRequest, content io.Reader) error {
	st, err := c.openFile(ctx, op, r)
	if err != nil {
		return preferCause(ctx, err)
	}
	defer st.Reset() //nolint:errcheck // the operation has ended
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		w := newDataWriter(st)
		_, err := w.ReadFrom(&contentReader{r: content})
		sent <- err
		if w.finishStream(err) != nil {
			_ = st.Reset() // the end can't be sent
		}
	}()
	d := dataReader{r: st}
	_, err = d.Read(make([]byte, 1))
	if err == io.EOF { //nolint:errorlint // never wrapped
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: unexpected data", errWire)
	}
	select {
	case serr := <-sent:
		var own *contentError
		if errors.As(serr, &own) {
			return own.error
		}
	default:
	}
	return preferCause(ctx, err)
}

// contentReader marks the errors of the caller's reader, to tell them from errors of the wire.
type contentReader struct{ r io.Reader }

type contentError struct{ error }

func (h *contentReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // readers don't wrap it
		err = &contentError{err}
	}
	return n, err
}

// OpenFile opens a file for reading; see atoll.FS.
func (l *Link) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	return l.startDownload(ctx, "read", OpRead, name)
}

// startDownload opens a download.
func (l *Link) startDownload(ctx context.Context, verb string, op Op, name string) (io.ReadCloser, error) {
	r, err := newFileRequest(name)
	if err != nil {
		return nil, l.wrapError(verb, err)
	}
	if op == OpExport {
		r.Limit = max(l.Spec.Limits.Disk, 0)
	}
	ctx, cancel := l.withTransferTimeout(ctx)
	var d *download
	err = l.runOp(ctx, verb, func(c *Client) (err error) {
		d, err = c.startDownload(ctx, func() {}, op, r)
		return preferCause(ctx, err)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	d.cancel = cancel
	d.fail = func(err error) error { return l.wrapError(verb, err) }
	return d, nil
}

// WriteFile replaces a file atomically; see atoll.FS.
func (l *Link) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	return l.sendUpload(ctx, "write", OpWrite, name, perm, content)
}

// sendUpload runs an upload. It is not repeated once its content has been read.
func (l *Link) sendUpload(ctx context.Context, verb string, op Op, name string, perm fs.FileMode, content io.Reader) error {
	r, err := newFileRequest(name)
	if err != nil {
		return l.wrapError(verb, err)
	}
	r.Perm = perm.Perm()
	ctx, cancel := l.withTransferTimeout(ctx)
	defer cancel()
	return l.runOp(ctx, verb, func(c *Client) error { return c.sendContent(ctx, op, r, content) })
}

// withTransferTimeout returns a context with the sandbox's timeout for transfers.
func (l *Link) withTransferTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	d := firstTimeout(l.Spec.Timeouts.Transfer, atoll.DefaultTransferTimeout)
	if d < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
}

// callFile runs an operation on a file that has no body besides its request and answer.
func (l *Link) callFile(ctx context.Context, verb string, op Op, name string, perm fs.FileMode, value any) error {
	r, err := newFileRequest(name)
	if err != nil {
		return l.wrapError(verb, err)
	}
	r.Perm = perm.Perm()
	ctx, cancel := l.withTransferTimeout(ctx)
	defer cancel()
	return l.runOp(ctx, verb, func(c *Client) error { return preferCause(ctx, c.Call(ctx, op, r, value)) })
}

// StatFile describes a file or directory. It does not follow a symbolic link.
func (l *Link) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	var i fileInfo
	if err := l.callFile(ctx, "stat", OpStat, name, 0, &i); err != nil {
		return nil, err
	}
	return i.fsInfo(), nil
}

// ReadDir lists a directory in the order of names.
func (l *Link) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	rc, err := l.startDownload(ctx, "list", OpList, name)
	if err != nil {
		return nil, err
	}
	list, err := readList(rc)
	if err = errors.Join(err, rc.Close()); err != nil {
		return nil, l.wrapError("list", err)
	}
	return list, nil
}

// readList reads the entries of a directory, ordered by name.
func readList(r io.Reader) ([]fs.FileInfo, error) {
	var list []fs.FileInfo
	bounded := &io.LimitedReader{R: r, N: maxListing}
	for dec := json.NewDecoder(bounded); ; {
		var i fileInfo
		err := dec.Decode(&i)
		switch {
		case bounded.N <= 0:
			return nil, fmt.Errorf("%w: the directory is too large to list", atoll.ErrQuota)
		case err == io.EOF: //nolint:errorlint // the decoder does not wrap it
			slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
			return list, nil
		case err != nil:
			return nil, err
		}
		if len(list) == maxEntries {
			return nil, fmt.Errorf("%w: a directory with more than %d names", atoll.ErrQuota, maxEntries)
		}
		list = append(list, i.fsInfo())
	}
}

// Mkdir creates a directory and its parents.
func (l *Link) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return l.callFile(ctx, "mkdir", OpMkdir, name, perm, nil)
}

// Remove removes a file or directory tree.
func (l *Link) Remove(ctx context.Context, name string) error {
	return l.callFile(ctx, "remove", OpRemove, name, 0, nil)
}

// Import unpacks a tar stream; see atoll.Sandbox. Each file appears atomically.
func (l *Link) Import(ctx context.Context, dir string, tar io.Reader) error {
	return l.sendUpload(ctx, "import", OpImport, dir, 0, tar)
}

// Export packs a file or directory; see atoll.Sandbox.
func (l *Link) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	rc, err := l.startDownload(ctx, "export", OpExport, name)
	if err != nil || l.MaxExport <= 0 {
		return rc, err
	}
	return &boundedExport{ReadCloser: rc, left: l.MaxExport, link: l}, nil
}

// boundedExport is an export that fails when it exceeds a limit.
type boundedExport struct {
	io.ReadCloser

	left int64
	link *Link
}

// Read reads bytes of the export.
func (b *boundedExport) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.link.wrapError("export", fmt.Errorf("%w: it is longer than %d bytes, more than the sandbox can contain", atoll.ErrQuota, b.link.MaxExport))
	}
	return n, err
}

var _ interface {
	atoll.DirFS
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, path string) (io.ReadCloser, error)
} = (*Link)(nil)
