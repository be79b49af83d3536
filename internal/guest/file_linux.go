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

// fileOperations are the operations on files, and those that look.
func (s *Server) fileOperations(ops map[Op]handler) {
	ops[OpRead] = s.sending(s.readFile)
	ops[OpWrite] = s.taking(s.writeFile)
	ops[OpStat] = s.asking(s.statFile)
	ops[OpList] = s.sending(s.listDir)
	ops[OpMkdir] = s.asking(s.makeDir)
	ops[OpRemove] = s.asking(s.remove)
	ops[OpImport] = s.taking(s.importTar)
	ops[OpExport] = s.sending(s.exportTar)
	ops[OpWatch] = s.watchFiles
	ops[OpStats] = s.stats
	ops[OpNotices] = s.notices
	ops[OpPorts] = s.portsOf
}

// request reads what an operation on a file is about. Its errors have the
// file's name.
func request(q *Request) (fileRequest, string, error) {
	var r fileRequest
	if err := q.Into(&r); err != nil {
		return r, "", err
	}
	name := string(r.Path)
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return r, "", refuse("a path that is not absolute")
	}
	return r, path.Clean(name), nil
}

// asking makes a handler of an operation that is a question and an answer.
func (s *Server) asking(f func(w *walker, name string, perm fs.FileMode) (any, error)) handler {
	return func(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := request(q)
		var v any
		if err == nil {
			var w *walker
			if w, err = s.walk(); err == nil {
				v, err = f(w, name, r.Perm)
				w.close()
			}
		}
		reply(st, v, explain(name, err))
	}
}

// sending makes a handler of an operation that sends bytes. begin opens what is
// to be sent, and returns a function that sends it.
func (s *Server) sending(begin func(w *walker, name string) (func(ctx context.Context, d *dataWriter) error, error)) handler {
	return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		_, name, err := request(q)
		var w *walker
		if err == nil {
			w, err = s.walk()
		}
		if err != nil {
			answer(st, explain(name, err))
			return
		}
		defer w.close()
		send, err := begin(w, name)
		if err = explain(name, err); err != nil {
			answer(st, err)
			return
		}
		answer(st, nil)
		d := newDataWriter(st)
		_ = d.end(explain(name, send(ctx, d))) // a host that is gone needs no end
	}
}

// taking makes a handler of an operation that takes bytes.
func (s *Server) taking(f func(w *walker, name string, perm fs.FileMode, content *dataReader) error) handler {
	return func(_ context.Context, _ *host, st *yamux.Stream, q *Request) {
		r, name, err := request(q)
		var w *walker
		if err == nil {
			w, err = s.walk()
		}
		if err != nil {
			answer(st, explain(name, err))
			return
		}
		defer w.close()
		answer(st, nil)
		content := &dataReader{r: st}
		err = f(w, name, r.Perm, content)
		if err == nil {
			_, err = io.Copy(io.Discard, content) // only what is sent to its end counts
		}
		if writeDone(st, explain(name, err)) == nil && err != nil {
			_, _ = io.Copy(io.Discard, st) // until the host has read the error: closing now would overtake it
		}
	}
}

// openRegular opens a file for reading that is nothing but a file: nothing
// blocks, and nothing happens in a device.
func openRegular(dir int, name string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, st, err
	}
	if err := wantRegular(&st); err != nil {
		return -1, st, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = wantRegular(&st) // it may be another by now
	}
	if err == nil {
		err = fenced(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// replaceable reports whether a file takes the place of what is there without
// another look: a link, a pipe or a socket is only its name.
func replaceable(st *unix.Stat_t) bool {
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
	return refuse("it is not a file")
}

// readFile sends a file.
func (s *Server) readFile(w *walker, name string) (func(context.Context, *dataWriter) error, error) {
	base, err := w.to(name, asTarget)
	if err != nil {
		return nil, err
	}
	fd, _, err := openRegular(w.at(), base)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, d *dataWriter) error {
		defer unix.Close(fd)
		for {
			n, err := readFull(fd, d.room())
			if err != nil {
				return err
			}
			if n == 0 {
				return nil
			}
			if err := d.fill(n); err != nil {
				return err
			}
		}
	}, nil
}

// readFull reads from a file until b is full or there is no more.
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

// writeFile replaces a file in one step.
func (s *Server) writeFile(w *walker, name string, perm fs.FileMode, content *dataReader) error {
	base, err := w.to(name, asName)
	if err != nil {
		return err
	}
	if base == "." {
		return unix.EISDIR
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.at(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && !replaceable(&st) {
		if err := wantRegular(&st); err != nil {
			return err // a device would be missed
		}
	}
	t, err := w.create()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.fill(content, make([]byte, maxData), content.alive); err != nil {
		return err
	}
	return t.become(base, uint32(perm.Perm()), nil)
}

// temporary is a file that has no name of its own yet.
type temporary struct {
	w    *walker
	dir  int
	name string // empty: it is gone, or has its own
	fd   int
}

// Names of files that aren't ready begin and end so. Watches don't tell of them.
const tempPrefix, tempSuffix = ".atoll-", ".tmp"

func tempName() string { return tempPrefix + strings.ToLower(rand.Text()) + tempSuffix }

func isTemp(name string) bool {
	return len(name) == len(tempPrefix)+26+len(tempSuffix) && strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// create makes a file in the present directory.
func (w *walker) create() (*temporary, error) {
	t := &temporary{w: w, dir: w.at(), name: tempName()}
	var err error
	t.fd, err = unix.Openat(t.dir, t.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	return t, err
}

// close removes the file if it has no name of its own.
func (t *temporary) close() {
	_ = unix.Close(t.fd) // what counts was checked
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0) // the error that counts is there
	}
}

// hole is how many zeros are rather left out than written.
const hole = 32 << 10

// lifeEvery is after how many bytes it is seen to that somebody still wants a
// file: an archive of a few bytes can hold one of petabytes.
const lifeEvery = 64 << 20

// fill writes content to the file; long runs of zeros take no room on the disk.
func (t *temporary) fill(content io.Reader, buf []byte, alive func() error) error {
	var size, seen int64
	sparse := false
	for {
		n, err := readUp(content, buf)
		if n >= hole && zero(buf[:n]) {
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
		case err == io.EOF && sparse: //nolint:errorlint // readers return it as it is
			return unix.Ftruncate(t.fd, size)
		case err == io.EOF: //nolint:errorlint // likewise
			return nil
		case err != nil:
			return err
		}
		if size-seen >= lifeEvery {
			if err := alive(); err != nil {
				return err
			}
			seen = size
		}
	}
}

// readUp reads until b is full or there is an error, which may come with the
// last bytes.
func readUp(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

// zero reports whether b holds nothing else.
func zero(b []byte) bool {
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

// become gives the file its owner, mode, times and name, in place of what has
// that name.
func (t *temporary) become(name string, mode uint32, times []unix.Timespec) error {
	if err := t.w.own(t.fd); err != nil {
		return err
	}
	if err := unix.Fchmod(t.fd, mode); err != nil {
		return err
	}
	if times != nil {
		if err := setTimes(t.fd, times); err != nil {
			return err
		}
	}
	if err := unix.Renameat(t.dir, t.name, t.dir, name); err != nil {
		return err
	}
	t.name = ""
	return nil
}

// own gives what was made to the sandbox's user. With another's rights it is
// that one's already.
func (w *walker) own(fd int) error {
	c := w.s.Config
	if !c.Switch || w.lent || c.UID == 0 && c.GID == 0 {
		return nil
	}
	return unix.Fchownat(fd, "", c.UID, c.GID, unix.AT_EMPTY_PATH)
}

// statFile describes a name.
func (s *Server) statFile(w *walker, name string, _ fs.FileMode) (any, error) {
	base, err := w.to(name, asName)
	if err != nil {
		return nil, err
	}
	i, err := describe(w.at(), base)
	if err == nil && base == "." {
		i.Name = []byte(path.Base(name))
	}
	return i, err
}

// describe describes a name in a directory.
func describe(dir int, name string) (*fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	i := &fileInfo{Name: []byte(name), Size: st.Size, Mode: modeOf(st.Mode), Time: st.Mtim.Nano()}
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

// modeOf reads the kernel's mode of a file.
func modeOf(m uint32) fs.FileMode {
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

// listDir sends what is in a directory, in no order.
func (s *Server) listDir(w *walker, name string) (func(context.Context, *dataWriter) error, error) {
	if _, err := w.to(name, asDirectory); err != nil {
		return nil, err
	}
	l, err := openDir(w.at(), ".")
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
				i, err := describe(l.fd, n)
				if errors.Is(err, unix.ENOENT) {
					continue // removed since
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

// listing reads the names in a directory, some at a time.
type listing struct {
	fd  int
	buf []byte
}

// openDir opens a directory in another.
func openDir(dir int, name string) (*listing, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &listing{fd: fd}, nil
}

func (l *listing) close() { _ = unix.Close(l.fd) }

// next returns more names, none after the last.
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

// makeDir makes a directory and those above it.
func (s *Server) makeDir(w *walker, name string, perm fs.FileMode) (any, error) {
	return nil, w.mkdirs(name, uint32(perm.Perm()))
}

// mkdirs makes a directory and those above it where they are not there, and
// enters it.
func (w *walker) mkdirs(name string, mode uint32) error {
	w.s.making.Lock()
	defer w.s.making.Unlock()
	missing := []string{}
	for at := name; ; at = path.Dir(at) {
		_, err := w.to(at, asDirectory)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == "/" || at == "." {
			return err
		}
		missing = append(missing, path.Base(at))
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := w.mkdir(missing[i], mode); err != nil {
			return err
		}
	}
	return nil
}

// mkdir makes a directory, if it is not there, and enters it.
func (w *walker) mkdir(name string, mode uint32) error {
	err := unix.Mkdirat(w.at(), name, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fresh := err == nil
	target, err := w.step(name, false)
	if err == nil && target != "" {
		err = unix.EEXIST // a link to what is not there
	}
	if err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	l, err := openDir(w.at(), ".")
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.mine(); err != nil {
		return err
	}
	if err := w.own(l.fd); err != nil {
		return err
	}
	return unix.Fchmod(l.fd, mode)
}

// mine checks that a directory is the one that was just made, not one that was
// put in its place: then it is empty, and of this process.
func (l *listing) mine() error {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return err
	}
	names, err := l.next()
	if err != nil {
		return err
	}
	uid, err := unix.SetfsuidRetUid(-1)
	if err != nil { // gVisor's kernel has none
		uid = unix.Geteuid()
	}
	if len(names) > 0 || int(st.Uid) != uid {
		return fmt.Errorf("%w: somebody has changed it meanwhile", atoll.ErrState)
	}
	return nil
}

// remove removes a name and all below it.
func (s *Server) remove(w *walker, name string, _ fs.FileMode) (any, error) {
	base, err := w.to(name, asName)
	if err != nil {
		return nil, err
	}
	if base == "." {
		return nil, refuse("the root directory can't be removed")
	}
	return nil, removeAll(w.at(), base)
}
