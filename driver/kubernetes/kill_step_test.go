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

// killedAct is an act that a process does on a sandbox until it is killed.
type killedAct struct {
	name  string
	spec  atoll.Spec
	setup func(ctx context.Context, sb atoll.Sandbox) error // nil: the act creates the sandbox itself
	act   func(ctx context.Context, d *Driver, spec atoll.Spec) error
}

// openAnd returns an act on an existing sandbox.
func openAnd(act func(ctx context.Context, sb atoll.Sandbox) error) func(context.Context, *Driver, atoll.Spec) error {
	return func(ctx context.Context, d *Driver, spec atoll.Spec) error {
		sb, err := d.Open(ctx, spec.ID)
		if err != nil {
			return err
		}
		return act(ctx, sb)
	}
}

func createAct(ctx context.Context, d *Driver, spec atoll.Spec) error {
	_, err := d.Create(ctx, spec)
	return err
}

func destroyAct(ctx context.Context, sb atoll.Sandbox) error { return sb.Destroy(ctx) }

func noSetup(context.Context, atoll.Sandbox) error { return nil }

// killedActs are the acts of more than one step.
func killedActs() []killedAct {
	volume := &atoll.Pod{StorageClass: "default"}
	env := []string{"TOKEN=secret value"}
	claim := func(ctx context.Context, sb atoll.Sandbox) error {
		c, ok := atoll.As[atoll.Claimer](sb)
		if !ok {
			return errors.New("it can't be claimed")
		}
		return c.Claim(ctx, atoll.Spec{Name: "mine", Owner: atoll.Owner{App: "a", User: "u"}})
	}
	pooled := map[string]string{atoll.PoolLabel: "p"}
	return []killedAct{
		{"Create", atoll.Spec{}, nil, createAct},
		{"CreateWithEnvironment", atoll.Spec{Env: env}, nil, createAct},
		{"CreateWithVolume", atoll.Spec{Pod: volume}, nil, createAct},
		{"CreateWithVolumeAndEnvironment", atoll.Spec{Env: env, Pod: volume}, nil, createAct},
		{"Destroy", atoll.Spec{Env: env}, noSetup, openAnd(destroyAct)},
		{"DestroyWithVolume", atoll.Spec{Env: env, Pod: volume}, noSetup, openAnd(destroyAct)},
		{"DestroyStopped", atoll.Spec{Env: env, Pod: volume}, atoll.Stop, openAnd(destroyAct)},
		{"Stop", atoll.Spec{Env: env, Pod: volume}, noSetup, openAnd(atoll.Stop)},
		{"Start", atoll.Spec{Env: env, Pod: volume}, atoll.Stop, openAnd(atoll.Start)},
		{"Claim", atoll.Spec{Labels: pooled}, noSetup, openAnd(claim)},
		{"ClaimWithVolume", atoll.Spec{Labels: pooled, Pod: volume}, noSetup, openAnd(claim)},
		{"CreateFromTemplate", atoll.Spec{Pod: &atoll.Pod{Template: "t"}}, nil, createAct},
		{"DestroyOfTemplate", atoll.Spec{Pod: &atoll.Pod{Template: "t"}}, noSetup, openAnd(destroyAct)},
	}
}

// TestKilledAtEachStep kills the process after each request of an act that changes the cluster. The next
// process finds a sandbox that is what its status says, or none, and can remove it without a trace.
func TestKilledAtEachStep(t *testing.T) {
	for _, act := range killedActs() {
		t.Run(act.name, func(t *testing.T) {
			for step := 1; ; step++ {
				died := false
				synctest.Test(t, func(t *testing.T) { died = killAtStep(t, act, step) })
				if !died {
					if step == 1 {
						t.Error("the act changes nothing")
					}
					return
				}
			}
		})
	}
}

// killAtStep does an act and kills its process after a number of changes. It reports whether there were so
// many.
func killAtStep(t *testing.T, act killedAct, step int) bool {
	ctx, dir, c := t.Context(), t.TempDir(), newFakeCluster()
	c.addTemplate("t")
	spec := act.spec
	spec.ID = testID
	first := newFakeDriver(t, dir, c)
	if act.setup != nil {
		sb, err := first.Create(ctx, spec)
		if err == nil {
			err = act.setup(ctx, sb)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else if err := first.targets[place{namespace: "ns"}].prepareNamespace(ctx); err != nil {
		t.Fatal(err)
	}
	c.killAfter(step)
	err := act.act(ctx, first, spec)
	died := c.restart()
	if (err != nil) != died {
		t.Errorf("after step %d: %v, killed %v", step, err, died)
	}
	second := newFakeDriver(t, dir, c)
	checkSurvivor(t, second, c, step)
	sb, err := second.Open(ctx, testID)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("killed after step %d: destroy: %v%s", step, err, c.history)
	}
	if left := c.leftovers(); len(left) > 0 {
		t.Errorf("killed after step %d: left: %v%s", step, left, c.history)
	}
	if list, err := second.List(ctx); err != nil || len(list) > 0 {
		t.Errorf("killed after step %d: listed: %+v, %v", step, list, err)
	}
	for _, d := range []*Driver{first, second} {
		d.targets[place{namespace: "ns"}].pods.stopIdle()
	}
	return died
}

// checkSurvivor checks that the status of a sandbox is true.
func checkSurvivor(t *testing.T, d *Driver, c *fakeCluster, step int) {
	t.Helper()
	ctx := t.Context()
	sb, err := d.Open(ctx, testID)
	if errors.Is(err, atoll.ErrNotFound) {
		return
	}
	if err != nil {
		t.Errorf("killed after step %d: open: %v%s", step, err, c.history)
		return
	}
	st, err := sb.Status(ctx)
	if err != nil {
		t.Errorf("killed after step %d: status: %v%s", step, err, c.history)
		return
	}
	list, err := d.List(ctx)
	if err != nil || len(list) != 1 || list[0].State != st.State {
		t.Errorf("killed after step %d: listed %+v, %v; status %+v%s", step, list, err, st, c.history)
	}
	if sb.(atoll.AbilityReporter).Has((*atoll.Stopper)(nil)) && c.get(volumesPath+podName(testID)) != nil {
		checkRestart(t, d, sb, c, step)
	}
}

// checkRestart checks that a sandbox with a volume that is stopped and started again has the same owner and name.
func checkRestart(t *testing.T, d *Driver, sb atoll.Sandbox, c *fakeCluster, step int) {
	t.Helper()
	ctx := t.Context()
	before, err := sb.Status(ctx)
	owner := labelsOf(c.get(podsPath + podName(testID)))[labelOwner]
	if before.State == atoll.Stopped {
		owner = labelsOf(c.get(volumesPath + podName(testID)))[labelOwner]
	} else if err == nil {
		err = atoll.Stop(ctx, sb)
	}
	if err != nil {
		t.Errorf("killed after step %d: %v%s", step, err, c.history)
		return
	}
	again, err := d.Open(ctx, testID)
	if err == nil {
		err = atoll.Start(ctx, again)
	}
	if err != nil {
		if c.get(secretsPath+podName(testID)) != nil { // otherwise its creation was not finished
			t.Errorf("killed after step %d: start: %v%s", step, err, c.history)
		}
		return
	}
	after, err := again.Status(ctx)
	if now := labelsOf(c.get(podsPath + podName(testID)))[labelOwner]; err != nil || now != owner || after.Name != before.Name {
		t.Errorf("killed after step %d: owner %q, name %q; after a restart %q, %q: %v%s", step, owner, before.Name, now, after.Name, err, c.history)
	}
}

// labelsOf returns the labels of an object.
func labelsOf(o object) map[string]string {
	labels := make(map[string]string)
	if o == nil {
		return labels
	}
	in, _ := metaOf(o)["labels"].(object)
	for k := range in {
		labels[k] = textOf(in, k)
	}
	return labels
}

// addTemplate adds a template of agent-sandbox.
func (c *fakeCluster) addTemplate(name string) {
	at := "/apis/" + claimGroup + "/" + agentVersion + "/namespaces/ns/"
	spec := object{"podTemplate": object{"metadata": object{"annotations": object{notePlacement: string(PlaceNone)}}, "spec": object{"containers": []any{object{"name": container}}}}}
	c.put(at+"sandboxtemplates/"+name, object{"metadata": object{"name": name}, "spec": spec})
	c.put(at+"sandboxwarmpools/"+name, object{"metadata": object{"name": name}, "spec": object{"sandboxTemplateRef": object{"name": name}}})
}

// TestLostResponseIsUndone loses the response to the creation of a pod, and then refuses connections for longer than
// requests are repeated, as an API server that restarts: the pod that was created nevertheless is removed.
func TestLostResponseIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		d := newFakeDriver(t, t.TempDir(), c)
		if err := d.targets[place{namespace: "ns"}].prepareNamespace(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.refuse = 20 * time.Second
		c.killAfter(1)
		if _, err := d.Create(t.Context(), atoll.Spec{ID: testID}); !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if left := c.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestClaimWithoutSecretIsRemoved removes a sandbox of agent-sandbox whose creation was killed before its
// environment was stored. It says so, and runs nothing.
func TestClaimWithoutSecretIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		c.addTemplate("t")
		d := newFakeDriver(t, t.TempDir(), c)
		if _, err := d.Create(t.Context(), atoll.Spec{ID: testID, Pod: &atoll.Pod{Template: "t"}}); err != nil {
			t.Fatal(err)
		}
		at := "/apis/" + claimGroup + "/" + agentVersion + "/namespaces/ns/sandboxclaims/" + podName(testID)
		claim := c.get(at)
		metaOf(claim)["annotations"].(object)[noteSecret] = "true"
		c.put(at, claim)
		sb, err := d.Open(t.Context(), testID)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := sb.Status(t.Context()); err != nil || st.State != atoll.Failed {
			t.Errorf("%+v, %v", st, err)
		}
		if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("a command: %v", err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if left := c.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		d.targets[place{namespace: "ns"}].pods.stopIdle()
	})
}

// TestSecretIsOwnedBeforeItCanLeak checks that a Secret has an owner in the request that creates it, and that
// no right to change Secrets is needed.
func TestSecretIsOwnedBeforeItCanLeak(t *testing.T) {
	for _, class := range []string{"none", "default"} {
		c := newFakeCluster()
		d := newFakeDriver(t, t.TempDir(), c)
		sb, err := d.Create(t.Context(), atoll.Spec{ID: testID, Env: []string{"TOKEN=x"}, Pod: &atoll.Pod{StorageClass: class}})
		if err != nil {
			t.Fatal(err)
		}
		secret := c.get(secretsPath + podName(testID))
		if owners, _ := metaOf(secret)["ownerReferences"].([]any); len(owners) != 1 {
			t.Errorf("class %s: owners %v", class, owners)
		}
		if strings.Contains(c.history, "PATCH "+secretsPath) {
			t.Errorf("class %s: the Secret is changed:%s", class, c.history)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
