package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

const (
	// maxMemory is the largest linear memory of a connection, and minMemory the smallest with which SQLite works.
	maxMemory = 64 << 20
	minMemory = 2 << 20
	// engineMemory is what a connection needs besides its linear memory.
	engineMemory = 1 << 20
	// maxLength is the largest string, blob or statement, in bytes. Single functions of SQLite run without looking at the
	// deadline; this limits what one can do.
	maxLength = 1_000_000
)

// errMemory is the error for a sandbox without enough free memory.
var errMemory = errors.New("not enough memory: SQLite needs 3 MiB")

// names numbers the file systems that are registered with SQLite, one for each connection.
var names atomic.Uint64

// files are the files of the sandbox for one connection. Its methods run on the goroutine of the process, inside of SQLite:
// a panic of the kernel, which ends the process, is kept until SQLite has returned.
type files struct {
	p     *kernel.Proc
	name  string
	ended any // the value of a panic
	temps int
	busy  time.Duration // how long to wait for a lock
}

// connection is a database connection and what it holds.
type connection struct {
	*sqlite3.Conn
	files   *files
	charged int64
}

// open opens a database file of the sandbox, or one in memory.
func open(p *kernel.Proc, file string, readOnly bool) (*connection, error) {
	memory := min(maxMemory, p.FreeMemory()/2-engineMemory) &^ (1<<16 - 1)
	if memory < minMemory {
		return nil, errMemory
	}
	c := &connection{files: &files{p: p, name: fmt.Sprintf("atoll-%d", names.Add(1))}, charged: memory + engineMemory}
	p.Alloc(c.charged)
	sqlitevfs.Register(c.files.name, c.files)
	ctx := sqlite3.WithMaxMemory(deadline{p.Context(), c.files}, memory)
	conn, err := sqlite3.OpenContext(ctx, location(file, c.files.name, readOnly))
	if err != nil {
		c.release()
		c.files.rethrow()
		return nil, err
	}
	c.Conn = conn
	conn.SetInterrupt(ctx)
	for limit, value := range map[sqlite3.LimitCategory]int{
		sqlite3.LIMIT_LENGTH: maxLength, sqlite3.LIMIT_SQL_LENGTH: maxLength, sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 500, sqlite3.LIMIT_ATTACHED: 5,
	} {
		conn.Limit(limit, value)
	}
	err = errors.Join(conn.SetAuthorizer(authorize), registerFunctions(conn), conn.BusyHandler(c.files.waitForLock))
	if err == nil && isWAL(p, file) {
		err = conn.Exec("PRAGMA locking_mode=EXCLUSIVE") // a log without shared memory
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// location returns the URI of a database: its file system is always that of the sandbox. Of the parameters of a URI of the
// caller only mode is taken.
func location(file, system string, readOnly bool) string {
	mode := ""
	if rest, ok := strings.CutPrefix(file, "file:"); ok {
		u, err := url.Parse("file:" + rest)
		if err == nil {
			file, mode = orDefault(u.Path, u.Opaque), u.Query().Get("mode")
			if plain, err := url.PathUnescape(file); err == nil {
				file = plain
			}
		}
	}
	if file == "" || mode == "memory" {
		file = ":memory:"
	}
	query := url.Values{"vfs": {system}}
	if readOnly || mode == "ro" {
		query.Set("mode", "ro")
	}
	return "file:" + strings.ReplaceAll(url.PathEscape(file), "%2F", "/") + "?" + query.Encode()
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// isWAL reports whether a file is a database with a write-ahead log.
func isWAL(p *kernel.Proc, file string) bool {
	h, err := p.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = h.Close() }() // it was only read
	if h.File() == nil {
		return false
	}
	var head [20]byte
	_, err = h.File().ReadAt(head[:], 0)
	return err == nil && head[18] == 2
}

// authorize refuses names of files that are URIs: they could name another file system, that of the host. A name that is
// not a plain string is not known here, and is refused too. VACUUM INTO attaches its file and is authorized here as well.
func authorize(action sqlite3.AuthorizerActionCode, name, _, _, _ string) sqlite3.AuthorizerReturnCode {
	if action != sqlite3.AUTH_ATTACH {
		return sqlite3.AUTH_OK
	}
	if name == "" || strings.HasPrefix(strings.ToLower(name), "file:") {
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

// close closes the statements and the connection, and gives back its memory.
func (c *connection) close() {
	for _, s := range slices.Collect(c.Stmts()) {
		ignorePanic(s.Close)
	}
	ignorePanic(c.Close)
	c.release()
	c.files.rethrow()
}

// ignorePanic closes a statement or a connection. Statements return the error of their last step, and the library panics
// if that was a lack of memory; what is closed is released in each case.
func ignorePanic(closing func() error) {
	defer func() {
		if v := recover(); v != nil {
			if _, bug := v.(runtime.Error); bug {
				panic(v)
			}
		}
	}()
	_ = closing()
}

func (c *connection) release() {
	sqlitevfs.Unregister(c.files.name)
	c.files.p.Free(c.charged)
}

// deadline is the context by which SQLite is interrupted: it ends with the command's, or with a signal.
type deadline struct {
	context.Context //nolint:containedctx // it is a context

	f *files
}

// Err is called by SQLite every thousand steps.
func (d deadline) Err() error {
	if err := d.Context.Err(); err != nil {
		return err
	}
	if d.f.ended != nil {
		return context.Canceled
	}
	if d.f.guard(func() { d.f.p.Tick(1000) }) {
		return context.Canceled
	}
	return nil
}

// lockPause is how long a connection waits between two attempts to get a lock.
const lockPause = 5 * time.Millisecond

// waitForLock waits before the next attempt to get a lock, and reports whether there is to be one.
func (f *files) waitForLock(_ context.Context, count int) bool {
	if f.ended != nil || time.Duration(count)*lockPause >= f.busy {
		return false
	}
	return !f.guard(func() { f.p.Sleep(lockPause, false) })
}

// guard calls a function, keeps the value of its panic, and reports whether there was one.
func (f *files) guard(call func()) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			f.ended, panicked = v, true
		}
	}()
	call()
	return false
}

// rethrow continues a panic that a call of SQLite interrupted.
func (f *files) rethrow() {
	if v := f.ended; v != nil {
		f.ended = nil
		panic(v)
	}
	f.p.Poll()
}

// Open implements [sqlitevfs.VFS]. A file without a name is a temporary one.
func (f *files) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	mode := os.O_RDWR
	if flags&sqlitevfs.OPEN_READONLY != 0 {
		mode = os.O_RDONLY
	}
	if flags&sqlitevfs.OPEN_CREATE != 0 {
		mode |= os.O_CREATE
	}
	remove := flags&sqlitevfs.OPEN_DELETEONCLOSE != 0
	if name == "" {
		f.temps++
		name, mode, remove = fmt.Sprintf("/tmp/.%s-%d-%d", f.name, f.p.PID(), f.temps), os.O_RDWR|os.O_CREATE|os.O_EXCL, true
	}
	var h *kernel.Handle
	var err error
	if f.guard(func() {
		h, err = f.p.OpenFile(name, mode, 0o644)
		if err != nil && mode&os.O_RDWR != 0 && flags&sqlitevfs.OPEN_MAIN_DB != 0 && (errors.Is(err, vfs.EACCES) || errors.Is(err, vfs.EROFS)) {
			flags = flags&^(sqlitevfs.OPEN_READWRITE|sqlitevfs.OPEN_CREATE) | sqlitevfs.OPEN_READONLY
			h, err = f.p.OpenFile(name, os.O_RDONLY, 0)
		}
		if err == nil && h.File() == nil {
			err = errors.Join(sqlite3.CANTOPEN, h.Close())
		}
		if err == nil && remove {
			err = f.p.Unlink(name)
		}
	}) || err != nil {
		return nil, flags, sqlite3.CANTOPEN
	}
	return &file{f: f, h: h, File: h.File()}, flags, nil
}

// Delete implements [sqlitevfs.VFS].
func (f *files) Delete(name string, _ bool) error {
	var err error
	switch {
	case f.guard(func() { err = f.p.Unlink(name) }):
		return sqlite3.IOERR_DELETE
	case errors.Is(err, vfs.ENOENT):
		return sqlite3.IOERR_DELETE_NOENT
	case err != nil:
		return sqlite3.IOERR_DELETE
	}
	return nil
}

// Access implements [sqlitevfs.VFS].
func (f *files) Access(name string, flags sqlitevfs.AccessFlag) (bool, error) {
	var err error
	var info vfs.Info
	if f.guard(func() { info, err = f.p.Stat(name) }) {
		return false, sqlite3.IOERR_ACCESS
	}
	return err == nil && (flags != sqlitevfs.ACCESS_READWRITE || !info.ReadOnly()), nil
}

// FullPathname implements [sqlitevfs.VFS].
func (f *files) FullPathname(name string) (string, error) { return f.p.Path(name), nil }

// file is an open file of a database.
type file struct {
	*vfs.File

	f    *files
	h    *kernel.Handle
	held sqlitevfs.LockLevel
}

func (o *file) Close() error {
	err := o.Unlock(sqlitevfs.LOCK_NONE)
	if o.f.guard(func() { err = errors.Join(err, o.h.Close()) }) {
		return sqlite3.IOERR_CLOSE
	}
	return err
}

func (o *file) ReadAt(b []byte, at int64) (n int, err error) {
	if o.f.guard(func() { n, err = o.File.ReadAt(b, at) }) {
		return n, sqlite3.IOERR_READ
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, sqlite3.IOERR_READ
	}
	return n, err
}

func (o *file) WriteAt(b []byte, at int64) (n int, err error) {
	if o.f.guard(func() { n, err = o.File.WriteAt(b, at) }) {
		return n, sqlite3.IOERR_WRITE
	}
	return n, writeError(err, sqlite3.IOERR_WRITE)
}

func (o *file) Truncate(size int64) (err error) {
	if o.f.guard(func() { err = o.File.Truncate(size) }) {
		return sqlite3.IOERR_TRUNCATE
	}
	return writeError(err, sqlite3.IOERR_TRUNCATE)
}

// writeError returns the code of SQLite for an error: a full disk, or the general one.
func writeError(err error, general sqlite3.ExtendedErrorCode) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vfs.ENOSPC), errors.Is(err, vfs.EDQUOT), errors.Is(err, vfs.EFBIG):
		return sqlite3.FULL
	}
	return general
}

func (o *file) Sync(sqlitevfs.SyncFlag) error { return nil } // the files of a sandbox are stored when its command ends

func (o *file) Size() (int64, error) {
	info, err := o.Stat()
	return info.Size(), err
}

func (o *file) SectorSize() int { return 0 }

func (o *file) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	return sqlitevfs.IOCAP_ATOMIC | sqlitevfs.IOCAP_SEQUENTIAL | sqlitevfs.IOCAP_POWERSAFE_OVERWRITE
}

// Lock locks the file: shared for readers, exclusive for one that writes or is about to.
func (o *file) Lock(level sqlitevfs.LockLevel) error {
	if level <= o.held {
		return nil
	}
	if !o.f.p.TryLock(o.h, level > sqlitevfs.LOCK_SHARED) {
		return sqlite3.BUSY
	}
	o.held = level
	return nil
}

// Unlock returns to a weaker lock.
func (o *file) Unlock(level sqlitevfs.LockLevel) error {
	if level >= o.held {
		return nil
	}
	o.held = level
	if level == sqlitevfs.LOCK_NONE {
		o.f.p.Unlock(o.h)
		return nil
	}
	o.f.p.TryLock(o.h, false) // succeeds: it is held exclusively, or shared
	return nil
}

// CheckReservedLock reports whether a process writes.
func (o *file) CheckReservedLock() (bool, error) {
	return o.held > sqlitevfs.LOCK_SHARED || o.f.p.IsLocked(o.h), nil
}
