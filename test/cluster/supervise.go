package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor starts and stops the components of a cluster. It runs in the cluster's
// namespaces.
type supervisor struct {
	state      stateDir
	options    options
	started    time.Time
	components []component

	mu      sync.Mutex
	running map[string]*process // guarded by mu
}

// process is a component that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited

	endExpected bool // it was told to stop; guarded by the supervisor's mu
	answered    bool // its probe has succeeded; likewise
}

// superviseMain starts the cluster, runs the user's program and returns. The kernel
// kills the remaining processes with the namespaces.
func superviseMain(args []string) error {
	if len(args) < 1 || os.Getppid() != 1 {
		return errors.New("supervise is an internal command: see 'cluster help'")
	}
	sv := &supervisor{state: stateDir(args[0]), started: time.Now(), running: make(map[string]*process)}
	b, err := os.ReadFile(sv.state.joinPath("options.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &sv.options); err != nil {
		return err
	}
	sv.components = listComponents(sv.state, sv.options)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan error, 1)
	go func() { ended <- sv.bootCluster(ctx) }()
	select {
	case err = <-ended:
	case s := <-signals:
		return fmt.Errorf("start: %s", s)
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	control, err := sv.serveControl(ctx)
	if err != nil {
		return err
	}
	defer control.Close()
	if len(args) == 1 {
		<-signals
		return nil
	}
	return runProgram(args[1:], signals)
}

// runProgram runs the user's program in the foreground. It forwards signals, and
// kills the program if it has not exited 10 s after one.
func runProgram(args []string, signals <-chan os.Signal) error {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	var limit <-chan time.Time
	for {
		select {
		case err := <-done:
			return toExitCode(err)
		case s := <-signals:
			if s != syscall.SIGINT {
				_ = c.Process.Signal(s)
			}
			limit = time.After(10 * time.Second)
		case <-limit:
			_ = c.Process.Kill()
		}
	}
}

func (sv *supervisor) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "cluster: %5.1fs  %s\n", time.Since(sv.started).Seconds(), fmt.Sprintf(format, args...))
}

func (sv *supervisor) findComponent(name string) (component, error) {
	i := slices.IndexFunc(sv.components, func(c component) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range sv.components {
			names = append(names, c.name)
		}
		return component{}, fmt.Errorf("no component %q; this cluster has %s", name, strings.Join(names, ", "))
	}
	return sv.components[i], nil
}

// startComponent starts a component and waits until its probe succeeds.
func (sv *supervisor) startComponent(ctx context.Context, name string) error {
	c, err := sv.findComponent(name)
	if err != nil {
		return err
	}
	p, err := sv.startProcess(c)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	err = pollUntil(ctx, func(ctx context.Context) error {
		select {
		case <-p.done:
			return fatalError{fmt.Errorf("exited: %s", p.cmd.ProcessState)}
		default:
			return c.probe(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w\n%s", name, err, sv.readLogTail(name))
	}
	sv.mu.Lock()
	p.answered = true
	sv.mu.Unlock()
	sv.logf("%s answers after %.1fs", name, time.Since(began).Seconds())
	return nil
}

// restartComponent starts a component again that has exited by itself, as the kubelet of other clusters does: the
// scheduler exits when a pod has moved behind its back, while the API server was away.
func (sv *supervisor) restartComponent(name string) {
	const tries = 5
	for range tries {
		time.Sleep(time.Second) // between two exits
		sv.mu.Lock()
		running := sv.running[name] != nil
		sv.mu.Unlock()
		if running { // somebody has started it
			return
		}
		err := sv.startComponent(context.Background(), name)
		if err == nil {
			return
		}
		sv.logf("%s is not started again: %s", name, err)
	}
}

// startProcess starts a component's process, and a goroutine that waits for its exit.
func (sv *supervisor) startProcess(c component) (*process, error) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.running[c.name] != nil {
		return nil, errors.New("already running")
	}
	log, err := os.OpenFile(sv.state.logPath(c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH="+helperPath("")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C does not interrupt it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	sv.running[c.name] = p
	go func() {
		_ = cmd.Wait()
		sv.mu.Lock()
		delete(sv.running, c.name)
		if !p.endExpected {
			sv.logf("%s has exited unexpectedly: %s", c.name, cmd.ProcessState)
			if p.answered {
				go sv.restartComponent(c.name)
			}
		}
		sv.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// stopComponent sends a signal to a component and waits until it has exited. After
// 30 s it kills it.
func (sv *supervisor) stopComponent(name string, sig syscall.Signal) error {
	p, err := sv.signalComponent(name, sig, true)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}

// signalComponent sends a signal to a running component. last means that the signal
// is to end it.
func (sv *supervisor) signalComponent(name string, sig syscall.Signal, last bool) (*process, error) {
	if _, err := sv.findComponent(name); err != nil {
		return nil, err
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	p := sv.running[name]
	if p == nil {
		return nil, fmt.Errorf("%s is not running", name)
	}
	p.endExpected = p.endExpected || last
	return p, p.cmd.Process.Signal(sig)
}

// readLogTail returns the last 15 lines of a component's log.
func (sv *supervisor) readLogTail(name string) string {
	b, err := os.ReadFile(sv.state.logPath(name))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// fatalError is an error that ends pollUntil.
type fatalError struct{ error }

// pollUntil calls check 40 times a second until it returns nil or a fatalError, or
// the context is done, and returns the last error.
func pollUntil(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		var f fatalError
		if err == nil || errors.As(err, &f) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
