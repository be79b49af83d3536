// Package clustertest gives tests a real Kubernetes cluster: the one that the
// tool of test/cluster makes, in namespaces of its own, for one test binary.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
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

// The variables of the tool: where it is, and inside, where the cluster's state
// is kept.
const (
	toolVar  = "ATOLL_CLUSTER"
	stateVar = "ATOLL_CLUSTER_STATE"
)

// Main is for TestMain: it runs the tests, with the helpers, within a cluster
// where the tool is there to make one, and without elsewhere. Its result is for
// os.Exit.
func Main(m *testing.M) int {
	tool := os.Getenv(toolVar)
	if tool == "" || os.Getenv(stateVar) != "" || listing() {
		return helpertest.Main(m)
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		return 1
	}
	cmd := exec.Command(tool, append([]string{"run", "--", self}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "clustertest:", err)
	return 1
}

// listing reports whether the tests are only to be named.
func listing() bool {
	return slices.ContainsFunc(os.Args[1:], func(a string) bool { return strings.HasPrefix(a, "-test.list") })
}

// Kubeconfig returns the file that leads to the cluster, with all rights. A test
// that has none is left out, or fails where $ATOLL_MUST has "kubernetes".
func Kubeconfig(t testing.TB) string {
	t.Helper()
	testenv.Real(t, "kubernetes")
	if os.Getenv(stateVar) != "" {
		if path := os.Getenv("KUBECONFIG"); path != "" {
			return path
		}
	}
	testenv.Skip(t, "kubernetes", `there is no cluster: eval "$(scripts/cluster)" makes the tool that makes one`)
	return ""
}

// Config returns how the cluster is reached.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// API returns the cluster's API, with all rights.
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

// Namespace makes a namespace that is removed when the test ends. labels may be
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

// RemoveNamespace removes a namespace when the test ends, if it is there then.
// Nobody waits for it.
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
	out, err := exec.CommandContext(ctx, os.Getenv(toolVar), args...).CombinedOutput() //nolint:gosec // the tool that was named
	if err != nil {
		t.Fatalf("cluster %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
