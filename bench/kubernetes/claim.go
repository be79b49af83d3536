package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
)

// runHello runs the first command of a sandbox.
func runHello(ctx context.Context, sb atoll.Sandbox) error {
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err == nil && string(exit.Stdout) != "hi\n" {
		err = fmt.Errorf("unexpected result of echo: %+v", exit)
	}
	return err
}

// guestImage builds an image with the guest agent and busybox, in a cluster of
// test/cluster.
func guestImage(ctx context.Context) (string, error) {
	tool, helpers := os.Getenv("ATOLL_CLUSTER"), os.Getenv("ATOLL_HELPERS")
	if tool == "" || helpers == "" {
		return "", errors.New("set $ATOLL_CLUSTER and $ATOLL_HELPERS to build the image of the guest agent")
	}
	const name = "docker.io/atoll/bench-guest:1"
	out, err := exec.CommandContext(ctx, tool, "image", "--busybox", name, "/atoll-guest="+filepath.Join(helpers, "atoll-guest")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
}

// measurePods measures the time from nothing to the end of the first command.
func (b *bench) measurePods(ctx context.Context) error {
	image, err := guestImage(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/kubernetes: only copied guest agents are measured:", err)
	}
	for _, how := range []struct {
		what  string
		place kubernetes.Placement
		spec  atoll.Spec
		image bool
	}{
		{what: "guest in the image", place: kubernetes.PlaceImage, spec: atoll.Spec{Image: image}, image: true},
		{what: "guest by image volume", place: kubernetes.PlaceVolume, image: true},
		{what: "guest by init container", place: kubernetes.PlaceInit, image: true},
		{what: "guest copied in", place: kubernetes.PlaceCopy},
		{what: "no guest", place: kubernetes.PlaceNone},
	} {
		if how.image && image == "" {
			continue
		}
		d := b.newDriver(how.place)
		d.GuestImage = image
		one := func() error {
			return withSandbox(ctx, d, how.spec, func(sb atoll.Sandbox) error { return runHello(ctx, sb) })
		}
		list, err := b.measureCreates(ctx, d, how.spec)
		b.addRow("from nothing to the first command's end", how.what, list, "", err)
		if how.place == kubernetes.PlaceCopy || how.place == kubernetes.PlaceImage {
			took, all, err := timeConcurrent(b.crowd, func(int) error { return one() })
			b.addRow(fmt.Sprintf("%d from nothing at once, to their end", b.crowd), how.what, took, fmt.Sprintf("all in %v", roundDuration(all)), err)
		}
	}
	return nil
}

// measureCreates creates sandboxes one after the other.
func (b *bench) measureCreates(ctx context.Context, d *kubernetes.Driver, spec atoll.Spec) ([]time.Duration, error) {
	var list []time.Duration
	for i := range b.cold + 1 {
		begin := time.Now()
		var took time.Duration
		err := withSandbox(ctx, d, spec, func(sb atoll.Sandbox) error {
			err := runHello(ctx, sb)
			took = time.Since(begin)
			return err
		})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = append(list, took)
		}
	}
	return list, nil
}

const claimPart = "from the claim of a ready one to its first command's end"

// measureClaims measures the claim of sandboxes from a pool.
func (b *bench) measureClaims(ctx context.Context) error {
	d := b.newDriver(kubernetes.PlaceCopy)
	take := func(sb atoll.Sandbox) error {
		c, ok := atoll.As[atoll.Claimer](sb)
		if !ok {
			return errors.New("no claims")
		}
		if err := c.Claim(ctx, atoll.Spec{Name: "mine", Owner: atoll.Local}); err != nil {
			return err
		}
		return runHello(ctx, sb)
	}
	for _, crowd := range []bool{false, true} {
		pool, err := b.createPool(ctx, d)
		if err != nil {
			return err
		}
		if crowd {
			took, all, terr := timeConcurrent(len(pool), func(i int) error { return take(pool[i]) })
			b.addRow(claimPart+atOnce(b.crowd), "atoll's pool", took, fmt.Sprintf("all in %v", roundDuration(all)), terr)
		} else {
			i := -1
			list, terr := timeRepeated(len(pool)-1, func() error { i++; return take(pool[i]) })
			b.addRow(claimPart, "atoll's pool", list, "one PATCH", terr)
		}
		if _, _, err := timeConcurrent(len(pool), func(i int) error { return pool[i].Destroy(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func atOnce(n int) string { return fmt.Sprintf(", %d at once", n) }

// createPool creates sandboxes that wait for a claim.
func (b *bench) createPool(ctx context.Context, d *kubernetes.Driver) ([]atoll.Sandbox, error) {
	list := make([]atoll.Sandbox, b.crowd)
	_, _, err := timeConcurrent(b.crowd, func(i int) (err error) {
		list[i], err = d.Create(ctx, atoll.Spec{Labels: map[string]string{atoll.PoolLabel: "bench"}})
		if err == nil {
			err = runHello(ctx, list[i]) // as a fleet does before it offers one
		}
		return err
	})
	return list, err
}
