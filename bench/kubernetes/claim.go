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

// hello is a sandbox's first command.
func hello(ctx context.Context, sb atoll.Sandbox) error {
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err == nil && string(exit.Stdout) != "hi\n" {
		err = fmt.Errorf("a wrong answer: %+v", exit)
	}
	return err
}

// guestImage makes an image that has the guest and busybox, in a cluster of
// test/cluster.
func guestImage(ctx context.Context) (string, error) {
	tool, helpers := os.Getenv("ATOLL_CLUSTER"), os.Getenv("ATOLL_HELPERS")
	if tool == "" || helpers == "" {
		return "", errors.New("$ATOLL_CLUSTER and $ATOLL_HELPERS make the image of the guest")
	}
	const name = "docker.io/atoll/bench-guest:1"
	out, err := exec.CommandContext(ctx, tool, "image", "--busybox", name, "/atoll-guest="+filepath.Join(helpers, "atoll-guest")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
}

// pods measures sandboxes from nothing to the end of their first command.
func (b *bench) pods(ctx context.Context) error {
	image, err := guestImage(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/kubernetes: guests are only copied:", err)
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
		d := b.driver(how.place)
		d.GuestImage = image
		one := func() error {
			return with(ctx, d, how.spec, func(sb atoll.Sandbox) error { return hello(ctx, sb) })
		}
		list, err := b.born(ctx, d, how.spec)
		b.add("from nothing to the first command's end", how.what, list, "", err)
		if how.place == kubernetes.PlaceCopy || how.place == kubernetes.PlaceImage {
			took, all, err := together(b.crowd, func(int) error { return one() })
			b.add(fmt.Sprintf("%d from nothing at once, to their end", b.crowd), how.what, took, fmt.Sprintf("all in %v", short(all)), err)
		}
	}
	return nil
}

// born measures sandboxes one after the other.
func (b *bench) born(ctx context.Context, d *kubernetes.Driver, spec atoll.Spec) ([]time.Duration, error) {
	var list []time.Duration
	for i := range b.cold + 1 {
		begin := time.Now()
		var took time.Duration
		err := with(ctx, d, spec, func(sb atoll.Sandbox) error {
			err := hello(ctx, sb)
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

// claims measures sandboxes that were made beforehand.
func (b *bench) claims(ctx context.Context) error {
	d := b.driver(kubernetes.PlaceCopy)
	take := func(sb atoll.Sandbox) error {
		c, ok := atoll.As[atoll.Claimer](sb)
		if !ok {
			return errors.New("no claims")
		}
		if err := c.Claim(ctx, atoll.Spec{Name: "mine", Owner: atoll.Local}); err != nil {
			return err
		}
		return hello(ctx, sb)
	}
	for _, crowd := range []bool{false, true} {
		pool, err := b.pool(ctx, d)
		if err != nil {
			return err
		}
		if crowd {
			took, all, terr := together(len(pool), func(i int) error { return take(pool[i]) })
			b.add(claimPart+atOnce(b.crowd), "atoll's pool", took, fmt.Sprintf("all in %v", short(all)), terr)
		} else {
			i := -1
			list, terr := repeat(len(pool)-1, func() error { i++; return take(pool[i]) })
			b.add(claimPart, "atoll's pool", list, "one PATCH", terr)
		}
		if _, _, err := together(len(pool), func(i int) error { return pool[i].Destroy(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func atOnce(n int) string { return fmt.Sprintf(", %d at once", n) }

// pool makes sandboxes that wait.
func (b *bench) pool(ctx context.Context, d *kubernetes.Driver) ([]atoll.Sandbox, error) {
	list := make([]atoll.Sandbox, b.crowd)
	_, _, err := together(b.crowd, func(i int) (err error) {
		list[i], err = d.Create(ctx, atoll.Spec{Labels: map[string]string{atoll.PoolLabel: "bench"}})
		if err == nil {
			err = hello(ctx, list[i]) // as a fleet does before it offers one
		}
		return err
	})
	return list, err
}
