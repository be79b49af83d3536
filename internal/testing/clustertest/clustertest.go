// Package clustertest gives tests a real Kubernetes cluster: the tool of test/cluster
// starts one in separate namespaces for a test binary.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Environment variables: the tool's path and, in the cluster, its state directory.
const (
	toolVar  = "ATOLL_CLUSTER"
	stateVar = "ATOLL_CLUSTER_STATE"
)

// Main runs the tests with the helpers, those that need a cluster in one if $ATOLL_CLUSTER names the tool. They run after
// the others, in a second process within the cluster, which is not started without them. It returns the exit code
// for os.Exit in TestMain.
func Main(m *testing.M) int {
	tool := os.Getenv(toolVar)
	if tool == "" || os.Getenv(stateVar) != "" || isListing() {
		return helpertest.Main(m)
	}
	begun, env := time.Now(), os.Environ() // without the helpers of this process
	deferred.enabled = true
	code := helpertest.Main(m)
	if len(deferred.names) == 0 {
		return code
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		return 1
	}
	cmd := exec.Command(tool, append([]string{"run", "--", self}, deferredArgs(os.Args[1:], deferred.names, time.Since(begun))...)...) //nolint:noctx // the tests within have a time limit
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return code
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "clustertest:", err)
	return 1
}

// deferred has the tests that wait for a cluster.
var deferred struct {
	enabled bool // by Main, before the first test

	mu    sync.Mutex
	names []string // guarded by mu until the tests have ended; top-level tests
}

// deferTest ends a test that runs again in a cluster.
func deferTest(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	deferred.mu.Lock()
	if !slices.Contains(deferred.names, name) {
		deferred.names = append(deferred.names, name)
	}
	deferred.mu.Unlock()
	t.Skip("it runs in a cluster, after the other tests")
}

// deferredArgs returns the arguments of the process that runs the tests with names, after a time.
func deferredArgs(args, names []string, after time.Duration) []string {
	var own []string
	selected := "^(" + strings.Join(names, "|") + ")$"
	for i := 0; i < len(args); i++ {
		flag, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || flag != "test.run" && flag != "test.timeout" {
			own = append(own, args[i])
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if flag == "test.run" {
			if strings.Contains(value, "/") { // of subtests
				selected = value
			}
		} else if limit, err := time.ParseDuration(value); err == nil && limit > 0 {
			own = append([]string{"-test.timeout=" + max(limit-after, time.Second).String()}, own...)
		}
	}
	return append([]string{"-test.run=" + selected}, own...)
}

// isListing reports whether the test binary only lists its tests.
func isListing() bool {
	return slices.ContainsFunc(os.Args[1:], func(a string) bool { return strings.HasPrefix(a, "-test.list") })
}

// Kubeconfig returns the path of a kubeconfig file with all rights. Without a cluster it
// skips the test, or fails it if $ATOLL_MUST names "kubernetes".
func Kubeconfig(t testing.TB) string {
	t.Helper()
	testenv.Real(t, "kubernetes")
	if os.Getenv(stateVar) != "" {
		if path := os.Getenv("KUBECONFIG"); path != "" {
			return path
		}
	}
	if deferred.enabled {
		deferTest(t)
	}
	testenv.Skip(t, "kubernetes", `no cluster: eval "$(scripts/cluster)" builds the tool that starts one`)
	return ""
}

// Config returns a client configuration for the cluster, without a rate limit.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// API returns a client of the cluster with all rights.
func API(t testing.TB) *kubeapi.API {
	t.Helper()
	config := Config(t)
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubeapi.New(config, c)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// Namespace creates a namespace that is removed when the test ends. labels may be
// nil.
func Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	api := API(t)
	name := "test-" + atoll.NewID()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := api.Core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	RemoveNamespace(t, name)
	return name
}

// RemoveNamespace removes a namespace when the test ends, if it exists then. It does not
// wait until the namespace is gone.
func RemoveNamespace(t testing.TB, name string) {
	t.Helper()
	api := API(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := api.Core.Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("removing namespace %s: %v", name, err)
		}
	})
}

// Tool runs a command of the tool, such as "restart apiserver", and returns what
// it prints.
func Tool(t testing.TB, args ...string) string {
	t.Helper()
	Kubeconfig(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Getenv(toolVar), args...).CombinedOutput() //nolint:gosec // the configured tool
	if err != nil {
		t.Fatalf("cluster %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
