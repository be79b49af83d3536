package daytona

import (
	"bufio"
	"bytes"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerSearch registers the routes that search and change the content of files.
func (s *Server) registerSearch() {
	s.addToolbox("GET", "/files/find", s.findInFiles)
	s.addToolbox("GET", "/files/search", s.searchFiles)
	s.addToolbox("POST", "/files/replace", s.replaceInFiles)
}

// match is a line of a file that contains a pattern.
type match struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Content string `json:"content"`
}

// runTool runs a program in a sandbox and returns what it has written. Statuses up to most are no errors.
func runTool(c *call, sb *fleet.Sandbox, most int, args ...string) ([]byte, error) {
	exit, err := sb.Exec(c.r.Context(), atoll.Cmd{Args: args, Timeout: -1, MaxOutput: maxOutput})
	switch {
	case err != nil:
		return nil, err
	case exit.Truncated:
		return nil, &Error{Status: http.StatusInsufficientStorage, Message: "the result has more than " + strconv.Itoa(maxOutput) + " bytes"}
	case exit.Code > most:
		return nil, &Error{Status: http.StatusBadRequest, Message: strings.ToValidUTF8(string(bytes.TrimSpace(exit.Stderr)), "\uFFFD")}
	}
	return exit.Stdout, nil
}

// findInFiles answers with the lines of text files that contain a text.
func (s *Server) findInFiles(c *call, sb *fleet.Sandbox) error {
	name, err := c.readPath("path")
	if err != nil {
		return err
	}
	pattern := c.r.URL.Query().Get("pattern")
	if pattern == "" {
		return invalidError("pattern: must not be empty")
	}
	if _, err := atoll.Stat(c.r.Context(), sb, name); err != nil {
		return fileError(name, err)
	}
	out, err := runTool(c, sb, 1, "grep", "-rHnIZF", "-e", pattern, "--", name)
	if err != nil {
		return err
	}
	list := []match{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); ; {
		lines.Buffer(nil, maxOutput)
		for lines.Scan() {
			file, rest, ok := strings.Cut(lines.Text(), "\x00")
			number, content, ok2 := strings.Cut(rest, ":")
			n, err := strconv.Atoi(number)
			if !ok || !ok2 || err != nil {
				continue // a name with a line break
			}
			list = append(list, match{file, n, strings.ToValidUTF8(content, "\uFFFD")})
		}
		return c.writeJSON(http.StatusOK, list)
	}
}

// searchFiles answers with the files below a directory whose names match a pattern.
func (s *Server) searchFiles(c *call, sb *fleet.Sandbox) error {
	dir, err := c.readPath("path")
	if err != nil {
		return err
	}
	pattern := c.r.URL.Query().Get("pattern")
	if _, err := path.Match(pattern, "x"); err != nil || pattern == "" {
		return invalidError("pattern %q: must be a pattern of names, such as *.go", shortenText(pattern))
	}
	if _, err := atoll.Stat(c.r.Context(), sb, dir); err != nil {
		return fileError(dir, err)
	}
	out, err := runTool(c, sb, 1, "find", dir, "-name", pattern, "-print0")
	if err != nil {
		return err
	}
	files := []string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if name != "" {
			files = append(files, strings.ToValidUTF8(name, "\uFFFD"))
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"files": files})
}

// replaceResult is how the change of a file has ended.
type replaceResult struct {
	File    string `json:"file"`
	Success bool   `json:"success"`
	Error   string `json:"error,omitempty"`
}

// maxReplace is the largest file in bytes in which texts are replaced.
const maxReplace = 64 << 20

// replaceInFiles replaces a text in files.
func (s *Server) replaceInFiles(c *call, sb *fleet.Sandbox) error {
	var in struct {
		Files    []string `json:"files"`
		Pattern  string   `json:"pattern"`
		NewValue *string  `json:"newValue"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if in.Pattern == "" || in.NewValue == nil || len(in.Files) == 0 {
		return invalidError("files, pattern and newValue: must be given")
	}
	list := []replaceResult{}
	for _, name := range in.Files {
		r := replaceResult{File: name, Success: true}
		if err := replaceInFile(c, sb, absolutePath(name), in.Pattern, *in.NewValue); err != nil {
			r.Success, r.Error = false, messageOf(err)
		}
		list = append(list, r)
	}
	return c.writeJSON(http.StatusOK, list)
}

// replaceInFile replaces a text in a file.
func replaceInFile(c *call, sb *fleet.Sandbox, name, old, text string) error {
	f, size, err := openFile(c.r.Context(), sb, name)
	if err != nil {
		return err
	}
	_ = f.Close() // it was not read
	if size > maxReplace {
		return invalidError("it has more than %d bytes", maxReplace)
	}
	b, err := atoll.ReadFile(c.r.Context(), sb, name)
	if err != nil {
		return err
	}
	return writeFile(c, sb, name, bytes.NewReader(bytes.ReplaceAll(b, []byte(old), []byte(text))))
}
