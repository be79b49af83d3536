package api

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// fileStore is a sandbox or a workspace as a store of files.
type fileStore interface {
	atoll.DirFS
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, name string) (io.ReadCloser, error)
	Close() error
}

// fileRoot is a kind of fileStore, with its routes and how one is opened.
type fileRoot struct {
	prefix string // the parameter that names the store
	key    string // the parameter that names the place
	kind   string // opens a store
	open   func(ctx context.Context, a *fleet.Account, key string) (fileStore, error)
}

// fileRoots are the kinds of file stores.
var fileRoots = []fileRoot{
	{"/v1/sandboxes/{id}", "id", "", func(ctx context.Context, a *fleet.Account, key string) (fileStore, error) {
		sb, err := a.Open(ctx, key)
		if err != nil {
			return nil, err
		}
		return sandboxFiles{sb}, nil
	}},
	{"/v1/workspaces/{name}", "name", "workspace-", func(ctx context.Context, a *fleet.Account, key string) (fileStore, error) {
		f, err := a.Files(ctx, key)
		if err != nil {
			return nil, err
		}
		return f, nil
	}},
}

// fileRequest is one request for a file.
type fileRequest struct {
	w     http.ResponseWriter
	r     *http.Request
	store fileStore
	path  string
	mode  fs.FileMode
}

// fileRoute is an operation on a file.
type fileRoute struct {
	id, method, path, summary, doc string
	status                         int
	mode                           bool // has the parameter mode
	body                           string
	answer                         string // media type; empty: none
	schema                         reflect.Type
	params                         []*huma.Param
	errors                         []int
	f                              func(s *Server, q *fileRequest) error
}

// registerFiles registers files of sandboxes and workspaces.
func (s *Server) registerFiles(api huma.API) {
	header := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Description: doc, Schema: &huma.Schema{Type: "string"}}
	}
	routes := []fileRoute{
		{
			id: "read-%sfile", method: http.MethodGet, path: "/files", summary: "Read a file", f: (*Server).readFile, answer: "application/octet-stream",
			doc:    "Supports the ranges and conditions of RFC 9110.",
			params: []*huma.Param{header("Range", "bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH"), header("If-None-Match", "the ETag of the client's copy")}, errors: []int{412, 416},
		},
		{
			id: "write-%sfile", method: http.MethodPut, path: "/files", summary: "Write a file", status: http.StatusNoContent, f: (*Server).writeFile, mode: true, body: "application/octet-stream",
			doc:    "Atomic: readers see the old content until the new one is complete. The directory must exist.",
			params: []*huma.Param{header("If-None-Match", "*: only if the file does not exist yet")}, errors: []int{412, 507},
		},
		{id: "remove-%sfile", method: http.MethodDelete, path: "/files", summary: "Remove a file or directory with everything in it", status: http.StatusNoContent, f: (*Server).removeFile},
		{
			id: "get-%sfile-info", method: http.MethodGet, path: "/files/info", summary: "Describe a file; a final symbolic link is not followed", f: (*Server).statFile,
			answer: "application/json", schema: reflect.TypeFor[wire.FileInfo](),
		},
		{
			id: "list-%sdirectory", method: http.MethodGet, path: "/files/list", summary: "List a directory, sorted by name", f: (*Server).listFiles,
			answer: "application/json", schema: reflect.TypeFor[wire.List[wire.FileInfo]](),
		},
		{id: "make-%sdirectory", method: http.MethodPost, path: "/files/directory", summary: "Create a directory and its missing parents", status: http.StatusNoContent, f: (*Server).makeDirectory, mode: true},
		{
			id: "export-%sarchive", method: http.MethodGet, path: "/archive", summary: "Export a file or directory as a tar stream", f: (*Server).exportArchive, answer: "application/x-tar",
			doc: "Compressed if Accept-Encoding has gzip. A stream that fails ends with the trailer " + wire.FailureTrailer + ", a problem, if the request has TE: trailers.",
		},
		{
			id: "import-%sarchive", method: http.MethodPut, path: "/archive", summary: "Unpack a tar stream into a directory, which is created if it is missing", status: http.StatusNoContent,
			doc: "It may be compressed with gzip (Content-Encoding).", f: (*Server).importArchive, body: "application/x-tar", errors: []int{415, 507},
		},
	}
	for _, at := range fileRoots {
		for i := range routes {
			s.registerFile(api, at, &routes[i])
		}
	}
	s.registerWatch(api)
	s.registerDial(api)
	s.registerListen(api)
}

func (s *Server) registerFile(api huma.API, at fileRoot, route *fileRoute) {
	op := huma.Operation{
		OperationID: fmt.Sprintf(route.id, at.kind), Method: route.method, Path: at.prefix + route.path, Tags: []string{"files"}, DefaultStatus: route.status,
		Summary: route.summary, Description: route.doc, Errors: append([]int{404, 409, 501}, route.errors...), Responses: make(map[string]*huma.Response),
		Parameters: append(append(pathParams(at.key), pathParam), route.params...),
	}
	if route.mode {
		op.Parameters = append(op.Parameters, queryParam("mode", "string", "The permissions in octal, such as 644."))
	}
	binary := &huma.Schema{Type: "string", Format: "binary"}
	if route.body != "" {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{route.body: {Schema: binary}}}
	}
	if route.answer != "" {
		schema := binary
		if route.schema != nil {
			schema = api.OpenAPI().Components.Schemas.Schema(route.schema, true, "")
		}
		op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{route.answer: {Schema: schema}}}
	}
	s.registerRaw(api, op, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) (err error) {
		q := newQuery(r.URL.Query())
		req := &fileRequest{w: w, r: r, path: q.readPath("path")}
		if route.mode {
			req.mode = q.readMode("mode")
		}
		if err := q.checkErrors(); err != nil {
			return err
		}
		if req.store, err = at.open(r.Context(), a, r.PathValue(at.key)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, req.store.Close()) }()
		return route.f(s, req)
	})
}

// pathParam is the parameter with the path of a file.
var pathParam = &huma.Param{Name: "path", In: "query", Required: true, Description: "An absolute path.", Schema: &huma.Schema{Type: "string"}}

// readPath reads the path of a file.
func (q *queryReader) readPath(name string) string {
	v := q.readText(name)
	if !strings.HasPrefix(v, "/") {
		q.addError("query."+name, "must be an absolute path", v)
	}
	return path.Clean(v)
}

// readMode reads permissions; 0 if they are missing.
func (q *queryReader) readMode(name string) fs.FileMode {
	v := q.readText(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o777 {
		q.addError("query."+name, "must be permissions in octal, at most 777", v)
	}
	return fs.FileMode(n)
}

// fileETag returns the entity tag of a file's state.
func fileETag(i fs.FileInfo) string {
	var inode uint64
	if n, ok := i.Sys().(interface{ Ino() uint64 }); ok {
		inode = n.Ino()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d", i.ModTime().UnixNano(), i.Size(), inode))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// readFile answers with a file or a range of it.
func (s *Server) readFile(q *fileRequest) error {
	f, info, err := q.openFile()
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", contentDisposition(path.Base(q.path)))
	if info == nil { // it changes all the time: ranges are meaningless
		_, err = io.Copy(q.w, f)
		return errors.Join(err, f.Close())
	}
	h.Set("ETag", fileETag(info))
	if err := checkRange(q.r, info.Size()); err != nil {
		return errors.Join(err, f.Close())
	}
	c := &seekableFile{f: f, size: info.Size()}
	http.ServeContent(q.w, q.r, "", info.ModTime(), c)
	if err := errors.Join(c.err, f.Close()); err != nil {
		if q.r.Context().Err() == nil {
			return err
		}
		return nil // the client is gone
	}
	return nil
}

// openFile opens a file with its description. The description is nil for a link, and for a file
// that keeps changing.
func (q *fileRequest) openFile() (io.ReadCloser, fs.FileInfo, error) {
	ctx := q.r.Context()
	for range 5 {
		before, err := q.store.StatFile(ctx, q.path)
		if err != nil {
			return nil, nil, err
		}
		f, err := q.store.OpenFile(ctx, q.path)
		if err != nil || !before.Mode().IsRegular() {
			return f, nil, err
		}
		after, err := q.store.StatFile(ctx, q.path)
		if err == nil && fileETag(before) == fileETag(after) {
			return f, after, nil
		}
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
	f, err := q.store.OpenFile(ctx, q.path)
	return f, nil, err
}

// seekableFile is a file of known size for http.ServeContent. It seeks forward by reading if it
// can't seek.
type seekableFile struct {
	f    io.Reader
	size int64
	at   int64 // offset of the next read
	pos  int64 // offset of f
	err  error // of reading
}

// Seek sets the offset of the next read.
func (c *seekableFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	c.at = offset
	return offset, nil
}

// Read reads up to the known size. A file that has shrunk is an error.
func (c *seekableFile) Read(b []byte) (int, error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	n, err := c.read(b[:min(int64(len(b)), c.size-c.at)])
	c.at += int64(n)
	c.pos = c.at
	if err == io.EOF && c.at < c.size { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		err = fmt.Errorf("%w: the file was %d bytes long and has shrunk", io.ErrUnexpectedEOF, c.size)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // likewise
		c.err = err
	}
	return n, err
}

func (c *seekableFile) read(b []byte) (int, error) {
	if c.pos != c.at {
		if s, ok := c.f.(io.Seeker); ok {
			if _, err := s.Seek(c.at, io.SeekStart); err != nil {
				return 0, err
			}
		} else if _, err := io.CopyN(io.Discard, c.f, c.at-c.pos); err != nil {
			return 0, err
		}
	}
	return c.f.Read(b)
}

// checkRange refuses a range beyond the file. Anything but a single range is ignored, as RFC 9110
// allows: the response is the whole file.
func checkRange(r *http.Request, size int64) error {
	text := r.Header.Get("Range")
	if text == "" {
		return nil
	}
	spec, ok := strings.CutPrefix(text, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	suffix, whole := first == "" && err2 == nil && to >= 0, err1 == nil && from >= 0 && (last == "" || err2 == nil && to >= from)
	if !ok || !dash || !suffix && !whole {
		r.Header.Del("Range")
		return nil
	}
	if r.Header.Get("If-Range") == "" && (suffix && to == 0 || whole && from >= size) {
		return &requestError{
			status: http.StatusRequestedRangeNotSatisfiable, kind: "invalid", header: http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", size)}},
			detail: fmt.Sprintf("Range %q: the file has %d bytes", shorten(text), size),
		}
	}
	return nil
}

// contentDisposition returns a header that makes browsers save a file rather than show it.
func contentDisposition(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return "attachment"
}

// writeFile replaces a file by the request's body.
func (s *Server) writeFile(q *fileRequest) error {
	if q.r.Header.Get("Content-Encoding") != "" {
		return newRequestError(http.StatusUnsupportedMediaType, "Content-Encoding: must be absent for files")
	}
	if q.mode == 0 && !q.r.URL.Query().Has("mode") {
		q.mode = 0o644
	}
	if match := q.r.Header.Get("If-None-Match"); match != "" {
		if match != "*" {
			return newRequestError(http.StatusBadRequest, "If-None-Match: must be * for a write")
		}
		_, err := q.store.StatFile(q.r.Context(), q.path)
		switch {
		case err == nil:
			return &requestError{status: http.StatusPreconditionFailed, kind: "exists", detail: q.path + ": the file exists already"}
		case !errors.Is(err, atoll.ErrNotFound):
			return err
		}
	}
	return q.writeDone(q.store.WriteFile(q.r.Context(), q.path, q.r.Body, q.mode))
}

// writeDone answers success without a body.
func (q *fileRequest) writeDone(err error) error {
	if err == nil {
		q.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (s *Server) removeFile(q *fileRequest) error {
	return q.writeDone(q.store.Remove(q.r.Context(), q.path))
}

func (s *Server) makeDirectory(q *fileRequest) error {
	if q.mode == 0 && !q.r.URL.Query().Has("mode") {
		q.mode = 0o755
	}
	return q.writeDone(q.store.Mkdir(q.r.Context(), q.path, q.mode))
}

// statFile answers with the description of a name.
func (s *Server) statFile(q *fileRequest) error {
	info, err := q.store.StatFile(q.r.Context(), q.path)
	if err != nil {
		return err
	}
	return sendJSON(q.w, wire.InfoOf(info, wire.LinkTarget(info)))
}

// listFiles answers with the entries of a directory.
func (s *Server) listFiles(q *fileRequest) error {
	infos, err := q.store.ReadDir(q.r.Context(), q.path)
	if err != nil {
		return err
	}
	l := wire.List[wire.FileInfo]{Items: make([]wire.FileInfo, 0, len(infos))}
	for _, info := range infos {
		l.Items = append(l.Items, wire.InfoOf(info, wire.LinkTarget(info)))
	}
	return sendJSON(q.w, l)
}

// sandboxFiles are the files of a sandbox, with fallbacks for what the driver does not support.
type sandboxFiles struct{ *fleet.Sandbox }

// Close does nothing.
func (sandboxFiles) Close() error { return nil }

func (i sandboxFiles) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	return atoll.OpenFile(ctx, i.Sandbox, name)
}

func (i sandboxFiles) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	return atoll.Stat(ctx, i.Sandbox, name)
}

func (i sandboxFiles) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	return atoll.ReadDir(ctx, i.Sandbox, name)
}

func (i sandboxFiles) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return atoll.Mkdir(ctx, i.Sandbox, name, perm)
}

func (i sandboxFiles) Remove(ctx context.Context, name string) error {
	return atoll.Remove(ctx, i.Sandbox, name)
}

// maxPacked is the largest file written through a driver that accepts only archives, which need
// the length first.
const maxPacked = 64 << 20

// WriteFile replaces a file.
func (i sandboxFiles) WriteFile(ctx context.Context, name string, body io.Reader, perm fs.FileMode) error {
	if f, ok := atoll.As[atoll.FS](i.Sandbox); ok {
		return f.WriteFile(ctx, name, body, perm)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(body, maxPacked+1)); err != nil {
		return err
	}
	if b.Len() > maxPacked {
		return &atoll.Error{Op: "write", ID: i.ID(), Err: fmt.Errorf("%w: this driver accepts files of at most %d bytes: import an archive", atoll.ErrUnsupported, maxPacked)}
	}
	var packed bytes.Buffer
	tw := tar.NewWriter(&packed)
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(name), Size: int64(b.Len()), Mode: int64(perm.Perm()), ModTime: time.Now()})
	if err == nil {
		_, err = tw.Write(b.Bytes())
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		return err
	}
	return i.Import(ctx, path.Dir(name), &packed)
}
