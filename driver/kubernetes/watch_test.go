package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
)

// fakeAPI is an in-memory API of pods, so that a test can control time.
type fakeAPI struct {
	mu         sync.Mutex
	pods       map[string]*corev1.Pod // guarded by mu, as all below
	version    int
	streams    map[*io.PipeWriter]bool
	requests   map[string]int // "list", "watch", "get"
	dropEvents bool           // watches are accepted and get no events
	refuse     int            // this status, for everything
	gone       int            // watches get the error that their version is too old
}

func newAPI() *fakeAPI {
	return &fakeAPI{pods: map[string]*corev1.Pod{}, streams: map[*io.PipeWriter]bool{}, requests: map[string]int{}}
}

// pods returns a watch of the API's pods.
func (a *fakeAPI) newWatch(t *testing.T) *podWatch {
	t.Helper()
	set, err := kubeapi.New(&rest.Config{Host: "http://api", QPS: -1}, &http.Client{Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	p := &podWatch{core: set.Core, namespace: "ns", selector: "x=y"}
	t.Cleanup(p.stopIdle)
	return p
}

// RoundTrip answers a request.
func (a *fakeAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := func(status int, v any) *http.Response {
		b, _ := json.Marshal(v)
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), Request: req}
	}
	failure := func(status int, reason metav1.StatusReason) *http.Response {
		return answer(status, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason, Code: int32(status)})
	}
	name := path.Base(req.URL.Path)
	switch {
	case a.refuse == http.StatusForbidden:
		return failure(a.refuse, metav1.StatusReasonForbidden), nil
	case a.refuse != 0:
		return nil, fmt.Errorf("connection refused")
	case name != "pods":
		a.requests["get"]++
		if pod := a.pods[name]; pod != nil {
			return answer(http.StatusOK, pod), nil
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound), nil
	case req.URL.Query().Get("watch") == "":
		a.requests["list"]++
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
		for _, pod := range a.pods {
			list.Items = append(list.Items, *pod)
		}
		return answer(http.StatusOK, list), nil
	}
	a.requests["watch"]++
	if a.gone > 0 {
		a.gone--
		return failure(http.StatusGone, metav1.StatusReasonExpired), nil
	}
	r, w := io.Pipe()
	a.streams[w] = true
	context.AfterFunc(req.Context(), func() { _ = w.CloseWithError(req.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: r, Request: req}, nil
}

// setPod creates, changes or removes a pod, and notifies the watchers.
func (a *fakeAPI) setPod(name string, uid types.UID, phase corev1.PodPhase) *corev1.Pod {
	a.mu.Lock()
	a.version++
	kind := "MODIFIED"
	if a.pods[name] == nil {
		kind = "ADDED"
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: strconv.Itoa(a.version), CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     corev1.PodStatus{Phase: phase},
	}
	if phase == "" {
		kind = "DELETED"
		delete(a.pods, name)
	} else {
		a.pods[name] = pod
	}
	raw, _ := json.Marshal(pod)
	event, _ := json.Marshal(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
	var told []*io.PipeWriter
	for w := range a.streams {
		if !a.dropEvents {
			told = append(told, w)
		}
	}
	a.mu.Unlock()
	for _, w := range told {
		_, _ = w.Write(append(event, '\n')) // closed watches get no event
	}
	return pod
}

// endWatches ends all watches.
func (a *fakeAPI) endWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.streams {
		_ = w.Close()
		delete(a.streams, w)
	}
}

func (a *fakeAPI) countRequests(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[what]
}

// waitForPhase waits for a phase of a pod, or for its removal if the phase is "".
func waitForPhase(ctx context.Context, p *podWatch, first *corev1.Pod, phase corev1.PodPhase) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.waitPod(ctx, first, func(pod *corev1.Pod) (bool, error) {
			if pod == nil {
				if phase == "" {
					return true, nil
				}
				return false, errors.New("gone")
			}
			return pod.Status.Phase == phase, nil
		})
		done <- err
	}()
	return done
}

func TestAwait(t *testing.T) {
	in := func(f func(t *testing.T, a *fakeAPI, p *podWatch)) func(t *testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				p := a.newWatch(t)
				f(t, a, p)
				p.stopIdle()
				a.endWatches()
			})
		}
	}
	t.Run("OneWatchForAll", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		var all []<-chan error
		for i := range 20 {
			a.setPod(fmt.Sprint("pod", i), types.UID(fmt.Sprint(i)), corev1.PodPending)
		}
		for _, first := range a.pods {
			all = append(all, waitForPhase(t.Context(), p, first, corev1.PodRunning))
		}
		synctest.Wait()
		for i := range 20 {
			a.setPod(fmt.Sprint("pod", i), types.UID(fmt.Sprint(i)), corev1.PodRunning)
		}
		for _, one := range all {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
		if l, w, g := a.countRequests("list"), a.countRequests("watch"), a.countRequests("get"); l != 1 || w != 1 || g != 0 {
			t.Errorf("%d lists, %d watches, %d gets", l, w, g)
		}
	}))
	t.Run("NewerThanTheList", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		a.setPod("other", "o", corev1.PodPending)
		other := waitForPhase(t.Context(), p, a.pods["other"], corev1.PodRunning)
		synctest.Wait() // there is a watch
		a.dropEvents = true
		first := a.setPod("pod", "1", corev1.PodPending) // its addition is on its way
		done := waitForPhase(t.Context(), p, first, corev1.PodRunning)
		synctest.Wait()
		a.dropEvents = false
		a.setPod("pod", "1", corev1.PodRunning)
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.setPod("other", "o", corev1.PodRunning)
		<-other
	}))
	t.Run("AnotherTakesItsName", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		first := a.setPod("pod", "1", corev1.PodPending)
		done, end := waitForPhase(t.Context(), p, first, corev1.PodRunning), waitForPhase(t.Context(), p, first, "")
		synctest.Wait()
		a.endWatches() // no watch sees its end
		a.setPod("pod", "1", "")
		time.Sleep(time.Second)
		a.setPod("pod", "2", corev1.PodRunning)
		if err := <-done; err == nil || err.Error() != "gone" {
			t.Errorf("the phase of another: %v", err)
		}
		if err := <-end; err != nil {
			t.Error(err)
		}
	}))
	t.Run("EndsWhileNobodyLooks", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		first := a.setPod("pod", "1", corev1.PodRunning)
		end := waitForPhase(t.Context(), p, first, "")
		synctest.Wait()
		a.mu.Lock()
		a.refuse, a.gone = -1, 1 // the API server is being restarted, and forgets versions
		a.mu.Unlock()
		a.endWatches()
		a.setPod("pod", "1", "")
		time.Sleep(5 * time.Second)
		a.mu.Lock()
		a.refuse = 0
		a.mu.Unlock()
		begin := time.Now()
		if err := <-end; err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > checkTime {
			t.Errorf("known %v after the API was there again", d)
		}
	}))
	t.Run("EventThatNeverComes", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		first := a.setPod("pod", "1", corev1.PodPending)
		done := waitForPhase(t.Context(), p, first, corev1.PodRunning)
		synctest.Wait()
		a.dropEvents = true
		a.setPod("pod", "1", corev1.PodRunning)
		begin := time.Now()
		if err := <-done; err != nil || time.Since(begin) > checkTime {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	}))
	t.Run("NotAllowed", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		a.refuse = http.StatusForbidden
		first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "1"}}
		if err := <-waitForPhase(t.Context(), p, first, corev1.PodRunning); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%v", err)
		}
		a.mu.Lock()
		a.refuse = 0
		a.mu.Unlock()
		first = a.setPod("pod", "1", corev1.PodPending)
		done := waitForPhase(t.Context(), p, first, corev1.PodRunning)
		synctest.Wait()
		a.setPod("pod", "1", corev1.PodRunning)
		if err := <-done; err != nil {
			t.Errorf("once it is: %v", err)
		}
	}))
	t.Run("Context", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := waitForPhase(ctx, p, a.setPod("pod", "1", corev1.PodPending), corev1.PodRunning)
		synctest.Wait()
		why := errors.New("enough")
		cancel(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}))
	t.Run("EndsInALull", in(func(t *testing.T, a *fakeAPI, p *podWatch) {
		first := a.setPod("pod", "1", corev1.PodPending)
		wait := func() {
			done := waitForPhase(t.Context(), p, first, corev1.PodRunning)
			synctest.Wait()
			a.setPod("pod", "1", corev1.PodRunning)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		wait()
		time.Sleep(idleTime / 2)
		wait()
		if n := a.countRequests("list"); n != 1 {
			t.Errorf("%d watches within a lull", n)
		}
		time.Sleep(idleTime + time.Second)
		synctest.Wait()
		wait()
		if n := a.countRequests("list"); n != 2 {
			t.Errorf("%d watches after a lull", n)
		}
	}))
}
