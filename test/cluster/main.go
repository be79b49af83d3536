// Command cluster runs a real Kubernetes on this machine for tests: etcd, API
// server, controller manager, scheduler, kube-proxy, containerd and a kubelet, in
// their own network, mount and process namespaces, so that it leaves nothing
// behind. README.md explains its use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const usage = `usage: cluster COMMAND

  run [OPTIONS] -- CMD ARG...   start a cluster, run CMD in it, stop the cluster
  up [OPTIONS]                  start a cluster and leave it running
  down                          stop the cluster that 'up' started
  status                        show the components and the state directory
  exec -- CMD ARG...            run CMD in the running cluster
  image [OPTIONS] NAME:TAG PATH=FILE...
                                build an image of files and import it into the node
  start|stop|kill|restart|freeze|thaw COMPONENT
                                COMPONENT: etcd apiserver controller-manager scheduler
                                proxy containerd kubelet agent-sandbox
  logs COMPONENT                print a component's log
  agent-sandbox                 install kubernetes-sigs/agent-sandbox and start its controller

'cluster COMMAND -h' lists the options.
`

// exitCode is the exit code of a program that this command ran; main exits with it
// and prints no error.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	err := dispatchCommand(os.Args[1], os.Args[2:])
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func dispatchCommand(name string, args []string) error {
	if run, ok := listPrograms()[name]; ok {
		os.Args = append([]string{name}, args...)
		return run()
	}
	ctx := context.Background()
	switch name {
	case "run":
		return runCommand(args)
	case "up":
		return upCommand(args)
	case "down":
		return downCommand(args)
	case "status":
		return statusCommand(args)
	case "exec":
		return execCommand(args)
	case "image":
		return imageCommand(ctx, args)
	case "start", "stop", "kill", "restart", "freeze", "thaw":
		return faultCommand(ctx, name, args)
	case "logs":
		return logsCommand(args)
	case "agent-sandbox":
		return faultCommand(ctx, "install", []string{"agent-sandbox"})
	case "init": // process 1 of the namespaces
		return initMain(args)
	case "supervise": // its only child
		return superviseMain(args)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("no command %q; 'cluster help' lists them", name)
}

// splitArgs parses the options before "--" and returns the arguments after it.
func splitArgs(fs *flag.FlagSet, args []string) ([]string, error) {
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return fs.Args(), nil
}

// stateDir is the directory of a cluster; its methods return the paths in it.
type stateDir string

func (s stateDir) joinPath(elem ...string) string {
	return filepath.Join(append([]string{string(s)}, elem...)...)
}

func (s stateDir) kubeconfigPath(user string) string { return s.joinPath("kubeconfig", user) }
func (s stateDir) logPath(component string) string   { return s.joinPath("logs", component+".log") }
func (s stateDir) controlSocket() string             { return s.joinPath("control.sock") }
func (s stateDir) containerdSocket() string          { return s.joinPath("containerd.sock") }

// cgroupName returns the name of the cluster's cgroup in every hierarchy. Each
// cluster has its own, so that kubelets don't remove cgroups of other clusters or of
// the host.
func (s stateDir) cgroupName() string { return "atoll-" + filepath.Base(string(s)) }

const statePrefix = "cluster-"

// baseDir returns the directory of all clusters of this user.
func baseDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("atoll-cluster-%d", os.Getuid()))
}

// upState returns the state directory of the cluster that 'cluster up' starts.
func upState() stateDir { return stateDir(filepath.Join(baseDir(), statePrefix+"up")) }

// currentState returns the state directory of the cluster in which this command
// runs, else of the one that 'cluster up' started.
func currentState() (stateDir, error) {
	s := upState()
	if dir := os.Getenv("ATOLL_CLUSTER_STATE"); dir != "" {
		s = stateDir(dir)
	}
	if _, err := os.Stat(s.controlSocket()); err != nil {
		return "", fmt.Errorf("no cluster is running at %s: start one with 'cluster up' or 'cluster run'", s)
	}
	return s, nil
}

// buildEnv returns the environment of programs in the cluster.
func (s stateDir) buildEnv() []string {
	env := []string{
		"KUBECONFIG=" + s.kubeconfigPath("admin"),
		"ATOLL_CLUSTER_STATE=" + string(s),
		"ATOLL_CLUSTER=" + executablePath(),
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "KUBECONFIG" && name != "ATOLL_CLUSTER_STATE" && name != "ATOLL_CLUSTER" {
			env = append(env, v)
		}
	}
	return env
}

// executablePath returns the path of this program.
func executablePath() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// helperPath returns the path of a file in this program's directory.
func helperPath(name string) string { return filepath.Join(filepath.Dir(executablePath()), name) }
