package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// rig is a link to a guest in this process.
type rig struct {
	*Link
	served sync.WaitGroup
}

// linked returns a link over pairs of unix sockets.
func linked(t testing.TB, s *Server) *rig {
	t.Helper()
	_ = t.TempDir() // goes when the guest has gone
	r := new(rig)
	r.Link = &Link{ID: "sb", Connect: func(context.Context) (net.Conn, error) {
		a, b, err := pair()
		if err == nil {
			r.served.Go(func() { s.ServeConn(b) })
		}
		return a, err
	}}
	t.Cleanup(r.settle)
	return r
}

// settle ends the connection and waits until the guest has ended what it did
// for it.
func (r *rig) settle() {
	r.Disconnect()
	r.served.Wait()
}

// pair returns the ends of a connection.
func pair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	conn := func(fd int) net.Conn {
		f := os.NewFile(uintptr(fd), "pair")
		defer f.Close()
		c, cerr := net.FileConn(f)
		err = errors.Join(err, cerr)
		return c
	}
	a, b = conn(fds[0]), conn(fds[1])
	return a, b, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: got %v, want %v", what, err, target)
	}
}

// Directories with parents in common can be made at once.
func TestMkdirsAtOnce(t *testing.T) {
	l, ctx, dir := linked(t, &Server{}), t.Context(), t.TempDir()
	for round := range 20 {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				errs[i] = l.Mkdir(ctx, fmt.Sprintf("%s/%d/a/b%s", dir, round, strings.Repeat("/c", i)), 0o755)
			})
		}
		wg.Wait()
		must(t, errors.Join(errs...))
	}
}

func TestFiles(t *testing.T) {
	l, ctx, dir := linked(t, &Server{}), t.Context(), t.TempDir()
	name := dir + "/a/b/file"
	want(t, l.WriteFile(ctx, name, strings.NewReader("x"), 0o640), atoll.ErrNotFound, "WriteFile without a directory")
	must(t, l.Mkdir(ctx, dir+"/a/b", 0o751))
	must(t, l.Mkdir(ctx, dir+"/a/b", 0o700))
	info, err := os.Stat(dir + "/a")
	must(t, err)
	if info.Mode().Perm() != 0o751 {
		t.Errorf("mode of a directory: %v", info.Mode())
	}
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	must(t, l.WriteFile(ctx, name, bytes.NewReader(big), 0o604))
	info, err = l.StatFile(ctx, name)
	must(t, err)
	if info.Mode() != 0o604 || info.Size() != int64(len(big)) || info.Name() != "file" {
		t.Errorf("Stat: %v %v %v", info.Name(), info.Mode(), info.Size())
	}
	rc, err := l.OpenFile(ctx, name)
	must(t, err)
	got, err := io.ReadAll(rc)
	must(t, errors.Join(err, rc.Close()))
	if !bytes.Equal(got, big) {
		t.Errorf("%d bytes came back, and not those", len(got))
	}
	must(t, os.Symlink("b/file", dir+"/a/link"))
	must(t, l.WriteFile(ctx, dir+"/a/link", strings.NewReader("new"), 0o600))
	if info, err := os.Lstat(dir + "/a/link"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a link that was written to is %v, %v", info, err)
	}
	list, err := l.ReadDir(ctx, dir+"/a")
	must(t, err)
	if len(list) != 2 || list[0].Name() != "b" || list[1].Name() != "link" {
		t.Errorf("list: %v", list)
	}
	must(t, l.Remove(ctx, dir+"/a"))
	want(t, l.Remove(ctx, dir+"/a"), atoll.ErrNotFound, "Remove twice")
	want(t, l.Remove(ctx, "/"), atoll.ErrInvalid, "Remove of the root")
	want(t, l.Mkdir(ctx, "relative", 0o755), atoll.ErrInvalid, "a relative path")
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestNamesThatAreNoText(t *testing.T) {
	l, ctx, dir := linked(t, &Server{}), t.Context(), t.TempDir()
	name := dir + "/\xff\xfe\x01\n"
	must(t, l.WriteFile(ctx, name, strings.NewReader("x"), 0o600))
	must(t, os.Symlink("\xf0\x00"[:1]+"t", dir+"/l"))
	list, err := l.ReadDir(ctx, dir)
	must(t, err)
	if len(list) != 2 || list[1].Name() != "\xff\xfe\x01\n" {
		t.Errorf("list: %q", list)
	}
	if n := list[0].(interface{ Linkname() string }).Linkname(); n != "\xf0t" {
		t.Errorf("target: %q", n)
	}
	must(t, l.Remove(ctx, name))
}

func TestFileErrors(t *testing.T) {
	l, ctx, dir := linked(t, &Server{}), t.Context(), t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600))
	must(t, os.Mkdir(dir+"/d", 0o700))
	must(t, os.Symlink("loop", dir+"/loop"))
	must(t, os.Symlink("nowhere", dir+"/dangling"))
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	sock, err := net.Listen("unix", dir+"/sock")
	must(t, err)
	defer sock.Close()
	read := func(name string) error {
		rc, err := l.OpenFile(ctx, name)
		if err == nil {
			_, err = io.ReadAll(rc)
			err = errors.Join(err, rc.Close())
		}
		return err
	}
	write := func(name string) error { return l.WriteFile(ctx, name, strings.NewReader("new"), 0o600) }
	list := func(name string) error { _, err := l.ReadDir(ctx, name); return err }
	export := func(name string) error {
		rc, err := l.Export(ctx, name)
		if err == nil {
			err = rc.Close()
		}
		return err
	}
	for _, c := range []struct {
		what   string
		err    error
		reason error
	}{
		{"read missing", read(dir + "/missing"), atoll.ErrNotFound},
		{"read dangling", read(dir + "/dangling"), atoll.ErrNotFound},
		{"read loop", read(dir + "/loop"), atoll.ErrInvalid},
		{"read a directory", read(dir + "/d"), atoll.ErrInvalid},
		{"read a pipe", read(dir + "/fifo"), atoll.ErrInvalid},
		{"read a socket", read(dir + "/sock"), atoll.ErrInvalid},
		{"read a device", read("/dev/zero"), atoll.ErrInvalid},
		{"write a directory", write(dir + "/d"), atoll.ErrInvalid},
		{"write through a file", write(dir + "/f/x"), atoll.ErrInvalid},
		{"list a file", list(dir + "/f"), atoll.ErrInvalid},
		{"list a pipe", list(dir + "/fifo"), atoll.ErrInvalid},
		{"list missing", list(dir + "/missing"), atoll.ErrNotFound},
		{"mkdir over a file", l.Mkdir(ctx, dir+"/f", 0o700), atoll.ErrInvalid},
		{"mkdir through a file", l.Mkdir(ctx, dir+"/f/x", 0o700), atoll.ErrInvalid},
		{"mkdir over a dangling link", l.Mkdir(ctx, dir+"/dangling", 0o700), atoll.ErrExists},
		{"export missing", export(dir + "/missing"), atoll.ErrNotFound},
		{"export a pipe", export(dir + "/fifo"), atoll.ErrInvalid},
	} {
		want(t, c.err, c.reason, c.what)
		var e *atoll.Error
		if !errors.As(c.err, &e) || e.ID != "sb" {
			t.Errorf("%s: %v does not say of which sandbox", c.what, c.err)
		}
	}
	for _, name := range []string{"/fifo", "/sock"} { // a file takes their place
		must(t, write(dir+name))
		must(t, read(dir+name))
	}
}

// TestDevicesStay writes over a device of its own, never over one of this
// machine.
func TestDevicesStay(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "namespace", "only root can make devices")
	}
	l, dir := linked(t, &Server{}), t.TempDir()
	if err := unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); errors.Is(err, unix.EPERM) {
		skip(t, "namespace", "only a root that has CAP_MKNOD can make devices")
	} else {
		must(t, err)
	}
	want(t, l.WriteFile(t.Context(), dir+"/null", strings.NewReader("x"), 0o600), atoll.ErrInvalid, "WriteFile")
	want(t, l.Import(t.Context(), dir, archive(t, entry("null", "x"))), atoll.ErrInvalid, "Import")
	if info, err := os.Lstat(dir + "/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("it is now %v, %v", info.Mode(), err)
	}
}

// TestGuestShowsNothingOfItself tries to reach the guest's own memory,
// descriptors and environment.
func TestGuestShowsNothingOfItself(t *testing.T) {
	l, ctx, dir := linked(t, &Server{}), t.Context(), t.TempDir()
	must(t, os.WriteFile(dir+"/secret", []byte("secret"), 0o600))
	f, err := os.Open(dir + "/secret")
	must(t, err)
	defer f.Close()
	fd := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	for link, target := range map[string]string{"self": "/proc/self", "mem": "/proc/self/mem", "fd": fd, "root": "/proc/self/root", "up": "/dev/../proc/self"} {
		must(t, os.Symlink(target, dir+"/"+link))
	}
	for _, name := range []string{
		fd, "/proc/self/environ", "/proc/self/mem", "/proc/self/root" + dir + "/secret", "/proc/thread-self/maps", "/proc/1/environ", "/proc/sys/kernel/hostname",
		"/dev/fd/0", dir + "/self/environ", dir + "/mem", dir + "/fd", dir + "/root" + dir + "/secret", dir + "/up/maps",
	} {
		rc, err := l.OpenFile(ctx, name)
		if err == nil {
			_ = rc.Close() // it should not be there
		}
		want(t, err, atoll.ErrDenied, "OpenFile "+name)
		want(t, l.WriteFile(ctx, name+"/x", strings.NewReader("x"), 0o600), atoll.ErrDenied, "WriteFile "+name)
		rc, err = l.Export(ctx, name)
		if err == nil {
			_ = rc.Close() // likewise
		}
		want(t, err, atoll.ErrDenied, "Export "+name)
	}
	want(t, l.Import(ctx, "/proc/self", archive(t, entry("x", "x"))), atoll.ErrDenied, "Import")
	if _, err := l.StatFile(ctx, "/proc"); err != nil {
		t.Errorf("Stat of the door: %v", err)
	}
}

func TestWriteFileKeepsTheOldOnError(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	name := dir + "/f"
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	check := func(what string) {
		t.Helper()
		b, err := os.ReadFile(name)
		must(t, err)
		list, err := os.ReadDir(dir)
		must(t, err)
		if string(b) != "old" || len(list) != 1 {
			t.Errorf("after %s: %q in %v", what, b, list)
		}
	}
	own := errors.New("of the reader")
	err := l.WriteFile(t.Context(), name, io.MultiReader(strings.NewReader(strings.Repeat("new", 1000)), &failing{own}), 0o600)
	want(t, err, own, "a reader that fails")
	check("a reader's error")
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() { done <- l.WriteFile(ctx, name, r, 0o600) }()
	_, err = w.Write(make([]byte, 100_000))
	must(t, err)
	cancel()
	want(t, <-done, context.Canceled, "a context that is done")
	l.settle()
	check("a context that is done")
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestFrozenGuest asks a guest that says nothing any more: every operation ends
// in time.
func TestFrozenGuest(t *testing.T) {
	a, b, err := pair()
	must(t, err)
	defer b.Close()
	l := &Link{ID: "sb", Connect: func(context.Context) (net.Conn, error) { return a, nil }}
	l.Spec.Timeouts.Transfer = 50 * time.Millisecond
	_, err = fmt.Fprintf(b, "%s%d\n", Greeting, Version)
	must(t, err)
	ctx := t.Context()
	_, err = l.StatFile(ctx, "/f")
	want(t, err, atoll.ErrTimeout, "StatFile")
	_, err = l.OpenFile(ctx, "/f")
	want(t, err, atoll.ErrTimeout, "OpenFile")
	_, err = l.Stats(ctx)
	want(t, err, atoll.ErrTimeout, "Stats")
	want(t, l.WriteFile(ctx, "/f", pattern{}, 0o600), atoll.ErrTimeout, "WriteFile")
	want(t, l.Import(ctx, "/d", pattern{}), atoll.ErrTimeout, "Import")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	want(t, l.Watch(short, "/", nil), context.DeadlineExceeded, "Watch")
	want(t, l.Notices(short, nil), context.DeadlineExceeded, "Notices")
	l.Disconnect()
}
