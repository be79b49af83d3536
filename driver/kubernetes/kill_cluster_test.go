package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// createdVar names the sandbox that a process of TestCreateIsKilled creates.
const createdVar = "ATOLL_TEST_CREATE"

// killedSpec is the sandbox of TestCreateIsKilled.
func killedSpec(id, class string) atoll.Spec {
	return atoll.Spec{ID: id, Env: []string{"TOKEN=secret value"}, Pod: &atoll.Pod{StorageClass: class}}
}

// TestCreateAndDestroyUntilKilled is the process that TestCreateIsKilled kills: it creates and destroys a sandbox.
func TestCreateAndDestroyUntilKilled(t *testing.T) {
	id := os.Getenv(createdVar)
	if id == "" {
		return // not a test of its own
	}
	d := &kubernetes.Driver{Kubeconfig: os.Getenv("KUBECONFIG"), Namespace: os.Getenv("ATOLL_TEST_NAMESPACE"), Dir: os.Getenv("ATOLL_TEST_DIR")}
	sb, err := d.Create(t.Context(), killedSpec(id, os.Getenv("ATOLL_TEST_CLASS")))
	if err == nil {
		err = sb.Destroy(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCreateIsKilled kills a process that creates and destroys a sandbox at many moments. The next process can
// remove what is there, and nothing is left: no pod, no volume, and no Secret.
func TestCreateIsKilled(t *testing.T) {
	d := newDriver(t)
	createTestSandbox(t, d, atoll.Spec{}) // the namespace is prepared, and the key exists
	rounds := testenv.Rounds(t, 2, 12, "ATOLL_CRASHES")
	found := 0
	for round := range rounds {
		class := []string{"none", "default"}[round%2]
		id := atoll.NewID()
		cmd := exec.Command(os.Args[0], "-test.run=^TestCreateAndDestroyUntilKilled$")
		cmd.Env = append(os.Environ(), createdVar+"="+id, "ATOLL_TEST_NAMESPACE="+d.Namespace, "ATOLL_TEST_DIR="+d.Dir, "ATOLL_TEST_CLASS="+class, "KUBECONFIG="+d.Kubeconfig)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(round) * 2 * time.Second / time.Duration(rounds)) // a create and a destroy take about 1.5 seconds
		_ = cmd.Process.Kill()                                                       // it may have exited
		_ = cmd.Wait()
		sb, err := d.Open(t.Context(), id)
		if err == nil {
			found++
			err = sb.Destroy(t.Context())
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("round %d: %v", round, err)
		}
		requireGone(t, d.Namespace, id)
	}
	t.Logf("%d of %d processes left a sandbox", found, rounds)
}

// requireGone waits until a namespace has no objects of a sandbox: the cluster removes owned ones a moment later.
func requireGone(t *testing.T, namespace, id string) {
	t.Helper()
	api := clustertest.API(t)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	o := metav1.ListOptions{LabelSelector: "atoll.dev/id=" + id}
	left := ""
	if !testenv.Poll(ctx, func() bool {
		pods, err1 := api.Core.Pods(namespace).List(ctx, o)
		secrets, err2 := api.Core.Secrets(namespace).List(ctx, o)
		volumes, err3 := api.Core.PersistentVolumeClaims(namespace).List(ctx, o)
		if err := errors.Join(err1, err2, err3); err != nil {
			left = err.Error()
			return false
		}
		left = fmt.Sprintf("%d pods, %d secrets, %d volumes", len(pods.Items), len(secrets.Items), len(volumes.Items))
		return len(pods.Items)+len(secrets.Items)+len(volumes.Items) == 0
	}) {
		t.Errorf("left of %s: %s", id, left)
	}
}
