package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Options say what gate to start.
type Options struct {
	Dir     string // of this sandbox, only its owner's; the gate's socket and logs are there
	ID      string // of the sandbox
	Network atoll.Network
	Guest   *os.File // connection to the guest, on which nothing was said yet; Start closes it
	Helpers helper.Finder

	Nameservers []string // ip:port; empty: the host's
	NoLog       bool     // don't write network.log
}

// Start starts a gate and returns when it is at work. Where one runs already, it
// is given the rules, and Guest is only closed.
func Start(ctx context.Context, o Options) (*Control, error) {
	defer o.Guest.Close()
	if err := Check(o.Network); err != nil {
		return nil, err
	}
	c := Open(o.Dir)
	turn, err := takeTurn(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	lock, err := takeLock(o.Dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return c, c.SetNetwork(ctx, o.Network)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	b, err := bootOf(&o)
	if err != nil {
		return nil, err
	}
	path, err := o.Helpers.Find("atoll-gate")
	if err != nil {
		return nil, err
	}
	files, err := openFiles(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer files.close()
	if err := launch(ctx, path, b, files, o.Guest, lock); err != nil {
		return nil, err
	}
	return c, nil
}

// takeTurn waits until nobody else starts a gate in a directory, and is who does
// until the file is closed.
func takeTurn(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, startName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	taken := make(chan error, 1)
	go func() { taken <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-taken:
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	case <-ctx.Done():
		go func() { // it ends with the other's start
			<-taken
			_ = f.Close() // nobody waits for it
		}()
		return nil, context.Cause(ctx)
	}
}

// takeLock takes the lock that a gate holds as long as it lives.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // it is another's
		return nil, err
	}
	return f, nil
}

// Users of gates of root: each sandbox has its own, so that gates are strangers
// to each other.
const (
	firstUID = 1_900_000_000
	manyUIDs = 100_000_000
)

func bootOf(o *Options) (*boot, error) {
	b := &boot{ID: o.ID, Network: o.Network, Names: readResolution(), Log: !o.NoLog}
	if len(o.Nameservers) > 0 {
		b.Names.Servers, b.Names.Fixed = o.Nameservers, true
	}
	if o.Network.Inspect {
		ca, err := authorityIn(o.Dir, o.ID)
		if err != nil {
			return nil, err
		}
		b.CA = ca
	}
	if os.Geteuid() == 0 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(o.ID)) // never fails
		if b.UID = firstUID + int(h.Sum32()%manyUIDs); !mapped(b.UID) {
			b.UID = 0 // root of a user namespace that has no other
		}
		root, err := os.MkdirTemp(o.Dir, "gate-root-")
		if err != nil {
			return nil, err
		}
		b.Root = root
		if err := os.Chmod(root, 0o555); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// mapped reports whether a user exists in this user namespace.
func mapped(uid int) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(string(f[0]))
		size, err2 := strconv.Atoi(string(f[2]))
		if err1 == nil && err2 == nil && uid >= first && uid < first+size {
			return true
		}
	}
	return false
}

// gateFiles are what a gate is started with.
type gateFiles struct{ control, log, errors *os.File }

func (f *gateFiles) close() {
	for _, one := range []*os.File{f.control, f.log, f.errors} {
		if one != nil {
			_ = one.Close() // the gate has its own
		}
	}
}

func openFiles(ctx context.Context, dir string) (_ *gateFiles, err error) {
	f := new(gateFiles)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	const flags = os.O_WRONLY | os.O_CREATE | syscall.O_NOFOLLOW
	if f.log, err = os.OpenFile(filepath.Join(dir, logName), flags|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if f.errors, err = os.OpenFile(filepath.Join(dir, errorsName), flags|os.O_TRUNC|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	path, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	path = filepath.Join(path, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that is gone
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	defer u.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	f.control, err = u.File()
	return f, err
}

// shortPath returns a path of a directory that is short enough for a socket in
// it, until done is called.
func shortPath(dir string) (path string, done func(), err error) {
	if len(dir)+len(socketName) < maxSocketPath {
		return dir, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())), func() { _ = f.Close() }, nil
}

// launch starts the process and waits until it is at work.
func launch(ctx context.Context, path string, b *boot, files *gateFiles, guest, lock *os.File) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(path) //nolint:noctx // it outlives this call
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stdout, cmd.Stderr = in, files.errors
	cmd.ExtraFiles = []*os.File{guest, files.control, files.log, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = in.Close() // the gate has its own
	if err != nil {
		return fmt.Errorf("%w: the gate: %w", atoll.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	var r reply
	err = json.NewDecoder(io.LimitReader(out, maxReply)).Decode(&r)
	if !stop() || err != nil {
		_ = cmd.Process.Kill() // it may have ended
		waited := cmd.Wait()
		return fmt.Errorf("%w: the gate does not start: %w%s", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err, waited), lastWords(filepath.Dir(files.errors.Name())))
	}
	if err := r.Problem.Err(); err != nil {
		_ = cmd.Wait() // its answer says more
		return err
	}
	go func() { _ = cmd.Wait() }() // so that it is no zombie, should it end before this process
	return nil
}
