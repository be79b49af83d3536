package server

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

// place is where files are: a sandbox or a workspace.
type place interface {
	atoll.DirFS
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, name string) (io.ReadCloser, error)
	Close() error
}

// shore is a kind of place: where its routes begin and how one is found.
type shore struct {
	prefix string // of the routes
	key    string // the parameter that names the place
	kind   string // for operation ids
	open   func(ctx context.Context, a *fleet.Account, key string) (place, error)
}

// shores are the kinds of places.
var shores = []shore{
	{"/v1/sandboxes/{id}", "id", "", func(ctx context.Context, a *fleet.Account, key string) (place, error) {
		sb, err := a.Open(ctx, key)
		if err != nil {
			return nil, err
		}
		return inside{sb}, nil
	}},
	{"/v1/workspaces/{name}", "name", "workspace-", func(ctx context.Context, a *fleet.Account, key string) (place, error) {
		f, err := a.Files(ctx, key)
		if err != nil {
			return nil, err
		}
		return f, nil
	}},
}

// fileRequest is one request about a file.
type fileRequest struct {
	w    http.ResponseWriter
	r    *http.Request
	at   place
	path string
	mode fs.FileMode
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

// files adds files of sandboxes and workspaces.
func (s *Server) files(api huma.API) {
	header := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Description: doc, Schema: &huma.Schema{Type: "string"}}
	}
	routes := []fileRoute{
		{id: "read-%sfile", method: http.MethodGet, path: "/files", summary: "Read a file", f: (*Server).readFile, answer: "application/octet-stream",
			doc:    "With ranges and conditions as RFC 9110 has them.",
			params: []*huma.Param{header("Range", "bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH"), header("If-None-Match", "the ETag that the client has")}, errors: []int{412, 416}},
		{id: "write-%sfile", method: http.MethodPut, path: "/files", summary: "Write a file", status: http.StatusNoContent, f: (*Server).writeFile, mode: true, body: "application/octet-stream",
			doc:    "In one step: until all of it is there, readers see what was there before. Its directory must exist.",
			params: []*huma.Param{header("If-None-Match", "*: only if there is no such file yet")}, errors: []int{412, 507}},
		{id: "remove-%sfile", method: http.MethodDelete, path: "/files", summary: "Remove a file or directory and all below it", status: http.StatusNoContent, f: (*Server).removeFile},
		{id: "get-%sfile-info", method: http.MethodGet, path: "/files/info", summary: "Describe a name; a last symbolic link is not followed", f: (*Server).statFile,
			answer: "application/json", schema: reflect.TypeFor[wire.FileInfo]()},
		{id: "list-%sdirectory", method: http.MethodGet, path: "/files/list", summary: "List a directory in the order of names", f: (*Server).listFiles,
			answer: "application/json", schema: reflect.TypeFor[wire.List[wire.FileInfo]]()},
		{id: "make-%sdirectory", method: http.MethodPost, path: "/files/directory", summary: "Make a directory and those above it", status: http.StatusNoContent, f: (*Server).makeDirectory, mode: true},
		{id: "export-%sarchive", method: http.MethodGet, path: "/archive", summary: "Get a file or directory as a tar stream", f: (*Server).export, answer: "application/x-tar",
			doc: "Compressed if Accept-Encoding has gzip. One that breaks off ends with the trailer " + wire.FailureTrailer + ", a problem, if the request has TE: trailers."},
		{id: "import-%sarchive", method: http.MethodPut, path: "/archive", summary: "Unpack a tar stream into a directory, which is made if it is missing", status: http.StatusNoContent,
			doc: "It may be compressed with gzip (Content-Encoding).", f: (*Server).importArchive, body: "application/x-tar", errors: []int{415, 507}},
	}
	for _, at := range shores {
		for i := range routes {
			s.fileRoute(api, at, &routes[i])
		}
	}
	s.watches(api)
	s.dials(api)
	s.listens(api)
}

func (s *Server) fileRoute(api huma.API, at shore, route *fileRoute) {
	op := huma.Operation{
		OperationID: fmt.Sprintf(route.id, at.kind), Method: route.method, Path: at.prefix + route.path, Tags: []string{"files"}, DefaultStatus: route.status,
		Summary: route.summary, Description: route.doc, Errors: append([]int{404, 409, 501}, route.errors...), Responses: make(map[string]*huma.Response),
		Parameters: append(append(pathParams(at.key), pathParam), route.params...),
	}
	if route.mode {
		op.Parameters = append(op.Parameters, param("mode", "string", "Its permissions, octal: 644."))
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
	s.handle(api, op, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) (err error) {
		q := newQuery(r.URL.Query())
		req := &fileRequest{w: w, r: r, path: q.path("path")}
		if route.mode {
			req.mode = q.mode("mode")
		}
		if err := q.err(); err != nil {
			return err
		}
		if req.at, err = at.open(r.Context(), a, r.PathValue(at.key)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, req.at.Close()) }()
		return route.f(s, req)
	})
}

// pathParam is the parameter that names a file.
var pathParam = &huma.Param{Name: "path", In: "query", Required: true, Description: "An absolute path.", Schema: &huma.Schema{Type: "string"}}

// path reads a file's path.
func (q *query) path(name string) string {
	v := q.text(name)
	if !strings.HasPrefix(v, "/") {
		q.wrong("query."+name, "must be an absolute path", v)
	}
	return path.Clean(v)
}

// mode reads permissions; 0 where there are none.
func (q *query) mode(name string) fs.FileMode {
	v := q.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 8, 32)
	if err != nil || n > 0o777 {
		q.wrong("query."+name, "must be permissions in octal, at most 777", v)
	}
	return fs.FileMode(n)
}

// etag names a state of a file's content.
func etag(i fs.FileInfo) string {
	var inode uint64
	if n, ok := i.Sys().(interface{ Ino() uint64 }); ok {
		inode = n.Ino()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d", i.ModTime().UnixNano(), i.Size(), inode))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// readFile answers with a file or a part of it.
func (s *Server) readFile(q *fileRequest) error {
	f, info, err := q.openFile()
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", attachment(path.Base(q.path)))
	if info == nil { // it changes all the time: no part of it means anything
		_, err = io.Copy(q.w, f)
		return errors.Join(err, f.Close())
	}
	h.Set("ETag", etag(info))
	if err := checkRange(q.r, info.Size()); err != nil {
		return errors.Join(err, f.Close())
	}
	c := &content{f: f, size: info.Size()}
	http.ServeContent(q.w, q.r, "", info.ModTime(), c)
	if err := errors.Join(c.err, f.Close()); err != nil {
		if q.r.Context().Err() == nil {
			return err
		}
		return nil // who is gone has no question
	}
	return nil
}

// openFile opens a file together with what describes it. There is no
// description of a link, nor of a file that is another each time.
func (q *fileRequest) openFile() (io.ReadCloser, fs.FileInfo, error) {
	ctx := q.r.Context()
	for range 5 {
		before, err := q.at.StatFile(ctx, q.path)
		if err != nil {
			return nil, nil, err
		}
		f, err := q.at.OpenFile(ctx, q.path)
		if err != nil || !before.Mode().IsRegular() {
			return f, nil, err
		}
		after, err := q.at.StatFile(ctx, q.path)
		if err == nil && etag(before) == etag(after) {
			return f, after, nil
		}
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
	f, err := q.at.OpenFile(ctx, q.path)
	return f, nil, err
}

// content is a file of a known size as http.ServeContent wants it: seeking
// forward is reading what is skipped.
type content struct {
	f    io.Reader
	size int64
	at   int64 // where the next read is to be
	pos  int64 // where f is
	err  error // of reading
}

// Seek notes where to read.
func (c *content) Seek(offset int64, whence int) (int64, error) {
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

// Read reads up to the known size. A file that has become shorter is an error.
func (c *content) Read(b []byte) (int, error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	n, err := c.read(b[:min(int64(len(b)), c.size-c.at)])
	c.at += int64(n)
	c.pos = c.at
	if err == io.EOF && c.at < c.size { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		err = fmt.Errorf("%w: the file was %d bytes long and has become shorter", io.ErrUnexpectedEOF, c.size)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // likewise
		c.err = err
	}
	return n, err
}

func (c *content) read(b []byte) (int, error) {
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

// checkRange refuses a range that a file does not have. What is no single range
// is left out, as RFC 9110 allows: the answer is the whole file.
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
		return &refusal{status: http.StatusRequestedRangeNotSatisfiable, kind: "invalid", header: http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", size)}},
			detail: fmt.Sprintf("Range %q: the file has %d bytes", clip(text), size)}
	}
	return nil
}

// attachment says that a browser is to keep what it gets, not to show it.
func attachment(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return "attachment"
}

// writeFile replaces a file by the request's body.
func (s *Server) writeFile(q *fileRequest) error {
	if q.r.Header.Get("Content-Encoding") != "" {
		return refuse(http.StatusUnsupportedMediaType, "Content-Encoding: a file is taken as it is")
	}
	if q.mode == 0 && !q.r.URL.Query().Has("mode") {
		q.mode = 0o644
	}
	if match := q.r.Header.Get("If-None-Match"); match != "" {
		if match != "*" {
			return refuse(http.StatusBadRequest, "If-None-Match: a write knows only *")
		}
		_, err := q.at.StatFile(q.r.Context(), q.path)
		switch {
		case err == nil:
			return &refusal{status: http.StatusPreconditionFailed, kind: "exists", detail: q.path + ": there is such a file already"}
		case !errors.Is(err, atoll.ErrNotFound):
			return err
		}
	}
	return q.done(q.at.WriteFile(q.r.Context(), q.path, q.r.Body, q.mode))
}

// done answers that something is done.
func (q *fileRequest) done(err error) error {
	if err == nil {
		q.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (s *Server) removeFile(q *fileRequest) error {
	return q.done(q.at.Remove(q.r.Context(), q.path))
}

func (s *Server) makeDirectory(q *fileRequest) error {
	if q.mode == 0 && !q.r.URL.Query().Has("mode") {
		q.mode = 0o755
	}
	return q.done(q.at.Mkdir(q.r.Context(), q.path, q.mode))
}

// statFile describes a name.
func (s *Server) statFile(q *fileRequest) error {
	info, err := q.at.StatFile(q.r.Context(), q.path)
	if err != nil {
		return err
	}
	return sendJSON(q.w, wire.InfoOf(info, target(info)))
}

// listFiles lists a directory.
func (s *Server) listFiles(q *fileRequest) error {
	infos, err := q.at.ReadDir(q.r.Context(), q.path)
	if err != nil {
		return err
	}
	l := wire.List[wire.FileInfo]{Items: make([]wire.FileInfo, 0, len(infos))}
	for _, info := range infos {
		l.Items = append(l.Items, wire.InfoOf(info, target(info)))
	}
	return sendJSON(q.w, l)
}

// target returns where a symbolic link leads, as far as that is known.
func target(info fs.FileInfo) string {
	if info.Mode().Type() != fs.ModeSymlink {
		return ""
	}
	switch known := info.Sys().(type) {
	case *tar.Header:
		return known.Linkname
	case interface{ Linkname() string }:
		return known.Linkname()
	}
	return ""
}

// inside are the files of a sandbox, of a driver with fast ways to them or not.
type inside struct{ *fleet.Sandbox }

// Close does nothing.
func (inside) Close() error { return nil }

func (i inside) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	return atoll.OpenFile(ctx, i.Sandbox, name)
}

func (i inside) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	return atoll.Stat(ctx, i.Sandbox, name)
}

func (i inside) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	return atoll.ReadDir(ctx, i.Sandbox, name)
}

func (i inside) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return atoll.Mkdir(ctx, i.Sandbox, name, perm)
}

func (i inside) Remove(ctx context.Context, name string) error {
	return atoll.Remove(ctx, i.Sandbox, name)
}

// maxPacked is how much of a file is held for a driver that takes only archives,
// which have to say first how long it is.
const maxPacked = 64 << 20

// WriteFile replaces a file.
func (i inside) WriteFile(ctx context.Context, name string, body io.Reader, perm fs.FileMode) error {
	if f, ok := atoll.As[atoll.FS](i.Sandbox); ok {
		return f.WriteFile(ctx, name, body, perm)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(body, maxPacked+1)); err != nil {
		return err
	}
	if b.Len() > maxPacked {
		return &atoll.Error{Op: "write", ID: i.ID(), Err: fmt.Errorf("%w: this driver takes files of at most %d bytes: send an archive", atoll.ErrUnsupported, maxPacked)}
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
