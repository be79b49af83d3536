package seal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// child is what this program does instead of tests.
type child struct {
	Attack string
	Seal   *seal.Options // nil: it keeps its rights, to show that the attack would work
	Parent int
	Secret string // a file of the host outside of the directories
}

func TestMain(m *testing.M) {
	if text := os.Getenv("ATOLL_TEST_ATTACK"); text != "" {
		os.Exit(runChild(text))
	}
	os.Exit(m.Run())
}

// runChild seals this process and runs the attack. It exits with 0 if the attack succeeded.
func runChild(text string) int {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if c.Seal != nil {
		if err := seal.Process(*c.Seal); err != nil {
			fmt.Fprintln(os.Stderr, "sealing:", err)
			return 3
		}
	}
	attack := attacks[c.Attack]
	if attack == nil {
		attack = func(*child) error { return useDirectories() }
	}
	if err := attack(&c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// call makes a system call.
func call(number uintptr, a ...uintptr) error {
	var args [6]uintptr
	copy(args[:], a)
	if _, _, e := unix.RawSyscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); e != 0 {
		return e
	}
	return nil
}

func pointer(s string) uintptr {
	p, _ := unix.BytePtrFromString(s) // no NUL in it
	return uintptr(unsafe.Pointer(p))
}

// attacks return nil if they succeed. Without a seal each of them does, as root.
var attacks = map[string]func(c *child) error{
	"open a file":          func(c *child) error { _, err := os.ReadFile(c.Secret); return err },
	"open /proc":           func(*child) error { _, err := os.ReadFile("/proc/self/status"); return err },
	"create a file":        func(c *child) error { return os.WriteFile(c.Secret+".new", nil, 0o600) },
	"change a file's mode": func(c *child) error { return call(unix.SYS_FCHMODAT, dirfd(unix.AT_FDCWD), pointer(c.Secret), 0o777) },
	"see a file":           func(c *child) error { var st unix.Stat_t; return unix.Stat(c.Secret, &st) },
	"leave the directory":  leaveDirectory,
	"execute a program":    func(*child) error { return unix.Exec("/bin/true", []string{"true"}, nil) },
	"fork":                 func(*child) error { return call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) },
	"open a socket":        func(*child) error { return call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0) },
	"open a unix socket":   func(*child) error { return call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0) },
	"make a memory file":   func(*child) error { return call(unix.SYS_MEMFD_CREATE, pointer("x"), 0) },
	"share memory": func(*child) error {
		return mapMemory(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	},
	"map executable memory": func(*child) error {
		return mapMemory(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	},
	"set up io_uring":        setUpRing,
	"trace the parent":       func(c *child) error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(c.Parent), 0, 0) },
	"read the parent":        readParent,
	"signal the parent":      func(c *child) error { return call(unix.SYS_KILL, uintptr(c.Parent), 0) },
	"signal a thread of it":  func(c *child) error { return call(unix.SYS_TGKILL, uintptr(c.Parent), uintptr(c.Parent), 0) },
	"open the parent":        func(c *child) error { return call(unix.SYS_PIDFD_OPEN, uintptr(c.Parent), 0) },
	"leave the namespaces":   func(*child) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS) },
	"mount":                  func(*child) error { return unix.Mount("tmpfs", os.TempDir(), "tmpfs", 0, "size=4k") },
	"change the root":        func(*child) error { return call(unix.SYS_CHROOT, pointer("/")) },
	"become another user":    func(*child) error { return call(unix.SYS_SETUID, 65534) },
	"raise the memory limit": raiseLimit,
	"load a BPF program":     loadProgram,
	"listen to the kernel":   func(*child) error { return call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) },
	"exceed the memory":      exceedMemory,

	"exceed the memory with a growing stack":     func(*child) error { return exceedWithStack() },
	"exceed the memory with protected pages":     func(*child) error { return exceedWithProtectedPages() },
	"exceed the memory with page tables":         func(*child) error { return mapReadable() },
	"exceed the memory with read-only pages":     func(*child) error { return exceedWithReadOnlyPages() },
	"lend a priority":                            lendPriority,
	"share pages with other processes":           func(*child) error { return mergePages() },
	"start more threads than a Go program needs": func(*child) error { return startThreads() },
}

// exceedWithStack uses twice the memory in a mapping that grows like a stack, which RLIMIT_DATA does
// not count.
func exceedWithStack() error {
	return mapAndUse(2*testMemory, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN, func(uintptr) error { return nil })
}

// exceedWithProtectedPages uses twice the memory in pages that it makes inaccessible, which RLIMIT_DATA
// does not count.
func exceedWithProtectedPages() error { return exceedInParts(unix.PROT_NONE) }

// exceedWithReadOnlyPages does the same with pages that can still be read.
func exceedWithReadOnlyPages() error { return exceedInParts(unix.PROT_READ) }

func exceedInParts(prot uintptr) error {
	const part = testMemory / 16
	for range 32 {
		err := mapAndUse(part, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, func(at uintptr) error { return call(unix.SYS_MPROTECT, at, part, prot) })
		if err != nil {
			return err
		}
	}
	return nil
}

// mapAndUse maps memory, writes to each of its pages and calls then with its address.
func mapAndUse(size, flags uintptr, then func(at uintptr) error) error {
	at, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags, ^uintptr(0), 0)
	if e != 0 {
		return e
	}
	for i := uintptr(0); i < size; i += 4096 {
		*(*byte)(unsafe.Add(unsafe.Pointer(nil), at+i)) = 1 //nolint:gosec // the mapping
	}
	return then(at)
}

// mapReadable maps a terabyte that can only be read: no limit counts it, and each 2 MiB that are read
// cost a page of the kernel.
func mapReadable() error {
	return call(unix.SYS_MMAP, 0, 1<<40, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uintptr(0), 0)
}

// lendPriority takes a lock with priority inheritance: code of the kernel that Go programs never use.
func lendPriority(*child) error {
	const lockPI = 6 // FUTEX_LOCK_PI
	var word uint32
	return call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), lockPI, 0, 0, 0, 0)
}

// mergePages lets the kernel merge equal pages of all processes, which tells what others contain.
func mergePages() error {
	at, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if e != 0 {
		return e
	}
	return call(unix.SYS_MADVISE, at, 1<<20, unix.MADV_MERGEABLE)
}

// startThreads starts twice as many threads as a sealed process may have.
func startThreads() error {
	var ready sync.WaitGroup
	for range 2 * seal.MaxThreads {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			select {}
		}()
	}
	ready.Wait()
	return nil
}

func dirfd(n int) uintptr { return uintptr(n) }

// leaveDirectory climbs out of a kept directory.
func leaveDirectory(c *child) error {
	top := c.Secret[:strings.LastIndexByte(c.Secret, '/')]
	if c.Seal != nil {
		top = seal.Path(0)
	}
	fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	up, err := unix.Openat(fd, "../../../../../../../../../etc", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Close(up)
}

func mapMemory(prot, flags uintptr) error {
	return call(unix.SYS_MMAP, 0, 4096, prot, flags, ^uintptr(0), 0)
}

func setUpRing(*child) error {
	var params [120]byte
	return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])))
}

// marker is at the same address in the parent, which is the same program.
var marker byte

// readParent reads memory of the parent.
func readParent(c *child) error {
	var b [1]byte
	local := unix.Iovec{Base: &b[0], Len: 1}
	remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&marker)), Len: 1}
	_, err := unix.ProcessVMReadv(c.Parent, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	return err
}

func raiseLimit(*child) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

func loadProgram(*child) error {
	attr := [128]byte{0: 2, 4: 4, 8: 4, 12: 1} // BPF_MAP_CREATE: an array of one element
	return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)))
}

// exceedMemory uses twice the memory that the process may have.
func exceedMemory(*child) error {
	var kept [][]byte
	for range 2 * testMemory >> 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	if len(kept) == 0 {
		return errors.New("nothing was allocated")
	}
	return nil
}

const testMemory = 256 << 20

// runAttack runs an attack in a child, and reports whether it succeeded and how the child ended.
func runAttack(t *testing.T, c child) (succeeded bool, how string) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ATOLL_TEST_ATTACK="+string(text))
	cmd.SysProcAttr = seal.Attr()
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true, string(out)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("running the attack: %v", err)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.ExitStatus() == 3 {
		t.Fatalf("the attack could not be prepared: %s", out)
	}
	return false, fmt.Sprintf("%v: %.200s", exit, out)
}

// TestSealedProcessIsRefused runs every attack in a process that has not given up anything, where it
// must succeed, and in a sealed one, where the kernel must refuse it: without directories, and with
// one that it keeps.
func TestSealedProcessIsRefused(t *testing.T) {
	testenv.Real(t, "root")
	if os.Getuid() != 0 {
		testenv.Skip(t, "root", "the attacks succeed for root only")
	}
	for name := range attacks {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			secret := filepath.Join(dir, "secret")
			if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			kept := t.TempDir()
			c := child{Attack: name, Parent: os.Getpid(), Secret: secret}
			if ok, how := runAttack(t, c); !ok && !mayFailUnsealed[name] {
				t.Errorf("the attack does not work without a seal, so this proves nothing: %s", how)
			}
			_ = os.Remove(secret + ".new") // of the first attack
			for _, dirs := range [][]seal.Dir{nil, {{Source: kept}}} {
				c.Seal = &seal.Options{Dirs: dirs, Memory: testMemory}
				if ok, how := runAttack(t, c); ok && !(len(dirs) > 0 && openWithDirectories[name]) {
					t.Errorf("with %d directories the attack succeeded: %s", len(dirs), how)
				}
			}
		})
	}
}

// mayFailUnsealed are attacks that this kernel or a container around the tests may refuse to anyone.
var mayFailUnsealed = map[string]bool{"set up io_uring": true, "trace the parent": true, "read the parent": true, "load a BPF program": true}

// openWithDirectories are attacks that the kernel allows to root with directories, which stays the user
// of the host to whom their files belong.
var openWithDirectories = map[string]bool{"start more threads than a Go program needs": true}

// TestSealedProcessUsesItsDirectories shows that a sealed process is not merely broken.
func TestSealedProcessUsesItsDirectories(t *testing.T) {
	testenv.Real(t, "root")
	if os.Getuid() != 0 {
		testenv.Skip(t, "root", "mounts of this test need root")
	}
	kept, locked := t.TempDir(), t.TempDir()
	c := child{Seal: &seal.Options{Dirs: []seal.Dir{{Source: kept}, {Source: locked, ReadOnly: true}}, Memory: testMemory}}
	if ok, how := runAttack(t, c); !ok {
		t.Fatalf("using the directories: %s", how)
	}
	if b, err := os.ReadFile(filepath.Join(kept, "new")); err != nil || string(b) != "text" {
		t.Errorf("the file of the host has %q, %v", b, err)
	}
	if list, _ := os.ReadDir(locked); len(list) > 0 {
		t.Errorf("the read-only directory has %v", list)
	}
}

// useDirectories writes to the first directory, and can't write to the second.
func useDirectories() error {
	if err := os.WriteFile(seal.Path(0)+"/new", []byte("text"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(seal.Path(1)+"/new", nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("writing to the read-only directory: %w", err)
	}
	return nil
}
