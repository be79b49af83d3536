package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
)

// hear listens to notices, of which it returns those that are wanted.
func hear(t testing.TB, l *Link, kinds ...atoll.NoticeKind) <-chan atoll.Notice {
	t.Helper()
	heard, ended := make(chan atoll.Notice, 100), make(chan error, 1)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		want(t, <-ended, context.Canceled, "Notices")
	})
	go func() {
		ended <- l.Notices(ctx, func(n atoll.Notice) error {
			if n.Kind == atoll.NoticeReady {
				close(ready)
			} else if slices.Contains(kinds, n.Kind) {
				heard <- n
			}
			return nil
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("Notices: %v", err)
	}
	return heard
}

// aListener is a program, this test once more, that listens until its standard
// input ends.
func aListener(t testing.TB) (port int, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestListenerOfOthers$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_TEST_LISTENER=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for port == 0 && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "listens on %d", &port) // there are other lines
	}
	if port == 0 {
		t.Fatal("the program does not listen")
	}
	return port, func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// TestListenerOfOthers is that program.
func TestListenerOfOthers(t *testing.T) {
	if os.Getenv("ATOLL_TEST_LISTENER") == "" {
		return // it is none
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	fmt.Printf("listens on %d\n", l.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestPortsAreTold(t *testing.T) {
	l := linked(t, &Server{})
	own, err := net.Listen("tcp", "127.0.0.1:0") // this process is the guest: its own are not told
	must(t, err)
	defer own.Close()
	heard := hear(t, l.Link, atoll.NoticePortOpened, atoll.NoticePortClosed)
	port, end := aListener(t)
	defer end()
	next := func(kind atoll.NoticeKind) atoll.Notice { // of that port: others may come and go on this machine
		t.Helper()
		for n := range heard {
			if n.Port == own.Addr().(*net.TCPAddr).Port {
				t.Fatalf("the guest's own port is told: %+v", n)
			}
			if n.Port == port && n.Kind == kind {
				return n
			}
		}
		return atoll.Notice{}
	}
	n := next(atoll.NoticePortOpened)
	if n.Address != "127.0.0.1" || n.Command == "" || n.PID == 0 {
		t.Errorf("told: %+v", n)
	}
	ports, err := l.Ports(t.Context())
	must(t, err)
	if i := slices.IndexFunc(ports, func(p atoll.Port) bool { return p.Port == port }); i < 0 || ports[i].PID != n.PID {
		t.Errorf("%d is not in %+v", port, ports)
	}
	end()
	next(atoll.NoticePortClosed)
}

// TestBothWaysToFindPorts compares what the kernel is asked with what its
// tables show, for where it can't be asked.
func TestBothWaysToFindPorts(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue // no IPv6 here
		}
		defer l.Close()
	}
	mine := func(list []listenSocket, err error) []string {
		must(t, err)
		own := listProcSockets("self")
		var names []string
		for _, k := range list {
			if slices.Contains(own, k.inode) {
				names = append(names, fmt.Sprint(k.addr, " ", k.port, " ", k.inode))
			}
		}
		slices.Sort(names)
		return names
	}
	asked, read := mine(dumpSockets()), mine(readProcTables())
	if len(asked) < 2 {
		t.Errorf("only %v", asked)
	}
	if d := cmp.Diff(asked, read); d != "" {
		t.Error(d)
	}
}

func TestIdleAndActive(t *testing.T) {
	s := &Server{}
	s.activity.last.Store(time.Now().UnixNano())
	h := &s.news
	h.ports, h.stop = make(map[endpoint]atoll.Port), func() {} // nothing but this test polls
	l := s.addListener(time.Hour)
	defer s.removeListener(l)
	kinds := func() (list []atoll.NoticeKind) {
		for _, n := range l.drainQueue() {
			if n.Kind == atoll.NoticeIdle || n.Kind == atoll.NoticeActive {
				list = append(list, n.Kind)
			}
		}
		return list
	}
	look := func(cpu, passed, last time.Duration) {
		h.pollMu.Lock()
		defer h.pollMu.Unlock()
		s.activity.mu.Lock()
		s.activity.cpu, s.activity.sampled = cpu, time.Now().Add(-passed)
		s.activity.mu.Unlock()
		s.activity.last.Store(time.Now().Add(-last).UnixNano())
		s.checkChanges()
	}
	const much = 1 << 60 // more than all processes have used
	look(much, time.Second, 59*time.Minute)
	if k := kinds(); len(k) != 0 {
		t.Errorf("before the time: %v", k)
	}
	look(much, time.Second, 61*time.Minute)
	look(much, time.Second, 62*time.Minute)
	if k := kinds(); !slices.Equal(k, []atoll.NoticeKind{atoll.NoticeIdle}) {
		t.Errorf("after the time: %v", k)
	}
	look(0, time.Millisecond, 63*time.Minute) // processors were used since
	if k := kinds(); !slices.Equal(k, []atoll.NoticeKind{atoll.NoticeActive}) {
		t.Errorf("after something was done: %v", k)
	}
}

func TestOperationsAreActivity(t *testing.T) {
	s := &Server{}
	l, dir := linked(t, s), t.TempDir()
	s.activity.last.Store(1)
	_, err := l.Stats(t.Context())
	must(t, err)
	_, err = l.Ports(t.Context())
	must(t, err)
	if s.activity.commands.Load() != 0 {
		t.Error("looking is a command")
	}
	s.activity.last.Store(1)
	must(t, l.WriteFile(t.Context(), dir+"/f", strings.NewReader("x"), 0o600))
	if s.activity.last.Load() == 1 {
		t.Error("writing a file is no activity")
	}
}

// TestSlowListenerLosesTheOldest never holds up the guest.
func TestSlowListenerLosesTheOldest(t *testing.T) {
	s := &Server{}
	l := s.addListener(time.Hour)
	defer s.removeListener(l)
	l.drainQueue()
	const n = maxNotices + 50
	for i := range n {
		s.notifyHosts(atoll.Notice{Kind: atoll.NoticeProcessEnded, Code: i})
	}
	list := l.drainQueue()
	lost := slices.IndexFunc(list, func(n atoll.Notice) bool { return n.Kind == atoll.NoticeLost })
	if lost != 0 || list[len(list)-1].Code != n-1 || len(list) != maxNotices+1 {
		t.Errorf("%d notices, from %+v to %+v", len(list), list[0], list[len(list)-1])
	}
	if list := l.drainQueue(); len(list) > 0 && list[0].Kind == atoll.NoticeLost {
		t.Error("the loss is told twice")
	}
}

// TestDenialsDisplaceNothing floods a listener with what a program inside makes
// at will.
func TestDenialsDisplaceNothing(t *testing.T) {
	s := &Server{}
	l := s.addListener(time.Hour)
	defer s.removeListener(l)
	l.drainQueue()
	s.notifyHosts(atoll.Notice{Kind: atoll.NoticeProcessEnded, Code: 7})
	for range 2 * maxNotices {
		s.notifyHosts(atoll.Notice{Kind: atoll.NoticeDenied})
	}
	list := l.drainQueue()
	if !slices.ContainsFunc(list, func(n atoll.Notice) bool { return n.Code == 7 }) || len(list) != maxNotices+1 {
		t.Errorf("%d notices, and the end of a process is not among them", len(list))
	}
}

func TestNoticesEnd(t *testing.T) {
	l := linked(t, &Server{})
	own := errors.New("of the listener")
	want(t, l.Notices(t.Context(), func(atoll.Notice) error { return own }), own, "a listener's error")
	l.BeforeOp = func(string) error { return nil }
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- l.Notices(t.Context(), func(atoll.Notice) error { close(ready); return nil })
	}()
	<-ready
	l.settle()
	want(t, <-ended, atoll.ErrUnavailable, "a connection that is gone")
}

// TestHostileNotices listens to a guest that says what no guest says.
func TestHostileNotices(t *testing.T) {
	for what, frame := range map[string]string{
		"an unknown kind": `{"kind":"\u001b[2J"}`, "no JSON": `{"kind":`, "a port that is none": `{"kind":"port.opened","port":70000}`,
	} {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeFrame(w, FrameData, []byte(frame))) }()
		err := readNotices(r, func(atoll.Notice) error { t.Errorf("%s is told", what); return nil })
		want(t, err, errWire, what)
	}
}

func TestStats(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	l.CountedDirs = []string{dir, dir + "/not-there"}
	l.Spec.Dir = "/tmp"
	before, err := l.Stats(t.Context())
	must(t, err)
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, os.WriteFile(dir+"/d/f", make([]byte, 100_000), 0o600))
	must(t, os.Link(dir+"/d/f", dir+"/d/g"))
	must(t, os.Symlink("/usr", dir+"/d/usr"))
	begun := time.Now()
	_, err = l.Exec(t.Context(), atoll.Cmd{Shell: "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"})
	must(t, err)
	after, err := l.Stats(t.Context())
	must(t, err)
	if d := after.DiskUsed - before.DiskUsed; d < 100_000 || d > 200_000 {
		t.Errorf("100,000 bytes count as %d", d)
	}
	if after.Files-before.Files != 3 || after.Commands-before.Commands != 1 {
		t.Errorf("files %d → %d, commands %d → %d", before.Files, after.Files, before.Commands, after.Commands)
	}
	if after.ID != "sb" || after.Dir != "/tmp" || after.Processes < 1 || after.MemoryUsed <= 0 || after.CPUTime <= 0 || after.Active.Before(begun.Truncate(time.Second)) {
		t.Errorf("%+v", after)
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	func() {
		s := &Server{}
		l := linked(t, s)
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ready := make(chan struct{}, 2)
		ends := make(chan error, 2)
		go func() {
			ends <- l.Watch(ctx, dir, func(atoll.FileEvent) error { ready <- struct{}{}; return nil })
		}()
		go func() {
			ends <- l.Notices(ctx, func(atoll.Notice) error {
				select {
				case ready <- struct{}{}:
				default:
				}
				return nil
			})
		}()
		<-ready
		<-ready
		must(t, l.WriteFile(ctx, dir+"/.f", strings.NewReader("x"), 0o600))
		rc, err := l.Export(ctx, "/usr/bin")
		must(t, err)
		must(t, rc.Close())
		cancel()
		want(t, <-ends, context.Canceled, "an end")
		want(t, <-ends, context.Canceled, "an end")
		l.settle()
		s.Close()
	}()
	goleak.VerifyNone(t, before)
}
