package guest

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// reasons says what the kernel's errors mean for callers.
var reasons = map[unix.Errno]error{
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

// explain says of which file an error is, and gives it its reason.
func explain(name string, err error) error {
	var e unix.Errno
	var named *fs.PathError
	switch {
	case err == nil || errors.As(err, &named):
		return err
	case !errors.As(err, &e) || reasons[e] == nil:
		return &fs.PathError{Op: "file", Path: name, Err: err}
	}
	return &fs.PathError{Op: "file", Path: name, Err: fmt.Errorf("%w: %w", reasons[e], err)}
}

// refuse says why a name is not taken.
func refuse(why string) error { return fmt.Errorf("%w: %s", atoll.ErrInvalid, why) }
