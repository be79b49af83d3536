package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-sandbox/atoll"
)

func TestAppsNeverShareANamespace(t *testing.T) {
	seen := make(map[string]string)
	apps := []string{
		"a", "A", "a.b", "a-b", "a_b", "a@b", "a+b", "-x", "x-", "0", "local", strings.Repeat("a", 128), strings.Repeat("a", 127) + "b", strings.Repeat("A", 60),
	}
	for _, app := range apps[:len(apps):len(apps)] {
		apps = append(apps, strings.TrimPrefix(appNamespace("atoll", app), "atoll-")) // an app with the name of another's namespace
	}
	for _, app := range apps {
		ns := appNamespace("atoll", app)
		if other, taken := seen[ns]; taken && other != app {
			t.Errorf("%q and %q have %s", app, other, ns)
		}
		seen[ns] = app
		if len(ns) > 63 || strings.Trim(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.HasSuffix(ns, "-") || !strings.HasPrefix(ns, "atoll-") {
			t.Errorf("%q gets %q, which is no namespace", app, ns)
		}
	}
	if ns := appNamespace("atoll", "shop"); ns != "atoll-shop" {
		t.Errorf("shop gets %s", ns)
	}
}

func TestResources(t *testing.T) {
	type r = atoll.Resources
	for _, c := range []struct {
		requests, limits r
		want             string
	}{
		{r{}, r{}, "cpu 100m-2 memory 512Mi-1Gi"},
		{r{}, r{CPU: 0.05, Memory: 64 << 20}, "cpu 50m-50m memory 64Mi-64Mi"},
		{r{CPU: 4, Memory: 3 << 30}, r{}, "cpu 4-4 memory 3Gi-3Gi"},
		{r{CPU: 1, Memory: 1 << 30}, r{CPU: 3, Memory: 4 << 30}, "cpu 1-3 memory 1Gi-4Gi"},
		{r{}, r{CPU: -1, Memory: -1}, "cpu 100m-0 memory 512Mi-0"},
		{r{CPU: -1, Memory: -1}, r{}, "cpu 0-2 memory 0-1Gi"},
		{r{CPU: 0.0001}, r{CPU: 0.0001}, "cpu 1m-1m memory 512Mi-1Gi"},
	} {
		p := &pod{d: &Driver{}, spec: atoll.Spec{Requests: c.requests, Limits: c.limits}}
		got := p.podResources()
		text := func(name corev1.ResourceName) string {
			request, limit := got.Requests[name], got.Limits[name]
			return fmt.Sprintf("%s %s-%s", name, request.String(), limit.String())
		}
		if s := text("cpu") + " " + text("memory"); s != c.want {
			t.Errorf("%+v, %+v: %s, want %s", c.requests, c.limits, s, c.want)
		}
		if disk := got.Limits[corev1.ResourceEphemeralStorage]; disk.Value() != DefaultDisk {
			t.Errorf("disk %s", disk.String())
		}
	}
}

// TestRecordInPodMetadata reads a sandbox from the metadata of its pod.
func TestRecordInPodMetadata(t *testing.T) {
	d := &Driver{Dir: t.TempDir()}
	at := &target{d: d, home: "h", place: place{namespace: "ns"}}
	p := &pod{d: d, t: at, id: atoll.NewID(), how: PlaceInit, isolation: "emulated", secret: true, owner: hash("a/b")}
	p.spec = atoll.Spec{
		Name: "n", Labels: map[string]string{"any key": "v"}, Image: "i", Env: []string{"TOKEN=hush"}, Dir: "/w", Runtime: "gvisor",
		Network: atoll.Network{Allow: []string{"example.com"}, Headers: []atoll.Header{{Host: "h", Name: "n", Value: "hush"}}}, Pod: &atoll.Pod{StorageClass: "c"},
	}
	meta, err := p.objectMeta("x")
	if err != nil {
		t.Fatal(err)
	}
	if text := meta.String(); strings.Contains(text, "hush") {
		t.Errorf("it contains secrets: %s", text)
	}
	got, err := readPod(d, at, &meta)
	if err != nil {
		t.Fatal(err)
	}
	if got.id != p.id || got.how != p.how || got.isolation != p.isolation || !got.secret || got.owner != p.owner || got.spec.Name != "n" ||
		got.spec.Labels["any key"] != "v" || got.spec.Image != "i" || got.spec.Dir != "/w" || got.spec.Runtime != "gvisor" || got.spec.Network.Allow[0] != "example.com" || !got.hasVolume() {
		t.Errorf("%+v", got)
	}
	meta.Labels[labelHome] = "another"
	if _, err := readPod(d, at, &meta); err == nil {
		t.Error("it reads another home's")
	}
}

// TestPodEndReasons checks the reasons of ended pods.
func TestPodEndReasons(t *testing.T) {
	running := corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	terminated := func(reason string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}}
	}
	for _, c := range []struct {
		status corev1.PodStatus
		state  atoll.State
		ready  bool
		reason string
	}{
		{corev1.PodStatus{Phase: corev1.PodPending}, atoll.Starting, false, "starting"},
		{corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}, atoll.Running, true, "running"},
		{corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NodeNotReady"}},
		}, atoll.Running, false, "node_lost"},
		{corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no disk"}, atoll.Failed, false, "evicted"},
		{corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, atoll.Failed, false, "deadline"},
		{corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{terminated("OOMKilled", 137)}}, atoll.Failed, false, "out_of_memory"},
		{corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{terminated("Error", 1)}}, atoll.Failed, false, "ended"},
		{corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{terminated("Completed", 0)}}, atoll.Failed, false, "ended"},
		{corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{terminated("OOMKilled", 137)}}, atoll.Failed, false, "out_of_memory"},
	} {
		f := podStateOf(&corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, Status: c.status})
		if f.state != c.state || f.ready != c.ready || f.reason != c.reason {
			t.Errorf("%+v: %+v", c.status, f)
		}
	}
}

func TestDefaultRuntimeClass(t *testing.T) {
	d := &Driver{RuntimeClass: "gvisor"}
	for law, k := range map[string]struct {
		spec atoll.Spec
		want string
	}{
		"NamesNone":  {atoll.Spec{}, "gvisor"},
		"NamesOne":   {atoll.Spec{Runtime: "kata"}, "kata"},
		"OfTemplate": {atoll.Spec{Pod: &atoll.Pod{Template: "t"}}, ""},
		"WithVolume": {atoll.Spec{Pod: &atoll.Pod{StorageClass: "default"}}, "gvisor"},
	} {
		if got := d.runtimeOf(&k.spec); got != k.want {
			t.Errorf("%s: %q, want %q", law, got, k.want)
		}
	}
}
