package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// stopWatches ends the watches of a driver, so that a synctest bubble can end.
func stopWatches(d *Driver, clusters ...*fakeCluster) {
	for _, t := range d.targets {
		t.pods.mu.Lock()
		if t.pods.end != nil {
			t.pods.end()
			t.pods.end = nil
		}
		t.pods.mu.Unlock()
	}
	for _, c := range clusters {
		c.endWatches()
	}
}

// TestDeadClusterDoesNotTouchOthers checks what works for the sandboxes of an app while another cluster refuses
// connections or does not answer at all.
func TestDeadClusterDoesNotTouchOthers(t *testing.T) {
	for name, die := range map[string]func(c *fakeCluster, dead bool){"Refuses": (*fakeCluster).setDead, "Silent": (*fakeCluster).setSilent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDeadCluster(t, die) })
		})
	}
}

func testDeadCluster(t *testing.T, die func(c *fakeCluster, dead bool)) {
	ctx := t.Context()
	dead, alive := newFakeCluster(), newFakeCluster()
	d := newFakeDriver(t, t.TempDir(), dead, alive)
	defer stopWatches(d, dead, alive)
	owner := atoll.Owner{App: "app1", User: "u"}
	const otherID = "b23456789abcd"
	for id, o := range map[string]atoll.Owner{testID: {}, otherID: owner} {
		if _, err := d.Create(ctx, atoll.Spec{ID: id, Owner: o}); err != nil {
			t.Fatal(err)
		}
	}
	die(dead, true)
	brief := func() context.Context { // as the fleet does
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	list, err := d.List(brief())
	var partial *atoll.PartialListError
	if len(list) != 1 || list[0].ID != otherID || !errors.As(err, &partial) || partial.IsMissing(owner) || !partial.IsMissing(atoll.Local) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if _, err := d.Probe(brief()); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, err := d.Open(ctx, otherID); err != nil {
		t.Errorf("open: %v", err)
	}
	sb, err := d.OpenOwned(ctx, otherID, owner)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if _, err := d.OpenOwned(ctx, testID, atoll.Owner{}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("open in the dead cluster: %v", err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := d.OpenOwned(ctx, otherID, owner); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("open what was removed: %v", err)
	}
	_, err = d.Open(ctx, otherID) // the dead cluster may have it
	if !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrNotFound) || strings.Contains(err.Error(), "api-") {
		t.Errorf("open without an owner: %v", err)
	}
	die(dead, false)
	if list, err := d.List(ctx); err != nil || len(list) != 1 || list[0].ID != testID {
		t.Errorf("listed afterwards: %+v, %v", list, err)
	}
}

// TestRemovedPodIsNoticed removes, evicts and ends pods without the driver, also while no watch is possible: the
// driver reports each at once, or as soon as it can watch again.
func TestRemovedPodIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		cut bool // the watch is interrupted meanwhile
		end func(c *fakeCluster)
	}{
		"Removed": {false, func(c *fakeCluster) { c.remove(podsPath + podName(testID)) }},
		"Evicted": {false, func(c *fakeCluster) {
			pod := c.get(podsPath + podName(testID))
			pod["status"] = object{"phase": "Failed", "reason": "Evicted"}
			c.put(podsPath+podName(testID), pod)
		}},
		"BeingRemoved": {false, func(c *fakeCluster) {
			pod := c.get(podsPath + podName(testID))
			metaOf(pod)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			c.put(podsPath+podName(testID), pod)
		}},
		"RemovedWithoutWatch": {true, func(c *fakeCluster) { c.remove(podsPath + podName(testID)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newFakeCluster()
				d := newFakeDriver(t, t.TempDir(), cluster)
				if _, err := d.Create(t.Context(), atoll.Spec{ID: testID}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				changed, over := make(chan string, 10), make(chan error, 1)
				go func() { over <- d.WatchStates(ctx, func(id string) { changed <- id }) }()
				synctest.Wait()
				if len(changed) > 0 {
					t.Errorf("a change of %s, which runs", <-changed)
				}
				if c.cut {
					cluster.setDead(true)
					cluster.endWatches()
					synctest.Wait()
				}
				c.end(cluster)
				if c.cut {
					cluster.expireVersions()
					cluster.setDead(false)
				} else {
					synctest.Wait()
					if len(changed) == 0 {
						t.Error("it is not reported at once")
					}
				}
				if id := <-changed; id != testID {
					t.Errorf("reported: %q", id)
				}
				cancel()
				if err := <-over; err != nil {
					t.Error(err)
				}
				stopWatches(d, cluster)
			})
		})
	}
}
