package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options say what is started.
type options struct {
	Node         bool          `json:"node"`
	Policies     bool          `json:"policies"`
	AgentSandbox bool          `json:"agent_sandbox"`
	Verbosity    int           `json:"verbosity"`
	Eviction     string        `json:"eviction"`
	Timeout      time.Duration `json:"timeout"`
	KeepState    bool          `json:"-"`
	State        state         `json:"-"`
	Forward      bool          `json:"-"`
}

func (o *options) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet("cluster "+name, flag.ContinueOnError)
	fs.BoolVar(&o.Node, "node", true, "with containerd and a kubelet; false: API server and controllers only")
	fs.BoolVar(&o.Policies, "network-policies", true, "enforce NetworkPolicies on the node")
	fs.BoolVar(&o.AgentSandbox, "agent-sandbox", false, "with kubernetes-sigs/agent-sandbox (its controller must be built)")
	fs.IntVar(&o.Verbosity, "v", 1, "how much components log")
	fs.StringVar(&o.Eviction, "eviction", "memory.available<50Mi", "the kubelet's hard thresholds for evictions, comma separated")
	fs.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "how long the start may take")
	fs.BoolVar(&o.KeepState, "keep", false, "leave the directory with logs behind")
	return fs
}

// runCommand starts a cluster, runs a program in it and ends it.
func runCommand(args []string) error {
	var o options
	fs := o.flags("run")
	dir := fs.String("state", "", "directory of the cluster, which must not exist (default: a temporary one)")
	fs.BoolVar(&o.Forward, "forward", false, "make the API server reachable from outside: $STATE/kubeconfig/host")
	cmd, err := splitArgs(fs, args)
	if err != nil {
		return err
	}
	if len(cmd) == 0 {
		return errors.New("run: no command: cluster run [OPTIONS] -- CMD ARG...")
	}
	sweep()
	if o.State = state(*dir); *dir == "" {
		o.State = state(filepath.Join(base(), statePrefix+rand.Text()[:8]))
	}
	return outer(o, cmd)
}

// outer is the part of a cluster that lives outside its namespaces: it makes
// them, passes signals on, and removes what they leave on disk.
func outer(o options, cmd []string) (err error) {
	dir, err := filepath.Abs(string(o.State))
	if err != nil {
		return err
	}
	o.State = state(dir)
	lock, err := newState(o)
	if err != nil {
		return err
	}
	defer lock.Close()
	if !o.KeepState {
		defer func() {
			err = errors.Join(err, os.RemoveAll(dir))
			_ = os.Remove(base()) // if it was the last one
		}()
	}
	if o.Node {
		defer func() { err = errors.Join(err, removeCgroups(o.State.cgroup())) }()
		if err := makeCgroups(o.State.cgroup()); err != nil {
			return fmt.Errorf("cgroups: %w (root is needed; --node=false does without)", err)
		}
	}
	if o.Forward {
		l, err := forward(o.State)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return inside(o, cmd)
}

// newState makes the cluster's directory, locked as long as this process lives.
func newState(o options) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(string(o.State)), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(string(o.State), 0o755); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	lock, err := os.OpenFile(o.State.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return lock, errors.Join(
		os.WriteFile(o.State.path("options.json"), b, 0o600),
		os.WriteFile(o.State.path("outer.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600))
}

// inside runs process 1 of new namespaces, which ends when this process does,
// however that happens; with it all in them.
func inside(o options, cmd []string) error {
	runtime.LockOSThread() // Pdeathsig means this thread
	defer runtime.UnlockOSThread()
	c := exec.Command("/proc/self/exe", append([]string{"init", string(o.State)}, cmd...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	if err := os.WriteFile(o.State.path("init.pid"), []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
		return errors.Join(err, c.Process.Kill(), c.Wait())
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT { // the terminal has sent that to everybody
				_ = c.Process.Signal(syscall.SIGTERM)
			}
		case err := <-done:
			return asExit(err)
		}
	}
}

// asExit makes what a program's end says into our own.
func asExit(err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return err
	}
	if w, ok := e.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exit(128 + int(w.Signal()))
	}
	return exit(e.ExitCode())
}

// forward serves the API server's port on the host's loopback, through a
// socket in the cluster's directory, and writes the kubeconfig that says so.
func forward(s state) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.path("address"), []byte(l.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go relay(l, "unix", s.path("api.sock"))
	return l, nil
}

// relay joins every connection that l takes with one to address, until l is closed.
func relay(l net.Listener, network, address string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial(network, address)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, from)
				to.Close()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}

// sweep removes what clusters have left whose process was killed.
func sweep() {
	entries, _ := os.ReadDir(base())
	for _, e := range entries {
		if s := state(filepath.Join(base(), e.Name())); strings.HasPrefix(e.Name(), statePrefix) && !alive(s) {
			_ = removeCgroups(s.cgroup())
			_ = os.RemoveAll(string(s))
		}
	}
}

// alive says whether the process of a cluster lives: its lock is held, or it
// is so young that it is about to be.
func alive(s state) bool {
	if _, err := os.Stat(s.path("outer.pid")); err != nil {
		info, err := os.Stat(string(s))
		return err == nil && time.Since(info.ModTime()) < time.Minute
	}
	lock, err := os.OpenFile(s.path("lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}
