package vminit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/boot"
)

func TestMain(m *testing.M) {
	if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
		os.Exit(m.Run()) // no test needs helpers then
	}
	os.Exit(helpertest.Main(m))
}

// start describes a VM of a test.
type start struct {
	setup  Setup
	form   *Setup     // applied before the setup; nil: none
	disks  []string   // files; the first has the serial root, further ones disk1…
	args   []string   // of QEMU
	append string     // kernel parameters
	conns  []*os.File // its descriptors from 3
}

// vm is a VM under test.
type vm struct {
	pid     int
	mux     *yamux.Session
	verdict SetupResult
	console *output
	ended   chan struct{} // closed when QEMU has exited
}

// output collects the output of a program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// bootFiles returns boot files, or skips the test where VMs can't run.
func bootFiles(t testing.TB) boot.Files {
	t.Helper()
	testenv.Real(t, "qemu")
	if testing.Short() {
		t.Skip("a VM, which no detector of races sees into: left out by -short")
	}
	kernel := os.Getenv("ATOLL_MACHINE_KERNEL")
	if kernel == "" {
		testenv.Skip(t, "qemu", `no kernel for VMs: $ATOLL_MACHINE_KERNEL is empty (eval "$(scripts/machine)")`)
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testenv.Skip(t, "qemu", `no QEMU (eval "$(scripts/machine)"): %v`, err)
	}
	if _, err := exec.LookPath("busybox"); err != nil {
		testenv.Skip(t, "qemu", "no busybox (apt-get install busybox-static): %v", err)
	}
	k, err := boot.FindKernel(kernel, os.Getenv("ATOLL_MACHINE_MODULES"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := boot.Prepare(t.Context(), k, boot.Options{Guest: filepath.Join(os.Getenv("ATOLL_HELPERS"), "atoll-guest")}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rootDisk makes a disk with busybox only.
func rootDisk(t testing.TB) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	script := `set -e; mkdir -p "$0/bin" "$0/etc"; cp "$(command -v busybox)" "$0/bin/busybox"
for a in $("$0/bin/busybox" --list); do [ "$a" = busybox ] || ln "$0/bin/busybox" "$0/bin/$a"; done; chown -R 0:0 "$0" 2>/dev/null || true`
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script, tree).CombinedOutput(); err != nil {
		t.Fatalf("busybox: %v: %s", err, out)
	}
	disk := filepath.Join(t.TempDir(), "root")
	makeDisk(t, disk, "256M", "-d", tree)
	return disk
}

func makeDisk(t testing.TB, file, size string, args ...string) {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs.ext4")
	for _, dir := range []string{"/usr/sbin", "/sbin"} { // not in the path of an ordinary user
		if err != nil {
			mkfs, err = exec.LookPath(filepath.Join(dir, "mkfs.ext4"))
		}
	}
	if err != nil {
		testenv.Skip(t, "e2fsprogs", "no mkfs.ext4 (apt-get install e2fsprogs): %v", err)
	}
	cmd := exec.CommandContext(t.Context(), mkfs, append(append([]string{"-q", "-F"}, args...), file, size)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
}

// patience is the time limit of VMs on a busy host.
const patience = 3 * time.Minute

// startVM starts a VM, and sends its setup.
func startVM(t testing.TB, s start) *vm {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "port")) //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := launchVM(t, s, dir)
	v.handshake(t, l, s)
	return v
}

// launchVM starts a VM with its port at a socket in a directory. It is killed when the test ends.
func launchVM(t testing.TB, s start, dir string) *vm {
	t.Helper()
	f := bootFiles(t)
	args := []string{
		"-19", "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max", "-m", "256", "-smp", "1", "-M", "microvm",
		"-global", "virtio-mmio.force-legacy=false",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", f.Kernel, "-initrd", f.Initrd,
		"-append", "quiet console=ttyS0 reboot=t panic=-1 tsc_early_khz=2300000 " + s.append,
		"-chardev", "socket,id=a,path=" + filepath.Join(dir, "port"), "-device", "virtio-serial-device", "-device", "virtserialport,chardev=a,name=atoll",
	}
	for i, d := range s.disks {
		serial := "root"
		if i > 0 {
			serial = fmt.Sprintf("disk%d", i)
		}
		args = append(args, "-drive", fmt.Sprintf("if=none,id=d%d,file=%s,format=raw", i, d), "-device", fmt.Sprintf("virtio-blk-device,drive=d%d,serial=%s", i, serial))
	}
	v := &vm{console: &output{}, ended: make(chan struct{})}
	cmd := exec.Command("nice", append(args, s.args...)...) //nolint:noctx // killed below
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = v.console, v.console, s.conns
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its output shows how it ended
		close(v.ended)
	}()
	v.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-v.ended
		if t.Failed() {
			t.Logf("console:\n%s", v.console)
		}
	})
	return v
}

// handshake plays the host at the beginning of the protocol.
func (v *vm) handshake(t testing.TB, l net.Listener, s start) {
	t.Helper()
	began := time.Now()
	_ = l.(*net.UnixListener).SetDeadline(began.Add(patience))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(began.Add(patience))
	h := &host{Conn: conn}
	if err := h.waitForHello(); err != nil {
		t.Fatal(err)
	}
	said := v.cpuTime()
	if s.form != nil {
		h.sendForm(t, s.form)
	}
	if _, err := io.WriteString(conn, Go); err != nil {
		t.Fatal(err)
	}
	if v.mux, err = yamux.Client(h, muxConfig(), nil); err != nil {
		t.Fatal(err)
	}
	st, err := v.mux.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s.setup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
		t.Fatal(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(st, head[:]); err != nil {
		t.Fatalf("no verdict: %v", err)
	}
	b = make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(st, b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v.verdict); err != nil {
		t.Fatal(err)
	}
	_ = st.Close()
	t.Logf("the host's processors worked %v until the hello, %v until the verdict (after %v)", said, v.cpuTime(), time.Since(began))
}

// sendForm sends a form to the VM, and waits until it was applied.
func (h *host) sendForm(t testing.TB, form *Setup) {
	t.Helper()
	b, err := json.Marshal(form)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Conn.Write(append(binary.BigEndian.AppendUint32([]byte(Form), uint32(len(b))), b...)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(h, head); err != nil {
		t.Fatalf("no verdict on its form: %v", err)
	}
	b = make([]byte, binary.BigEndian.Uint32(head))
	var v SetupResult
	if _, err := io.ReadFull(h, b); err != nil || json.Unmarshal(b, &v) != nil || v.Error != "" {
		t.Fatalf("its form: %q, %v", b, err)
	}
	h.rest = nil // the guest repeats its line
	if err := h.waitForHello(); err != nil {
		t.Fatal(err)
	}
}

// cpuTime returns the processor time of the VM: the cost of its start on an idle host.
func (v *vm) cpuTime() time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.pid)) // no file is no time
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// host skips the lines that the guest sends before it continues.
type host struct {
	net.Conn
	rest []byte
}

func (h *host) waitForHello() error {
	var line []byte
	b := make([]byte, 1)
	for !bytes.HasSuffix(line, []byte(Hello)) {
		if _, err := io.ReadFull(h.Conn, b); err != nil {
			return fmt.Errorf("no hello: %w", err)
		}
		line = append(line, b[0])
	}
	return nil
}

// Read drops data until a zero byte, with which yamux begins.
func (h *host) Read(p []byte) (int, error) {
	for h.rest == nil {
		b := make([]byte, 1)
		if _, err := io.ReadFull(h.Conn, b); err != nil {
			return 0, err
		}
		if b[0] == 0 {
			h.rest = b
		}
	}
	if len(h.rest) > 0 {
		n := copy(p, h.rest)
		h.rest = h.rest[n:]
		return n, nil
	}
	return h.Conn.Read(p)
}

// open opens a stream to the guest.
func (v *vm) open(ctx context.Context) (net.Conn, error) { return v.mux.OpenStream(ctx) }

// client connects to the guest.
func (v *vm) client(t testing.TB) *guest.Client {
	t.Helper()
	if v.verdict.Error != "" {
		t.Fatalf("the VM does not serve: %+v", v.verdict)
	}
	st, err := v.mux.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := guest.Connect(t.Context(), st, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// runShell runs a script of the shell, and returns its output.
func runShell(t testing.TB, c *guest.Client, user, script string) string {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := c.Exec(ctx, atoll.Cmd{Shell: script, User: user, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if exit.Code != 0 {
		t.Fatalf("%s: exit %+v: %s", script, exit, out.String())
	}
	return strings.TrimSpace(out.String())
}

func basicVM(t testing.TB) start {
	return start{
		disks: []string{rootDisk(t)},
		setup: Setup{
			Hostname: "box", MachineID: "0123456789abcdef0123456789abcdef", Time: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixNano(), Seed: make([]byte, 64),
			Disks:  []Disk{{Serial: "root", Path: "/"}},
			Dirs:   []string{"/workspace"},
			User:   User{Name: "atoll", UID: 1000, GID: 1000, Home: "/home/atoll"},
			Limits: Limits{PIDs: 100, Memory: -1},
			Guest:  guest.Config{UID: 1000, GID: 1000, Home: "/home/atoll", CanSwitchUser: true, Egress: true, Env: []string{"PATH=/bin"}},
		},
	}
}
