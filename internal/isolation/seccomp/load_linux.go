package seccomp

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Load puts the calling thread, and the threads and processes that it starts from now on, under a
// filter for good, and sets no_new_privs. The caller must have locked its goroutine to the thread.
func Load(prog []byte) error { return load(prog, 0) }

// LoadAll puts all threads of the process under a filter, as Load does.
func LoadAll(prog []byte) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return load(prog, unix.SECCOMP_FILTER_FLAG_TSYNC)
}

func load(prog []byte, flags uintptr) error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(prog) == 0 || len(prog)%size != 0 || len(prog)/size > unix.BPF_MAXINSNS {
		return fmt.Errorf("%w: a filter of %d bytes", atoll.ErrInvalid, len(prog))
	}
	code := make([]unix.SockFilter, len(prog)/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(prog)), prog)
	fprog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	other, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	if other != 0 {
		return fmt.Errorf("%w: seccomp: thread %d is under another filter", atoll.ErrUnavailable, other)
	}
	return nil
}
