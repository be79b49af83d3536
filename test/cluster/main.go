// Command cluster runs a real Kubernetes on this machine for tests: etcd, API
// server, controller manager, scheduler, kube-proxy, containerd and a kubelet,
// in network, mount and process namespaces of their own, so that nothing is
// left of it. README.md says how to use it.
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

  run [OPTIONS] -- CMD ARG...   start a cluster, run CMD inside, end the cluster
  up [OPTIONS]                  start a cluster and leave it running
  down                          end it
  status                        what runs, and where
  exec -- CMD ARG...            run CMD inside the running cluster
  image [OPTIONS] NAME:TAG PATH=FILE...
                                make an image of files and give it to the node
  start|stop|kill|restart|freeze|thaw COMPONENT
                                COMPONENT: etcd apiserver controller-manager scheduler
                                proxy containerd kubelet agent-sandbox
  logs COMPONENT                what it has written
  agent-sandbox                 install kubernetes-sigs/agent-sandbox and run its controller

'cluster COMMAND -h' lists the options.
`

// exit is an exit code that is not an error of ours.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	err := command(os.Args[1], os.Args[2:])
	var code exit
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

func command(name string, args []string) error {
	if run, ok := programs()[name]; ok {
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

// splitArgs parses the options before "--" and returns what follows it.
func splitArgs(fs *flag.FlagSet, args []string) ([]string, error) {
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return fs.Args(), nil
}

// state is the directory of one cluster; its methods say what is where.
type state string

func (s state) path(elem ...string) string {
	return filepath.Join(append([]string{string(s)}, elem...)...)
}

func (s state) kubeconfig(user string) string { return s.path("kubeconfig", user) }
func (s state) log(component string) string   { return s.path("logs", component+".log") }
func (s state) control() string               { return s.path("control.sock") }
func (s state) containerd() string            { return s.path("containerd.sock") }

// cgroup is the name of the cluster's own cgroup in every hierarchy, so that
// several clusters, and the host's own, don't tidy each other's away.
func (s state) cgroup() string { return "atoll-" + filepath.Base(string(s)) }

const statePrefix = "cluster-"

// base is the directory of all clusters of this user.
func base() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("atoll-cluster-%d", os.Getuid()))
}

// lasting is where 'cluster up' keeps its cluster.
func lasting() state { return state(filepath.Join(base(), statePrefix+"up")) }

// current is the cluster that commands without options mean: the one they run
// in, else the one that is up.
func current() (state, error) {
	s := lasting()
	if dir := os.Getenv("ATOLL_CLUSTER_STATE"); dir != "" {
		s = state(dir)
	}
	if _, err := os.Stat(s.control()); err != nil {
		return "", fmt.Errorf("no cluster runs at %s: start one with 'cluster up' or 'cluster run'", s)
	}
	return s, nil
}

// environ is what programs in the cluster see.
func (s state) environ() []string {
	env := []string{
		"KUBECONFIG=" + s.kubeconfig("admin"),
		"ATOLL_CLUSTER_STATE=" + string(s),
		"ATOLL_CLUSTER=" + self(),
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "KUBECONFIG" && name != "ATOLL_CLUSTER_STATE" && name != "ATOLL_CLUSTER" {
			env = append(env, v)
		}
	}
	return env
}

// self is the path of this program; its helpers are beside it.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

func beside(name string) string { return filepath.Join(filepath.Dir(self()), name) }
