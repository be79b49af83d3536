package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

type readIn struct {
	Path    string `json:"path" jsonschema:"path in the sandbox, absolute"`
	From    int    `json:"start_line,omitempty" jsonschema:"first line wanted, counted from 1"`
	To      int    `json:"end_line,omitempty" jsonschema:"last line wanted"`
	Sandbox string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type writeIn struct {
	Path       string `json:"path" jsonschema:"path in the sandbox, absolute; missing parent directories are created"`
	Content    string `json:"content" jsonschema:"the whole new content"`
	Executable bool   `json:"executable,omitempty" jsonschema:"may be run as a program"`
	Sandbox    string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type editIn struct {
	Path    string `json:"path" jsonschema:"path in the sandbox, absolute"`
	Old     string `json:"old_text" jsonschema:"text to replace, exactly as in the file, including white space; with enough context to occur only once"`
	New     string `json:"new_text" jsonschema:"replacement"`
	All     bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
	Sandbox string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type listIn struct {
	Path    string `json:"path,omitempty" jsonschema:"directory in the sandbox, absolute; / if left out"`
	Depth   int    `json:"depth,omitempty" jsonschema:"how many levels to show; 1 if left out, at most 8"`
	Sandbox string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

const (
	maxEdit    = 16 << 20 // bytes of a file that can be edited, before and after
	maxLine    = 1 << 20  // bytes of one line that are shown
	maxEntries = 1000     // of a listing
	maxDepth   = 8
)

func (t *tools) addFiles(s *mcp.Server) {
	add(s, &mcp.Tool{
		Name:        "read_file",
		Description: "Read a text file of a sandbox, or some lines of it. A long answer is cut; ask for the lines you need.",
		Annotations: readOnlyTool("Read a file"),
	}, t.read)
	add(s, &mcp.Tool{
		Name:        "write_file",
		Description: "Write a file of a sandbox, replacing what was there. To change part of a file use edit_file.",
		Annotations: changingTool("Write a file", true),
	}, t.write)
	add(s, &mcp.Tool{
		Name:        "edit_file",
		Description: "Replace a piece of text in a file of a sandbox. The old text must occur exactly once, unless replace_all is set; otherwise nothing is changed and the answer gives the reason.",
		Annotations: changingTool("Edit a file", true),
	}, t.editFile)
	add(s, &mcp.Tool{
		Name:        "list_files",
		Description: "List a directory of a sandbox: kind, size and name of each entry.",
		Annotations: readOnlyTool("List files"),
	}, t.listFiles)
}

func (t *tools) read(ctx context.Context, _ *mcp.CallToolRequest, in readIn) (text string, err error) {
	if err := checkPath(in.Path); err != nil {
		return "", err
	}
	if in.From < 0 || in.To < 0 || in.To > 0 && in.To < in.From {
		return "", fmt.Errorf("%w: lines %d to %d: the first is 1, and the last not before the first", atoll.ErrInvalid, in.From, in.To)
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	rc, err := atoll.OpenFile(ctx, sb, in.Path)
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := rc.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	return readLines(rc, in.Path, max(in.From, 1), in.To)
}

// readLines returns the lines from from to to (0: the last) within maxText.
func readLines(r io.Reader, name string, from, to int) (string, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if start, _ := br.Peek(8 << 10); bytes.IndexByte(start, 0) >= 0 {
		return "", fmt.Errorf("%w: %s is no text file; inspect it with exec, for instance xxd or file", atoll.ErrInvalid, name)
	}
	var b strings.Builder
	n := 0
	for {
		line, err := readLine(br)
		if len(line) > 0 {
			n++
			if n >= from {
				if b.Len()+len(line) > maxText {
					fmt.Fprintf(&b, "\n[… cut in line %d: ask for start_line %d to go on …]", n, n)
					return validUTF8(b.String()), nil
				}
				b.Write(line)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && n < from && from > 1:
			return "", fmt.Errorf("%w: %s has %d lines, fewer than start_line %d", atoll.ErrInvalid, name, n, from)
		case errors.Is(err, io.EOF) && b.Len() == 0:
			return "[the file is empty]", nil
		case errors.Is(err, io.EOF):
			return validUTF8(b.String()), nil
		case err != nil:
			return "", err
		case to > 0 && n >= to:
			return validUTF8(b.String()), nil
		}
	}
}

// readLine returns a line with its end, at most maxLine bytes of it.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxLine-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (t *tools) write(ctx context.Context, _ *mcp.CallToolRequest, in writeIn) (string, error) {
	if err := checkPath(in.Path); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	perm := fs.FileMode(0o644)
	if in.Executable {
		perm = 0o755
	}
	if err := atoll.WriteFile(ctx, sb, in.Path, []byte(in.Content), perm); err != nil {
		return "", err
	}
	return fmt.Sprintf("Wrote %d bytes to %s.", len(in.Content), in.Path), nil
}

func (t *tools) editFile(ctx context.Context, _ *mcp.CallToolRequest, in editIn) (string, error) {
	if err := checkPath(in.Path); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	info, err := atoll.Stat(ctx, sb, in.Path)
	if err != nil {
		return "", err
	}
	old, err := readEditable(ctx, sb, in.Path, info.Size())
	if err != nil {
		return "", err
	}
	text, n, err := replaceText(old, in)
	if err != nil {
		return "", fmt.Errorf("%s: %w", in.Path, err)
	}
	if err := atoll.WriteFile(ctx, sb, in.Path, []byte(text), info.Mode().Perm()); err != nil {
		return "", err
	}
	return fmt.Sprintf("Replaced %d occurrence(s) in %s.", n, in.Path), nil
}

// readEditable returns the text of a file of a known size: never more than maxEdit bytes, even if
// the file has grown.
func readEditable(ctx context.Context, sb atoll.Sandbox, name string, size int64) (text string, err error) {
	tooLarge := fmt.Errorf("%w: %s has more than the %d bytes that can be edited; use exec with sed", atoll.ErrInvalid, name, maxEdit)
	if size > maxEdit {
		return "", tooLarge
	}
	rc, err := atoll.OpenFile(ctx, sb, name)
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := rc.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	var b strings.Builder
	b.Grow(int(max(size, 0)))
	n, err := io.Copy(&b, io.LimitReader(rc, maxEdit+1))
	switch {
	case err != nil:
		return "", err
	case n > maxEdit:
		return "", tooLarge
	case !utf8.ValidString(b.String()):
		return "", fmt.Errorf("%w: %s is no text file", atoll.ErrInvalid, name)
	}
	return b.String(), nil
}

// replaceText replaces the old text by the new one and returns the number of replacements. The
// result has at most maxEdit bytes.
func replaceText(text string, in editIn) (string, int, error) {
	switch n := strings.Count(text, in.Old); {
	case in.Old == "":
		return "", 0, fmt.Errorf("%w: old_text is empty; use write_file to create a file", atoll.ErrInvalid)
	case in.Old == in.New:
		return "", 0, fmt.Errorf("%w: old_text and new_text are the same", atoll.ErrInvalid)
	case n == 0:
		return "", 0, fmt.Errorf("%w: old_text does not occur in the file; white space and line ends must match exactly. Read it again", atoll.ErrInvalid)
	case n > 1 && !in.All:
		return "", 0, fmt.Errorf("%w: old_text occurs %d times, first in lines %s; give more context, or set replace_all", atoll.ErrInvalid, n, linesOf(text, in.Old))
	case len(in.New) > len(in.Old) && n > (maxEdit-len(text))/(len(in.New)-len(in.Old)):
		return "", 0, fmt.Errorf("%w: with new_text in %d places the file would have more than %d bytes; use exec with sed", atoll.ErrInvalid, n, maxEdit)
	default:
		return strings.ReplaceAll(text, in.Old, in.New), n, nil
	}
}

// linesOf returns the numbers of the first lines in which old begins.
func linesOf(text, old string) string {
	var list []string
	at, line := 0, 1
	for len(list) < 5 {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		line += strings.Count(text[at:at+i], "\n")
		list = append(list, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		at += i + len(old)
	}
	return strings.Join(list, ", ")
}

func (t *tools) listFiles(ctx context.Context, _ *mcp.CallToolRequest, in listIn) (string, error) {
	if in.Path == "" {
		in.Path = "/"
	}
	if err := checkPath(in.Path); err != nil {
		return "", err
	}
	if in.Depth < 0 || in.Depth > maxDepth {
		return "", fmt.Errorf("%w: depth %d: must be between 1 and %d", atoll.ErrInvalid, in.Depth, maxDepth)
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	l := &lister{ctx: ctx, sb: sb, out: &b}
	if err := l.list(path.Clean(in.Path), "", max(in.Depth, 1)); err != nil {
		return "", err
	}
	switch {
	case l.n == 0:
		return "[the directory is empty]", nil
	case l.n >= maxEntries:
		fmt.Fprintf(&b, "[… more than %d entries: list a directory below, or use exec with find …]\n", maxEntries)
	}
	return truncateText(b.String()), nil
}

// lister lists directories recursively.
type lister struct {
	ctx context.Context //nolint:containedctx // it lives as long as the one call
	sb  atoll.Sandbox
	out *strings.Builder
	n   int
}

func (l *lister) list(dir, prefix string, depth int) error {
	entries, err := atoll.ReadDir(l.ctx, l.sb, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if l.n >= maxEntries {
			return nil
		}
		l.n++
		kind, size := "file", fmt.Sprint(e.Size())
		switch {
		case e.IsDir():
			kind, size = "dir ", "-"
		case e.Mode()&fs.ModeSymlink != 0:
			kind = "link"
		case !e.Mode().IsRegular():
			kind = "else"
		}
		fmt.Fprintf(l.out, "%s %10s  %s%s\n", kind, size, prefix, quoteName(e.Name()))
		if e.IsDir() && depth > 1 {
			if err := l.list(path.Join(dir, e.Name()), prefix+quoteName(e.Name())+"/", depth-1); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// quoteName quotes a name with control characters, so that it stays on one line.
func quoteName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
