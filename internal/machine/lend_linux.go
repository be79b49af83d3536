package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A QEMU before 8.2 opens the file of its memory to write even when it maps it
// privately. A template that it could write to would poison all its clones. So
// it has no right to, its opens for reading and writing are held by a filter of
// system calls, and for that one file the monitor puts a descriptor in its place
// that only reads. A private mapping needs no more.

// Offsets in struct seccomp_data.
const (
	dataCall  = 0
	dataArch  = 4
	dataFlags = 16 + 8*2 // openat's third argument, the lower half
)

// hold puts a filter on the calling thread that lets another process decide on
// opens for reading and writing; it returns what that does so with. The thread
// can't gain privileges any more.
func hold() (*os.File, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, errors.New("no filter of system calls for " + runtime.GOARCH)
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataCall},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataFlags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: unix.O_ACCMODE | unix.O_CREAT},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.O_RDWR, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return nil, fmt.Errorf("filter of system calls: %w", errno)
	}
	return os.NewFile(fd, "seccomp"), nil
}

// notice is struct seccomp_notif, verdict struct seccomp_notif_resp, loan struct
// seccomp_notif_addfd.
type (
	notice struct {
		id         uint64
		pid, flags uint32
		call       int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	ruling struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}
	loan struct {
		id                             uint64
		flags, srcfd, newfd, newfdFlag uint32
	}
)

// lender answers what a filter holds until it is closed.
type lender struct {
	held *os.File
	stop *os.File // closed: there is no more to answer
	done chan struct{}
}

// lend answers opens that are held: of path with file, of all others as if they
// were not held.
func lend(held *os.File, path string, file *os.File) (*lender, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	l := &lender{held: held, stop: w, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer r.Close()
		for l.await(r) {
			if err := l.answer(path, file); err != nil {
				return // who asked gets an error once nobody answers
			}
		}
	}()
	return l, nil
}

// close lets nothing be opened to read and write any more.
func (l *lender) close() {
	_ = l.stop.Close() // nothing is written to it
	<-l.done
	_ = l.held.Close() // it is only a handle
}

// await waits until something is held.
func (l *lender) await(stop *os.File) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(l.held.Fd()), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && fds[1].Revents == 0 && fds[0].Revents&unix.POLLIN != 0
	}
}

func (l *lender) answer(path string, file *os.File) error {
	var n notice
	if err := l.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil // who asked has ended
		}
		return err
	}
	if asked(int(n.pid), int64(n.args[1]), path) {
		a := loan{id: n.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, srcfd: uint32(file.Fd()), newfdFlag: unix.O_CLOEXEC}
		if err := l.control(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&a)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	}
	// The kernel decides, by rights that allow nothing which matters: should
	// the path change meanwhile, that is the asker's loss.
	r := ruling{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if err := l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func (l *lender) control(what uint, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, l.held.Fd(), uintptr(what), uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

// asked reports whether a path stands in a process's memory.
func asked(pid int, address int64, path string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(path)+1)
	n, err := f.ReadAt(b, address)
	return err == nil && n == len(b) && bytes.Equal(b, append([]byte(path), 0))
}
