package egress

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
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// Options describe the proxy to start.
type Options struct {
	Dir     string // directory of the sandbox's proxy, accessible only to its owner; has its socket and logs
	ID      string // id of the sandbox
	Network atoll.Network
	Guest   *os.File // new connection to the guest; Start closes it
	Helpers helper.Finder

	Nameservers []string // ip:port; empty: the host's
	Upstream    upstream.Config
	NoLog       bool // don't write network.log
}

// Start starts a proxy and waits until it serves. If one runs already, it gets the rules, and Guest
// is only closed.
func Start(ctx context.Context, o Options) (*Control, error) {
	defer o.Guest.Close()
	if err := Check(o.Network); err != nil {
		return nil, err
	}
	if err := o.Upstream.Check(); err != nil {
		return nil, err
	}
	c := Open(o.Dir).WithUpstream(o.Upstream)
	turn, err := acquireStartLock(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	lock, err := acquireLock(o.Dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return c, c.SetNetwork(ctx, o.Network)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	b, err := newBootConfig(&o)
	if err != nil {
		return nil, err
	}
	path, err := o.Helpers.Find("atoll-egress")
	if err != nil {
		return nil, err
	}
	files, err := openFiles(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer files.close()
	if err := startProcess(ctx, path, b, files, o.Guest, lock); err != nil {
		return nil, err
	}
	return c, nil
}

// acquireStartLock waits until no other process starts a proxy in the directory. The lock is held
// until the file is closed.
func acquireStartLock(ctx context.Context, dir string) (*os.File, error) {
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
		go func() { // ends when the other process has started its proxy
			<-taken
			_ = f.Close() // releases the lock
		}()
		return nil, context.Cause(ctx)
	}
}

// acquireLock acquires the lock that a proxy holds until its end.
func acquireLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // another proxy runs
		return nil, err
	}
	return f, nil
}

// Users of proxies that root starts. Each sandbox has its own, so that proxies are isolated from each
// other.
const (
	firstUID = 1_900_000_000
	uidCount = 100_000_000
)

func newBootConfig(o *Options) (*bootConfig, error) {
	b := &bootConfig{ID: o.ID, Network: o.Network, Names: readResolution(o.Upstream), Log: !o.NoLog}
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
		if b.UID = firstUID + int(h.Sum32()%uidCount); !isMappedUID(b.UID) {
			b.UID = 0 // root of a user namespace without other users
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

// isMappedUID reports whether a user exists in this user namespace.
func isMappedUID(uid int) bool {
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

// proxyFiles are the descriptors that a proxy inherits.
type proxyFiles struct{ control, log, errors *os.File }

func (f *proxyFiles) close() {
	for _, one := range []*os.File{f.control, f.log, f.errors} {
		if one != nil {
			_ = one.Close() // the proxy has its own copy
		}
	}
}

func openFiles(ctx context.Context, dir string) (_ *proxyFiles, err error) {
	f := new(proxyFiles)
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
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an earlier proxy
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

// shortPath returns a path of the directory that is short enough for a socket address. It is valid
// until done is called.
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

// startProcess starts the process and waits until it serves.
func startProcess(ctx context.Context, path string, b *bootConfig, files *proxyFiles, guest, lock *os.File) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(path) //nolint:noctx // outlives this call
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stdout, cmd.Stderr = in, files.errors
	cmd.ExtraFiles = []*os.File{guest, files.control, files.log, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = fdpass.SealInherited(); err == nil {
		err = cmd.Start()
	}
	_ = in.Close() // the proxy has its own copy
	if err != nil {
		return fmt.Errorf("%w: start the egress proxy: %w", atoll.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	var r reply
	err = json.NewDecoder(io.LimitReader(out, maxReply)).Decode(&r)
	if !stop() || err != nil {
		_ = cmd.Process.Kill() // the process may have ended
		waited := cmd.Wait()
		return fmt.Errorf("%w: start the egress proxy: %w%s", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err, waited), readErrorLog(filepath.Dir(files.errors.Name())))
	}
	if err := r.Problem.Err(); err != nil {
		_ = cmd.Wait() // its reply has the error
		return err
	}
	go func() { _ = cmd.Wait() }() // reaps the process if it ends before this one
	return nil
}
