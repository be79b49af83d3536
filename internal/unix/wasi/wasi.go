// Package wasi is the protocol between a program that runs on WebAssembly in a process of its own and the process of a
// sandbox that it belongs to: the program's system calls, each with one answer. Either end may be hostile.
package wasi

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Op is a system call. Paths are absolute, times are nanoseconds, and the result is in the answer's Args.
type Op uint8

// The calls. After the name: their arguments; data that is sent; results; data that is answered.
const (
	OpStart    Op = iota + 1 // cold programs: nothing; nothing; nothing; a Start
	OpJob                    // size of the memory; nothing; nothing; a Job
	OpGrow                   // new size of the memory
	OpRead                   // fd, size, offset or -1; nothing; nothing; the data
	OpWrite                  // fd, offset or -1; the data; size
	OpSeek                   // fd, offset, whence; nothing; the new offset
	OpClose                  // fd
	OpSync                   // fd
	OpStatFD                 // fd; nothing; a stat
	OpFlags                  // fd; nothing; type, Flag bits
	OpSetFlags               // fd, Flag bits
	OpTruncate               // fd, size
	OpTimesFD                // fd, atime, mtime
	OpReadDir                // fd, cookie, size; nothing; nothing; entries
	OpOpen                   // Flag bits; path; fd, type
	OpStat                   // 1: links are followed; path; a stat
	OpTimes                  // atime, mtime, 1: links are followed; path
	OpMkdir                  // path
	OpRmdir                  // path
	OpUnlink                 // path
	OpRename                 // length of the first path; two paths
	OpLink                   // length of the first path; two paths
	OpSymlink                // length of the text; text and path
	OpReadlink               // size; path; nothing; the text
	OpChmod                  // mode; path
	OpSleep                  // nanoseconds
	OpExit                   // status; why the program failed, if it did; it has no answer
	lastOp
)

// Flag describes how a file is opened.
type Flag = int64

// The flags.
const (
	FlagRead Flag = 1 << iota
	FlagWrite
	FlagAppend
	FlagCreate
	FlagExclusive
	FlagTruncate
	FlagDirectory
	FlagNoFollow
)

// The types of files, as in WASI.
const (
	TypeUnknown   = 0
	TypeCharacter = 2
	TypeDirectory = 3
	TypeRegular   = 4
	TypeSymlink   = 7
)

// Errno is an error number of WASI. Its zero value is success.
type Errno uint16

// The numbers that both ends use by name.
const (
	EBADF   Errno = 8
	EINVAL  Errno = 28
	EIO     Errno = 29
	ENOENT  Errno = 44
	ENOMEM  Errno = 48
	ENOSYS  Errno = 52
	ENOTSUP Errno = 58
	ESPIPE  Errno = 70
)

// FirstFile is the descriptor of the first file that a program opens. Those before are its streams and the directories that
// it begins with, which the sandbox does not know.
const FirstFile = 32

// MaxMemory is the largest memory of a program in bytes.
const MaxMemory = 256 << 20

// ErrnoOf returns the number of an error of the file system.
func ErrnoOf(no vfs.Errno) Errno {
	for _, n := range numbers() {
		if n.from == no {
			return n.to
		}
	}
	return EIO
}

// number is an error and its number.
type number struct {
	from vfs.Errno
	to   Errno
}

func numbers() []number {
	return []number{
		{vfs.ENOENT, ENOENT},
		{vfs.EEXIST, 20},
		{vfs.ENOTDIR, 54},
		{vfs.EISDIR, 31},
		{vfs.ENOTEMPTY, 55},
		{vfs.EACCES, 2},
		{vfs.EPERM, 63},
		{vfs.EINVAL, EINVAL},
		{vfs.ELOOP, 32},
		{vfs.ENAMETOOLONG, 37},
		{vfs.ENOSPC, 51},
		{vfs.EFBIG, 22},
		{vfs.EDQUOT, 19},
		{vfs.EBADF, EBADF},
		{vfs.EROFS, 69},
		{vfs.EXDEV, 75},
		{vfs.EMLINK, 34},
		{vfs.ESPIPE, ESPIPE},
		{vfs.EPIPE, 64},
		{vfs.ENXIO, 60},
		{vfs.EIO, EIO},
		{vfs.EBUSY, 10},
		{vfs.ENODEV, 43},
		{vfs.EAGAIN, 6},
		{vfs.EINTR, 27},
		{vfs.ECHILD, 12},
		{vfs.ESRCH, 71},
		{vfs.ENOTTY, 59},
		{vfs.EMFILE, 33},
		{vfs.ENFILE, 41},
		{vfs.ENOMEM, ENOMEM},
		{vfs.E2BIG, 1},
		{vfs.ERANGE, 68},
		{vfs.EDOM, 18},
		{vfs.ENOSYS, ENOSYS},
		{vfs.ENOTSUP, ENOTSUP},
		{vfs.ETXTBSY, 74},
	}
}

// Start is how a cold program begins.
type Start struct {
	Flags []string `json:"flags"` // of the interpreter
	Env   []string `json:"env"`
	TTY   bool     `json:"tty,omitempty"` // a stream is a terminal
}

// Job is what a program is to do.
type Job struct {
	Mode string   `json:"mode"` // c, m, file, stdin or prompt
	Code string   `json:"code"` // or the module, or the file
	Args []string `json:"argv"` // sys.argv
	Orig []string `json:"orig"`
	Dir  string   `json:"cwd"`
	Env  []string `json:"env,omitempty"` // of programs that were started before
}

// Limits of messages.
const (
	MaxData = 1 << 20 // bytes of the data of a message
	MaxArgs = 8
)

// Call is a call of a program.
type Call struct {
	Op   Op
	Args []int64
	Data []byte
}

// Arg returns an argument; 0 if there is none.
func (c Call) Arg(i int) int64 {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return 0
}

// Reply is the answer to a call.
type Reply struct {
	Errno Errno
	Args  []int64
	Data  []byte
}

// Arg returns a result; 0 if there is none.
func (r Reply) Arg(i int) int64 {
	if i < len(r.Args) {
		return r.Args[i]
	}
	return 0
}

// writeMessage writes a message: its code, the number and the values of the arguments, and the data.
func writeMessage(w io.Writer, code uint16, args []int64, data []byte) error {
	if len(args) > MaxArgs || len(data) > MaxData {
		return fmt.Errorf("%w: a message of %d arguments and %d bytes", atoll.ErrInvalid, len(args), len(data))
	}
	b := make([]byte, 0, 7+8*len(args)+len(data))
	b = binary.LittleEndian.AppendUint16(b, code)
	b = append(b, byte(len(args)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	for _, a := range args {
		b = binary.LittleEndian.AppendUint64(b, uint64(a))
	}
	_, err := w.Write(append(b, data...))
	return err
}

// readMessage reads a message.
func readMessage(r *bufio.Reader) (code uint16, args []int64, data []byte, err error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, nil, err
	}
	n, size := int(head[2]), binary.LittleEndian.Uint32(head[3:])
	if n > MaxArgs || size > MaxData {
		return 0, nil, nil, fmt.Errorf("%w: a message of %d arguments and %d bytes", atoll.ErrInvalid, n, size)
	}
	b := make([]byte, 8*n+int(size))
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, nil, err
	}
	for i := range n {
		args = append(args, int64(binary.LittleEndian.Uint64(b[8*i:])))
	}
	return binary.LittleEndian.Uint16(head[:]), args, b[8*n:], nil
}

// WriteCall sends a call.
func WriteCall(w io.Writer, c Call) error { return writeMessage(w, uint16(c.Op), c.Args, c.Data) }

// ReadCall receives a call.
func ReadCall(r *bufio.Reader) (Call, error) {
	code, args, data, err := readMessage(r)
	if err == nil && (code == 0 || code >= uint16(lastOp)) {
		err = fmt.Errorf("%w: call %d", atoll.ErrInvalid, code)
	}
	return Call{Op(code), args, data}, err
}

// WriteReply sends an answer.
func WriteReply(w io.Writer, a Reply) error { return writeMessage(w, uint16(a.Errno), a.Args, a.Data) }

// ReadReply receives an answer.
func ReadReply(r *bufio.Reader) (Reply, error) {
	code, args, data, err := readMessage(r)
	return Reply{Errno(code), args, data}, err
}
