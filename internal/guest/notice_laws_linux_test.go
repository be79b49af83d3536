package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// booted returns a sandbox whose guest has few rights.
func booted(t *testing.T) *box {
	t.Helper()
	testenv.Real(t, "namespace")
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	m := &machine{t: t, made: make(map[string]*box), config: guest.Config{UID: 1000, GID: 1000, CanSwitchUser: true, Home: "/tmp"}}
	sb, err := m.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	b := sb.(*box)
	t.Cleanup(func() {
		if err := b.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestGuestHasFewRights makes sure that what the other tests show is not done
// with more.
func TestGuestHasFewRights(t *testing.T) {
	b := booted(t)
	exit, err := b.Exec(t.Context(), atoll.Cmd{Args: []string{"grep", "CapEff", "/proc/1/status"}})
	if got := string(bytes.TrimSpace(exit.Stdout)); err != nil || got != "CapEff:\t00000000000001eb" {
		t.Errorf("the guest has %q, %v", got, err)
	}
}

// TestOwnersOfPorts finds out whose a port is without the right to look into
// the processes of others.
func TestOwnersOfPorts(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		missing(t, "python3")
	}
	b := booted(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	enough := errors.New("enough")
	var told []atoll.Notice
	done := make(chan error, 1)
	err := b.Notices(ctx, func(n atoll.Notice) error {
		switch n.Kind {
		case atoll.NoticeReady:
			go func() {
				_, err := b.Exec(ctx, atoll.Cmd{Stdin: r, Args: []string{"python3", "-c", "import socket,sys\ns=socket.socket()\ns.bind(('',8080))\ns.listen()\nsys.stdin.read()"}})
				done <- err
			}()
		case atoll.NoticePortOpened:
			told = append(told, n)
			ports, err := b.Ports(ctx)
			if err != nil || len(ports) != 1 || ports[0].Port != 8080 || ports[0].PID != n.PID {
				t.Errorf("ports: %+v, %v", ports, err)
			}
			_ = w.Close()
		case atoll.NoticePortClosed:
			told = append(told, n)
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || <-done != nil {
		t.Fatalf("Notices: %v", err)
	}
	for _, n := range told {
		if n.Port != 8080 || n.Address != "0.0.0.0" || n.PID == 0 || !strings.HasPrefix(n.Command, "python3") {
			t.Errorf("told: %+v", n)
		}
	}
}

// TestProgramsGetNothingThroughFileCalls plants links as a program inside does.
func TestProgramsGetNothingThroughFileCalls(t *testing.T) {
	b := booted(t)
	ctx := t.Context()
	_, err := b.Exec(ctx, atoll.Cmd{Env: []string{"ROOTS=" + b.dir}, Shell: `mkdir /tmp/d; cd /tmp/d; ln -s /etc/shadow shadow; ln -s /etc etc; ln -s /proc/1/environ env; ln -s /proc/self/mem mem; ln -s "$ROOTS" roots; mkfifo pipe`})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shadow", "etc/shadow", "env", "mem", "pipe"} {
		rc, err := b.OpenFile(ctx, "/tmp/d/"+name)
		if err == nil {
			_ = rc.Close() // it should not be there
		}
		if !errors.Is(err, atoll.ErrDenied) && name != "pipe" || !errors.Is(err, atoll.ErrInvalid) && name == "pipe" {
			t.Errorf("OpenFile of %s: %v", name, err)
		}
	}
	if err := b.Mkdir(ctx, "/tmp/d/roots/made", 0o755); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("Mkdir in root's directory: %v", err)
	}
	if _, err := b.ReadDir(ctx, "/tmp/d/roots"); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("ReadDir of root's directory: %v", err)
	}
	rc, err := b.Export(ctx, "/tmp/d")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(rc)
	if err = errors.Join(err, rc.Close()); err != nil || bytes.Contains(all, []byte("OF_THE_GUEST")) || bytes.Contains(all, []byte("root:")) {
		t.Errorf("the export has more than there is: %v", err)
	}
	stats, err := b.Stats(ctx)
	if err != nil || stats.Files != 7 {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
	if list, err := b.ReadDir(ctx, "/tmp/d"); err != nil || !slices.IsSortedFunc(list, func(a, c os.FileInfo) int { return strings.Compare(a.Name(), c.Name()) }) {
		t.Errorf("ReadDir: %v, %v", list, err)
	}
}
