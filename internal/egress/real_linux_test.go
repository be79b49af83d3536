package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(helpertest.Main(m)) }

// missing skips a test of something that is not here, or fails it where
// ATOLL_MUST says that it must be.
func missing(t testing.TB, what string) {
	t.Helper()
	testenv.Skip(t, "namespace", "%s", what)
}

// outside is a network namespace of the test's own that plays the internet.
type outside struct {
	t    testing.TB
	work chan func()
	dir  string
}

// newOutside makes it, with addresses that are public, private and of metadata.
func newOutside(t testing.TB) *outside {
	t.Helper()
	testenv.Real(t, "namespace")
	if os.Getuid() != 0 {
		missing(t, "network namespaces that play the internet need root")
	}
	for _, tool := range []string{"ip", "unshare", "git", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, tool+" is not here")
		}
	}
	o := &outside{t: t, work: make(chan func()), dir: t.TempDir()}
	if err := os.Chmod(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ready := make(chan error)
	go func() { // on a thread that ends with it
		runtime.LockOSThread()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range o.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		missing(t, "no network namespace can be made here: "+err.Error())
	}
	t.Cleanup(func() { close(o.work) })
	o.run("ip", "link", "set", "lo", "up")
	for _, a := range []string{public, public2, private, "169.254.169.254"} {
		o.run("ip", "addr", "add", a+"/32", "dev", "lo")
	}
	o.serveNames()
	return o
}

// do does something in the namespace.
func (o *outside) do(f func()) {
	done := make(chan struct{})
	o.work <- func() { defer close(done); f() }
	<-done
}

func (o *outside) run(args ...string) {
	o.t.Helper()
	o.do(func() {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			o.t.Errorf("%v: %v: %s", args, err, out)
		}
	})
}

func (o *outside) listen(at string) net.Listener {
	var l net.Listener
	var err error
	o.do(func() { l, err = net.Listen("tcp", at) })
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { l.Close() })
	return l
}

// serveNames is the host's name server: all names lead to one address.
func (o *outside) serveNames() {
	var pc net.PacketConn
	var err error
	o.do(func() { pc, err = net.ListenPacket("udp", "127.0.0.1:53") })
	if err != nil {
		o.t.Fatal(err)
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		name := q.Question[0].Name
		to := public
		if strings.HasPrefix(name, "meta.") {
			to = "169.254.169.254"
		}
		if rr, err := dns.NewRR(name + " 1 IN A " + to); err == nil && q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})}
	go s.ActivateAndServe()
	o.t.Cleanup(func() { pc.Close() })
}

// box is a sandbox of nothing but a network and a guest.
type box struct {
	t      testing.TB
	o      *outside
	dir    string
	client *guest.Client
	socket string
	env    []string
}

func newBox(t testing.TB, o *outside) *box {
	t.Helper()
	b := &box{t: t, o: o, dir: t.TempDir()}
	b.socket = filepath.Join(b.dir, "guest.sock")
	resolv := filepath.Join(b.dir, "resolv.conf")
	if err := os.WriteFile(resolv, []byte(ResolvConf), 0o644); err != nil {
		t.Fatal(err)
	}
	bin, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := json.Marshal(guest.Config{Egress: true})
	if err != nil {
		t.Fatal(err)
	}
	// The guest waits for its network to be set up from outside, as in a container.
	script := `mount --bind ` + resolv + ` /etc/resolv.conf && mount -t tmpfs x /run && echo made && read go && exec ` + bin + ` serve ` + b.socket
	cmd := exec.Command("unshare", "-n", "-m", "--propagation", "private", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "ATOLL_GUEST="+string(cfg))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if o.do(func() { err = cmd.Start() }); err != nil { // by a thread that lives as long as the test
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	if n, err := out.Read(make([]byte, 10)); n == 0 {
		t.Fatal(err)
	}
	if said, err := exec.Command(bin, "netns", strconv.Itoa(cmd.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("netns: %v: %s", err, said)
	}
	fmt.Fprintln(in, "go")
	b.client, err = guest.Connect(t.Context(), b.dialGuest(), guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	return b
}

// dialGuest connects to the guest as soon as it listens.
func (b *box) dialGuest() net.Conn {
	b.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		var c net.Conn
		if c, err = net.Dial("unix", b.socket); err == nil {
			return c
		}
	}
	b.t.Fatal(err)
	return nil
}

// gate starts a gate with rules, in the namespace that plays the internet.
func (b *box) gate(n atoll.Network) *Control {
	b.t.Helper()
	c, err := b.start(n)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close(context.Background()) })
	b.env = Env(n)
	return c
}

func (b *box) start(n atoll.Network) (c *Control, err error) {
	conn := b.dialGuest().(*net.UnixConn)
	defer conn.Close()
	f, err := conn.File()
	if err != nil {
		b.t.Fatal(err)
	}
	b.o.do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err = Start(ctx, Options{Dir: b.dir, ID: "s000000000000", Network: n, Guest: f, Nameservers: []string{"127.0.0.1:53"}})
	})
	return c, err
}

// run runs a shell script inside; what it says and its exit code.
func (b *box) run(proxy bool, script string) (string, int) {
	b.t.Helper()
	home := filepath.Join(b.dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		b.t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_RETRIES=0", "NPM_CONFIG_FETCH_RETRIES=0", "NPM_CONFIG_UPDATE_NOTIFIER=false", "PYENV_ROOT=" + os.Getenv("HOME") + "/.pyenv", "LC_ALL=C"}
	if proxy {
		env = append(env, b.env...)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	exit, err := b.client.Exec(ctx, atoll.Cmd{Args: []string{"bash", "-c", script}, Dir: "/", Env: env})
	if err != nil {
		b.t.Fatalf("%s: %v %s%s", script, err, exit.Stdout, exit.Stderr)
	}
	return string(exit.Stdout) + string(exit.Stderr), exit.Code
}

const aptFlags = ` -o Dir::Etc::sourcelist=$T/list -o Dir::Etc::sourceparts=- -o Dir::Etc::main=- -o Dir::Etc::parts=- -o Dir::State=$T/state -o Dir::State::status=$T/status -o Dir::Cache=$T/cache -o APT::Sandbox::User=root -o Dir::Log=$T `

// TestRealPrograms fetches with the programs that people use.
func TestRealPrograms(t *testing.T) {
	testenv.Real(t, "namespace")
	o := newOutside(t)
	o.web()
	b := newBox(t, o)
	c := b.gate(atoll.Network{Allow: []string{"ok.test", HostName + ":4873"}})
	programs := map[string]string{
		"curl":       "curl -sS --fail-with-body -m 20 http://%s/hello",
		"git http":   "T=$(mktemp -d); git clone -q http://%s/repo.git $T/r && cat $T/r/file",
		"git daemon": "T=$(mktemp -d); timeout 20 git clone -q git://%s/repo.git $T/r && cat $T/r/file",
		"npm":        "T=$(mktemp -d); cd $T && npm install --no-audit --no-fund --registry http://%s/npm/ tiny && node -p 'require(\"tiny\")'",
		"pip":        "T=$(mktemp -d); pip install -vv --no-deps --target $T --index-url http://%[1]s/simple/ --trusted-host %[1]s tiny && PYTHONPATH=$T python3 -c 'import tiny'",
		"apt": "export T=$(mktemp -d); mkdir -p $T/state/lists/partial $T/cache/archives/partial; touch $T/status; echo deb [trusted=yes] http://%s/apt ./ > $T/list; F='" + aptFlags +
			"'; eval apt-get $F update && eval apt-get $F install -y --download-only tiny && dpkg-deb -I $T/cache/archives/tiny_1.0_all.deb | grep Package",
	}
	works := map[string]string{"curl": "hello from", "git http": "content", "git daemon": "content", "npm": "tiny works", "pip": "tiny works", "apt": "Package: tiny"}
	for _, proxy := range []bool{false, true} {
		for what, script := range programs {
			tool, _, _ := strings.Cut(what, " ")
			if tool == "apt" {
				tool = "apt-get"
			}
			if _, err := exec.LookPath(tool); err != nil {
				t.Errorf("%s is not here: install it for this test", tool)
				continue
			}
			got, code := b.run(proxy, fmt.Sprintf(script, "ok.test"))
			if code != 0 || !strings.Contains(got, works[what]) {
				t.Errorf("%s (proxy variables: %v): %d %s", what, proxy, code, got)
			}
			start := time.Now()
			got, code = b.run(proxy, fmt.Sprintf(script, "other.test"))
			reason := []string{"resolv", "ENOTFOUND", "Name or service not known"}
			if proxy && what != "git daemon" {
				reason = []string{"403", "allowed hosts"}
			}
			if code == 0 || !slices.ContainsFunc(reason, func(r string) bool { return strings.Contains(got, r) }) {
				t.Errorf("%s of a host that is not allowed (proxy variables: %v): %d %s", what, proxy, code, got)
			}
			t.Logf("%s, refused in %v (proxy variables: %v): %s", what, time.Since(start).Round(time.Millisecond), proxy, firstLines(got))
		}
		if got, code := b.run(proxy, "curl -sS -m 20 http://"+HostName+":4873/hello"); code != 0 {
			t.Errorf("a server on the host's loopback: %s", got)
		}
	}
	list, err := c.Connections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	allowed, denied := 0, 0
	for _, c := range list {
		if c.Allowed {
			allowed++
		} else {
			denied++
		}
	}
	if allowed < 12 || denied < 6 {
		t.Errorf("the journal has %d allowed and %d denied", allowed, denied)
	}
	if b, err := os.ReadFile(filepath.Join(b.dir, logName)); err != nil || bytes.Count(b, []byte("\n")) < 18 {
		t.Errorf("the file: %s, %v", b, err)
	}
}

func firstLines(s string) string {
	return strings.Join(strings.SplitN(strings.TrimSpace(s), "\n", 4)[:min(3, strings.Count(strings.TrimSpace(s), "\n")+1)], " | ")
}

// TestRealGate is the life of the process: its rules change, it is killed, it
// ends with its guest.
func TestRealGate(t *testing.T) {
	o := newOutside(t)
	o.web()
	b := newBox(t, o)
	c := b.gate(atoll.Network{Allow: []string{"ok.test:80"}})
	ctx := t.Context()
	const ask = "curl -sS -m 10 --fail-with-body "
	for script, works := range map[string]bool{
		"http://ok.test/hello": true, "http://other.test/hello": false, "http://169.254.169.254/hello": false, "http://10.1.2.3/hello": false, "http://" + public + "/hello": false,
		"-x socks5h://127.0.0.1:3128 http://ok.test/hello": true, "-x socks5://127.0.0.1:3128 http://169.254.169.254/hello": false, "-p -x http://127.0.0.1:3128 http://ok.test/hello": true,
		"-x http://127.0.0.1:3128 http://169.254.169.254/hello": false, "-p -x http://127.0.0.1:3128 http://169.254.169.254/hello": false, "-H 'Host: other.test' http://ok.test/hello": false,
		"http://[::ffff:169.254.169.254]/hello": false,
	} {
		if got, code := b.run(false, ask+script); (code == 0) != works {
			t.Errorf("%s: %d %s", script, code, got)
		}
	}
	// Other rules, with a connection under way.
	hang := make(chan string)
	l := o.listen(public + ":8000")
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	if err := c.SetNetwork(ctx, atoll.Network{Allow: []string{"ok.test"}}); err != nil {
		t.Fatal(err)
	}
	go func() {
		got, code := b.run(false, "exec 3<>/dev/tcp/ok.test/8000; echo x >&3; cat <&3")
		hang <- fmt.Sprint(code, got)
	}()
	var conn net.Conn
	select {
	case conn = <-accepted:
	case got := <-hang:
		list, err := c.Connections(ctx)
		t.Fatalf("a connection that is allowed now: %s, %+v, %v", got, list[max(0, len(list)-3):], err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetNetwork(ctx, atoll.Network{Allow: []string{"other.test"}, Deny: []string{"10.0.0.0/8"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-hang:
		t.Logf("cut: %s", got)
	case <-time.After(time.Minute):
		t.Error("a connection goes on that is no longer allowed")
	}
	if got, code := b.run(false, ask+"http://other.test/hello"); code != 0 {
		t.Errorf("what is allowed now: %s", got)
	}
	if got, code := b.run(false, ask+"http://ok.test/hello"); code == 0 {
		t.Errorf("what was allowed: %s", got)
	}
	if err := c.SetNetwork(ctx, atoll.Network{Allow: []string{"not/a rule"}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("rules that are none: %v", err)
	}
	for target, want := range map[string]bool{"other.test": true, "other.test:22": true, "https://other.test/x": true, "ok.test": false, "10.1.2.3:80": false} {
		if got, err := Open(b.dir).CheckNetwork(ctx, target); err != nil || got.Allowed != want || got.Allowed == (got.Reason != "") {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
	t.Run("jail", func(t *testing.T) { jailed(t, gatePID(t, b.dir)) })
	// A second start gives the rules to the one that runs.
	pid := gatePID(t, b.dir)
	if _, err := b.start(atoll.Network{Allow: []string{"ok.test"}}); err != nil || gatePID(t, b.dir) != pid {
		t.Errorf("a second start: %v, %d is now %d", err, pid, gatePID(t, b.dir))
	}
	// Killed: told, and another takes over.
	kill(t, pid)
	if _, err := c.Connections(ctx); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("of a gate that was killed: %v", err)
	}
	if got, code := b.run(false, ask+"http://ok.test/hello"); code == 0 {
		t.Errorf("without a gate: %s", got)
	}
	b.gate(atoll.Network{Allow: []string{"ok.test"}})
	if got, code := b.run(false, ask+"http://ok.test/hello"); code != 0 {
		t.Errorf("with another gate: %s", got)
	}
	pid = gatePID(t, b.dir)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n != 1 {
		t.Errorf("closed, but it lives: %v", err)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("twice: %v", err)
	}
}

// gatePID returns the process that holds the lock of a directory.
func gatePID(t testing.TB, dir string) int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/fd/" + strconv.Itoa(fdLock))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if to, err := os.Readlink(name); err == nil && to == filepath.Join(dir, lockName) {
			pid, err := strconv.Atoi(strings.Split(name, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no gate holds the lock")
	return 0
}

// kill ends a gate that the test has started, and waits for it.
func kill(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n != 1 {
		t.Fatalf("it lives: %v", err)
	}
}

// jailed checks what a gate has of the host.
func jailed(t *testing.T, pid int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "Groups:\t \n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	if strings.Contains(string(status), "Uid:\t0") || strings.Contains(string(status), "Gid:\t0") {
		t.Error("it is root")
	}
	if root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/", pid)); err == nil && len(root) > 0 {
		t.Errorf("it sees files: %v", root)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(env) != 0 {
		t.Errorf("its environment: %q, %v", env, err)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, task.Name()))
		if err != nil || !strings.Contains(string(b), "NoNewPrivs:\t1") || !strings.Contains(string(b), "Seccomp:\t2") || strings.Contains(string(b), "Uid:\t0") {
			t.Errorf("thread %s: %s, %v", task.Name(), b, err)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "pipe:") &&
			!slices.Contains([]string{logName, errorsName, lockName}, filepath.Base(to)) && !strings.HasPrefix(to, "/sys/fs/cgroup") && !strings.Contains(to, "cpu.cfs_") {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
}

// TestRefusalsAreTold listens to the notices of a sandbox.
func TestRefusalsAreTold(t *testing.T) {
	testenv.Real(t, "helpers")
	o := newOutside(t)
	b := newBox(t, o)
	b.gate(atoll.Network{Allow: []string{"ok.test"}})
	link := &guest.Link{ID: "s000000000000", Connect: func(context.Context) (net.Conn, error) { return net.Dial("unix", b.socket) }}
	defer link.Disconnect()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := make(chan atoll.Notice, 10)
	done := make(chan error, 1)
	go func() {
		done <- link.Notices(ctx, func(n atoll.Notice) error {
			heard <- n
			return nil
		})
	}()
	if n := <-heard; n.Kind != atoll.NoticeReady {
		t.Fatalf("%+v", n)
	}
	b.run(false, "curl -s http://"+public+"/")
	for {
		select {
		case n := <-heard:
			if n.Kind != atoll.NoticeDenied {
				continue
			}
			if n.Address != public+":80" || n.Port != 80 || !strings.Contains(n.Message, "allowed hosts") {
				t.Errorf("%+v", n)
			}
			return
		case err := <-done:
			t.Fatal(err)
		}
	}
}

// rootless is set in a test process that is nobody's.
const rootless = "ATOLL_TEST_ROOTLESS"

// TestGateOfNobody starts a gate without root.
func TestGateOfNobody(t *testing.T) {
	testenv.Real(t, "helpers")
	if dir := os.Getenv(rootless); dir != "" {
		gateOfNobody(t, dir)
		return
	}
	if os.Getuid() != 0 {
		gateOfNobody(t, t.TempDir())
		return
	}
	dir, err := os.MkdirTemp("", "atoll-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const nobody = 65534
	self := filepath.Join(dir, "test")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, b, 0o755)
	}
	if err = errors.Join(err, os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestGateOfNobody$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), rootless+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestGateOfNobody") {
		t.Errorf("%v: %s", err, out)
	}
}

// childGate returns the gate that this process has started; its descriptors are
// hidden from nobody.
func childGate(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if f := strings.Fields(string(b)); len(f) > 3 && f[1] == "(atoll-egress)" && f[3] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no gate was started")
	return 0
}

// guestConn returns both ends of a connection to a guest: the guest's own, and
// what a gate is given.
func guestConn(t *testing.T, s *guest.Server) (net.Conn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := os.NewFile(uintptr(fds[0]), "guest")
	conn, err := net.FileConn(own)
	if err != nil {
		t.Fatal(err)
	}
	_ = own.Close() // conn is another
	go s.ServeConn(conn)
	return conn, os.NewFile(uintptr(fds[1]), "host")
}

// TestStartsAtOnce starts gates of one sandbox at once: there is one.
func TestStartsAtOnce(t *testing.T) {
	testenv.Real(t, "helpers")
	dir := t.TempDir()
	var s guest.Server
	var all sync.WaitGroup
	for range 8 {
		_, host := guestConn(t, &s)
		all.Go(func() {
			if _, err := Start(t.Context(), Options{Dir: dir, ID: "s000000000000", Network: atoll.Network{Allow: []string{"example.com=192.0.2.7"}}, Guest: host}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := Open(dir)
	if got, err := c.CheckNetwork(t.Context(), "example.com:80"); err != nil || !got.Allowed {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(c.Close(t.Context()), c.WaitForExit(t.Context())); err != nil {
		t.Error(err)
	}
}

func gateOfNobody(t *testing.T, dir string) {
	conn, host := guestConn(t, &guest.Server{})
	c, err := Start(t.Context(), Options{Dir: dir, ID: "s000000000000", Network: atoll.Network{Allow: []string{"example.com=192.0.2.7"}}, Guest: host})
	if err != nil {
		t.Fatal(err)
	}
	pid := childGate(t)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.Contains(string(status), "Seccomp:\t2") || !strings.Contains(string(status), "CapEff:\t0000000000000000") || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("%v: %s", err, status)
	}
	if got, err := c.CheckNetwork(t.Context(), "example.com:80"); err != nil || !got.Allowed {
		t.Errorf("%+v, %v", got, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = conn.Close() // the guest is gone, and so is its gate
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n != 1 {
		t.Errorf("the guest is gone, but its gate lives: %v", err)
	}
}
