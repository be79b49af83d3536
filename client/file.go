package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// files accesses the files of a sandbox or a workspace.
type files struct {
	c    *Client
	id   string // that errors name
	path string // of the sandbox or workspace in the API
}

// fileCall returns a call about a file, or an error if its path is invalid.
func (f *files) fileCall(op, method, route, name string) (call, error) {
	k := call{op: op, id: f.id, method: method, path: f.path + route, query: url.Values{"path": {name}}}
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return k, k.wrapError(fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name))
	}
	k.query.Set("path", path.Clean(name))
	return k, nil
}

// OpenFile opens a file for reading.
func (f *files) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	k, err := f.fileCall("read", "", "/files", name)
	if err != nil {
		return nil, err
	}
	return f.c.startDownload(ctx, k)
}

// OpenRange opens a part of a file for reading: length bytes from offset, or fewer
// at the end of the file; a negative length means to the end.
func (f *files) OpenRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	k, err := f.fileCall("read", "", "/files", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, k.wrapError(fmt.Errorf("%w: offset %d is negative", atoll.ErrInvalid, offset))
	}
	if length == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r := "bytes=" + strconv.FormatInt(offset, 10) + "-"
	if length > 0 {
		r += strconv.FormatInt(offset+length-1, 10)
	}
	k.header = http.Header{"Range": {r}}
	return f.c.startDownload(ctx, k)
}

// WriteFile replaces a file atomically. Its directory must exist.
func (f *files) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	k, err := f.fileCall("write", http.MethodPut, "/files", name)
	if err != nil {
		return err
	}
	k.query.Set("mode", strconv.FormatUint(uint64(perm.Perm()), 8))
	k.header = http.Header{"Content-Type": {"application/octet-stream"}}
	return f.c.sendUpload(ctx, k, content)
}

// StatFile describes a file; it does not follow a symbolic link in the last element.
func (f *files) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	k, err := f.fileCall("stat", "", "/files/info", name)
	if err != nil {
		return nil, err
	}
	var info wire.FileInfo
	if err := f.c.getJSON(ctx, k, &info); err != nil {
		return nil, err
	}
	return info.Info(), nil
}

// ReadDir returns the entries of a directory in the order of names.
func (f *files) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	k, err := f.fileCall("list", "", "/files/list", name)
	if err != nil {
		return nil, err
	}
	items, err := getList[wire.FileInfo](ctx, f.c, k)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(items))
	for _, i := range items {
		infos = append(infos, i.Info())
	}
	return infos, nil
}

// Mkdir creates a directory and its missing parents.
func (f *files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	k, err := f.fileCall("mkdir", http.MethodPost, "/files/directory", name)
	if err != nil {
		return err
	}
	k.query.Set("mode", strconv.FormatUint(uint64(perm.Perm()), 8))
	return f.c.getJSON(ctx, k, nil)
}

// Remove removes a file or a directory with its contents.
func (f *files) Remove(ctx context.Context, name string) error {
	k, err := f.fileCall("remove", http.MethodDelete, "/files", name)
	if err != nil {
		return err
	}
	return f.c.getJSON(ctx, k, nil)
}

// Import unpacks a tar stream into dir, which is created if it is missing.
func (f *files) Import(ctx context.Context, dir string, tar io.Reader) error {
	k, err := f.fileCall("import", http.MethodPut, "/archive", dir)
	if err != nil {
		return err
	}
	k.header = http.Header{"Content-Type": {"application/x-tar"}}
	return f.c.sendUpload(ctx, k, tar)
}

// Export packs a file or directory as a tar stream. The caller closes it.
func (f *files) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	k, err := f.fileCall("export", "", "/archive", name)
	if err != nil {
		return nil, err
	}
	return f.c.startDownload(ctx, k)
}

// startDownload opens a response body of any length.
func (c *Client) startDownload(ctx context.Context, k call) (io.ReadCloser, error) {
	if k.header == nil {
		k.header = make(http.Header)
	}
	k.header.Set("Te", "trailers")
	resp, err := c.sendCall(ctx, k) //nolint:bodyclose // the download does that
	if err != nil {
		return nil, err
	}
	return &download{c: c, k: k, ctx: ctx, resp: resp}, nil
}

// download is a response body in flight. An incomplete body ends with an error.
type download struct {
	c    *Client
	k    call
	ctx  context.Context //nolint:containedctx // of the request whose answer it is
	resp *http.Response

	mu  sync.Mutex
	err error // guarded by mu; the first of the transfer
}

// Read reads the body.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.resp.Body.Read(b)
	if err == nil {
		return n, nil
	}
	if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		err = d.trailerError()
	} else {
		err = d.k.wrapError(d.c.transportError(d.ctx, err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// trailerError returns the error in the response's trailer, or nil.
func (d *download) trailerError() error {
	text := d.resp.Trailer.Get(wire.FailureTrailer)
	if text == "" {
		return nil
	}
	var p wire.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return d.k.wrapError(fmt.Errorf("%w: %s cut the answer short", atoll.ErrUnavailable, d.c.host))
	}
	return d.k.wrapServerError(p.Err())
}

// Close ends the transfer, complete or not, and returns its first error.
func (d *download) Close() error {
	_ = d.resp.Body.Close() // the rest is not needed
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// sendUpload sends a body of any length. The server may refuse it before its end.
func (c *Client) sendUpload(ctx context.Context, k call, content io.Reader) error {
	src := newSource(ctx, content)
	k.body = src
	if l, ok := content.(interface{ Len() int }); ok {
		if k.length = int64(l.Len()); k.length == 0 {
			k.body = http.NoBody
		}
	}
	err := c.getJSON(ctx, k, nil)
	if own := src.stopReading(); own != nil && err != nil && ctx.Err() == nil {
		return k.wrapError(own)
	}
	return err
}

// source is the body of an upload. It does not close the caller's reader. The
// transport waits for a pending Read of its body, and the caller's reader
// may block forever: so a goroutine reads it, which ends when that read returns.
type source struct {
	pipe *wire.Pipe // nil: a read takes no time
	stop func() bool

	mu      sync.Mutex
	r       io.Reader
	err     error // guarded by mu; of the caller's reader
	stopped bool  // guarded by mu
}

func newSource(ctx context.Context, r io.Reader) *source {
	s := &source{r: r}
	switch r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return s
	}
	s.pipe = wire.NewPipe(wire.Window, nil)
	s.stop = context.AfterFunc(ctx, s.pipe.CloseReader)
	go s.readSource()
	return s
}

// readSource copies the caller's reader into the pipe.
func (s *source) readSource() {
	b := make([]byte, wire.MaxPayload)
	for {
		n, err := s.r.Read(b)
		if _, werr := s.pipe.Write(b[:n]); werr != nil {
			return // the upload has ended
		}
		if err != nil {
			s.recordError(err)
			s.pipe.CloseWriter(err)
			return
		}
	}
}

func (s *source) recordError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		s.err = err
	}
}

// Read reads the body.
func (s *source) Read(b []byte) (int, error) {
	if s.pipe != nil {
		return s.pipe.Read(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return 0, io.ErrClosedPipe
	}
	return s.r.Read(b)
}

// stopReading makes further reads fail and returns the error of the caller's reader.
func (s *source) stopReading() error {
	if s.pipe != nil {
		s.stop()
		s.pipe.CloseReader()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.err
}
