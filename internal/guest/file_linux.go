package guest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// fileOperations adds the handlers of files, watches, statistics and notices.
func (s *Server) fileOperations(ops map[Op]handler) {
	ops[OpRead] = s.handleDownload(s.readFile)
	ops[OpWrite] = s.handleUpload(s.writeFile)
	ops[OpStat] = s.handleCall(s.statFile)
	ops[OpList] = s.handleDownload(s.listDir)
	ops[OpMkdir] = s.handleCall(s.makeDir)
	ops[OpRemove] = s.handleCall(s.removeFile)
	ops[OpImport] = s.handleUpload(s.importTar)
	ops[OpExport] = s.handleDownload(s.exportTar)
	ops[OpWatch] = s.watchFiles
	ops[OpStats] = s.handleStats
	ops[OpNotices] = s.handleNotices
	ops[OpPorts] = s.handlePorts
}

// parseFileRequest returns the body of a request about a file, and the cleaned path.
func parseFileRequest(q *Request) (fileRequest, string, error) {
	var r fileRequest
	if err := q.DecodeBody(&r); err != nil {
		return r, "", err
	}
	name := string(r.Path)
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return r, "", newInvalid("a path that is not absolute")
	}
	return r, path.Clean(name), nil
}

// handleCall returns the handler of an operation that has no body besides its answer.
func (s *Server) handleCall(f func(w *walker, name string, perm fs.FileMode) (any, error)) handler {
	return func(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := parseFileRequest(q)
		var v any
		if err == nil {
			var w *walker
			if w, err = s.newWalker(); err == nil {
				v, err = f(w, name, r.Perm)
				w.close()
			}
		}
		sendReply(st, v, wrapPathError(name, err))
	}
}

// handleDownload returns the handler of an operation that sends bytes. begin opens the file and
// returns a function that sends it.
func (s *Server) handleDownload(begin func(w *walker, name string, r fileRequest) (func(ctx context.Context, d *dataWriter) error, error)) handler {
	return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := parseFileRequest(q)
		var w *walker
		if err == nil {
			w, err = s.newWalker()
		}
		if err != nil {
			sendAnswer(st, wrapPathError(name, err))
			return
		}
		defer w.close()
		send, err := begin(w, name, r)
		if err = wrapPathError(name, err); err != nil {
			sendAnswer(st, err)
			return
		}
		sendAnswer(st, nil)
		d := newDataWriter(st)
		_ = d.finishStream(wrapPathError(name, send(ctx, d))) // fails if the host has disconnected
	}
}

// handleUpload returns the handler of an operation that receives bytes.
func (s *Server) handleUpload(f func(w *walker, name string, perm fs.FileMode, content *dataReader) error) handler {
	return func(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := parseFileRequest(q)
		var w *walker
		if err == nil {
			w, err = s.newWalker()
		}
		if err != nil {
			sendAnswer(st, wrapPathError(name, err))
			return
		}
		defer w.close()
		sendAnswer(st, nil)
		content := &dataReader{r: st}
		err = f(w, name, r.Perm, content)
		if err == nil {
			_, err = io.Copy(io.Discard, content) // the stream must be complete
		}
		if writeDone(st, wrapPathError(name, err)) == nil && err != nil {
			_, _ = io.Copy(io.Discard, st) // wait until the host has read the error: closing first would discard it
		}
	}
}

// openRegular opens a regular file for reading. It never blocks and never opens a device.
func openRegular(dir int, name string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, st, err
	}
	if err := wantRegular(&st); err != nil {
		return -1, st, err
	}
	return openSeenRegular(dir, name, noDevice)
}

// noDevice is the number of no device.
const noDevice = ^uint64(0)

// openSeenRegular is openRegular for an entry that was a regular file a moment ago. dev is the device of
// the directory, which is not /proc; noDevice: unknown.
func openSeenRegular(dir int, name string, dev uint64) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = wantRegular(&st) // it may have been replaced
	}
	if err == nil && st.Dev != dev {
		err = refuseProc(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// isReplaceable reports whether a write can replace a file without a further check: links, pipes
// and sockets are only names.
func isReplaceable(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK, unix.S_IFIFO, unix.S_IFSOCK:
		return true
	}
	return false
}

func wantRegular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	}
	return newInvalid("it is not a file")
}

// readFile opens a file and returns the function that sends it.
func (s *Server) readFile(w *walker, name string, _ fileRequest) (func(context.Context, *dataWriter) error, error) {
	base, err := w.walkTo(name, asTarget)
	if err != nil {
		return nil, err
	}
	fd, _, err := openRegular(w.currentFD(), base)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, d *dataWriter) error {
		defer unix.Close(fd)
		for {
			n, err := readFull(fd, d.freeSpace())
			if err != nil {
				return err
			}
			if n == 0 {
				return nil
			}
			if err := d.commitBytes(n); err != nil {
				return err
			}
		}
	}, nil
}

// readFull reads from a file until b is full or the file ends.
func readFull(fd int, b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Read(fd, b[done:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

// writeFull writes all of b to a file.
func writeFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// writeFile replaces a file atomically.
func (s *Server) writeFile(w *walker, name string, perm fs.FileMode, content *dataReader) error {
	base, err := w.walkTo(name, asName)
	if err != nil {
		return err
	}
	if base == "." {
		return unix.EISDIR
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.currentFD(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && !isReplaceable(&st) {
		if err := wantRegular(&st); err != nil {
			return err // a device must not be replaced
		}
	}
	t, err := w.create()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.writeContent(content, make([]byte, maxData), content.checkAlive); err != nil {
		return err
	}
	if err := s.flushFile(t.fd); err != nil { // before its name exists
		return err
	}
	if err := t.commitAs(base, uint32(perm.Perm()), nil); err != nil {
		return err
	}
	return w.flushDir()
}

// tempFile is a file with a temporary name.
type tempFile struct {
	w    *walker
	dir  int
	name string // empty: it was removed or renamed
	fd   int
}

// Prefix and suffix of temporary names. Watches don't report such files.
const tempPrefix, tempSuffix = ".atoll-", ".tmp"

func tempName() string { return tempPrefix + strings.ToLower(rand.Text()) + tempSuffix }

func isTemp(name string) bool {
	return len(name) == len(tempPrefix)+26+len(tempSuffix) && strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// create creates a temporary file in the current directory.
func (w *walker) create() (*tempFile, error) {
	t := &tempFile{w: w, dir: w.currentFD(), name: tempName()}
	var err error
	t.fd, err = unix.Openat(t.dir, t.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	return t, err
}

// close closes the file and removes it unless it was renamed.
func (t *tempFile) close() {
	_ = unix.Close(t.fd) // write errors were checked
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0) // the first error counts
	}
}

// minHole is the number of zeros from which a hole is made instead.
const minHole = 32 << 10

// aliveCheckBytes is the number of bytes after which writeContent checks that the host still waits:
// a small archive can contain a file of petabytes.
const aliveCheckBytes = 64 << 20

// writeContent writes content to the file, with holes for long runs of zeros.
func (t *tempFile) writeContent(content io.Reader, buf []byte, alive func() error) error {
	var size, seen int64
	sparse := false
	for {
		n, err := readUp(content, buf)
		if n >= minHole && isZero(buf[:n]) {
			_, serr := unix.Seek(t.fd, int64(n), unix.SEEK_CUR)
			if sparse = true; serr != nil {
				return serr
			}
		} else if werr := writeFull(t.fd, buf[:n]); werr != nil {
			return werr
		} else if n > 0 {
			sparse = false
		}
		size += int64(n)
		switch {
		case err == io.EOF && sparse: //nolint:errorlint // readers don't wrap it
			return unix.Ftruncate(t.fd, size)
		case err == io.EOF: //nolint:errorlint // readers don't wrap it
			return nil
		case err != nil:
			return err
		}
		if size-seen >= aliveCheckBytes {
			if err := alive(); err != nil {
				return err
			}
			seen = size
		}
	}
}

// readUp reads until b is full or an error occurs, which may come with the last bytes.
func readUp(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

// isZero reports whether b contains only zeros.
func isZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// commitAs sets the owner, mode and times of the file and renames it, replacing an existing file.
func (t *tempFile) commitAs(name string, mode uint32, times []unix.Timespec) error {
	if err := t.setAttributes(mode, times); err != nil {
		return err
	}
	return t.renameTo(name, 0)
}

// commitChecked is commitAs, but calls check before it replaces an existing entry.
func (t *tempFile) commitChecked(name string, mode uint32, times []unix.Timespec, check func(name string) error) error {
	if err := t.setAttributes(mode, times); err != nil {
		return err
	}
	if t.renameTo(name, unix.RENAME_NOREPLACE) == nil { // fails if the entry exists, or the file system can't do it
		return nil
	}
	if err := check(name); err != nil {
		return err
	}
	return t.renameTo(name, 0)
}

// setAttributes sets the owner, mode and times of the file.
func (t *tempFile) setAttributes(mode uint32, times []unix.Timespec) error {
	if err := t.w.chownToUser(t.fd); err != nil {
		return err
	}
	if err := unix.Fchmod(t.fd, mode); err != nil {
		return err
	}
	if times == nil {
		return nil
	}
	return setTimes(t.fd, times)
}

// renameTo gives the file its name.
func (t *tempFile) renameTo(name string, flags uint) error {
	var err error
	if flags == 0 {
		err = unix.Renameat(t.dir, t.name, t.dir, name)
	} else {
		err = unix.Renameat2(t.dir, t.name, t.dir, name, flags)
	}
	if err != nil {
		return err
	}
	t.name = ""
	return nil
}

// chownToUser gives a new file to the sandbox's user. A file that was created with an assumed user
// belongs to that user already.
func (w *walker) chownToUser(fd int) error {
	c := w.s.Config
	if !c.CanSwitchUser || w.assumed || c.UID == 0 && c.GID == 0 {
		return nil
	}
	return unix.Fchownat(fd, "", c.UID, c.GID, unix.AT_EMPTY_PATH)
}

// statFile describes a file or directory.
func (s *Server) statFile(w *walker, name string, _ fs.FileMode) (any, error) {
	base, err := w.walkTo(name, asName)
	if err != nil {
		return nil, err
	}
	i, err := describeFile(w.currentFD(), base)
	if err == nil && base == "." {
		i.Name = []byte(path.Base(name))
	}
	return i, err
}

// describeFile describes an entry of a directory.
func describeFile(dir int, name string) (*fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	i := &fileInfo{Name: []byte(name), Size: st.Size, Mode: fileModeOf(st.Mode), Time: st.Mtim.Nano()}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return nil, err
		}
		i.Target = buf[:n:n]
	}
	return i, nil
}

// fileModeOf converts a mode of the kernel.
func fileModeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	for bit, f := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= f
		}
	}
	return mode
}

// listDir opens a directory and returns the function that sends its entries, in no order.
func (s *Server) listDir(w *walker, name string, _ fileRequest) (func(context.Context, *dataWriter) error, error) {
	if _, err := w.walkTo(name, asDirectory); err != nil {
		return nil, err
	}
	l, err := openDir(w.currentFD(), ".")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, d *dataWriter) error {
		defer l.close()
		enc := json.NewEncoder(d)
		for {
			names, err := l.next()
			if err != nil || len(names) == 0 {
				return err
			}
			for _, n := range names {
				i, err := describeFile(l.fd, n)
				if errors.Is(err, unix.ENOENT) {
					continue // removed meanwhile
				}
				if err == nil {
					err = enc.Encode(i)
				}
				if err = errors.Join(err, context.Cause(ctx)); err != nil {
					return err
				}
			}
		}
	}, nil
}

// listing reads the names in a directory in batches.
type listing struct {
	fd  int
	buf []byte
}

// openDir opens a directory relative to another.
func openDir(dir int, name string) (*listing, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &listing{fd: fd}, nil
}

func (l *listing) close() { _ = unix.Close(l.fd) }

// next returns more names, or none after the last.
func (l *listing) next() ([]string, error) {
	if l.buf == nil {
		l.buf = make([]byte, 16<<10)
	}
	for {
		n, err := unix.ReadDirent(l.fd, l.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return nil, err
		}
		if _, _, names := unix.ParseDirent(l.buf[:n], -1, nil); len(names) > 0 {
			return names, nil
		}
	}
}

// makeDir creates a directory and its parents.
func (s *Server) makeDir(w *walker, name string, perm fs.FileMode) (any, error) {
	if err := w.makeDirs(name, uint32(perm.Perm())); err != nil {
		return nil, err
	}
	return nil, w.flushDir()
}

// makeDirs walks to a directory and creates it and its parents if they are missing.
func (w *walker) makeDirs(name string, mode uint32) error {
	w.s.dirMu.Lock()
	defer w.s.dirMu.Unlock()
	missing := []string{}
	for at := name; ; at = path.Dir(at) {
		_, err := w.walkTo(at, asDirectory)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == "/" || at == "." {
			return err
		}
		missing = append(missing, path.Base(at))
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := w.makeDir(missing[i], mode); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates a directory if it is missing, and steps into it.
func (w *walker) makeDir(name string, mode uint32) error {
	err := unix.Mkdirat(w.currentFD(), name, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fresh := err == nil
	target, err := w.stepInto(name, false)
	if err == nil && target != "" {
		err = unix.EEXIST // a dangling link
	}
	if err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	l, err := openDir(w.currentFD(), ".")
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.checkJustMade(); err != nil {
		return err
	}
	if err := w.chownToUser(l.fd); err != nil {
		return err
	}
	return unix.Fchmod(l.fd, mode)
}

// checkJustMade checks that a directory is the one that was just created and not a replacement: it
// must be empty and belong to this process.
func (l *listing) checkJustMade() error {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return err
	}
	names, err := l.next()
	if err != nil {
		return err
	}
	uid, err := unix.SetfsuidRetUid(-1)
	if err != nil { // gVisor does not support it
		uid = unix.Geteuid()
	}
	if len(names) > 0 || int(st.Uid) != uid {
		return fmt.Errorf("%w: another process has changed it meanwhile", atoll.ErrState)
	}
	return nil
}

// removeFile removes a file or directory tree.
func (s *Server) removeFile(w *walker, name string, _ fs.FileMode) (any, error) {
	base, err := w.walkTo(name, asName)
	if err != nil {
		return nil, err
	}
	if base == "." {
		return nil, newInvalid("the root directory can't be removed")
	}
	if err := removeAll(w.currentFD(), base); err != nil {
		return nil, err
	}
	return nil, w.flushDir()
}
