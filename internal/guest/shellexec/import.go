package shellexec

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

// transferErrors are the errors for the exit codes of the transfer scripts.
var transferErrors = map[int]error{
	40: atoll.ErrNotFound,
	41: fmt.Errorf("%w: a part of the path is not a directory, or a file is a directory", atoll.ErrInvalid),
	42: fmt.Errorf("%w: the image has no tar", atoll.ErrUnsupported),
	43: atoll.ErrDenied,
	44: fmt.Errorf("%w: the disk is full", atoll.ErrQuota),
	45: errors.New("tar or mv failed"),
	46: fmt.Errorf("%w: the received data differs from the data sent", atoll.ErrUnavailable),
}

// transferError returns the error for the exit of a transfer script.
func transferError(exit atoll.Exit) error {
	err := transferErrors[exit.Code]
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("the script exited with status %d", exit.Code)
	}
	if text := bytes.TrimSpace(exit.Stderr); err != nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-maxMessage):])
	}
	return err
}

// maxMessage limits the bytes of a program's messages in an error.
const maxMessage = 1000

// checkPath checks a path in the container and returns it cleaned.
func checkPath(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	return path.Clean(name), nil
}

// transferContext returns a context with the time limit of transfers.
func (s *Shell) transferContext(ctx context.Context) (context.Context, context.CancelFunc) {
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
	ctx, cancel := s.transferContext(ctx)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close() // never fails; the writer gets an error
	go func() {
		whole := bufio.NewWriterSize(w, bulkPace.frame) // each piece costs the script a process
		err := repack(whole, archive)
		if err == nil {
			err = whole.Flush()
		}
		_ = w.CloseWithError(err) // never fails
	}()
	own := ".atoll-import-" + newToken()
	exit, err := s.execPaced(ctx, &atoll.Cmd{Args: []string{"sh", "-c", importText, "sh", dir, own}, Dir: "/", Stdin: r, MaxOutput: 1 << 16}, bulkPace)
	if err != nil {
		s.removePartial(ctx, path.Join(dir, own))
		return err
	}
	return transferError(exit)
}

// removePartial removes the temporary files of an interrupted import.
func (s *Shell) removePartial(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	_, _ = s.Run(ctx, &Call{Args: []string{"rm", "-rf", "--", name}}) // if that fails, the container was removed
}

// repacker rewrites an archive so that any tar implementation in the container
// unpacks it safely.
type repacker struct {
	tw    *tar.Writer
	dirs  []*tar.Header   // in the order of the archive
	sums  bytes.Buffer    // for sha256sum -c
	files map[string]bool // that hard links can be to
	links map[string]bool // symbolic ones
}

// repack reads an archive and writes it in the form that import.sh expects.
func repack(w io.Writer, archive io.Reader) error {
	p := &repacker{tw: tar.NewWriter(w), files: make(map[string]bool), links: make(map[string]bool)}
	tr := tar.NewReader(archive)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return archiveError(err)
		}
		if err := p.addEntry(h, tr); err != nil {
			return fmt.Errorf("%s: %w", h.Name, archiveError(err))
		}
	}
	if err := p.addOwnFile("m/sums", p.sums.Bytes()); err != nil {
		return err
	}
	dirs, modes, err := p.packDirectories()
	if err != nil {
		return err
	}
	return errors.Join(p.addOwnFile("m/dirs.tar", dirs), p.addOwnFile("m/modes", []byte(modes)), p.tw.Close())
}

// archiveError marks errors of a damaged archive as atoll.ErrInvalid.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// maxEntryName limits the bytes of an entry's name.
const maxEntryName = 4000

// checkEntryName checks the name of an entry, or the target of a hard link.
func (p *repacker) checkEntryName(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 || len(name) > maxEntryName || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%w: names in an archive must be relative, without \"..\" and of at most %d bytes", atoll.ErrInvalid, maxEntryName)
	}
	name = path.Clean(name)
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if p.links[above] {
			return "", fmt.Errorf("%w: %s is a symbolic link of the archive: nothing is unpacked through it", atoll.ErrInvalid, above)
		}
	}
	return name, nil
}

func (p *repacker) addEntry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments of git
	}
	name, err := p.checkEntryName(h.Name)
	if err != nil {
		return err
	}
	g := &tar.Header{Typeflag: h.Typeflag, Name: "f/" + name, Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatGNU}
	if h.Typeflag != tar.TypeDir {
		if name == "." {
			return fmt.Errorf("%w: the entry is the target directory itself", atoll.ErrInvalid)
		}
		delete(p.links, name)
		delete(p.files, name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return p.addDirectory(g, h, name)
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives have it
		g.Typeflag, g.Size = tar.TypeReg, h.Size
		p.files[name] = true
		return p.addFile(g, name, content)
	case tar.TypeSymlink:
		if g.Linkname = h.Linkname; g.Linkname == "" || strings.IndexByte(g.Linkname, 0) >= 0 {
			return fmt.Errorf("%w: a symbolic link without a target", atoll.ErrInvalid)
		}
		p.links[name] = true
	case tar.TypeLink:
		to, err := p.checkEntryName(h.Linkname)
		if err == nil && !p.files[to] {
			err = fmt.Errorf("%w: a hard link to a file that is not in the archive", atoll.ErrInvalid)
		}
		if err != nil {
			return err
		}
		g.Linkname = "f/" + to
		p.files[name] = true
	case tar.TypeFifo:
	default:
		return fmt.Errorf("%w: entries of type %q are not supported", atoll.ErrInvalid, h.Typeflag)
	}
	return p.tw.WriteHeader(g)
}

// addDirectory adds a writable directory; packDirectories stores its final mode.
func (p *repacker) addDirectory(g, h *tar.Header, name string) error {
	if p.links[name] {
		return fmt.Errorf("%w: the archive has a symbolic link of the same name", atoll.ErrInvalid)
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

// addFile adds a file and records its checksum if every sha256sum can parse
// its name.
func (p *repacker) addFile(g *tar.Header, name string, content io.Reader) error {
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

// addOwnFile adds a file for the script.
func (p *repacker) addOwnFile(name string, content []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatGNU}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := p.tw.Write(content)
	return err
}

// packDirectories packs the directories alone and lists their modes in reverse order,
// so that setting the mode of a directory does not block access to those below it.
func (p *repacker) packDirectories() (archive []byte, modes string, err error) {
	var b bytes.Buffer
	var list strings.Builder
	tw := tar.NewWriter(&b)
	for _, h := range slices.Backward(p.dirs) {
		if err := tw.WriteHeader(h); err != nil {
			return nil, "", err
		}
		fmt.Fprintf(&list, "%o ", h.Mode)
		writeLine(&list, strings.TrimSuffix(h.Name, "/"))
	}
	err = tw.Close()
	return b.Bytes(), list.String(), err
}
