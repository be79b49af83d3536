package archive

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

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// tarReader lists or extracts one archive.
type tarReader struct {
	*tarJob
	tr      *tar.Reader
	src     *countedReader
	need    int64     // end of the content of the last member
	dirs    []tarDir  // times and modes to set at the end
	later   []tarLink // symbolic links that lead out of the tree
	members int       // read so far
}

type tarDir struct {
	path string
	mode fs.FileMode
	at   time.Time
}

// tarLink is a symbolic link that is created after everything else, so that nothing is written through
// it. An empty file stands in for it until then.
type tarLink struct {
	path, target string
	ino          uint64
	at           time.Time
}

func (j *tarJob) read() error {
	if j.program != "" {
		f, err := j.startFilter(false)
		if err != nil {
			return err
		}
		return f.finish(j.readArchive(f), false)
	}
	in, err := stream.Open(j.p, j.file)
	if err != nil {
		return j.reportFatal("%s: Cannot open: %s", tarName(j.file), program.Reason(err))
	}
	defer stream.Close(in)
	return j.readArchive(in)
}

// readArchive lists or extracts the archive in a stream.
func (j *tarJob) readArchive(in io.Reader) error {
	if err := j.enterDir(); err != nil {
		return err
	}
	r := &tarReader{tarJob: j}
	src, err := r.decompress(bufio.NewReaderSize(in, 32<<10))
	if err != nil {
		return err
	}
	r.src = &countedReader{r: src}
	r.tr = tar.NewReader(r.src)
	err = r.readMembers()
	if err == nil {
		r.finishLater()
	}
	for i := range j.members {
		if m := &j.members[i]; !m.found && err == nil {
			r.reportMissing(m.name)
		}
	}
	return err
}

func (r *tarReader) reportMissing(name string) {
	if strings.ContainsAny(name, "*?[") && !r.wildSet {
		r.p.Errorf("Pattern matching characters used in file names")
		r.p.Errorf("Use --wildcards to enable pattern matching, or --no-wildcards to suppress this warning")
		r.wildSet = true
	}
	r.reportError("%s: Not found in archive", tarName(name))
}

// enterDir checks the directory into which members are extracted.
func (j *tarJob) enterDir() error {
	if j.action != 'x' || j.dir == "" {
		return nil
	}
	info, err := j.p.Stat(j.dir)
	if err == nil && !info.IsDir() {
		err = vfs.ENOTDIR
	}
	if err != nil {
		return j.reportFatal("%s: Cannot open: %s", tarName(j.dir), program.Reason(err))
	}
	return nil
}

// decompress returns the archive in src, which may be compressed.
func (r *tarReader) decompress(src *bufio.Reader) (io.Reader, error) {
	head, _ := src.Peek(3)
	for _, c := range []*codec{&xzCodec, &zstdCodec} {
		if len(head) == 3 && string(head) == c.magic[:3] {
			z, err := c.newReader(r.p, src)
			if err != nil {
				return nil, r.reportChildError(c.name+": (stdin): "+program.Reason(err), 1)
			}
			return z, nil
		}
	}
	switch {
	case len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b:
		r.p.Alloc(deflateMemory)
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, r.reportChildError("\ngzip: stdin: unexpected end of file", 1)
		}
		return z, nil
	case string(head) == "BZh":
		r.p.Alloc(bzip2Memory)
		return bzip2.NewReader(src), nil
	case r.pack == 'z' && len(head) == 0:
		return nil, r.reportChildError("\ngzip: stdin: unexpected end of file", 1)
	case r.pack == 'z':
		return nil, r.reportChildError("\ngzip: stdin: not in gzip format", 1)
	case r.pack == 'j':
		return nil, r.reportChildError("bzip2: (stdin) is not a bzip2 file.", 2)
	case r.pack == 'J' || r.pack == 'Y':
		return nil, r.reportChildError(map[rune]string{'J': "xz", 'Y': "zstd"}[r.pack]+": (stdin): File format not recognized", 1)
	}
	return src, nil
}

// reportChildError prints the messages of GNU tar when its decompressor fails.
func (r *tarReader) reportChildError(msg string, code int) error {
	_, _ = io.WriteString(r.p.Stderr, msg+"\n") // best effort
	r.p.Errorf("Child returned status %d", code)
	r.p.Errorf("Error is not recoverable: exiting now")
	return tarStop{}
}

func (r *tarReader) readMembers() error {
	for {
		r.p.Tick(16)
		h, err := r.tr.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && r.src.n >= r.need:
			if r.members == 0 && r.src.n < 2*tarBlock {
				r.reportError("This does not look like a tar archive")
			}
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return r.reportBroken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // as git archive writes it: a comment for the whole archive
		}
		r.members++
		r.need = r.src.n + (h.Size+tarBlock-1)/tarBlock*tarBlock
		if !r.isWanted(h.Name) {
			continue
		}
		if r.action == 't' {
			r.list(h)
			continue
		}
		if err := r.extractMember(h); err != nil {
			return err
		}
	}
}

// reportBroken reports an unreadable archive.
func (r *tarReader) reportBroken(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.reportFatal("Unexpected EOF in archive")
	case errors.Is(err, tar.ErrHeader) && r.members == 0:
		r.reportError("This does not look like a tar archive")
		return nil
	case errors.Is(err, tar.ErrHeader):
		r.reportError("Skipping to next header")
		return nil
	case describeFault(err) != "":
		return r.reportChildError("\ngzip: stdin: "+describeFault(err), 1)
	}
	return r.reportFatal("%s: Cannot read: %s", tarName(r.file), program.Reason(err))
}

// isWanted reports whether a member is selected: by the operands, or if there are none.
func (r *tarReader) isWanted(name string) bool {
	if r.isExcluded(name) {
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
		if plain == want || strings.HasPrefix(plain, want+"/") || r.wild && (glob.Match(r.p, want, plain) || glob.Match(r.p, want+"/*", plain)) {
			m.found, hit = true, true
			break
		}
	}
	return hit
}

func (r *tarReader) list(h *tar.Header) {
	if r.transformed {
		r.renameMember(h)
	}
	r.safeName(h.Name, "member names")
	if h.Typeflag == tar.TypeLink {
		h.Linkname = r.safeName(h.Linkname, "hard link targets")
	}
	line := tarName(h.Name) + "\n"
	if r.verbose > 0 {
		line = r.formatLong(h)
	}
	_, _ = r.p.Out().WriteString(line) // Flush reports the error
}

// renameMember applies --transform to the name of a member, without the slash at the end of a directory's.
func (r *tarReader) renameMember(h *tar.Header) {
	if len(r.renames) > 0 {
		plain := strings.TrimRight(h.Name, "/")
		h.Name = r.transform(plain, transformName) + h.Name[len(plain):]
	}
}

// stripComponents removes leading components of a name. It returns false if nothing is left.
func stripComponents(name string, n int) (string, bool) {
	for ; n > 0; n-- {
		_, after, ok := strings.Cut(name, "/")
		if !ok {
			return "", false
		}
		name = strings.TrimLeft(after, "/")
	}
	return name, name != ""
}

// extractMember extracts one member.
func (r *tarReader) extractMember(h *tar.Header) error {
	stored := h.Name
	r.renameMember(h)
	name, ok := stripComponents(h.Name, r.strip)
	if !ok {
		return nil
	}
	safe := r.safeName(name, "member names")
	if hasDotDot(stored) && !r.absolute {
		r.reportError("%s: Member name contains '..'", tarName(stored))
		return nil
	}
	shown := stored
	if r.transformed {
		shown = h.Name
	}
	if r.toStdout {
		return r.print(h, shown)
	}
	r.listMember(r.p.Out(), h, shown)
	if r.topLevel != "" {
		safe = r.topLevel + "/" + safe
	}
	safe = strings.TrimRight(safe, "/")
	if safe == "" {
		safe = "/"
	}
	full := joinTarPath(r.dir, safe)
	if err := r.createMember(h, safe, full); err != nil {
		if errors.As(err, &tarStop{}) {
			return err
		}
		r.reportError("%v", err)
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

func (r *tarReader) print(h *tar.Header, shown string) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	r.listMember(r.p.Stderr, h, shown)
	return r.copy(r.p.Out(), "-")
}

// copy writes the content of a member.
func (r *tarReader) copy(w io.Writer, name string) error {
	src := &tarSource{r: r.tr}
	err := stream.CopyCharged(r.p, w, src)
	switch {
	case err == nil:
		return nil
	case src.err != nil && errors.Is(src.err, io.ErrUnexpectedEOF):
		r.p.Errorf("Unexpected EOF in archive")
		return r.reportFatal("Unexpected EOF in archive")
	case src.err != nil:
		return r.reportBroken(src.err)
	}
	r.reportError("%s: Cannot write: %s", tarName(name), program.Reason(err))
	return nil
}

// tarSource records read errors, to distinguish them from write errors.
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

// tarFault is an error of one member, in the words of GNU tar.
type tarFault struct{ msg string }

func (e *tarFault) Error() string { return e.msg }

func newFault(name, what string, err error) error {
	return &tarFault{tarName(name) + ": " + what + ": " + program.Reason(err)}
}

// createMember creates the file that a header describes at full; name is its name in messages.
func (r *tarReader) createMember(h *tar.Header, name, full string) error {
	if h.Typeflag == tar.TypeDir || strings.HasSuffix(h.Name, "/") {
		return r.createDirectory(h, name, full)
	}
	if dir := path.Dir(full); dir != "." && dir != "/" {
		if _, err := r.p.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := r.p.MkdirAll(dir, 0o777); err != nil {
				return newFault(name, "Cannot open", err)
			}
		}
	}
	if r.keep {
		if _, err := r.p.Lstat(full); err == nil {
			return r.keepExisting(h, name)
		}
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return r.createSymlink(h, name, full)
	case tar.TypeLink:
		return r.hardLink(h, name, full)
	case tar.TypeFifo:
		return r.setAttributes(r.p.Mkfifo(full, 0o666), h, name, full)
	case tar.TypeChar, tar.TypeBlock:
		return &tarFault{tarName(name) + ": Cannot mknod: " + vfs.EPERM.Error()}
	}
	return r.regularFile(h, name, full)
}

// keepExisting handles a member that exists already and is not replaced.
func (r *tarReader) keepExisting(h *tar.Header, name string) error {
	switch {
	case r.skip:
		return nil
	case h.Typeflag == tar.TypeSymlink:
		return &tarFault{tarName(name) + ": Cannot create symlink to " + quoting.QuoteWord(h.Linkname) + ": " + vfs.EEXIST.Error()}
	case h.Typeflag == tar.TypeLink:
		return nil
	}
	return newFault(name, "Cannot open", vfs.EEXIST)
}

func (r *tarReader) createDirectory(h *tar.Header, name, full string) error {
	info, err := r.p.Lstat(full)
	switch {
	case err == nil && info.IsDir():
	case err == nil && info.Mode()&fs.ModeSymlink != 0 && full == joinTarPath(r.dir, "."):
	default:
		if err == nil {
			if err := r.p.Unlink(full); err != nil {
				return newFault(name, "Cannot mkdir", err)
			}
		}
		if err := r.p.MkdirAll(full, 0o777); err != nil {
			return newFault(name, "Cannot mkdir", err)
		}
	}
	r.p.Alloc(int64(len(full)) + 64)
	r.dirs = append(r.dirs, tarDir{full, r.permissions(h), h.ModTime})
	r.setOwner(h, full)
	return nil
}

// permissions returns the mode that a member gets.
func (r *tarReader) permissions(h *tar.Header) fs.FileMode {
	m := uint32(h.Mode) & 0o7777
	if r.masked {
		m &^= r.p.Umask()
	}
	return filemode.FromUnix(m)
}

// setOwner sets the owner of a file if it differs.
func (r *tarReader) setOwner(h *tar.Header, full string) {
	if r.noOwner {
		return
	}
	uid, gid := h.Uid, h.Gid
	if id, ok := r.owners.UID(h.Uname); ok && h.Uname != "" && !r.numeric {
		uid = id
	}
	if id, ok := r.owners.GID(h.Gname); ok && h.Gname != "" && !r.numeric {
		gid = id
	}
	info, err := r.p.Lstat(full)
	if err != nil || info.Uid() == uid && info.Gid() == gid {
		return
	}
	if err := r.p.Lchown(full, uid, gid); err != nil {
		r.reportError("%s: Cannot change ownership to uid %d, gid %d: %s", tarName(full), uid, gid, program.Reason(err))
	}
}

func (r *tarReader) regularFile(h *tar.Header, name, full string) error {
	out, err := r.createFile(full)
	if err != nil {
		return newFault(name, "Cannot open", err)
	}
	err = r.copy(out, name)
	if cerr := out.Close(); err == nil && cerr != nil {
		err = newFault(name, "Cannot close", cerr)
	}
	if err != nil {
		return err
	}
	return r.setAttributes(nil, h, name, full)
}

// createFile creates a file, replacing an existing one without following it.
func (r *tarReader) createFile(full string) (*kernel.Handle, error) {
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

// setAttributes sets the owner, mode and time of a created file.
func (r *tarReader) setAttributes(err error, h *tar.Header, name, full string) error {
	if err != nil {
		return newFault(name, "Cannot mkfifo", err)
	}
	r.setOwner(h, full)
	if err := r.p.Chmod(full, r.permissions(h)); err != nil {
		return newFault(name, "Cannot change mode", err)
	}
	if r.touch {
		return nil
	}
	if err := r.p.Chtimes(full, r.p.Now(), h.ModTime); err != nil {
		return newFault(name, "Cannot utime", err)
	}
	return nil
}

func (r *tarReader) createSymlink(h *tar.Header, name, full string) error {
	h.Linkname = r.transform(h.Linkname, transformSymlink)
	if !r.absolute && (strings.HasPrefix(h.Linkname, "/") || hasDotDot(h.Linkname)) {
		return r.postponeLink(h, name, full)
	}
	err := r.p.Symlink(h.Linkname, full)
	if errors.Is(err, fs.ErrExist) {
		if err = r.p.Unlink(full); err == nil {
			err = r.p.Symlink(h.Linkname, full)
		}
	}
	if err != nil {
		return &tarFault{tarName(name) + ": Cannot create symlink to " + quoting.QuoteWord(h.Linkname) + ": " + program.Reason(err)}
	}
	r.setOwner(h, full)
	r.linkTime(full, h.ModTime)
	return nil
}

// linkTime sets the time of a symbolic link itself.
func (r *tarReader) linkTime(full string, at time.Time) {
	if r.touch {
		return
	}
	if err := r.p.FS().Lchtimes(r.p.Path(full), r.p.Now(), at); err != nil {
		r.reportError("%s: Cannot utime: %s", tarName(full), program.Reason(err))
	}
}

// postponeLink creates an empty file in place of a link that leads out of the directory.
func (r *tarReader) postponeLink(h *tar.Header, name, full string) error {
	out, err := r.createFile(full)
	if err != nil {
		return newFault(name, "Cannot open", err)
	}
	if err := out.Close(); err != nil {
		return newFault(name, "Cannot close", err)
	}
	info, err := r.p.Lstat(full)
	if err != nil {
		return newFault(name, "Cannot stat", err)
	}
	r.p.Alloc(int64(len(full)+len(h.Linkname)) + 64)
	r.later = append(r.later, tarLink{full, h.Linkname, info.Ino(), h.ModTime})
	return nil
}

func (r *tarReader) hardLink(h *tar.Header, name, full string) error {
	link, ok := stripComponents(r.transform(h.Linkname, transformHardLink), r.strip)
	if !ok {
		return nil
	}
	to := r.safeName(link, "hard link targets")
	target := joinTarPath(r.dir, to)
	if r.topLevel != "" {
		target = joinTarPath(r.dir, r.topLevel+"/"+to)
	}
	err := r.p.Link(target, full)
	if errors.Is(err, fs.ErrExist) {
		if sameFile(r.p, target, full) {
			return nil
		}
		if err = r.p.Unlink(full); err == nil {
			err = r.p.Link(target, full)
		}
	}
	if err != nil {
		return &tarFault{tarName(name) + ": Cannot hard link to " + quoting.QuoteWord(to) + ": " + program.Reason(err)}
	}
	return nil
}

func sameFile(p *kernel.Proc, a, b string) bool {
	x, err := p.Lstat(a)
	y, err2 := p.Lstat(b)
	return err == nil && err2 == nil && x.Ino() == y.Ino()
}

// finishLater creates the postponed links and sets the attributes of directories.
func (r *tarReader) finishLater() {
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
			r.reportError("%s: Cannot create symlink to %s: %s", tarName(l.path), quoting.QuoteWord(l.target), program.Reason(err))
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
			r.reportError("%s: Cannot utime: %s", tarName(d.path), program.Reason(err))
		}
	}
}
