package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"golang.org/x/sys/unix"
)

// TestMain is also the main function of the tests' child process, which makes calls or executes a
// program under a filter.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("ATOLL_SECCOMP_CHILD") == "calls":
		os.Exit(makeCalls())
	case os.Getenv("ATOLL_SECCOMP_CHILD") == "program":
		os.Exit(becomeProgram())
	}
	os.Exit(m.Run())
}

// attempt is a call that the filter refuses. Without a filter it does no harm, since it is made in
// a user namespace with all capabilities there, and names no real object.
type attempt struct {
	name string
	nr   uintptr
	args [6]uintptr
	// barred is set if the kernel refuses the root of a user namespace too. Then only the test's
	// own error number shows that the filter refused the call.
	barred bool
}

var (
	zero    [4096]byte
	path    = []byte("/\x00")
	fs      = []byte("tmpfs\x00")
	handle  = append([]byte{128, 0, 0, 0}, make([]byte, 140)...)
	pointer = func(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
)

func attempts() []attempt {
	at := ^uintptr(99) // AT_FDCWD
	self := uintptr(os.Getpid())
	none := pointer([]byte("/proc/none\x00"))
	clone3 := &[11]uint64{unix.CLONE_NEWNS, 0, 0, 0, uint64(unix.SIGCHLD)}
	return []attempt{
		{"socket vsock", unix.SYS_SOCKET, [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}, false},
		{"socket alg", unix.SYS_SOCKET, [6]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET}, false},
		{"socket packet", unix.SYS_SOCKET, [6]uintptr{unix.AF_PACKET, unix.SOCK_RAW}, false},
		{"socket raw", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, false},
		{"socket raw, high bits", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET | 1<<40, unix.SOCK_RAW | 1<<40, unix.IPPROTO_ICMP}, false},
		{"socket xdp", unix.SYS_SOCKET, [6]uintptr{unix.AF_XDP, unix.SOCK_RAW}, false},
		{"socket mptcp", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, 262}, false},
		{"socket netlink audit", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, false},
		{"socket netlink netfilter", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, false},
		{"socket netlink uevent", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, false},
		{"socketpair tipc", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, pointer(zero[:])}, false},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1, pointer(zero[:])}, false},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, [6]uintptr{^uintptr(0)}, false},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, [6]uintptr{^uintptr(0)}, false},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{1}, false}, // USER_MODE_ONLY
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{}, false},
		{"bpf", unix.SYS_BPF, [6]uintptr{99, pointer(zero[:]), 16}, true},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1}, false},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{pointer([]byte("user\x00")), pointer([]byte("k\x00")), pointer(zero[:]), 1, ^uintptr(1)}, false},
		{"request_key", unix.SYS_REQUEST_KEY, [6]uintptr{pointer([]byte("user\x00")), pointer([]byte("nope\x00"))}, false},
		{"ptrace", unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_PEEKDATA, 0}, false},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uintptr{self}, false},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, [6]uintptr{self}, false},
		{"kcmp", unix.SYS_KCMP, [6]uintptr{self, self, 99}, false},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{^uintptr(0)}, false},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0x40000}, false}, // ADDR_NO_RANDOMIZE
		{"personality READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, [6]uintptr{0x400000}, false},
		{"clone newuser", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_SIGHAND}, false}, // EINVAL without filter
		{"clone newnet", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWNET | unix.CLONE_SIGHAND}, false},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{uintptr(unsafe.Pointer(clone3)), 3}, false},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUTS}, false},
		{"setns", unix.SYS_SETNS, [6]uintptr{^uintptr(0)}, false},
		{"mount", unix.SYS_MOUNT, [6]uintptr{pointer(fs), pointer([]byte("/tmp\x00")), pointer(fs), 0, 0}, false},
		{"umount2", unix.SYS_UMOUNT2, [6]uintptr{pointer([]byte("/tmp\x00")), unix.MNT_DETACH}, false},
		{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uintptr{pointer([]byte("/none\x00")), pointer(path)}, false},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{pointer(path)}, false},
		{"fsopen", unix.SYS_FSOPEN, [6]uintptr{pointer(fs)}, false},
		{"fsconfig", unix.SYS_FSCONFIG, [6]uintptr{^uintptr(0)}, false},
		{"fsmount", unix.SYS_FSMOUNT, [6]uintptr{^uintptr(0)}, false},
		{"fspick", unix.SYS_FSPICK, [6]uintptr{at, pointer(path), 0}, false},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{at, pointer(path), 0}, false},
		{"move_mount", unix.SYS_MOVE_MOUNT, [6]uintptr{^uintptr(0), pointer(path), ^uintptr(0), pointer(path)}, false},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, [6]uintptr{^uintptr(0), pointer(path), 0, pointer(zero[:]), 32}, false},
		{"listmount", unix.SYS_LISTMOUNT, [6]uintptr{}, false},
		{"statmount", unix.SYS_STATMOUNT, [6]uintptr{}, false},
		{"prlimit64 by id", unix.SYS_PRLIMIT64, [6]uintptr{self, unix.RLIMIT_NOFILE}, false},
		{"ioctl TIOCSTI", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TIOCSTI}, false}, // EBADF without filter
		{"ioctl TIOCSTI, high bits", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TIOCSTI | 1<<32}, false},
		{"ioctl TIOCLINUX", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TIOCLINUX}, false},
		{"ioctl TIOCSETD", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TIOCSETD}, false},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uintptr{at, pointer(path), pointer(handle), pointer(zero[:]), 0}, false},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{^uintptr(0), pointer(handle), 0}, true},
		{"mknod block", unix.SYS_MKNODAT, [6]uintptr{at, pointer([]byte("/proc/none\x00")), unix.S_IFBLK, 0x801}, false}, // ENOENT without filter
		{"mknod set-uid", unix.SYS_MKNODAT, [6]uintptr{at, none, unix.S_IFREG | 0o4755}, false},
		{"fchmod set-uid", unix.SYS_FCHMOD, [6]uintptr{^uintptr(0), 0o4755}, false}, // EBADF without filter
		{"fchmod set-gid, high bits", unix.SYS_FCHMOD, [6]uintptr{^uintptr(0), 0o2755 | 1<<40}, false},
		{"fchmodat set-uid", unix.SYS_FCHMODAT, [6]uintptr{at, none, 0o4755}, false},
		{"fchmodat2 set-gid", unix.SYS_FCHMODAT2, [6]uintptr{at, none, 0o2755}, true}, // newer than some kernels
		{"openat set-uid", unix.SYS_OPENAT, [6]uintptr{at, none, unix.O_CREAT | unix.O_WRONLY, 0o4755}, false},
		{"openat set-gid", unix.SYS_OPENAT, [6]uintptr{at, none, unix.O_CREAT | unix.O_WRONLY, 0o2755}, false},
		{"openat tmpfile set-uid", unix.SYS_OPENAT, [6]uintptr{at, none, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, false},
		{"openat2", unix.SYS_OPENAT2, [6]uintptr{^uintptr(0), none, pointer(zero[:]), 1}, false}, // EINVAL without filter
		{"io_setup", unix.SYS_IO_SETUP, [6]uintptr{0, pointer(zero[:])}, false},
		{"vmsplice", unix.SYS_VMSPLICE, [6]uintptr{^uintptr(0)}, false},
		{"quotactl", unix.SYS_QUOTACTL, [6]uintptr{}, false},
		{"swapon", unix.SYS_SWAPON, [6]uintptr{}, true},
		{"swapoff", unix.SYS_SWAPOFF, [6]uintptr{}, true},
		{"reboot", unix.SYS_REBOOT, [6]uintptr{}, false}, // EINVAL: no magic number
		{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{}, true},
		{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{}, true},
		{"finit_module", unix.SYS_FINIT_MODULE, [6]uintptr{^uintptr(0)}, true},
		{"delete_module", unix.SYS_DELETE_MODULE, [6]uintptr{}, true},
		{"acct", unix.SYS_ACCT, [6]uintptr{pointer([]byte("/none\x00"))}, true},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, [6]uintptr{pointer(zero[:]), 0}, true},
		{"sethostname", unix.SYS_SETHOSTNAME, [6]uintptr{pointer(path), 1}, false},
		{"syslog", unix.SYS_SYSLOG, [6]uintptr{99}, true},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{unix.FAN_REPORT_FID}, false},
		{"fanotify_mark", unix.SYS_FANOTIFY_MARK, [6]uintptr{^uintptr(0)}, false},
		{"mbind", unix.SYS_MBIND, [6]uintptr{}, false},
		{"migrate_pages", unix.SYS_MIGRATE_PAGES, [6]uintptr{self, 0}, false},
		{"move_pages", unix.SYS_MOVE_PAGES, [6]uintptr{self, 0}, false},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, [6]uintptr{99}, true},
	}
}

// makeCalls makes every attempt and prints its error by name. The filter is on
// standard input; none: without.
func makeCalls() int {
	runtime.LockOSThread()
	var prog bytes.Buffer
	if _, err := prog.ReadFrom(os.Stdin); err != nil {
		return 3
	}
	list := attempts()
	if prog.Len() > 0 {
		if err := Load(prog.Bytes()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 4
		}
	}
	got := make(map[string]int)
	for _, a := range list {
		got[a.name] = makeAttempt(a)
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		return 5
	}
	return 0
}

func makeAttempt(a attempt) int {
	r, _, e := unix.RawSyscall6(a.nr, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
	if e == 0 && strings.HasPrefix(a.name, "socket ") {
		_ = unix.Close(int(r)) // the test does not use the socket
	}
	return int(e)
}

// runAttempts makes the attempts in separate namespaces, as their root.
func runAttempts(t *testing.T, prog []byte) map[string]int {
	t.Helper()
	testenv.Real(t, "userns")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "ATOLL_SECCOMP_CHILD=calls")
	cmd.Stdin = bytes.NewReader(prog)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) && !testenv.Named("userns") {
		t.Skip("no user namespaces here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRefused(t *testing.T) {
	prog, err := Filter(Options{})
	if err != nil {
		t.Fatal(err)
	}
	const mark = int(unix.EHWPOISON) // an error that no call returns otherwise
	marked := policyRules(Options{})
	for name, r := range marked {
		if !r.alwaysAllows() {
			marked[name] = rule{r.when, uint32(mark)}
		}
	}
	markedProg, err := compileFilter(runtime.GOARCH, marked, uint32(mark))
	if err != nil {
		t.Fatal(err)
	}
	free, under, by := runAttempts(t, nil), runAttempts(t, prog), runAttempts(t, markedProg)
	refusals := []int{int(unix.EPERM), int(unix.ENOSYS), int(unix.EAFNOSUPPORT)}
	for _, a := range attempts() {
		if !slices.Contains(refusals, under[a.name]) {
			t.Errorf("%s under the filter: %v", a.name, unix.Errno(under[a.name]))
		}
		if by[a.name] != mark {
			t.Errorf("%s: it is not the filter that answers: %v", a.name, unix.Errno(by[a.name]))
		}
		if got := free[a.name]; !a.barred && slices.Contains([]int{int(unix.EPERM), int(unix.ENOSYS), mark}, got) {
			t.Errorf("%s without the filter: %v: the test shows nothing", a.name, unix.Errno(got))
		}
	}
}

// becomeProgram puts itself under the filter and executes its arguments.
func becomeProgram() int {
	runtime.LockOSThread()
	prog, err := Filter(Options{})
	if err == nil {
		err = Load(prog)
	}
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 126
}

func TestProgramsRun(t *testing.T) {
	testenv.Real(t, "programs")
	dir := t.TempDir()
	source := "package main\nimport (\"fmt\"; \"net\")\nfunc main() { l, err := net.Listen(\"tcp\", \"127.0.0.1:0\"); fmt.Println(l != nil, err) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"bash", "1 2 3 done", []string{"bash", "-c", "for i in 1 2 3; do (echo -n $i' ') & wait; done; ulimit -n 256; echo done | cat"}},
		{"python3", "42 hi ok", []string{"python3", "-c", "import subprocess,threading,socket,multiprocessing as m,tempfile,asyncio\n" +
			"t=threading.Thread(target=lambda:None);t.start();t.join()\na,b=socket.socketpair();a.send(b'hi')\n" +
			"with m.Pool(2) as p: x=sum(p.map(abs,[-20,-22]))\nasync def f():\n p=await asyncio.create_subprocess_exec('true');return await p.wait()\n" +
			"assert asyncio.run(f())==0\nprint(x,b.recv(9).decode(),subprocess.check_output(['echo','ok']).decode().strip())"}},
		{"node", "7 child", []string{"node", "-e", "const c=require('child_process');const{Worker}=require('worker_threads');" +
			"new Worker('require(\"worker_threads\").parentPort.postMessage(7)',{eval:true}).on('message',m=>console.log(m,c.execSync('echo child').toString().trim()))"}},
		{"go", "true <nil>", []string{"go", "run", "main.go"}},
		{"git", "first", []string{"bash", "-c", "git init -q r && cd r && echo x >f && git add f && git -c user.name=a -c user.email=a@b commit -qm first && git clone -q . ../c && git -C ../c log --format=%s"}},
		{"tar", "755 644 1777 done", []string{"bash", "-c", "umask 022; mkdir -p a/d; echo x >a/f; echo y >a/p; chmod 755 a/p; chmod 1777 a/d; tar -cf a.tar a && mkdir b && tar -C b -xpf a.tar && " +
			"cp -a b/a c && install -m 755 c/p c/q && echo $(stat -c %a c/q b/a/f c/d) done"}},
		{"chmod", "refused", []string{"bash", "-c", "echo >f; ! chmod u+s f 2>/dev/null && ! chmod 2755 f 2>/dev/null && chmod 755 f && [ $(stat -c %a f) = 755 ] && echo refused"}},
		{"gcc", "3", []string{"bash", "-c", "echo 'int main(){return 3;}' | gcc -x c -o p - && ./p; echo $?"}},
		{"java", "hi", []string{"bash", "-c", "echo 'class A{public static void main(String[] a){System.out.println(\"hi\");}}' >A.java && java A.java"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, err := exec.LookPath(c.args[0])
			if last := c.args[len(c.args)-1]; err == nil && c.args[0] == "bash" && c.name != "bash" && last != "" {
				_, err = exec.LookPath(c.name)
			}
			if err != nil {
				if testenv.Named(c.name) {
					t.Fatal(err)
				}
				t.Skip(c.name, " is not installed")
			}
			cmd := exec.Command("/proc/self/exe", append([]string{path}, c.args[1:]...)...)
			cmd.Dir = dir
			if c.name != "go" {
				cmd.Dir = t.TempDir()
			}
			cmd.Env = append(os.Environ(), "ATOLL_SECCOMP_CHILD=program")
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("%v: %q, want %q", err, got, c.want)
			}
		})
	}
}
