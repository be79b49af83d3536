package command

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// canonMode says which parts of a path must exist.
type canonMode int

const (
	canonLast    canonMode = iota // all but the last
	canonAll                      // all
	canonMissing                  // none
)

// canon finds the absolute name of a file without links, dots or repeated
// slashes.
type canon struct {
	p       *kernel.Proc
	mode    canonMode
	keep    bool // don't follow links
	logical bool // take .. away before links are followed
}

const maxLinks = 40

// path returns the canonical name of a path.
func (c canon) path(name string) (string, error) {
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
		abs = lexical(abs, name)
	}
	return c.walk(abs)
}

// lexical takes the dots out of an absolute path; a slash at its end stays.
func lexical(abs, name string) string {
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

func (c canon) walk(abs string) (string, error) {
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
			if e := c.absent(err, rest); e != nil {
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

// absent returns the error of a part that is not there, with what follows it.
func (c canon) absent(err error, rest string) error {
	if c.mode == canonMissing {
		return nil
	}
	if c.mode == canonLast && strings.Trim(rest, "/") == "" && isMissing(err) {
		return nil
	}
	return err
}

func isMissing(err error) bool { return errors.Is(err, vfs.ENOENT) }
