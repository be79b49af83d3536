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

// files are those of a sandbox or a workspace.
type files struct {
	c    *Client
	id   string // that errors name
	path string // of the sandbox or workspace in the API
}

// at returns a call about a file.
func (f *files) at(op, method, route, name string) (call, error) {
	k := call{op: op, id: f.id, method: method, path: f.path + route, query: url.Values{"path": {name}}}
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return k, k.fail(fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name))
	}
	k.query.Set("path", path.Clean(name))
	return k, nil
}

// OpenFile opens a file for reading.
func (f *files) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	k, err := f.at("read", "", "/files", name)
	if err != nil {
		return nil, err
	}
	return f.c.download(ctx, k)
}

// OpenRange opens a part of a file for reading: length bytes from offset, or all
// that there are; a negative length means to the end.
func (f *files) OpenRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	k, err := f.at("read", "", "/files", name)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, k.fail(fmt.Errorf("%w: offset %d is negative", atoll.ErrInvalid, offset))
	}
	if length == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r := "bytes=" + strconv.FormatInt(offset, 10) + "-"
	if length > 0 {
		r += strconv.FormatInt(offset+length-1, 10)
	}
	k.header = http.Header{"Range": {r}}
	return f.c.download(ctx, k)
}

// WriteFile replaces a file in one step. Its directory must exist.
func (f *files) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	k, err := f.at("write", http.MethodPut, "/files", name)
	if err != nil {
		return err
	}
	k.query.Set("mode", strconv.FormatUint(uint64(perm.Perm()), 8))
	k.header = http.Header{"Content-Type": {"application/octet-stream"}}
	return f.c.upload(ctx, k, content)
}

// StatFile describes a name; a last symbolic link is not followed.
func (f *files) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	k, err := f.at("stat", "", "/files/info", name)
	if err != nil {
		return nil, err
	}
	var info wire.FileInfo
	if err := f.c.get(ctx, k, &info); err != nil {
		return nil, err
	}
	return info.Info(), nil
}

// ReadDir lists a directory in the order of names.
func (f *files) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	k, err := f.at("list", "", "/files/list", name)
	if err != nil {
		return nil, err
	}
	items, err := list[wire.FileInfo](ctx, f.c, k)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(items))
	for _, i := range items {
		infos = append(infos, i.Info())
	}
	return infos, nil
}

// Mkdir makes a directory and those above it.
func (f *files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	k, err := f.at("mkdir", http.MethodPost, "/files/directory", name)
	if err != nil {
		return err
	}
	k.query.Set("mode", strconv.FormatUint(uint64(perm.Perm()), 8))
	return f.c.get(ctx, k, nil)
}

// Remove removes a name and all below it.
func (f *files) Remove(ctx context.Context, name string) error {
	k, err := f.at("remove", http.MethodDelete, "/files", name)
	if err != nil {
		return err
	}
	return f.c.get(ctx, k, nil)
}

// Import unpacks a tar stream into dir, which is made if it is missing.
func (f *files) Import(ctx context.Context, dir string, tar io.Reader) error {
	k, err := f.at("import", http.MethodPut, "/archive", dir)
	if err != nil {
		return err
	}
	k.header = http.Header{"Content-Type": {"application/x-tar"}}
	return f.c.upload(ctx, k, tar)
}

// Export packs a file or directory as a tar stream. The caller closes it.
func (f *files) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	k, err := f.at("export", "", "/archive", name)
	if err != nil {
		return nil, err
	}
	return f.c.download(ctx, k)
}

// download opens an answer of any length.
func (c *Client) download(ctx context.Context, k call) (io.ReadCloser, error) {
	if k.header == nil {
		k.header = make(http.Header)
	}
	k.header.Set("Te", "trailers")
	resp, err := c.send(ctx, k) //nolint:bodyclose // the download does that
	if err != nil {
		return nil, err
	}
	return &download{c: c, k: k, ctx: ctx, resp: resp}, nil
}

// download is an answer under way. Its end is an error unless all of it came.
type download struct {
	c    *Client
	k    call
	ctx  context.Context //nolint:containedctx // of the request whose answer it is
	resp *http.Response

	mu  sync.Mutex
	err error // guarded by mu; the first of the transfer
}

// Read reads.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.resp.Body.Read(b)
	if err == nil {
		return n, nil
	}
	if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		err = d.failure()
	} else {
		err = d.k.fail(d.c.broken(d.ctx, err))
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

// failure returns the error that the answer ended with.
func (d *download) failure() error {
	text := d.resp.Trailer.Get(wire.FailureTrailer)
	if text == "" {
		return nil
	}
	var p wire.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return d.k.fail(fmt.Errorf("%w: %s cut the answer short", atoll.ErrUnavailable, d.c.host))
	}
	return d.k.named(p.Err())
}

// Close ends the transfer, read to its end or not, and returns its first error.
func (d *download) Close() error {
	_ = d.resp.Body.Close() // what was not read is not missed
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// upload sends a body of any length. The server may refuse it before its end.
func (c *Client) upload(ctx context.Context, k call, content io.Reader) error {
	src := newSource(ctx, content)
	k.body = src
	if l, ok := content.(interface{ Len() int }); ok {
		if k.length = int64(l.Len()); k.length == 0 {
			k.body = http.NoBody
		}
	}
	err := c.get(ctx, k, nil)
	if own := src.end(); own != nil && err != nil && ctx.Err() == nil {
		return k.fail(own)
	}
	return err
}

// source is what is uploaded. It is not closed: it is the caller's. The
// transport waits for a read of it that is under way, and the caller's reader
// may block for ever: a goroutine reads it then, which ends with that read.
type source struct {
	pipe *wire.Pipe // nil: a read takes no time
	stop func() bool

	mu    sync.Mutex
	r     io.Reader
	err   error // guarded by mu; of the caller's reader
	ended bool  // guarded by mu
}

func newSource(ctx context.Context, r io.Reader) *source {
	s := &source{r: r}
	switch r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return s
	}
	s.pipe = wire.NewPipe(wire.Window, nil)
	s.stop = context.AfterFunc(ctx, s.pipe.Stop)
	go s.pump()
	return s
}

// pump reads the caller's reader.
func (s *source) pump() {
	b := make([]byte, wire.MaxPayload)
	for {
		n, err := s.r.Read(b)
		if _, werr := s.pipe.Write(b[:n]); werr != nil {
			return // nobody wants more
		}
		if err != nil {
			s.note(err)
			s.pipe.End(err)
			return
		}
	}
}

func (s *source) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		s.err = err
	}
}

// Read reads.
func (s *source) Read(b []byte) (int, error) {
	if s.pipe != nil {
		return s.pipe.Read(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	return s.r.Read(b)
}

// end lets nothing more be read and returns the error of the caller's reader.
func (s *source) end() error {
	if s.pipe != nil {
		s.stop()
		s.pipe.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.err
}
