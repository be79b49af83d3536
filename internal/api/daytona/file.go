package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerFiles registers the routes of files.
func (s *Server) registerFiles() {
	s.addToolbox("GET", "/files", s.listFiles)
	s.addToolbox("DELETE", "/files", s.removeFile)
	s.addToolbox("GET", "/files/info", s.statFile)
	s.addToolbox("POST", "/files/folder", s.makeFolder)
	s.addToolbox("POST", "/files/move", s.moveFile)
	s.addToolbox("POST", "/files/permissions", s.setPermissions)
	s.addToolbox("POST", "/files/bulk-upload", s.uploadFiles)
	s.addToolbox("POST", "/files/bulk-download", s.downloadFiles)
	s.addToolbox("POST", "/files/upload", s.uploadFile)
	s.addToolbox("POST", "/files/upload-v2", s.uploadFile)
	s.addToolbox("GET", "/files/download", s.downloadFile)
}

// fileInfo describes a file.
type fileInfo struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	IsDir       bool   `json:"isDir"`
	Size        int64  `json:"size"`
	Mode        string `json:"mode"`
	Permissions string `json:"permissions"`
	ModTime     string `json:"modTime"`
	ModifiedAt  string `json:"modifiedAt"`
	Owner       string `json:"owner"`
	Group       string `json:"group"`
}

// describeFile describes a file with the path by which its client knows it.
func describeFile(shown string, info fs.FileInfo) fileInfo {
	at := info.ModTime().UTC().Format("2006-01-02T15:04:05Z")
	kind := map[fs.FileMode]string{fs.ModeDir: "d", fs.ModeSymlink: "L"}[info.Mode().Type()]
	if kind == "" {
		kind = "-"
	}
	return fileInfo{
		Name: path.Base(shown), Path: shown, IsDir: info.IsDir(), Size: info.Size(), Mode: kind + info.Mode().Perm().String()[1:],
		Permissions: fmt.Sprintf("%04o", info.Mode().Perm()), ModTime: at, ModifiedAt: at, Owner: "daytona", Group: "daytona",
	}
}

// readPath returns the absolute path that a parameter of the query names.
func (c *call) readPath(name string) (string, error) {
	v := c.r.URL.Query().Get(name)
	if v == "" {
		return "", invalidError("%s: must not be empty", name)
	}
	return absolutePath(v), nil
}

// Limits of a listing.
const (
	maxDepth   = 64
	maxEntries = 100_000
)

// listFiles answers with the files of a directory, and of those below to a depth.
func (s *Server) listFiles(c *call, sb *fleet.Sandbox) error {
	depth, err := c.readNumber("depth", 1, 0, maxDepth)
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	dir := absolutePath(c.r.URL.Query().Get("path"))
	info, err := compat.StatFile(ctx, sb, dir)
	if err != nil {
		return fileError(dir, err)
	}
	if !info.IsDir() {
		return &Error{Status: http.StatusBadRequest, Message: "it is not a directory: " + shortenText(dir)}
	}
	list := []fileInfo{}
	if err := addFiles(ctx, sb, &list, dir, "", max(depth, 1)); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, list)
}

// addFiles adds the files of a directory, with paths relative to the listed directory.
func addFiles(ctx context.Context, sb *fleet.Sandbox, list *[]fileInfo, dir, below string, depth int) error {
	infos, err := atoll.ReadDir(ctx, sb, path.Join(dir, below))
	if err != nil {
		return fileError(path.Join(dir, below), err)
	}
	for _, info := range infos {
		if len(*list) == maxEntries {
			return &Error{Status: http.StatusInsufficientStorage, Message: fmt.Sprintf("the directory has more than %d entries", maxEntries)}
		}
		name := path.Join(below, path.Base(info.Name()))
		*list = append(*list, describeFile(name, info))
		if info.IsDir() && depth > 1 {
			if err := addFiles(ctx, sb, list, dir, name, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// statFile describes a file.
func (s *Server) statFile(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	info, err := compat.StatFile(c.r.Context(), sb, name)
	if err != nil {
		return fileError(name, err)
	}
	return c.writeJSON(http.StatusOK, describeFile(name, info))
}

// parseMode parses permissions in octal digits.
func parseMode(text string, missing fs.FileMode) (fs.FileMode, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return 0, invalidError("mode %q: must be octal digits, at most 0777", shortenText(text))
	}
	return fs.FileMode(n), nil
}

// makeFolder creates a directory with those above it.
func (s *Server) makeFolder(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	mode, err := parseMode(c.r.URL.Query().Get("mode"), 0o755)
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	if err := atoll.Mkdir(ctx, sb, name, mode); err != nil {
		return err
	}
	return c.writeEmpty(http.StatusCreated, atoll.Chmod(ctx, sb, name, mode))
}

// removeFile removes a file, or with recursive a directory with all files in it.
func (s *Server) removeFile(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	info, err := atoll.Stat(ctx, sb, name)
	if err != nil {
		return fileError(name, err)
	}
	if recursive, _ := strconv.ParseBool(c.r.URL.Query().Get("recursive")); info.IsDir() && !recursive {
		return &Error{Status: http.StatusBadRequest, Message: "cannot delete directory without recursive flag: " + shortenText(name)}
	}
	return c.writeEmpty(http.StatusNoContent, fileError(name, atoll.Remove(ctx, sb, name)))
}

// moveFile renames a file or directory.
func (s *Server) moveFile(c *call, sb *fleet.Sandbox) error {
	from, err := c.readPath("source")
	if err != nil {
		return err
	}
	to, err := c.readPath("destination")
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	if _, err := atoll.Stat(ctx, sb, from); err != nil {
		return fileError(from, err)
	}
	return c.writeEmpty(http.StatusOK, atoll.Rename(ctx, sb, from, to))
}

// setPermissions changes the permissions and the owner of a file.
func (s *Server) setPermissions(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	ctx := c.r.Context()
	if _, err := atoll.Stat(ctx, sb, name); err != nil {
		return fileError(name, err)
	}
	if q.Get("mode") != "" {
		mode, err := parseMode(q.Get("mode"), 0)
		if err != nil {
			return err
		}
		if err := atoll.Chmod(ctx, sb, name, mode); err != nil {
			return err
		}
	}
	owner := q.Get("owner")
	if g := q.Get("group"); g != "" {
		owner += ":" + g
	}
	if strings.HasPrefix(owner, "-") || strings.ContainsAny(owner, "\x00\n /") || len(owner) > 128 {
		return invalidError("owner %q: it can't be the name of a user and a group", shortenText(owner))
	}
	if owner != "" {
		if err := atoll.Chown(ctx, sb, name, owner); err != nil {
			return err
		}
	}
	return c.writeEmpty(http.StatusOK, nil)
}

// writeFile replaces a file and creates missing directories.
func writeFile(c *call, sb *fleet.Sandbox, name string, content io.Reader) error {
	err := compat.WriteFile(c.r.Context(), sb, name, content)
	switch {
	case errors.Is(err, compat.ErrDirectory):
		return invalidError("it is a directory: %s", shortenText(name))
	case errors.Is(err, compat.ErrBody):
		return invalidError("%v", err)
	}
	return err
}

// readForm calls f with each part of a form.
func (c *call) readForm(f func(part *multipart.Part, fileName string) error) error {
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return &Error{Status: http.StatusUnsupportedMediaType, Message: "Content-Type: must be multipart/form-data"}
	}
	form := multipart.NewReader(c.r.Body, params["boundary"])
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalidError("the form is malformed: %v", err)
		}
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition")) // FileName drops the directory
		if err != nil {
			return invalidError("the form is malformed: %v", err)
		}
		if err := f(part, disposition["filename"]); err != nil {
			return err
		}
	}
}

// maxPath is the length of a path in bytes.
const maxPath = 4096

// uploadFiles writes the files of a form: the part files[N].path has the path of the part files[N].file,
// which follows it.
func (s *Server) uploadFiles(c *call, sb *fleet.Sandbox) error {
	paths := make(map[string]string)
	err := c.readForm(func(part *multipart.Part, fileName string) error {
		if at, ok := strings.CutSuffix(part.FormName(), ".path"); ok {
			b, err := io.ReadAll(io.LimitReader(part, maxPath+1))
			if err != nil || len(b) > maxPath || len(b) == 0 {
				return invalidError("%s: must be a path", shortenText(part.FormName()))
			}
			paths[at] = string(b)
			return nil
		}
		at, ok := strings.CutSuffix(part.FormName(), ".file")
		if !ok {
			return nil
		}
		name := paths[at]
		if name == "" {
			name = fileName
		}
		if name == "" {
			return invalidError("%s: it has no path", shortenText(part.FormName()))
		}
		return writeFile(c, sb, absolutePath(name), part)
	})
	return c.writeEmpty(http.StatusOK, err)
}

// uploadFile writes one file: the part "file" of a form.
func (s *Server) uploadFile(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	written := false
	err = c.readForm(func(part *multipart.Part, _ string) error {
		if part.FormName() != "file" {
			return nil
		}
		if written {
			return invalidError("the form has several files, and the query one path")
		}
		written = true
		return writeFile(c, sb, name, part)
	})
	if err == nil && !written {
		err = invalidError("the form has no part \"file\"")
	}
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]string{"name": path.Base(name), "path": name, "type": "file"})
}

// openFile opens a file and returns its size.
func openFile(ctx context.Context, sb *fleet.Sandbox, name string) (io.ReadCloser, int64, error) {
	info, err := compat.StatFile(ctx, sb, name)
	if err != nil {
		return nil, 0, fileError(name, err)
	}
	if info.IsDir() {
		return nil, 0, &Error{Status: http.StatusBadRequest, Message: "it is a directory: " + shortenText(name)}
	}
	f, err := atoll.OpenFile(ctx, sb, name)
	if err != nil {
		return nil, 0, fileError(name, err)
	}
	return f, info.Size(), nil
}

// downloadFile answers with the content of a file.
func (s *Server) downloadFile(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	f, size, err := openFile(c.r.Context(), sb, name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}); v != "" {
		h.Set("Content-Disposition", v)
	}
	c.w.WriteHeader(http.StatusOK)
	copyWhole(c.w, f, size)
	return nil
}

// copyWhole copies a file of a size to a client. It aborts the answer if it can't: a part must not pass for
// the whole.
func copyWhole(w io.Writer, f io.Reader, size int64) {
	sent, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(f, size), make([]byte, 256<<10))
	if err != nil || sent < size {
		panic(http.ErrAbortHandler)
	}
}

// downloadFiles answers with files as the parts of a form. A file that can't be read gives a part with its
// error instead.
func (s *Server) downloadFiles(c *call, sb *fleet.Sandbox) error {
	var in struct {
		Paths []string `json:"paths"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if len(in.Paths) == 0 {
		return invalidError("paths: must not be empty")
	}
	form := multipart.NewWriter(c.w)
	c.w.Header().Set("Content-Type", form.FormDataContentType())
	c.w.WriteHeader(http.StatusOK)
	for _, name := range in.Paths {
		if err := s.writePart(c, sb, form, name); err != nil {
			panic(http.ErrAbortHandler) // a part must not pass for the whole
		}
	}
	if err := form.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writePart writes a file, or its error, as a part of a form.
func (s *Server) writePart(c *call, sb *fleet.Sandbox, form *multipart.Writer, name string) error {
	fileName := fileNameParameter(name)
	h := textproto.MIMEHeader{}
	f, size, err := openFile(c.r.Context(), sb, absolutePath(name))
	if err != nil {
		h.Set("Content-Disposition", `form-data; name="error"; `+fileName)
		h.Set("Content-Type", "application/json")
		part, perr := form.CreatePart(h)
		if perr != nil {
			return perr
		}
		var own *Error
		code := codes[statusOf(err)]
		if errors.As(err, &own) && own.Code != "" {
			code = own.Code
		}
		return json.NewEncoder(part).Encode(map[string]any{"message": messageOf(err), "statusCode": statusOf(err), "code": code, "source": "DAYTONA_DAEMON"})
	}
	defer f.Close()
	h.Set("Content-Disposition", `form-data; name="file"; `+fileName)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	part, err := form.CreatePart(h)
	if err == nil {
		copyWhole(part, f, size)
	}
	return err
}

// messageOf returns the message of an error for a client; empty for one without a status.
func messageOf(err error) string {
	if statusOf(err) == http.StatusInternalServerError {
		return "internal error"
	}
	return err.Error()
}

// fileNameParameter returns the parameter that has the name of a file exactly as its client wrote it. A name that
// is not plain text is encoded: clients read bytes as Latin-1 otherwise.
func fileNameParameter(name string) string {
	plain := func(c rune) bool { return c < ' ' || c > '~' || c == '%' }
	if strings.ContainsFunc(name, plain) {
		return "filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return `filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}
