// Package killtest kills a process at a chosen system call, so that a test can show what every
// instant of a kill leaves behind.
//
// The process is a copy of the test's own process that runs the same test, with $ATOLL_KILL set. It is traced: its
// system calls that change something outside of its memory are counted between Begin and End.
package killtest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// variable has the task of a copy, as JSON.
const variable = "ATOLL_KILL"

// markFile is the descriptor that a copy writes its marks to.
const markFile = 3

// timeout bounds how long a copy may run.
const timeout = 3 * time.Minute

// Task decodes the task of this process and reports true if Run started it.
func Task(t *testing.T, task any) bool {
	t.Helper()
	text, ok := os.LookupEnv(variable)
	if !ok {
		return false
	}
	if err := json.Unmarshal([]byte(text), task); err != nil {
		t.Fatal(err)
	}
	return true
}

// Begin marks where a copy's act begins. From here on its system calls count.
func Begin() { writeMark("begin") }

// End marks where a copy's act ended without an error.
func End() { writeMark("end") }

func writeMark(text string) {
	if _, err := unix.Write(markFile, []byte(text)); err != nil {
		panic(err) // Run did not start this process
	}
}

// Result is what became of a copy.
type Result struct {
	Calls  int    // that changed something, between Begin and End
	Killed string // name of the call at which it was killed, before the call; empty: it was not
	Ended  bool   // its act ended without an error
	Output string // of the copy
}

// Run runs this test in a copy of this process, and kills it before the call'th system call that
// changes something; 0: never.
func Run(t *testing.T, task any, call int) Result {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := &tracer{killAt: call, inside: map[int]bool{}}
	name, _, _ := strings.Cut(t.Name(), "/")
	argv := []string{os.Args[0], "-test.run=^" + name + "$", "-test.count=1", "-test.timeout=" + timeout.String()}
	attr := &os.ProcAttr{Env: append(os.Environ(), variable+"="+string(text)), Files: []*os.File{null, out, out, null}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true}}
	if err := c.traceProcess(argv, attr); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(out, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	c.result.Output = string(b)
	return c.result
}

// tracer follows the threads of a process.
type tracer struct {
	pid    int
	killAt int // number of the call; 0: none
	counts bool
	inside map[int]bool // threads in a system call
	result Result
}

// traceProcess starts a process and follows it to its end. A thread of this process is the tracer: only it
// can wait for the process.
func (c *tracer) traceProcess(argv []string, attr *os.ProcAttr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", argv, attr)
	if err != nil {
		return err
	}
	c.pid = p.Pid
	timer := time.AfterFunc(timeout, func() { _ = p.Kill() })
	defer timer.Stop()
	defer p.Release()                           //nolint:errcheck // it was waited for
	if _, _, err := c.wait(p.Pid); err != nil { // it stops at exec
		return err
	}
	if err := unix.PtraceSetOptions(p.Pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return os.NewSyscallError("ptrace", errors.Join(err, p.Kill()))
	}
	if err := unix.PtraceSyscall(p.Pid, 0); err != nil {
		return os.NewSyscallError("ptrace", errors.Join(err, p.Kill()))
	}
	for {
		tid, status, err := c.wait(-p.Pid) // its group: this thread may have other children, such as a server of a driver
		if errors.Is(err, unix.ECHILD) {
			return nil
		}
		if err != nil {
			return errors.Join(err, p.Kill())
		}
		if status.Stopped() {
			c.handleStop(tid, status, p)
		} else {
			delete(c.inside, tid)
		}
	}
}

// wait waits for a thread that this thread traces, or for one of a group.
func (c *tracer) wait(tid int) (int, unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(tid, &status, unix.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, unix.EINTR) {
			return got, status, err
		}
	}
}

// sysTrap is the signal of a stop at a system call.
const sysTrap = unix.SIGTRAP | 0x80

// handleStop lets a stopped thread continue, or kills the process.
func (c *tracer) handleStop(tid int, status unix.WaitStatus, p *os.Process) {
	deliver := 0
	switch sig := status.StopSignal(); {
	case sig == sysTrap:
		c.inside[tid] = !c.inside[tid]
		if c.inside[tid] && c.isLast(tid) {
			_ = p.Kill() // its threads end by themselves
			return
		}
	case sig == unix.SIGTRAP || sig == unix.SIGSTOP: // an event, or the start of a thread
	default:
		deliver = int(sig)
	}
	_ = unix.PtraceSyscall(tid, deliver) // a thread that was killed meanwhile needs none
}

// isLast counts a system call that a thread enters, and reports whether the process is killed there.
func (c *tracer) isLast(tid int) bool {
	nr, args, err := readCall(tid)
	if err != nil {
		return false
	}
	if nr == unix.SYS_WRITE && args[0] == markFile {
		c.result.Ended = c.counts
		c.counts = !c.counts
		return false
	}
	name := changingCall(nr, args)
	if !c.counts || name == "" {
		return false
	}
	c.result.Calls++
	if c.result.Calls != c.killAt {
		return false
	}
	c.result.Killed = name
	return true
}

// readCall returns the number and arguments of the system call that a thread enters.
func readCall(tid int) (nr uint64, args [6]uint64, err error) {
	const getSyscallInfo, entry = 0x420e, 1 // of linux/ptrace.h
	var info [88]byte
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info[0])), 0, 0)
	if errno != 0 {
		return 0, args, errno
	}
	if info[0] != entry {
		return 0, args, fmt.Errorf("it does not enter a system call: %d", info[0])
	}
	for i := range args {
		args[i] = binary.NativeEndian.Uint64(info[32+8*i:])
	}
	return binary.NativeEndian.Uint64(info[24:]), args, nil
}

// changing has the system calls that change something outside of a process.
var changing = map[uint64]string{
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_WRITEV: "writev", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDTO: "sendto", unix.SYS_CONNECT: "connect",
	unix.SYS_MKDIRAT: "mkdir", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_UNLINKAT: "unlink", unix.SYS_LINKAT: "link",
	unix.SYS_SYMLINKAT: "symlink", unix.SYS_MKNODAT: "mknod", unix.SYS_FCHMODAT: "chmod", unix.SYS_FCHMOD: "chmod", unix.SYS_FCHOWNAT: "chown",
	unix.SYS_FCHOWN: "chown", unix.SYS_FTRUNCATE: "truncate", unix.SYS_TRUNCATE: "truncate", unix.SYS_FALLOCATE: "fallocate", unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_SENDFILE: "sendfile",
	unix.SYS_KILL: "kill", unix.SYS_PIDFD_SEND_SIGNAL: "kill", unix.SYS_MOUNT: "mount", unix.SYS_MOVE_MOUNT: "mount", unix.SYS_UMOUNT2: "umount", unix.SYS_UTIMENSAT: "utimes",
}

// changingCall returns the name of a system call that changes something; empty: it changes nothing.
func changingCall(nr uint64, args [6]uint64) string {
	if nr == unix.SYS_OPENAT {
		if args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0 {
			return "create"
		}
		return ""
	}
	if name := changing[nr]; name != "" {
		return name
	}
	return processCall(nr, args)
}

// Points returns the calls at which a process with a number of calls is killed: all of them with
// $ATOLL_KILLS=all, otherwise about as many as $ATOLL_KILLS says, or usual, spread evenly. Which ones
// they are differs from day to day, or depends on the number $ATOLL_KILLS_SEED.
func Points(t *testing.T, calls, usual int) (points []int) {
	t.Helper()
	n := usual
	switch text := os.Getenv("ATOLL_KILLS"); text {
	case "":
	case "all":
		n = calls
	default:
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("$ATOLL_KILLS is %q: want a number or all", text)
		}
	}
	if n = min(n, calls); n < 1 {
		return nil
	}
	day := seed(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the same calls again: ATOLL_KILLS_SEED=%d", day)
		}
	})
	first := 1 + int(day%uint64(calls/n))
	for i := range n {
		points = append(points, first+i*calls/n)
	}
	return points
}

// seed returns $ATOLL_KILLS_SEED, or a number of the day.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ATOLL_KILLS_SEED")
	if text == "" {
		return uint64(time.Now().Unix() / (24 * 60 * 60))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("$ATOLL_KILLS_SEED is %q: want a number", text)
	}
	return n
}
