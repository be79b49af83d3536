package e2b

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerFiles registers the up- and downloads of files, and what else the agent of a sandbox answers.
func (s *Server) registerFiles() {
	add(s.data, "GET /files", s.downloadFile)
	add(s.data, "POST /files", s.uploadFiles)
	add(s.data, "GET /health", s.checkHealth)
	add(s.data, "GET /metrics", s.agentMetrics)
	add(s.data, "GET /envs", s.listEnv)
}

// checkHealth answers 204 if the sandbox runs.
func (s *Server) checkHealth(c *call) error {
	_, err := s.openSandbox(c)
	return c.writeEmpty(err)
}

// listEnv answers with the environment of commands.
func (s *Server) listEnv(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	env := make(map[string]string)
	for _, e := range info.Config.Env {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	return c.writeJSON(http.StatusOK, env)
}

// downloadFile answers with the content of a file.
func (s *Server) downloadFile(c *call) error {
	sb, name, err := s.filesOf(c, c.r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	info, err := compat.StatFile(ctx, sb, name)
	switch {
	case err != nil:
		return fileError(name, err)
	case info.IsDir():
		return invalidError("path '%s' is a directory", shortenText(name))
	}
	f, err := atoll.OpenFile(ctx, sb, name)
	if err != nil {
		return fileError(name, err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if v := mime.FormatMediaType("inline", map[string]string{"filename": path.Base(name)}); v != "" {
		h.Set("Content-Disposition", v)
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
	if acceptsOnlyGzip(c.r) && info.Size() > 0 {
		return c.sendGzip(f)
	}
	return c.sendFile(f, info.Size())
}

// acceptsOnlyGzip reports whether a client asked for compression: the usual header of HTTP clients lists
// gzip among others, and compression costs more than it saves on short ways.
func acceptsOnlyGzip(r *http.Request) bool {
	return strings.TrimSpace(r.Header.Get("Accept-Encoding")) == "gzip"
}

// sendFile answers with a file of a known size. A file of /proc, whose size is 0, has any length.
func (c *call) sendFile(f io.ReadCloser, size int64) error {
	defer f.Close()
	var first [1]byte
	n, err := io.ReadFull(f, first[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if size > 0 || n == 0 {
		c.w.Header().Set("Content-Length", strconv.FormatInt(size*int64(n), 10))
	}
	c.w.WriteHeader(http.StatusOK)
	from := io.MultiReader(strings.NewReader(string(first[:n])), f)
	if size > 0 {
		from = io.LimitReader(from, size)
	}
	sent, err := io.CopyBuffer(struct{ io.Writer }{c.w}, from, make([]byte, 256<<10))
	if err == nil && size > 0 && sent < size {
		err = fmt.Errorf("%w: the file has shrunk", io.ErrUnexpectedEOF)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // a part must not pass for the whole
	}
	return nil
}

// sendGzip answers with a compressed file.
func (c *call) sendGzip(f io.ReadCloser) error {
	defer f.Close()
	c.w.Header().Set("Content-Encoding", "gzip")
	c.w.WriteHeader(http.StatusOK)
	z, err := gzip.NewWriterLevel(c.w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err = io.Copy(z, f); err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // a part must not pass for the whole
	}
	return nil
}

// writtenFile describes a file that was written.
type writtenFile struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
}

// uploadFiles writes one file of any type, or the files of a form: each part "file" is a file, whose
// name is its path unless the query has one.
func (s *Server) uploadFiles(c *call) error {
	q := c.r.URL.Query()
	sb, name, err := s.filesOf(c, q.Get("path"))
	if err != nil {
		return err
	}
	for k := range c.r.Header {
		if strings.HasPrefix(k, "X-Metadata-") {
			return unsupportedError("metadata of files")
		}
	}
	body := io.Reader(c.r.Body)
	switch coding := c.r.Header.Get("Content-Encoding"); coding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return invalidError("the body is not gzip: %v", err)
		}
		body = z
	default:
		return &Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Encoding %q: must be gzip", shortenText(coding))}
	}
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil {
		return &Error{Status: http.StatusUnsupportedMediaType, Message: "Content-Type: must be multipart/form-data or application/octet-stream"}
	}
	var list []writtenFile
	switch kind {
	case "multipart/form-data":
		if list, err = writeParts(c, sb, multipart.NewReader(body, params["boundary"]), q.Get("path")); err != nil {
			return err
		}
	case "application/octet-stream":
		if q.Get("path") == "" {
			return invalidError("path: must not be empty")
		}
		if err := writeFile(c, sb, name, body); err != nil {
			return err
		}
		list = []writtenFile{{path.Base(name), name, "file"}}
	default:
		return &Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Type %q: must be multipart/form-data or application/octet-stream", shortenText(kind))}
	}
	return c.writeJSON(http.StatusOK, list)
}

// writeParts writes the files of a form.
func writeParts(c *call, sb *fleet.Sandbox, form *multipart.Reader, only string) ([]writtenFile, error) {
	list := []writtenFile{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, invalidError("the form is malformed: %v", err)
		}
		if part.FormName() != "file" {
			continue
		}
		name := absolutePath(only)
		if only == "" {
			_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition")) // FileName drops the directory
			if err != nil || params["filename"] == "" {
				return nil, invalidError("a part of the form has no filename")
			}
			name = absolutePath(params["filename"])
		} else if len(list) > 0 {
			return nil, invalidError("the form has several files, and the query one path")
		}
		if err := writeFile(c, sb, name, part); err != nil {
			return nil, err
		}
		list = append(list, writtenFile{path.Base(name), name, "file"})
	}
}

// writeFile replaces a file and creates missing directories. Errors of the client's body are its own.
func writeFile(c *call, sb *fleet.Sandbox, name string, body io.Reader) error {
	err := compat.WriteFile(c.r.Context(), sb, name, body)
	switch {
	case errors.Is(err, compat.ErrDirectory):
		return invalidError("path is a directory: %s", shortenText(name))
	case errors.Is(err, compat.ErrBody):
		return invalidError("%v", err)
	}
	return err
}
