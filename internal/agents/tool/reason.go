package tool

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os/exec"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// Reason describes why the tools of a server are not available, for users who may not see its address, arguments and answers: these may
// have secrets of the operator, whose log has the whole error.
func Reason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "its program is not installed"
	case errors.Is(err, fs.ErrPermission):
		return "its program may not be run"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "its address refuses connections"
	case errors.As(err, &dns):
		return "its host name has no address"
	case errors.Is(err, atoll.ErrNotFound):
		return "it has not all of the tools that are asked for"
	case errors.Is(err, atoll.ErrQuota):
		return "it has too many tools"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "it does not answer in time"
	}
	return "it can't be connected to; the log of the server says why"
}
