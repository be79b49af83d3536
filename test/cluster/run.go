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

// options are the options of a cluster.
type options struct {
	Node         bool          `json:"node"`
	Policies     bool          `json:"policies"`
	AgentSandbox bool          `json:"agent_sandbox"`
	Verbosity    int           `json:"verbosity"`
	Eviction     string        `json:"eviction"`
	Timeout      time.Duration `json:"timeout"`
	KeepState    bool          `json:"-"`
	State        stateDir      `json:"-"`
	Forward      bool          `json:"-"`
}

func (o *options) newFlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet("cluster "+name, flag.ContinueOnError)
	fs.BoolVar(&o.Node, "node", true, "start containerd and a kubelet; false: API server and controllers only")
	fs.BoolVar(&o.Policies, "network-policies", true, "enforce NetworkPolicies on the node")
	fs.BoolVar(&o.AgentSandbox, "agent-sandbox", false, "start kubernetes-sigs/agent-sandbox (its controller must be built)")
	fs.IntVar(&o.Verbosity, "v", 1, "log level of the components")
	fs.StringVar(&o.Eviction, "eviction", "memory.available<50Mi", "the kubelet's hard thresholds for evictions, comma separated")
	fs.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "time limit for the start")
	fs.BoolVar(&o.KeepState, "keep", false, "keep the state directory with its logs")
	return fs
}

// runCommand starts a cluster, runs a program in it and stops the cluster.
func runCommand(args []string) error {
	var o options
	fs := o.newFlagSet("run")
	dir := fs.String("state", "", "directory of the cluster, which must not exist (default: a temporary one)")
	fs.BoolVar(&o.Forward, "forward", false, "make the API server reachable from outside: $STATE/kubeconfig/host")
	cmd, err := splitArgs(fs, args)
	if err != nil {
		return err
	}
	if len(cmd) == 0 {
		return errors.New("run: no command: cluster run [OPTIONS] -- CMD ARG...")
	}
	removeDeadClusters()
	if o.State = stateDir(*dir); *dir == "" {
		o.State = stateDir(filepath.Join(baseDir(), statePrefix+rand.Text()[:8]))
	}
	return runCluster(o, cmd)
}

// runCluster runs a cluster until cmd exits. It is the process outside the cluster's
// namespaces: it creates the state directory and the cgroups, starts process 1, and
// removes both at the end.
func runCluster(o options, cmd []string) (err error) {
	dir, err := filepath.Abs(string(o.State))
	if err != nil {
		return err
	}
	o.State = stateDir(dir)
	lock, err := createStateDir(o)
	if err != nil {
		return err
	}
	defer lock.Close()
	if !o.KeepState {
		defer func() {
			err = errors.Join(err, os.RemoveAll(dir))
			_ = os.Remove(baseDir()) // fails while it holds other clusters
		}()
	}
	if o.Node {
		defer func() { err = errors.Join(err, removeCgroups(o.State.cgroupName())) }()
		if err := makeCgroups(o.State.cgroupName()); err != nil {
			return fmt.Errorf("cgroups: %w (a node needs root; --node=false does not)", err)
		}
	}
	if o.Forward {
		l, err := forwardAPI(o.State)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return runInNamespaces(o, cmd)
}

// createStateDir creates the state directory and locks it until this process exits or
// closes the file.
func createStateDir(o options) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(string(o.State)), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(string(o.State), 0o755); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	lock, err := os.OpenFile(o.State.joinPath("lock"), os.O_CREATE|os.O_RDWR, 0o600)
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
		os.WriteFile(o.State.joinPath("options.json"), b, 0o600),
		os.WriteFile(o.State.joinPath("outer.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600))
}

// runInNamespaces runs process 1 in new namespaces and forwards signals to it. The
// kernel kills it, and so all processes in the namespaces, when this process dies.
func runInNamespaces(o options, cmd []string) error {
	runtime.LockOSThread() // Pdeathsig is sent when this thread exits
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
	if err := os.WriteFile(o.State.joinPath("init.pid"), []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
		return errors.Join(err, c.Process.Kill(), c.Wait())
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT { // the terminal sends SIGINT to all processes
				_ = c.Process.Signal(syscall.SIGTERM)
			}
		case err := <-done:
			return toExitCode(err)
		}
	}
}

// toExitCode converts an exec.ExitError to an exitCode. Other errors are returned as
// they are.
func toExitCode(err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return err
	}
	if w, ok := e.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitCode(128 + int(w.Signal()))
	}
	return exitCode(e.ExitCode())
}

// forwardAPI forwards a port of the host's loopback interface to the API server,
// through a socket in the state directory, and writes the port's address to a file.
func forwardAPI(s stateDir) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.joinPath("address"), []byte(l.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go relayConnections(l, "unix", s.joinPath("api.sock"))
	return l, nil
}

// relayConnections forwards every connection of l to an address until l is closed.
func relayConnections(l net.Listener, network, address string) {
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

// removeDeadClusters removes directories and cgroups of clusters whose process was
// killed.
func removeDeadClusters() {
	entries, _ := os.ReadDir(baseDir())
	for _, e := range entries {
		if s := stateDir(filepath.Join(baseDir(), e.Name())); strings.HasPrefix(e.Name(), statePrefix) && !isAlive(s) {
			_ = removeCgroups(s.cgroupName())
			_ = os.RemoveAll(string(s))
		}
	}
}

// isAlive reports whether the process of a cluster runs: it holds the lock, or the
// directory is so new that it may not have locked it yet.
func isAlive(s stateDir) bool {
	if _, err := os.Stat(s.joinPath("outer.pid")); err != nil {
		info, err := os.Stat(string(s))
		return err == nil && time.Since(info.ModTime()) < time.Minute
	}
	lock, err := os.OpenFile(s.joinPath("lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}
