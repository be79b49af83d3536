package guest

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// errnoReasons maps the kernel's errors to reasons.
var errnoReasons = map[unix.Errno]error{
	unix.ENOENT: atoll.ErrNotFound,
	unix.EEXIST: atoll.ErrExists,
	unix.EACCES: atoll.ErrDenied, unix.EPERM: atoll.ErrDenied, unix.EROFS: atoll.ErrDenied,
	unix.ENOSPC: atoll.ErrQuota, unix.EDQUOT: atoll.ErrQuota, unix.EFBIG: atoll.ErrQuota, unix.ENAMETOOLONG: atoll.ErrQuota,
	unix.EMLINK: atoll.ErrQuota, unix.EMFILE: atoll.ErrQuota, unix.ENFILE: atoll.ErrQuota, unix.ENOMEM: atoll.ErrQuota,
	unix.EBUSY: atoll.ErrState, unix.ETXTBSY: atoll.ErrState, unix.EAGAIN: atoll.ErrState,
	unix.EINVAL: atoll.ErrInvalid, unix.ENOTDIR: atoll.ErrInvalid, unix.EISDIR: atoll.ErrInvalid,
	unix.ELOOP: atoll.ErrInvalid, unix.ENOTEMPTY: atoll.ErrInvalid, unix.EXDEV: atoll.ErrInvalid,
	unix.ENOTSUP: atoll.ErrUnsupported, unix.ENOSYS: atoll.ErrUnsupported,
}

// wrapPathError adds the file's name and the reason to an error.
func wrapPathError(name string, err error) error {
	var e unix.Errno
	var named *fs.PathError
	switch {
	case err == nil || errors.As(err, &named):
		return err
	case !errors.As(err, &e) || errnoReasons[e] == nil:
		return &fs.PathError{Op: "file", Path: name, Err: err}
	}
	return &fs.PathError{Op: "file", Path: name, Err: fmt.Errorf("%w: %w", errnoReasons[e], err)}
}

// newInvalid returns an ErrInvalid with an explanation.
func newInvalid(why string) error { return fmt.Errorf("%w: %s", atoll.ErrInvalid, why) }
