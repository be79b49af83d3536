package command

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// tarReader lists or extracts one archive.
type tarReader struct {
	*tarJob
	tr      *tar.Reader
	src     *countedReader
	need    int64     // where the content of the last member ends
	dirs    []tarDir  // times and modes to set at the end
	later   []tarLink // symbolic links that lead out of the tree
	members int       // read so far
}

type tarDir struct {
	path string
	mode fs.FileMode
	at   time.Time
}

// tarLink is a symbolic link that is made when everything else is in place,
// so that nothing is written through it. An empty file holds its place.
type tarLink struct {
	path, target string
	ino          uint64
	at           time.Time
}

func (j *tarJob) read() error {
	in, err := open(j.p, j.file)
	if err != nil {
		return j.fatal("%s: Cannot open: %s", tarName(j.file), why(err))
	}
	defer closeInput(in)
	if err := j.enterDir(); err != nil {
		return err
	}
	r := &tarReader{tarJob: j}
	src, err := r.unpacked(bufio.NewReaderSize(in, 32<<10))
	if err != nil {
		return err
	}
	r.src = &countedReader{r: src}
	r.tr = tar.NewReader(r.src)
	err = r.each()
	if err == nil {
		r.finish()
	}
	for i := range j.members {
		if m := &j.members[i]; !m.found && err == nil {
			r.missing(m.name)
		}
	}
	return err
}

func (r *tarReader) missing(name string) {
	if strings.ContainsAny(name, "*?[") && !r.wildSet {
		r.p.Errorf("Pattern matching characters used in file names")
		r.p.Errorf("Use --wildcards to enable pattern matching, or --no-wildcards to suppress this warning")
		r.wildSet = true
	}
	r.complain("%s: Not found in archive", tarName(name))
}

// enterDir checks the directory that members are extracted into.
func (j *tarJob) enterDir() error {
	if j.action != 'x' || j.dir == "" {
		return nil
	}
	info, err := j.p.Stat(j.dir)
	if err == nil && !info.IsDir() {
		err = vfs.ENOTDIR
	}
	if err != nil {
		return j.fatal("%s: Cannot open: %s", tarName(j.dir), why(err))
	}
	return nil
}

// unpacked returns the archive that is in src, which may be compressed.
func (r *tarReader) unpacked(src *bufio.Reader) (io.Reader, error) {
	head, _ := src.Peek(3)
	switch {
	case len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b:
		r.p.Alloc(packMemory)
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, r.child("\ngzip: stdin: unexpected end of file", 1)
		}
		return z, nil
	case string(head) == "BZh":
		r.p.Alloc(bunzipMemory)
		return bzip2.NewReader(src), nil
	case r.pack == 'z' && len(head) == 0:
		return nil, r.child("\ngzip: stdin: unexpected end of file", 1)
	case r.pack == 'z':
		return nil, r.child("\ngzip: stdin: not in gzip format", 1)
	case r.pack == 'j':
		return nil, r.child("bzip2: (stdin) is not a bzip2 file.", 2)
	case len(head) == 3 && (string(head) == "\xfd7z" || string(head) == "\x28\xb5\x2f"):
		return nil, r.fatal("this compression is not supported here: use gzip")
	}
	return src, nil
}

// child says what GNU tar and the program that it starts to decompress say.
func (r *tarReader) child(msg string, code int) error {
	_, _ = io.WriteString(r.p.Stderr, msg+"\n") // nobody to tell
	r.p.Errorf("Child returned status %d", code)
	r.p.Errorf("Error is not recoverable: exiting now")
	return tarStop{}
}

func (r *tarReader) each() error {
	for {
		r.p.Tick(16)
		h, err := r.tr.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && r.src.n >= r.need:
			if r.members == 0 && r.src.n < 2*tarBlock {
				r.complain("This does not look like a tar archive")
			}
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return r.broken(err)
		}
		r.members++
		r.need = r.src.n + (h.Size+tarBlock-1)/tarBlock*tarBlock
		if !r.wanted(h.Name) {
			continue
		}
		if r.action == 't' {
			r.list(h)
			continue
		}
		if err := r.extract(h); err != nil {
			return err
		}
	}
}

// broken reports an archive that can't be read on.
func (r *tarReader) broken(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.fatal("Unexpected EOF in archive")
	case errors.Is(err, tar.ErrHeader) && r.members == 0:
		r.complain("This does not look like a tar archive")
		return nil
	case errors.Is(err, tar.ErrHeader):
		r.complain("Skipping to next header")
		return nil
	case packFault(err) != "":
		return r.child("\ngzip: stdin: "+packFault(err), 1)
	}
	return r.fatal("%s: Cannot read: %s", tarName(r.file), why(err))
}

// wanted tells whether a member is among those named, if any are.
func (r *tarReader) wanted(name string) bool {
	if r.excluded(name) {
		return false
	}
	if len(r.tarJob.members) == 0 {
		return true
	}
	plain := strings.TrimSuffix(name, "/")
	hit := false
	for i := range r.tarJob.members {
		m := &r.tarJob.members[i]
		want := strings.TrimSuffix(m.name, "/")
		if plain == want || strings.HasPrefix(plain, want+"/") || r.wild && (wildcard(r.p, want, plain) || wildcard(r.p, want+"/*", plain)) {
			m.found, hit = true, true
			break
		}
	}
	return hit
}

func (r *tarReader) list(h *tar.Header) {
	r.safe(h.Name, "member names")
	if h.Typeflag == tar.TypeLink {
		h.Linkname = r.safe(h.Linkname, "hard link targets")
	}
	line := tarName(h.Name) + "\n"
	if r.verbose > 0 {
		line = r.long(h)
	}
	_, _ = r.p.Out().WriteString(line) // errors of Out show at its flush
}

// stripped takes leading components off a name.
func stripped(name string, n int) (string, bool) {
	for ; n > 0; n-- {
		_, after, ok := strings.Cut(name, "/")
		if !ok {
			return "", false
		}
		name = strings.TrimLeft(after, "/")
	}
	return name, name != ""
}

// extract makes one member.
func (r *tarReader) extract(h *tar.Header) error {
	name, ok := stripped(h.Name, r.strip)
	if !ok {
		return nil
	}
	safe := r.safe(name, "member names")
	if hasDotDot(h.Name) && !r.absolute {
		r.complain("%s: Member name contains '..'", tarName(h.Name))
		return nil
	}
	if r.toStdout {
		return r.print(h)
	}
	r.tell(r.p.Out(), h, h.Name)
	if r.topLevel != "" {
		safe = r.topLevel + "/" + safe
	}
	safe = strings.TrimRight(safe, "/")
	if safe == "" {
		safe = "/"
	}
	full := tarJoin(r.dir, safe)
	if err := r.make(h, safe, full); err != nil {
		if errors.As(err, &tarStop{}) {
			return err
		}
		r.complain("%v", err)
	}
	return nil
}

func hasDotDot(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

func (r *tarReader) print(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	r.tell(r.p.Stderr, h, h.Name)
	return r.copy(r.p.Out(), "-")
}

// copy writes the content of a member.
func (r *tarReader) copy(w io.Writer, name string) error {
	src := &tarSource{r: r.tr}
	err := pump(r.p, w, src)
	switch {
	case err == nil:
		return nil
	case src.err != nil && errors.Is(src.err, io.ErrUnexpectedEOF):
		r.p.Errorf("Unexpected EOF in archive")
		return r.fatal("Unexpected EOF in archive")
	case src.err != nil:
		return r.broken(src.err)
	}
	r.complain("%s: Cannot write: %s", tarName(name), why(err))
	return nil
}

// tarSource remembers an error of reading, to tell it from one of writing.
type tarSource struct {
	r   io.Reader
	err error
}

func (s *tarSource) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// tarFault is an error about one member, in GNU's words.
type tarFault struct{ msg string }

func (e *tarFault) Error() string { return e.msg }

func fault(name, what string, err error) error {
	return &tarFault{tarName(name) + ": " + what + ": " + why(err)}
}

// make makes what a header describes at full; name is for messages.
func (r *tarReader) make(h *tar.Header, name, full string) error {
	if h.Typeflag == tar.TypeDir || strings.HasSuffix(h.Name, "/") {
		return r.directory(h, name, full)
	}
	if dir := path.Dir(full); dir != "." && dir != "/" {
		if _, err := r.p.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := r.p.MkdirAll(dir, 0o777); err != nil {
				return fault(name, "Cannot open", err)
			}
		}
	}
	if r.keep {
		if _, err := r.p.Lstat(full); err == nil {
			return r.kept(h, name)
		}
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return r.symlink(h, name, full)
	case tar.TypeLink:
		return r.hardLink(h, name, full)
	case tar.TypeFifo:
		return r.other(r.p.Mkfifo(full, 0o666), h, name, full)
	case tar.TypeChar, tar.TypeBlock:
		return &tarFault{tarName(name) + ": Cannot mknod: " + vfs.EPERM.Error()}
	}
	return r.regularFile(h, name, full)
}

// kept leaves what exists as it is.
func (r *tarReader) kept(h *tar.Header, name string) error {
	switch {
	case r.skip:
		return nil
	case h.Typeflag == tar.TypeSymlink:
		return &tarFault{tarName(name) + ": Cannot create symlink to " + cite(h.Linkname) + ": " + vfs.EEXIST.Error()}
	case h.Typeflag == tar.TypeLink:
		return nil
	}
	return fault(name, "Cannot open", vfs.EEXIST)
}

func (r *tarReader) directory(h *tar.Header, name, full string) error {
	info, err := r.p.Lstat(full)
	switch {
	case err == nil && info.IsDir():
	case err == nil && info.Mode()&fs.ModeSymlink != 0 && full == tarJoin(r.dir, "."):
	default:
		if err == nil {
			if err := r.p.Unlink(full); err != nil {
				return fault(name, "Cannot mkdir", err)
			}
		}
		if err := r.p.MkdirAll(full, 0o777); err != nil {
			return fault(name, "Cannot mkdir", err)
		}
	}
	r.p.Alloc(int64(len(full)) + 64)
	r.dirs = append(r.dirs, tarDir{full, r.perm(h), h.ModTime})
	r.own(h, full)
	return nil
}

// perm is the mode that a member gets.
func (r *tarReader) perm(h *tar.Header) fs.FileMode {
	m := uint32(h.Mode) & 0o7777
	if r.masked {
		m &^= r.p.Umask()
	}
	return permMode(m)
}

// own gives a file to its owner, where it has another.
func (r *tarReader) own(h *tar.Header, full string) {
	if r.noOwner {
		return
	}
	uid, gid := h.Uid, h.Gid
	if id, ok := r.owners.uid(h.Uname); ok && h.Uname != "" && !r.numeric {
		uid = id
	}
	if id, ok := r.owners.gid(h.Gname); ok && h.Gname != "" && !r.numeric {
		gid = id
	}
	info, err := r.p.Lstat(full)
	if err != nil || info.Uid() == uid && info.Gid() == gid {
		return
	}
	if err := r.p.Lchown(full, uid, gid); err != nil {
		r.complain("%s: Cannot change ownership to uid %d, gid %d: %s", tarName(full), uid, gid, why(err))
	}
}

func (r *tarReader) regularFile(h *tar.Header, name, full string) error {
	out, err := r.fresh(full)
	if err != nil {
		return fault(name, "Cannot open", err)
	}
	err = r.copy(out, name)
	if cerr := out.Close(); err == nil && cerr != nil {
		err = fault(name, "Cannot close", cerr)
	}
	if err != nil {
		return err
	}
	return r.other(nil, h, name, full)
}

// fresh creates a file in place of what may be there, without following it.
func (r *tarReader) fresh(full string) (*kernel.Handle, error) {
	const flag = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	out, err := r.p.OpenFile(full, flag, 0o666)
	if !errors.Is(err, fs.ErrExist) {
		return out, err
	}
	if err := r.p.Unlink(full); err != nil {
		return nil, err
	}
	return r.p.OpenFile(full, flag, 0o666)
}

// other sets owner, mode and time of what has been made.
func (r *tarReader) other(err error, h *tar.Header, name, full string) error {
	if err != nil {
		return fault(name, "Cannot mkfifo", err)
	}
	r.own(h, full)
	if err := r.p.Chmod(full, r.perm(h)); err != nil {
		return fault(name, "Cannot change mode", err)
	}
	if r.touch {
		return nil
	}
	if err := r.p.Chtimes(full, r.p.Now(), h.ModTime); err != nil {
		return fault(name, "Cannot utime", err)
	}
	return nil
}

func (r *tarReader) symlink(h *tar.Header, name, full string) error {
	if !r.absolute && (strings.HasPrefix(h.Linkname, "/") || hasDotDot(h.Linkname)) {
		return r.postpone(h, name, full)
	}
	err := r.p.Symlink(h.Linkname, full)
	if errors.Is(err, fs.ErrExist) {
		if err = r.p.Unlink(full); err == nil {
			err = r.p.Symlink(h.Linkname, full)
		}
	}
	if err != nil {
		return &tarFault{tarName(name) + ": Cannot create symlink to " + cite(h.Linkname) + ": " + why(err)}
	}
	r.own(h, full)
	r.linkTime(full, h.ModTime)
	return nil
}

// linkTime sets the time of a link itself.
func (r *tarReader) linkTime(full string, at time.Time) {
	if r.touch {
		return
	}
	if err := r.p.FS().Lchtimes(r.p.Path(full), r.p.Now(), at); err != nil {
		r.complain("%s: Cannot utime: %s", tarName(full), why(err))
	}
}

// postpone holds the place of a link that leads out of the tree.
func (r *tarReader) postpone(h *tar.Header, name, full string) error {
	out, err := r.fresh(full)
	if err != nil {
		return fault(name, "Cannot open", err)
	}
	if err := out.Close(); err != nil {
		return fault(name, "Cannot close", err)
	}
	info, err := r.p.Lstat(full)
	if err != nil {
		return fault(name, "Cannot stat", err)
	}
	r.p.Alloc(int64(len(full)+len(h.Linkname)) + 64)
	r.later = append(r.later, tarLink{full, h.Linkname, info.Ino(), h.ModTime})
	return nil
}

func (r *tarReader) hardLink(h *tar.Header, name, full string) error {
	link, ok := stripped(h.Linkname, r.strip)
	if !ok {
		return nil
	}
	to := r.safe(link, "hard link targets")
	target := tarJoin(r.dir, to)
	if r.topLevel != "" {
		target = tarJoin(r.dir, r.topLevel+"/"+to)
	}
	err := r.p.Link(target, full)
	if errors.Is(err, fs.ErrExist) {
		if same(r.p, target, full) {
			return nil
		}
		if err = r.p.Unlink(full); err == nil {
			err = r.p.Link(target, full)
		}
	}
	if err != nil {
		return &tarFault{tarName(name) + ": Cannot hard link to " + cite(to) + ": " + why(err)}
	}
	return nil
}

func same(p *kernel.Proc, a, b string) bool {
	x, err := p.Lstat(a)
	y, err2 := p.Lstat(b)
	return err == nil && err2 == nil && x.Ino() == y.Ino()
}

// finish makes the links that had to wait and sets what directories are to have.
func (r *tarReader) finish() {
	for _, l := range r.later {
		info, err := r.p.Lstat(l.path)
		if err != nil || info.Ino() != l.ino {
			continue
		}
		err = r.p.Unlink(l.path)
		if err == nil {
			err = r.p.Symlink(l.target, l.path)
		}
		if err != nil {
			r.complain("%s: Cannot create symlink to %s: %s", tarName(l.path), cite(l.target), why(err))
			continue
		}
		r.linkTime(l.path, l.at)
	}
	for i := len(r.dirs) - 1; i >= 0; i-- {
		d := r.dirs[i]
		err := r.p.Chmod(d.path, d.mode)
		if err == nil && !r.touch {
			err = r.p.Chtimes(d.path, r.p.Now(), d.at)
		}
		if err != nil {
			r.complain("%s: Cannot utime: %s", tarName(d.path), why(err))
		}
	}
}
