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

// supervisor starts and ends the programs of the cluster it lives in.
type supervisor struct {
	state   state
	options options
	began   time.Time
	all     []component

	mu      sync.Mutex
	running map[string]*process // guarded by mu
}

// process is a component that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	expected bool // its end; guarded by the supervisor's mu
}

// superviseMain brings the cluster up, runs the program, and returns; all that
// still runs ends with the namespaces.
func superviseMain(args []string) error {
	if len(args) < 1 || os.Getppid() != 1 {
		return errors.New("supervise is not for people: see 'cluster help'")
	}
	sv := &supervisor{state: state(args[0]), began: time.Now(), running: make(map[string]*process)}
	b, err := os.ReadFile(sv.state.path("options.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &sv.options); err != nil {
		return err
	}
	sv.all = components(sv.state, sv.options)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan error, 1)
	go func() { ended <- sv.boot(ctx) }()
	select {
	case err = <-ended:
	case s := <-signals:
		return fmt.Errorf("start: %s", s)
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	control, err := sv.listen(ctx)
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

// runProgram runs the user's program in the foreground. A signal to end is
// passed on; who ignores it for 10 s is killed.
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
			return asExit(err)
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

func (sv *supervisor) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "cluster: %5.1fs  %s\n", time.Since(sv.began).Seconds(), fmt.Sprintf(format, args...))
}

func (sv *supervisor) component(name string) (component, error) {
	i := slices.IndexFunc(sv.all, func(c component) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range sv.all {
			names = append(names, c.name)
		}
		return component{}, fmt.Errorf("no component %q here; there are %s", name, strings.Join(names, ", "))
	}
	return sv.all[i], nil
}

// start starts a component and waits until it answers.
func (sv *supervisor) start(ctx context.Context, name string) error {
	c, err := sv.component(name)
	if err != nil {
		return err
	}
	p, err := sv.launch(c)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	err = until(ctx, func(ctx context.Context) error {
		select {
		case <-p.done:
			return fatal{fmt.Errorf("ended: %s", p.cmd.ProcessState)}
		default:
			return c.probe(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w\n%s", name, err, sv.tail(name))
	}
	sv.say("%s answers after %.1fs", name, time.Since(began).Seconds())
	return nil
}

// launch starts a component's process and sees to its end.
func (sv *supervisor) launch(c component) (*process, error) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.running[c.name] != nil {
		return nil, errors.New("it runs already")
	}
	log, err := os.OpenFile(sv.state.log(c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH="+beside("")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's ^C is not for it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	sv.running[c.name] = p
	go func() {
		_ = cmd.Wait()
		sv.mu.Lock()
		delete(sv.running, c.name)
		if !p.expected {
			sv.say("%s has ended by itself: %s", c.name, cmd.ProcessState)
		}
		sv.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// stop ends a component: SIGTERM asks, and who needs longer than 30 s is
// killed; SIGKILL does not ask.
func (sv *supervisor) stop(name string, sig syscall.Signal) error {
	p, err := sv.send(name, sig, true)
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

// send sends a signal to a component that runs.
func (sv *supervisor) send(name string, sig syscall.Signal, last bool) (*process, error) {
	if _, err := sv.component(name); err != nil {
		return nil, err
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	p := sv.running[name]
	if p == nil {
		return nil, fmt.Errorf("%s does not run", name)
	}
	p.expected = p.expected || last
	return p, p.cmd.Process.Signal(sig)
}

// tail is the end of what a component has written.
func (sv *supervisor) tail(name string) string {
	b, err := os.ReadFile(sv.state.log(name))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// fatal is an error after which asking again is of no use.
type fatal struct{ error }

// until asks 40 times a second until the answer is nil, fatal, or the context
// ends; then it returns the last answer.
func until(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		var f fatal
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
