package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// serveControl serves the supervisor's commands on the control socket. The socket
// exists only when the cluster is ready.
func (sv *supervisor) serveControl(ctx context.Context) (net.Listener, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{component}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		if err := sv.runVerb(ctx, r.PathValue("verb"), r.PathValue("component")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { sv.writeStatus(w) })
	l, err := net.Listen("unix", sv.state.controlSocket())
	if err != nil {
		return nil, err
	}
	go func() { _ = http.Serve(l, mux) }() // ends when l is closed
	return l, nil
}

// runVerb executes a command for a component.
func (sv *supervisor) runVerb(ctx context.Context, verb, name string) error {
	switch verb {
	case "start":
		return sv.startComponent(ctx, name)
	case "stop":
		return sv.stopComponent(name, syscall.SIGTERM)
	case "kill":
		return sv.stopComponent(name, syscall.SIGKILL)
	case "restart":
		if err := sv.stopComponent(name, syscall.SIGTERM); err != nil {
			return err
		}
		return sv.startComponent(ctx, name)
	case "freeze":
		_, err := sv.signalComponent(name, syscall.SIGSTOP, false)
		return err
	case "thaw":
		_, err := sv.signalComponent(name, syscall.SIGCONT, false)
		return err
	case "install":
		return sv.installAgentSandbox(ctx)
	}
	return fmt.Errorf("no command %q", verb)
}

func (sv *supervisor) writeStatus(w io.Writer) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	fmt.Fprintf(w, "state       %s\nkubeconfig  %s\nage         %s\n", sv.state, sv.state.kubeconfigPath("admin"), time.Since(sv.started).Round(time.Second))
	for _, c := range sv.components {
		if p := sv.running[c.name]; p != nil {
			fmt.Fprintf(w, "%-20s process %d\n", c.name, p.cmd.Process.Pid)
		} else {
			fmt.Fprintf(w, "%-20s not running\n", c.name)
		}
	}
}

// callSupervisor sends a request to the supervisor of a cluster and returns the
// response body.
func callSupervisor(ctx context.Context, s stateDir, method, path string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", s.controlSocket())
		},
	}}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(bytes.TrimSpace(body)))
	}
	return body, err
}

func faultCommand(ctx context.Context, verb string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: cluster %s COMPONENT", verb)
	}
	s, err := currentState()
	if err != nil {
		return err
	}
	_, err = callSupervisor(ctx, s, http.MethodPost, "/"+args[0]+"/"+verb)
	return err
}

func statusCommand([]string) error {
	s, err := currentState()
	if err != nil {
		return err
	}
	body, err := callSupervisor(context.Background(), s, http.MethodGet, "/status")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(body)
	return err
}

func logsCommand(args []string) error {
	if len(args) != 1 || strings.ContainsRune(args[0], '/') {
		return errors.New("usage: cluster logs COMPONENT")
	}
	s, err := currentState()
	if err != nil {
		return err
	}
	f, err := os.Open(s.logPath(args[0]))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(os.Stdout, f)
	return err
}

// execCommand runs a program in the namespaces of the current cluster.
func execCommand(args []string) error {
	cmd, err := splitArgs(flag.NewFlagSet("cluster exec", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	s, err := currentState()
	if err != nil {
		return err
	}
	pid, err := os.ReadFile(s.joinPath("init.pid"))
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	c := exec.Command("nsenter", append([]string{"--target", string(pid), "--mount", "--net", "--pid", "--ipc", "--uts", "--wd=" + dir, "--"}, cmd...)...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = os.Stdin, os.Stdout, os.Stderr, s.buildEnv()
	return toExitCode(c.Run())
}
