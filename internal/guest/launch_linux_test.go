package guest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/landlock"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
)

// walled is a guest with every wall that a guest builds itself.
func walled(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	filter, err := seccomp.Filter(seccomp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := machines()["switch"]
	m.config.Filter = filter
	if v, err := landlock.Version(); err == nil && v >= 6 {
		m.config.Landlock = &landlock.Rules{Scope: true}
	}
	if unified() != "" {
		m.config.Cgroup, m.groups = 3, true
	}
	return m
}

// sh runs shell text and returns what it wrote.
func (b *box) sh(t *testing.T, user, text string) string {
	t.Helper()
	exit, err := b.Exec(t.Context(), atoll.Cmd{Shell: text, User: user, Timeout: time.Minute})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.TrimSpace(string(exit.Stdout) + string(exit.Stderr))
}

// TestWallsStand looks at a command from within, as users with and without
// rights.
func TestWallsStand(t *testing.T) {
	b := walled(t).boot(t)
	for _, user := range []string{"", "root", "1234", "nobody", "1234:55"} {
		status := b.sh(t, user, "cat /proc/self/status")
		for _, want := range []string{
			"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000",
			"NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t1", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000",
		} {
			if !strings.Contains(status, want+"\n") {
				t.Errorf("user %q: no %q in %s", user, want, status)
			}
		}
		if got := b.sh(t, user, "echo /proc/self/fd/*"); got != "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3" && got != "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2" {
			t.Errorf("user %q has descriptors %s", user, got) // one is the shell's own
		}
		if got := b.sh(t, user, "env; tr '\\0' '\\n' < /proc/1/environ"); strings.Contains(got, "OF_THE_GUEST") || strings.Contains(got, "ATOLL_GUEST") {
			t.Errorf("user %q sees the guest's environment: %s", user, got)
		}
	}
	for user, want := range map[string]string{"": "1000 1000", "root": "0 0", "1234": "1234 1000", "1234:55": "1234 55", "nobody": "65534 65534", "nobody:root": "65534 0"} {
		if got := b.sh(t, user, `echo "$(id -u) $(id -g)"`); got != want {
			t.Errorf("user %q is %s, want %s", user, got, want)
		}
	}
}

// TestGuestSurvives attacks process 1 from inside, as the user that it is
// itself.
func TestGuestSurvives(t *testing.T) {
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	for name, m := range map[string]*machine{"one": machines()["one"], "switch": machines()["switch"], "walled": walled(t)} {
		for _, user := range []string{"", "root"} {
			b := m.boot(t)
			b.sh(t, user, "for i in $(seq 1 64); do kill -$i 1 2>/dev/null; kill -$i -1 2>/dev/null; done; true; :")
			if got := b.sh(t, "", "echo alive"); got != "alive" {
				t.Errorf("%s, user %q: after signals: %q", name, user, got)
			}
			for _, path := range []string{"/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd/0", "/proc/1/root/etc/passwd", "/proc/1/syscall", "/proc/1/auxv"} {
				if got := b.sh(t, user, "head -c 1 "+path+" >/dev/null 2>&1 && echo open"); got != "" {
					t.Errorf("%s, user %q: %s can be read", name, user, path)
				}
			}
		}
	}
}

// TestDaemonsEnd starts what tries to leave its command: sessions of its own,
// orphans, no environment.
func TestDaemonsEnd(t *testing.T) {
	for name, m := range machines() {
		if name == "one" {
			continue // one user, no cgroup: only a variable marks commands there
		}
		if m.groups && unified() == "" {
			missing(t, "a hierarchy of cgroups, version 2")
		}
		b := m.boot(t)
		other := make(chan error, 1)
		go func() { // a command that goes on meanwhile, so that nothing is found by being alone
			_, err := b.Exec(t.Context(), atoll.Cmd{Shell: "sleep 3; echo x > /tmp/other"})
			other <- err
		}()
		b.sh(t, "", "for i in 1 2 3; do (env -i setsid sh -c '(setsid sleep 777 &) & (sleep 777 &)' >/dev/null 2>&1 </dev/null &) ; done; sleep 0.2")
		left := b.sh(t, "", `n=0; for f in /proc/[0-9]*/cmdline; do case "$(tr '\0' ' ' < $f)" in "sleep 7"*) n=$((n+1));; esac; done 2>/dev/null; echo $n`)
		if left != "0" {
			t.Errorf("%s: %s are left", name, left)
		}
		if err := <-other; err != nil || b.sh(t, "", "cat /tmp/other") != "x" {
			t.Errorf("%s: another command was ended too: %v", name, err)
		}
	}
}

// TestLongText runs shell text that is longer than an argument may be.
func TestLongText(t *testing.T) {
	b := walled(t).boot(t)
	text := "x=" + strings.Repeat("0123456789", 30_000) + "\nread y\necho ${#x} $y $0\nexit 3"
	exit, err := b.Exec(t.Context(), atoll.Cmd{Shell: text, Stdin: strings.NewReader("in\n")})
	if err != nil || exit.Code != 3 || string(exit.Stdout) != "300000 in /bin/sh\n" {
		t.Errorf("got %d, %q, %q, %v", exit.Code, exit.Stdout, exit.Stderr, err)
	}
}

// TestDeadlineOfAPausedGuest stops the guest itself under a command.
func TestDeadlineOfAPausedGuest(t *testing.T) {
	b := walled(t).boot(t)
	failed := make(chan error, 1)
	for timeout := time.Second; ; timeout *= 2 { // a busy machine may take longer than that to start it
		r, w := io.Pipe()
		go func() {
			_, err := b.Exec(t.Context(), atoll.Cmd{Shell: "echo ready; sleep 60", Stdout: w, Timeout: timeout})
			failed <- err
			_ = w.CloseWithError(err)
		}()
		_, err := io.ReadFull(r, make([]byte, 6))
		if err == nil {
			break
		}
		if !errors.Is(<-failed, atoll.ErrTimeout) || timeout > time.Minute {
			t.Fatal(err)
		}
	}
	if err := b.init.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if err := b.init.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	const gone = `while for f in /proc/[0-9]*/comm; do cat $f; done 2>/dev/null | grep -q sleep; do :; done`
	if _, err := b.Exec(t.Context(), atoll.Cmd{Shell: gone, Timeout: time.Minute}); err != nil { // it ends once the guest has seen that its time is over
		t.Errorf("the command goes on: %v", err)
	}
}

// TestPipeReachesTheGuest connects as hosts of other machines do.
func TestPipeReachesTheGuest(t *testing.T) {
	b := walled(t).boot(t)
	program, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "ours")
	cmd := exec.Command(program, "pipe", b.socket())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, os.Stderr
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	c, err := guest.Connect(t.Context(), conn, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	exit, err := c.Exec(t.Context(), atoll.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(data)})
	if err != nil || !bytes.Equal(exit.Stdout, data) {
		t.Errorf("got %d bytes, %v", len(exit.Stdout), err)
	}
	_ = c.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("pipe: %v", err)
	}
}

// TestTextIsAProgram runs a file that is executable and says no interpreter.
func TestTextIsAProgram(t *testing.T) {
	b := walled(t).boot(t)
	if err := atoll.WriteFile(t.Context(), b, "/tmp/bin/text", []byte("echo \"$0 $# $2\"; exit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	exit, err := b.Exec(t.Context(), atoll.Cmd{Args: []string{"text", "a", "b c"}, Env: []string{"PATH=/no/such:/tmp/bin:/usr/bin"}})
	if err != nil || exit.Code != 9 || string(exit.Stdout) != "/tmp/bin/text 2 b c\n" {
		t.Errorf("got %d, %q, %q, %v", exit.Code, exit.Stdout, exit.Stderr, err)
	}
}
