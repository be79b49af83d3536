package storage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/transfer"
)

// packContext streams what is in a directory for a build, but for what its
// .dockerignore names.
func packContext(ctx context.Context, dir string) (io.ReadCloser, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is not a directory", atoll.ErrInvalid, dir)
	}
	ignored, err := readIgnored(filepath.Join(dir, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	return transfer.PipeReader(func(w io.Writer) error {
		tw := tar.NewWriter(w)
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(dir, file)
			if err != nil || rel == "." {
				return err
			}
			name := filepath.ToSlash(rel)
			if ignored.matches(name) {
				if d.IsDir() && !ignored.exceptions {
					return fs.SkipDir
				}
				return nil
			}
			return transfer.PackOne(tw, file, name, d)
		})
		if err != nil {
			return err
		}
		return tw.Close()
	}), nil
}

// ignoreList holds the patterns of a .dockerignore; the last pattern that matches decides.
type ignoreList struct {
	patterns   []ignorePattern
	exceptions bool // some begin with "!"
}

type ignorePattern struct {
	parts []string // "**" is any number of directories
	keep  bool
}

func readIgnored(name string) (*ignoreList, error) {
	l := &ignoreList{}
	b, err := config.ReadSmallFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		text, keep := strings.CutPrefix(text, "!")
		text = strings.TrimPrefix(path.Clean(strings.TrimSpace(text)), "/")
		p := ignorePattern{parts: strings.Split(text, "/"), keep: keep}
		for _, part := range p.parts {
			if _, err := path.Match(part, "x"); err != nil {
				return nil, fmt.Errorf("%w: %s: %q: %w", atoll.ErrInvalid, name, text, err)
			}
		}
		l.patterns, l.exceptions = append(l.patterns, p), l.exceptions || keep
	}
	return l, nil
}

// matches reports whether a name is to be left out: it, or a directory above it,
// is named.
func (l *ignoreList) matches(name string) bool {
	out := false
	parts := strings.Split(name, "/")
	for _, p := range l.patterns {
		for n := 1; n <= len(parts); n++ {
			if matchParts(p.parts, parts[:n]) {
				out = !p.keep
				break
			}
		}
	}
	return out
}

func matchParts(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		return matchParts(pattern[1:], name) || len(name) > 0 && matchParts(pattern, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	ok, _ := path.Match(pattern[0], name[0]) // checked when it was read
	return ok && matchParts(pattern[1:], name[1:])
}
