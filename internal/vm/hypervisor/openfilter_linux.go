package hypervisor

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

// QEMU before 8.2 opens the file of its memory for writing even if it maps it privately. If it
// could write to a template, it could corrupt all clones. So it has no right to write; a system
// call filter holds its opens for reading and writing, and for that one file the monitor hands it a
// read-only descriptor, which is enough for a private mapping.

// Offsets in struct seccomp_data.
const (
	dataCall  = 0
	dataArch  = 4
	dataFlags = 16 + 8*2 // openat's third argument, the lower half
)

// installOpenFilter puts a filter on the calling thread that lets another process decide on opens
// for reading and writing, and returns the listener for that process. The thread can't gain
// privileges any more.
func installOpenFilter() (*os.File, error) {
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

// notification is struct seccomp_notif, notificationReply struct seccomp_notif_resp, addFD struct
// seccomp_notif_addfd.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		call       int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	notificationReply struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}
	addFD struct {
		id                             uint64
		flags, srcfd, newfd, newfdFlag uint32
	}
)

// openServer answers the opens that a filter holds, until it is closed.
type openServer struct {
	listener *os.File
	stop     *os.File // closed by close, to end the goroutine
	done     chan struct{}
}

// serveOpens answers the opens that a filter holds: it answers an open of path with file, and lets
// the kernel handle all others. It owns held.
func serveOpens(held *os.File, path string, file *os.File) (*openServer, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	l := &openServer{listener: held, stop: w, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer r.Close()
		for l.waitForNotification(r) {
			if err := l.answerNotification(path, file); err != nil {
				return // pending opens fail once the listener is closed
			}
		}
	}()
	return l, nil
}

// close stops answering: from then on all opens for reading and writing fail.
func (l *openServer) close() {
	_ = l.stop.Close() // nothing was written to it
	<-l.done
	_ = l.listener.Close() // nothing to lose
}

// waitForNotification waits until an open is held; it returns false when the server is stopped.
func (l *openServer) waitForNotification(stop *os.File) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(l.listener.Fd()), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && fds[1].Revents == 0 && fds[0].Revents&unix.POLLIN != 0
	}
}

// answerNotification answers one open.
func (l *openServer) answerNotification(path string, file *os.File) error {
	var n notification
	if err := l.ioctlListener(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil // the process has exited
		}
		return err
	}
	if memoryHoldsPath(int(n.pid), int64(n.args[1]), path) {
		a := addFD{id: n.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, srcfd: uint32(file.Fd()), newfdFlag: unix.O_CLOEXEC}
		if err := l.ioctlListener(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&a)); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	}
	// The kernel handles this open with the process's own rights, which protect the template: it
	// does not matter if the path changes meanwhile.
	r := notificationReply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if err := l.ioctlListener(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// ioctlListener calls ioctl on the listener, again if it is interrupted.
func (l *openServer) ioctlListener(what uint, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, l.listener.Fd(), uintptr(what), uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

// memoryHoldsPath reports whether a path is at an address of a process's memory.
func memoryHoldsPath(pid int, address int64, path string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(path)+1)
	n, err := f.ReadAt(b, address)
	return err == nil && n == len(b) && bytes.Equal(b, append([]byte(path), 0))
}
