package vfs

import (
	"io/fs"

	"github.com/atoll-sandbox/atoll"
)

// Errno is the reason why a file operation failed, named as on Unix.
// Its zero value means success and is never returned as an error.
//
// Each Errno also matches the corresponding errors of io/fs and of package
// atoll: errors.Is(ENOENT, fs.ErrNotExist) and errors.Is(ENOENT,
// atoll.ErrNotFound) both hold.
type Errno uint8

// The reasons. The file system itself returns only some of them; the kernel
// (internal/unix/kernel) shares this type and uses the rest.
const (
	ENOENT Errno = iota + 1
	EEXIST
	ENOTDIR
	EISDIR
	ENOTEMPTY
	EACCES
	EPERM
	EINVAL
	ELOOP
	ENAMETOOLONG
	ENOSPC
	EFBIG
	EDQUOT
	EBADF
	EROFS
	EXDEV
	EMLINK
	ESPIPE
	EPIPE
	ENXIO
	EIO
	EBUSY
	ENODEV
	EAGAIN
	EINTR
	ECHILD
	ESRCH
	ENOEXEC
	ENOTTY
	EMFILE
	ENFILE
	ENOMEM
	E2BIG
	ERANGE
	EDOM
	ENOSYS
	ENOTSUP
	ETXTBSY
)

// Error returns the message that strerror has for the reason.
func (e Errno) Error() string {
	switch e {
	case ENOENT:
		return "No such file or directory"
	case EEXIST:
		return "File exists"
	case ENOTDIR:
		return "Not a directory"
	case EISDIR:
		return "Is a directory"
	case ENOTEMPTY:
		return "Directory not empty"
	case EACCES:
		return "Permission denied"
	case EPERM:
		return "Operation not permitted"
	case EINVAL:
		return "Invalid argument"
	case ELOOP:
		return "Too many levels of symbolic links"
	case ENAMETOOLONG:
		return "File name too long"
	case ENOSPC:
		return "No space left on device"
	case EFBIG:
		return "File too large"
	case EDQUOT:
		return "Disk quota exceeded"
	case EBADF:
		return "Bad file descriptor"
	case EROFS:
		return "Read-only file system"
	case EXDEV:
		return "Invalid cross-device link"
	case EMLINK:
		return "Too many links"
	case ESPIPE:
		return "Illegal seek"
	case EPIPE:
		return "Broken pipe"
	case ENXIO:
		return "No such device or address"
	}
	return e.processMessage()
}

// processMessage returns the messages of reasons that concern processes and
// devices.
func (e Errno) processMessage() string {
	switch e {
	case EIO:
		return "Input/output error"
	case EBUSY:
		return "Device or resource busy"
	case ENODEV:
		return "No such device"
	case EAGAIN:
		return "Resource temporarily unavailable"
	case EINTR:
		return "Interrupted system call"
	case ECHILD:
		return "No child processes"
	case ESRCH:
		return "No such process"
	case ENOEXEC:
		return "Exec format error"
	case ENOTTY:
		return "Inappropriate ioctl for device"
	case EMFILE:
		return "Too many open files"
	case ENFILE:
		return "Too many open files in system"
	case ENOMEM:
		return "Cannot allocate memory"
	case E2BIG:
		return "Argument list too long"
	case ERANGE:
		return "Numerical result out of range"
	case EDOM:
		return "Numerical argument out of domain"
	case ENOSYS:
		return "Function not implemented"
	case ENOTSUP:
		return "Operation not supported"
	case ETXTBSY:
		return "Text file busy"
	}
	return "Unknown error"
}

// Is reports whether target is the portable error for the reason.
func (e Errno) Is(target error) bool {
	switch e {
	case ENOENT:
		return target == fs.ErrNotExist || target == atoll.ErrNotFound
	case EEXIST:
		return target == fs.ErrExist || target == atoll.ErrExists
	case EACCES, EPERM, EROFS:
		return target == fs.ErrPermission || target == atoll.ErrDenied
	case ENOSPC, EDQUOT, EFBIG, ENAMETOOLONG, EMFILE, ENFILE:
		return target == atoll.ErrQuota
	case EBUSY:
		return target == atoll.ErrState
	case EINVAL, ENOTDIR, EISDIR, ELOOP, ENOTEMPTY:
		return target == fs.ErrInvalid || target == atoll.ErrInvalid
	case EBADF:
		return target == fs.ErrClosed
	case ENOTSUP, ENOSYS:
		return target == atoll.ErrUnsupported
	}
	return false
}

// LinkError is the error of an operation with two paths.
type LinkError struct {
	Op, Old, New string
	Err          error
}

// Error returns one line with both paths and the cause.
func (e *LinkError) Error() string {
	return e.Op + " " + e.Old + " " + e.New + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *LinkError) Unwrap() error { return e.Err }

// pathError wraps a reason with the operation and its path; it returns nil
// for 0.
func pathError(op, path string, e Errno) error {
	if e == 0 {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: e}
}

// linkError wraps a reason with the operation and its two paths; it returns
// nil for 0.
func linkError(op, old, new string, e Errno) error {
	if e == 0 {
		return nil
	}
	return &LinkError{Op: op, Old: old, New: new, Err: e}
}
