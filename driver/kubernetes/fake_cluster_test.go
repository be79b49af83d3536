package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
)

// testID is the id of a sandbox.
const testID = "a23456789abcd"

// Paths of objects of the fake cluster.
const (
	podsPath    = "/api/v1/namespaces/ns/pods/"
	secretsPath = "/api/v1/namespaces/ns/secrets/"
	volumesPath = "/api/v1/namespaces/ns/persistentvolumeclaims/"
)

// object is an object of the API as decoded JSON.
type object = map[string]any

// fakeCluster is an API server in memory with the controllers that this package relies on: pods run at
// once if their Secret exists, volumes are kept while a pod uses them, objects are removed with their
// owners, and agent-sandbox serves claims.
type fakeCluster struct {
	mu      sync.Mutex
	objects map[string]object // guarded by mu, as all below; by path
	version int
	writes  int           // requests that have changed something
	lastAt  int           // after this many of them the client is dead, and gets no response; 0: never
	dead    bool          // the client is dead, or the cluster is unreachable
	refuse  time.Duration // after the last write, connections are refused for so long, and work again
	silent  bool          // requests get no response until they are canceled
	streams map[*eventStream]bool
	oldest  int    // the first version from which a watch can begin
	history string // of the writes, for messages
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{objects: make(map[string]object), streams: make(map[*eventStream]bool)}
}

// eventStream is the body of a watch.
type eventStream struct {
	mu     sync.Mutex
	filled sync.Cond
	text   bytes.Buffer // guarded by mu, as below
	closed bool
}

func newEventStream() *eventStream {
	s := &eventStream{}
	s.filled.L = &s.mu
	return s
}

func (s *eventStream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.text.Len() == 0 && !s.closed {
		s.filled.Wait()
	}
	return s.text.Read(b)
}

func (s *eventStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.filled.Broadcast()
	return nil
}

// sendEvent sends an event about a pod to the watches of pods, which are the only ones.
func (c *fakeCluster) sendEvent(kind string, o object) {
	event, _ := json.Marshal(object{"type": kind, "object": o}) // it was decoded from JSON
	for s := range c.streams {
		s.mu.Lock()
		s.text.Write(append(event, '\n'))
		s.filled.Broadcast()
		s.mu.Unlock()
	}
}

// endWatches ends all watches.
func (c *fakeCluster) endWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.streams {
		_ = s.Close()
	}
	clear(c.streams)
}

// newFakeDriver returns a driver, as of a process that has just started, of some clusters. The first is the
// driver's own, the others are those of the apps "app1", "app2"…
func newFakeDriver(t *testing.T, dir string, clusters ...http.RoundTripper) *Driver {
	t.Helper()
	d := &Driver{Namespace: "ns", Home: "h", Dir: dir, Placement: PlaceNone, Apps: map[string]Target{}, targets: map[place]*target{}}
	for i, c := range clusters {
		at := place{namespace: "ns"}
		if i > 0 {
			at.context = fmt.Sprint("cluster", i)
			d.Apps[fmt.Sprint("app", i)] = Target{Context: at.context}
		}
		config := &rest.Config{Host: "http://api-" + at.context, QPS: -1}
		api, err := kubeapi.New(config, &http.Client{Transport: c})
		if err != nil {
			t.Fatal(err)
		}
		tg := &target{place: at, d: d, home: "h", config: config, preparing: make(chan struct{}, 1)}
		tg.core, tg.net, tg.node, tg.storage, tg.rights = api.Core, api.Networking, api.Node, api.Storage, api.Authorization
		tg.pods = &podWatch{core: tg.core, namespace: at.namespace, selector: labelHome + "=h"}
		t.Cleanup(tg.pods.stopIdle)
		d.targets[at] = tg
	}
	return d
}

// killAfter makes the client die after some more writes, of which the last gets no response.
func (c *fakeCluster) killAfter(writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastAt, c.history = c.writes+writes, ""
}

// restart begins the life of another client. It reports whether the last one had died.
func (c *fakeCluster) restart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	died := c.dead
	c.dead, c.lastAt = false, 0
	return died
}

// expireVersions makes watches begin with a new list.
func (c *fakeCluster) expireVersions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.oldest = c.version
}

// setSilent makes requests get no response, or responses again.
func (c *fakeCluster) setSilent(silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = silent
}

// setDead makes the cluster unreachable, or reachable again.
func (c *fakeCluster) setDead(dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = dead
}

// leftovers returns the paths of the objects of sandboxes.
func (c *fakeCluster) leftovers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, at := range slices.Sorted(maps.Keys(c.objects)) {
		if kind := path.Base(path.Dir(at)); kind != "networkpolicies" && kind != "sandboxwarmpools" && kind != "sandboxtemplates" {
			list = append(list, at)
		}
	}
	return list
}

// get returns a copy of an object, nil if it does not exist.
func (c *fakeCluster) get(at string) object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return copyObject(c.objects[at])
}

// put creates or replaces an object.
func (c *fakeCluster) put(at string, o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(at, o)
}

// remove removes an object without asking anything, as another client may.
func (c *fakeCluster) remove(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeObject(at)
	c.runControllers()
}

// removeObject removes an object. The caller holds mu.
func (c *fakeCluster) removeObject(at string) {
	if o := c.objects[at]; o != nil && strings.HasPrefix(at, podsPath) {
		c.sendEvent("DELETED", o)
	}
	delete(c.objects, at)
}

func copyObject(o object) object {
	if o == nil {
		return nil
	}
	b, _ := json.Marshal(o) // it was decoded from JSON
	var again object
	_ = json.Unmarshal(b, &again)
	return again
}

// metaOf returns the metadata of an object.
func metaOf(o object) object {
	m, _ := o["metadata"].(object)
	if m == nil {
		m = object{}
		o["metadata"] = m
	}
	return m
}

func textOf(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

// RoundTrip answers a request.
func (c *fakeCluster) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body) // in memory
		_ = req.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		c.mu.Unlock()
		<-req.Context().Done()
		c.mu.Lock()
		return nil, req.Context().Err()
	}
	if c.dead {
		return nil, syscall.ECONNREFUSED
	}
	status, answer := c.serve(req, body)
	if req.Method != http.MethodGet && status < 300 {
		c.writes++
		c.history += fmt.Sprintf("\n%s %s", req.Method, req.URL.Path)
		if c.dead = c.lastAt > 0 && c.writes >= c.lastAt; c.dead {
			if c.refuse > 0 {
				c.lastAt = 0
				time.AfterFunc(c.refuse, func() { c.setDead(false) })
			}
			return nil, errors.New("connection reset")
		}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if v := req.URL.Query(); v.Get("watch") != "" {
		if version, _ := strconv.Atoi(v.Get("resourceVersion")); version < c.oldest {
			_, answer := failure(http.StatusGone, metav1.StatusReasonExpired)
			b, err := json.Marshal(answer)
			return &http.Response{StatusCode: http.StatusGone, Header: header, Body: io.NopCloser(bytes.NewReader(b)), Request: req}, err
		}
		s := newEventStream()
		c.streams[s] = true
		context.AfterFunc(req.Context(), func() { _ = s.Close() })
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: s, Request: req}, nil
	}
	b, err := json.Marshal(answer)
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(b)), Request: req}, err
}

func failure(status int, reason metav1.StatusReason) (int, any) {
	return status, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(status)}
}

// serve answers a request. The caller holds mu.
func (c *fakeCluster) serve(req *http.Request, body []byte) (int, any) {
	at := req.URL.Path
	_, below, namespaced := strings.Cut(at, "/namespaces/ns/")
	var in object
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
	}
	switch {
	case at == "/version":
		return http.StatusOK, object{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
	case at == "/apis/"+claimGroup+"/"+agentVersion:
		return http.StatusOK, object{}
	case at == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		return http.StatusCreated, object{"status": object{"allowed": true}}
	case !namespaced: // the namespace itself, and what has none
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden)
	}
	parts := strings.Split(below, "/")
	found := c.objects[at]
	switch {
	case req.Method == http.MethodPost:
		at += "/" + textOf(metaOf(in), "name")
		if c.objects[at] != nil {
			return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists)
		}
		c.store(at, in)
		return http.StatusCreated, c.objects[at]
	case len(parts) == 1:
		return http.StatusOK, c.list(at, parts[0], req.URL.Query().Get("labelSelector"))
	case found == nil && req.Header.Get("Content-Type") == "application/apply-patch+yaml":
		c.store(at, in)
		return http.StatusCreated, c.objects[at]
	case found == nil:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	case req.Method == http.MethodPatch:
		for _, key := range []string{"uid", "resourceVersion"} {
			if want := textOf(metaOf(in), key); want != "" && want != textOf(metaOf(found), key) {
				return failure(http.StatusConflict, metav1.StatusReasonConflict)
			}
		}
		mergeObject(found, in)
		c.store(at, found)
	case req.Method == http.MethodDelete:
		if p, ok := in["preconditions"].(object); ok && textOf(p, "uid") != textOf(metaOf(found), "uid") {
			return failure(http.StatusConflict, metav1.StatusReasonConflict)
		}
		c.delete(at)
	}
	return http.StatusOK, found
}

// mergeObject applies a merge patch.
func mergeObject(into, patch object) {
	for k, v := range patch {
		inner, ok := v.(object)
		old, both := into[k].(object)
		switch {
		case v == nil:
			delete(into, k)
		case ok && both:
			mergeObject(old, inner)
		default:
			into[k] = v
		}
	}
}

// store creates or changes an object. The caller holds mu, as of the methods below.
func (c *fakeCluster) store(at string, o object) {
	c.version++
	m := metaOf(o)
	m["resourceVersion"] = strconv.Itoa(c.version)
	if textOf(m, "uid") == "" {
		m["uid"], m["namespace"], m["creationTimestamp"] = "uid-"+strconv.Itoa(c.version), "ns", time.Now().UTC().Format(time.RFC3339)
	}
	c.objects[at] = o
	c.runControllers()
	if strings.HasPrefix(at, podsPath) {
		c.sendEvent("MODIFIED", o)
	}
}

func (c *fakeCluster) delete(at string) {
	if strings.Contains(at, "/persistentvolumeclaims/") {
		metaOf(c.objects[at])["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339) // removed when no pod uses it
	} else {
		c.removeObject(at)
	}
	c.runControllers()
}

func (c *fakeCluster) list(at, kind, selector string) object {
	items := []any{}
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		labels, _ := metaOf(c.objects[name])["labels"].(object)
		matches := path.Dir(name) == at
		for _, term := range strings.Split(selector, ",") {
			k, v, _ := strings.Cut(term, "=")
			matches = matches && (term == "" || textOf(labels, k) == v)
		}
		if matches {
			items = append(items, c.objects[name])
		}
	}
	kinds := map[string]string{"pods": "PodList", "persistentvolumeclaims": "PersistentVolumeClaimList"}
	return object{"apiVersion": "v1", "kind": kinds[kind], "metadata": object{"resourceVersion": strconv.Itoa(c.version)}, "items": items}
}

// runControllers does the work of the cluster's controllers until there is none.
func (c *fakeCluster) runControllers() {
	for changed := true; changed; {
		changed = false
		uids := map[string]bool{}
		for _, o := range c.objects {
			uids[textOf(metaOf(o), "uid")] = true
		}
		for at, o := range c.objects {
			if c.isGarbage(at, o, uids) {
				c.removeObject(at)
				changed = true
			}
		}
		for at, o := range maps.Clone(c.objects) {
			switch kind := path.Base(path.Dir(at)); {
			case kind == "pods":
				c.runPod(at, o)
			case kind == "sandboxclaims" && o["status"] == nil:
				c.serveClaim(at, o)
				changed = true
			}
		}
	}
}

// isGarbage reports whether the owners of an object were removed, or a volume was deleted and is not in
// use any more.
func (c *fakeCluster) isGarbage(at string, o object, uids map[string]bool) bool {
	m := metaOf(o)
	if m["deletionTimestamp"] != nil {
		return c.objects[podsPath+path.Base(at)] == nil
	}
	owners, _ := m["ownerReferences"].([]any)
	return len(owners) > 0 && !slices.ContainsFunc(owners, func(owner any) bool { return uids[textOf(owner.(object), "uid")] })
}

// runPod sets the state of a pod that was created.
func (c *fakeCluster) runPod(at string, o object) {
	if status, _ := o["status"].(object); textOf(status, "phase") == "Running" || textOf(status, "phase") == "Failed" {
		return
	}
	spec, _ := o["spec"].(object)
	containers, _ := spec["containers"].([]any)
	state, phase := object{"running": object{}}, "Running"
	if len(containers) > 0 && containers[0].(object)["env"] != nil && c.objects[secretsPath+path.Base(at)] == nil {
		state, phase = object{"waiting": object{"reason": "CreateContainerConfigError", "message": "secret not found"}}, "Pending"
	}
	o["status"] = object{"phase": phase, "containerStatuses": []any{object{"name": container, "state": state}}}
}

// serveClaim creates the Sandbox and the pod of a claim.
func (c *fakeCluster) serveClaim(at string, o object) {
	name := path.Base(at) + "-sandbox"
	owned := func(by object, kind string) object {
		return object{"name": name, "ownerReferences": []any{object{"kind": kind, "name": textOf(metaOf(by), "name"), "uid": textOf(metaOf(by), "uid")}}}
	}
	ready := object{"sandbox": object{"name": name}, "conditions": []any{object{"type": "Ready", "status": "True"}}}
	o["status"] = ready
	sandbox := object{"metadata": owned(o, "SandboxClaim"), "status": ready}
	c.store("/apis/"+sandboxGroup+"/"+agentVersion+"/namespaces/ns/sandboxes/"+name, sandbox)
	c.store(podsPath+name, object{"apiVersion": "v1", "kind": "Pod", "metadata": owned(sandbox, "Sandbox"), "spec": object{}})
}
