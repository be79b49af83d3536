package shellwire

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// reasons are what the scripts of transfers end with.
var reasons = map[int]error{
	40: atoll.ErrNotFound,
	41: fmt.Errorf("%w: something on the way is no directory, or is one", atoll.ErrInvalid),
	42: fmt.Errorf("%w: the image has no tar", atoll.ErrUnsupported),
	43: atoll.ErrDenied,
	44: fmt.Errorf("%w: the disk is full", atoll.ErrQuota),
	45: errors.New("tar or mv could not do it"),
	46: fmt.Errorf("%w: what has arrived is not what was sent", atoll.ErrUnavailable),
}

// reason returns what a script's end means.
func reason(exit atoll.Exit) error {
	err := reasons[exit.Code]
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("the script ended with status %d", exit.Code)
	}
	if text := bytes.TrimSpace(exit.Stderr); err != nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-mostWords):])
	}
	return err
}

// mostWords is how much of a program's messages an error holds.
const mostWords = 1000

// checkPath checks a path inside and returns it cleaned.
func checkPath(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	return path.Clean(name), nil
}

// transfer returns a context for a transfer.
func (s *Shell) transfer(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Transfer <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.Transfer, fmt.Errorf("%w after %v", atoll.ErrTimeout, s.Transfer))
}

// Import unpacks a tar stream as atoll.Sandbox does.
func (s *Shell) Import(ctx context.Context, dir string, archive io.Reader) error {
	dir, err := checkPath(dir)
	if err != nil {
		return err
	}
	ctx, cancel := s.transfer(ctx)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close() // never fails; whoever writes notices
	go func() {
		whole := bufio.NewWriterSize(w, bulk.frame) // each piece costs the script a process
		err := repack(whole, archive)
		if err == nil {
			err = whole.Flush()
		}
		_ = w.CloseWithError(err) // never fails
	}()
	own := ".atoll-import-" + newToken()
	exit, err := s.exec(ctx, &atoll.Cmd{Args: []string{"sh", "-c", importText, "sh", dir, own}, Dir: "/", Stdin: r, MaxOutput: 1 << 16}, bulk)
	if err != nil {
		s.remove(ctx, path.Join(dir, own))
		return err
	}
	return reason(exit)
}

// remove removes what an import has left that was cut off.
func (s *Shell) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	_, _ = s.Run(ctx, &Call{Args: []string{"rm", "-rf", "--", name}}) // where that fails, the container is gone
}

// repacker writes an archive anew, so that tar in the container, whichever it is,
// can do nothing with it but what is right.
type repacker struct {
	tw    *tar.Writer
	dirs  []*tar.Header   // in the order of the archive
	sums  bytes.Buffer    // for sha256sum -c
	files map[string]bool // that hard links can be to
	links map[string]bool // symbolic ones
}

// repack reads an archive and writes it as import.sh wants it.
func repack(w io.Writer, archive io.Reader) error {
	p := &repacker{tw: tar.NewWriter(w), files: make(map[string]bool), links: make(map[string]bool)}
	tr := tar.NewReader(archive)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bad(err)
		}
		if err := p.entry(h, tr); err != nil {
			return fmt.Errorf("%s: %w", h.Name, bad(err))
		}
	}
	if err := p.own("m/sums", p.sums.Bytes()); err != nil {
		return err
	}
	dirs, modes, err := p.directories()
	if err != nil {
		return err
	}
	return errors.Join(p.own("m/dirs.tar", dirs), p.own("m/modes", []byte(modes)), p.tw.Close())
}

// bad says that errors of the archive are those of who made it.
func bad(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// mostName is how long the name of an entry can be.
const mostName = 4000

// entryName checks the name of an entry, or what a hard link leads to.
func (p *repacker) entryName(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 || len(name) > mostName || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%w: names in an archive must be relative, without \"..\" and of at most %d bytes", atoll.ErrInvalid, mostName)
	}
	name = path.Clean(name)
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if p.links[above] {
			return "", fmt.Errorf("%w: %s is a link of the archive: nothing is unpacked through it", atoll.ErrInvalid, above)
		}
	}
	return name, nil
}

func (p *repacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments of git
	}
	name, err := p.entryName(h.Name)
	if err != nil {
		return err
	}
	g := &tar.Header{Typeflag: h.Typeflag, Name: "f/" + name, Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatGNU}
	if h.Typeflag != tar.TypeDir {
		if name == "." {
			return fmt.Errorf("%w: it is the directory itself", atoll.ErrInvalid)
		}
		delete(p.links, name)
		delete(p.files, name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return p.directory(g, h, name)
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives have it
		g.Typeflag, g.Size = tar.TypeReg, h.Size
		p.files[name] = true
		return p.file(g, name, content)
	case tar.TypeSymlink:
		if g.Linkname = h.Linkname; g.Linkname == "" || strings.IndexByte(g.Linkname, 0) >= 0 {
			return fmt.Errorf("%w: a link to nowhere", atoll.ErrInvalid)
		}
		p.links[name] = true
	case tar.TypeLink:
		to, err := p.entryName(h.Linkname)
		if err == nil && !p.files[to] {
			err = fmt.Errorf("%w: it is a hard link to what is no file of the archive", atoll.ErrInvalid)
		}
		if err != nil {
			return err
		}
		g.Linkname = "f/" + to
		p.files[name] = true
	case tar.TypeFifo:
	default:
		return fmt.Errorf("%w: an entry of kind %q is not unpacked", atoll.ErrInvalid, h.Typeflag)
	}
	return p.tw.WriteHeader(g)
}

// directory makes one that can be written to; what it should be comes in the end.
func (p *repacker) directory(g, h *tar.Header, name string) error {
	if p.links[name] {
		return fmt.Errorf("%w: it is a link of the archive too", atoll.ErrInvalid)
	}
	if name == "." {
		return nil
	}
	own := *g
	own.Name, own.Mode = name+"/", h.Mode&0o1777
	p.dirs = append(p.dirs, &own)
	g.Name, g.Mode = g.Name+"/", g.Mode|0o700
	return p.tw.WriteHeader(g)
}

// file passes a file on, and notes its checksum where every sha256sum understands
// its name.
func (p *repacker) file(g *tar.Header, name string, content io.Reader) error {
	if err := p.tw.WriteHeader(g); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(p.tw, sum), content, make([]byte, 64<<10)); err != nil {
		return err
	}
	if !strings.ContainsAny(name, "\\\n\r") {
		fmt.Fprintf(&p.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), "./"+name)
	}
	return nil
}

// own writes a file for the script.
func (p *repacker) own(name string, content []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatGNU}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := p.tw.Write(content)
	return err
}

// directories packs the directories alone, and lists their modes, the last first:
// the mode of one must not keep anybody from those below.
func (p *repacker) directories() (archive []byte, modes string, err error) {
	var b bytes.Buffer
	var list strings.Builder
	tw := tar.NewWriter(&b)
	for _, h := range slices.Backward(p.dirs) {
		if err := tw.WriteHeader(h); err != nil {
			return nil, "", err
		}
		fmt.Fprintf(&list, "%o ", h.Mode)
		line(&list, strings.TrimSuffix(h.Name, "/"))
	}
	err = tw.Close()
	return b.Bytes(), list.String(), err
}
