package file

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// canonMode is which parts of a path must exist.
type canonMode int

const (
	canonLast    canonMode = iota // all but the last must exist
	canonAll                      // all must exist
	canonMissing                  // none must exist
)

// canon resolves the canonical name of a file: absolute, without links, dots and repeated slashes.
type canon struct {
	p       *kernel.Proc
	mode    canonMode
	keep    bool // don't follow links
	logical bool // resolve .. before following links
}

const maxLinks = 40

// resolvePath returns the canonical name of a path.
func (c canon) resolvePath(name string) (string, error) {
	if name == "" {
		return "", vfs.ENOENT
	}
	abs := c.p.Path(name)
	if !strings.HasPrefix(name, "/") && !c.keep {
		if dir, err := c.p.Resolve(c.p.Dir()); err == nil {
			abs = joinName(dir, name)
		}
	}
	if c.logical || c.keep {
		abs = cleanLexically(abs, name)
	}
	return c.walkPath(abs)
}

// cleanLexically removes the dots from an absolute path. It keeps a slash at the end.
func cleanLexically(abs, name string) string {
	var parts []string
	for part := range strings.SplitSeq(abs, "/") {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, part)
		}
	}
	s := "/" + strings.Join(parts, "/")
	if strings.HasSuffix(name, "/") && s != "/" {
		s += "/"
	}
	return s
}

func (c canon) walkPath(abs string) (string, error) {
	done := ""
	rest := abs
	for hops := 0; ; {
		c.p.Tick(2)
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			break
		}
		name, more := rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			name, more = rest[:i], rest[i:]
		}
		rest = more
		switch name {
		case ".":
			continue
		case "..":
			done = done[:max(0, strings.LastIndexByte(done, '/'))]
			continue
		}
		next := done + "/" + name
		info, err := c.p.Lstat(next)
		if err != nil {
			if e := c.missingError(err, rest); e != nil {
				return "", e
			}
			done = next
			continue
		}
		if info.Mode()&fs.ModeSymlink != 0 && !c.keep {
			if hops++; hops > maxLinks {
				if c.mode == canonMissing {
					done = next
					continue
				}
				return "", vfs.ELOOP
			}
			target, err := c.p.Readlink(next)
			if err != nil {
				return "", err
			}
			if strings.HasPrefix(target, "/") {
				done = ""
			}
			rest = target + rest
			continue
		}
		if rest != "" && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 && c.mode != canonMissing {
			return "", vfs.ENOTDIR
		}
		done = next
	}
	if done == "" {
		done = "/"
	}
	return done, nil
}

// missingError returns the error for a missing part; rest is the path after it.
func (c canon) missingError(err error, rest string) error {
	if c.mode == canonMissing {
		return nil
	}
	if c.mode == canonLast && strings.Trim(rest, "/") == "" && isMissing(err) {
		return nil
	}
	return err
}

func isMissing(err error) bool { return errors.Is(err, vfs.ENOENT) }
