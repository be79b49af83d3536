// Package recordlog keeps the state of something in a file that grows by commits: each appends entries
// with checksums in one write. A commit that a crash has cut off is dropped by the next reader, so the
// file is always as it was after a commit. A log is compacted by replacing the file.
//
// Processes share a log by locking it. Readers that don't lock it see its last commit, too.
package recordlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// A log begins with the magic. An entry is: its kind, the length of its data, the data, and then the
// length again, for readers from the end, and the checksum of all of that. Numbers are big endian. A
// commit is a run of entries that ends with one of kind Commit.
const (
	magic  = "atoll log 1\n"
	head   = 1 + 4 // bytes of an entry before its data
	foot   = 4 + 4 // and after it
	maxLen = 1 << 30
)

// Commit is the kind of the entry that completes a commit. Other kinds are the caller's; 0 is none.
const Commit byte = 'c'

// Entry is a part of a commit.
type Entry struct {
	Kind byte
	Data []byte
}

// ErrDamaged is the error of a log in which something else than its end can't be read.
var ErrDamaged = errors.New("the log is damaged")

var table = crc32.MakeTable(crc32.Castagnoli)

// Log is a log in a file. Its methods are called one at a time, except for ReadAt, which may be called
// at any time between Lock and Close.
type Log struct {
	path   string
	file   *os.File // nil: closed
	locked bool
	first  int64 // size after the first commit
	size   int64 // after the last commit that was read or written; 0: not read yet
	torn   bool  // the file goes on after size
}

// New returns the log in a file, which need not exist until Lock.
func New(path string) *Log { return &Log{path: path} }

// SetPath sets the path of the log after its directory was renamed.
func (l *Log) SetPath(path string) { l.path = path }

// Create creates the file of the log and locks it. It is not a log for others until Append.
func (l *Log) Create() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if ok, err := filelock.Try(f); !ok || err != nil {
		return errors.Join(fmt.Errorf("%s: a new log is locked", l.path), err, f.Close())
	}
	l.file, l.locked, l.size, l.first, l.torn = f, true, 0, 0, false
	return nil
}

// Lock locks the log for this process, and waits until others have unlocked it or ctx is done; then it
// returns the cause. It reports whether the log must be read: it is not as this Log last read or wrote
// it. The error of a missing log wraps fs.ErrNotExist.
func (l *Log) Lock(ctx context.Context) (changed bool, err error) {
	for {
		if l.file == nil {
			if l.file, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
				return false, err
			}
			l.size = 0
		}
		if err := l.waitLock(ctx); err != nil {
			return false, err
		}
		info, err := l.file.Stat()
		if err != nil {
			return false, errors.Join(err, l.Unlock())
		}
		if !wasReplaced(l.path, info) {
			l.locked = true
			return l.size == 0 || info.Size() != l.size, nil
		}
		if err := l.Close(); err != nil { // another process has compacted or removed it
			return false, err
		}
	}
}

// waitLock acquires the lock. No call waits for a file lock and for a context, so it tries again with a
// growing pause.
func (l *Log) waitLock(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if ok, err := filelock.Try(l.file); ok || err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// IsLocked reports whether this Log holds the lock.
func (l *Log) IsLocked() bool { return l.locked }

// Unlock releases the lock. The file stays open.
func (l *Log) Unlock() error {
	l.locked = false
	return filelock.Release(l.file)
}

// Close closes the file, which releases the lock. The log can be locked again, and has to be read then.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.locked, l.size = nil, false, 0
	return err
}

// Sizes returns the size of the log in bytes, and what it was after its first commit: since it was
// created or compacted.
func (l *Log) Sizes() (now, first int64) { return l.size, l.first }

// Read reads the log, which must be locked, and calls f for each entry of its commits with the offset
// of the data. f must not keep the data. At most one commit is in memory at a time.
func (l *Log) Read(f func(kind byte, data []byte, offset int64) error) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.first = 0
	err = scan(l.file, info.Size(), func(commit []entryAt) error {
		for _, e := range commit {
			if err := f(e.kind, e.data, e.at); err != nil {
				return err
			}
			l.size = e.at + int64(len(e.data)) + foot
		}
		if l.first == 0 {
			l.first = l.size
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	l.torn = l.size != info.Size()
	return nil
}

// entryAt is an entry with the offset of its data.
type entryAt struct {
	kind byte
	data []byte
	at   int64
}

// scan calls f with the entries of each commit of a log. What follows the last complete commit is
// dropped if a crash can have left it: the log does not end with a commit. Else it is ErrDamaged.
func scan(file io.ReaderAt, size int64, f func([]entryAt) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 256<<10)
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); err != nil || string(begin) != magic {
		return fmt.Errorf("%w: it does not begin as a log", errors.Join(ErrDamaged, unlessEOF(err)))
	}
	var pending []entryAt
	complete := false
	for at := int64(len(magic)); at < size; {
		e, ok, err := readEntry(r, at, size)
		if err != nil {
			return err
		}
		if !ok {
			if _, whole, err := readLastEntry(file, size); whole || err != nil { // so it is not what a crash has cut off
				return errors.Join(fmt.Errorf("%w at byte %d of %d", ErrDamaged, at, size), err)
			}
			break
		}
		pending = append(pending, e)
		at = e.at + int64(len(e.data)) + foot
		if e.kind != Commit {
			continue
		}
		if err := f(pending); err != nil {
			return err
		}
		pending, complete = nil, true
	}
	if !complete {
		return fmt.Errorf("%w: it has no complete commit", ErrDamaged)
	}
	return nil
}

// unlessEOF returns err, or nil if it is the end of the file.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// readEntry reads the entry at an offset; ok is false if it is not complete or has another checksum.
func readEntry(r io.Reader, at, size int64) (e entryAt, ok bool, err error) {
	if size-at < head+foot {
		return e, false, nil
	}
	begin := make([]byte, head)
	if _, err := io.ReadFull(r, begin); err != nil {
		return e, false, unlessEOF(err)
	}
	n := int64(binary.BigEndian.Uint32(begin[1:]))
	if begin[0] == 0 || n > maxLen || n > size-at-head-foot {
		return e, false, nil
	}
	text := make([]byte, n+foot)
	if _, err := io.ReadFull(r, text); err != nil {
		return e, false, unlessEOF(err)
	}
	sum := crc32.Update(crc32.Checksum(begin, table), table, text[:n+4])
	ok = sum == binary.BigEndian.Uint32(text[n+4:]) && int64(binary.BigEndian.Uint32(text[n:])) == n
	return entryAt{begin[0], text[:n:n], at + head}, ok, nil
}

// readLastEntry returns the data of the entry at the end of a file, if it is of kind Commit and
// complete.
func readLastEntry(file io.ReaderAt, size int64) (data []byte, ok bool, err error) {
	const guess = 4 << 10 // most commits end with a shorter entry
	tail := make([]byte, min(guess, size))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(tail) < head+foot {
		return nil, false, nil
	}
	n := int64(binary.BigEndian.Uint32(tail[len(tail)-foot:]))
	at := size - foot - n - head
	if n > maxLen || at < 0 {
		return nil, false, nil
	}
	text := io.NewSectionReader(file, at, size-at)
	var r io.Reader = text
	if whole := head + n + foot; whole <= int64(len(tail)) {
		r = bytes.NewReader(tail[int64(len(tail))-whole:])
	}
	e, ok, err := readEntry(r, at, size)
	return e.data, ok && e.kind == Commit, err
}

// appendEntry appends the encoded entry to a buffer.
func appendEntry(buf []byte, e Entry) []byte {
	at := len(buf)
	buf = append(buf, e.Kind)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(e.Data)))
	buf = append(buf, e.Data...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(e.Data)))
	return binary.BigEndian.AppendUint32(buf, crc32.Checksum(buf[at:], table))
}

// encode returns the bytes of a commit that begins at an offset, and the offsets of the data of its
// entries. The last entry, and no other, must be of kind Commit.
func encode(at int64, list []Entry) (text []byte, offsets []int64, err error) {
	size := len(magic)
	for _, e := range list {
		if int64(len(e.Data)) > maxLen {
			return nil, nil, fmt.Errorf("an entry of %d bytes is too large for a log", len(e.Data))
		}
		size += head + len(e.Data) + foot
	}
	text = make([]byte, 0, size)
	if at == 0 {
		text = append(text, magic...)
	}
	offsets = make([]int64, len(list))
	for i, e := range list {
		offsets[i] = at + int64(len(text)) + head
		text = appendEntry(text, e)
	}
	return text, offsets, nil
}

// Append appends a commit to the log, which must be locked and was created or read, in one write. It
// returns the offsets of the data of the entries. The last entry, and no other, must be of kind Commit.
// After an error the log is as before.
func (l *Log) Append(list []Entry) (offsets []int64, err error) {
	text, offsets, err := encode(l.size, list)
	if err != nil {
		return nil, err
	}
	if l.torn {
		if err := l.file.Truncate(l.size); err != nil {
			return nil, err
		}
		l.torn = false
	}
	if _, err := l.file.WriteAt(text, l.size); err != nil {
		l.torn = true
		return nil, err
	}
	if l.size == 0 {
		l.first = int64(len(text))
	}
	l.size += int64(len(text))
	return offsets, nil
}

// Replace replaces the log, which must be locked, by one with a single commit, in one step. The lock
// stays. After an error the log is as before.
func (l *Log) Replace(list []Entry) (offsets []int64, err error) {
	temp := &Log{path: l.path + ".new"}
	if err := os.Remove(temp.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a crash: nobody else makes one while the log is locked
		return nil, err
	}
	if err := temp.Create(); err != nil {
		return nil, err
	}
	offsets, err = temp.Append(list)
	if err == nil {
		err = os.Rename(temp.path, l.path)
	}
	if err != nil {
		return nil, errors.Join(err, temp.Close(), os.Remove(temp.path))
	}
	temp.path = l.path
	old := l.file
	*l = *temp
	if old == nil {
		return offsets, nil
	}
	return offsets, old.Close()
}

// ReadAt reads data of an entry, whose offset Read, Append or Replace has returned.
func (l *Log) ReadAt(b []byte, offset int64) error {
	n, err := l.file.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	return err
}

// ReadLast returns the data of the last entry of kind Commit of the log in a file, without its lock. It
// reads only the end of the file, unless that was cut off or is being written.
func ReadLast(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if data, ok, err := readLastEntry(f, info.Size()); ok || err != nil {
		return data, err
	}
	var last []byte
	err = scan(f, info.Size(), func(commit []entryAt) error {
		last = commit[len(commit)-1].data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return last, nil
}
