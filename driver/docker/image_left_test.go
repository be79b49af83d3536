package docker_test

import (
	"context"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// listSandboxImages returns the images of sandboxes that the engine has, also those without a name.
func listSandboxImages(t *testing.T, c *client.Client) (list []string) {
	t.Helper()
	images, err := c.ImageList(t.Context(), client.ImageListOptions{All: true, Filters: make(client.Filters).Add("label", "atoll.home")})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images.Items {
		list = append(list, i.ID)
	}
	return list
}

// TestRemovedSnapshotLeavesNoImage removes a snapshot whose image the sandbox uses, since it was restored to it, or was
// forked from it: the image goes with the sandbox at the latest.
func TestRemovedSnapshotLeavesNoImage(t *testing.T) {
	d, c := newDriver(t), engineClient(t)
	for name, use := range map[string]func(sb atoll.Sandbox, snapshot string) (atoll.Sandbox, error){
		"restored": func(sb atoll.Sandbox, snapshot string) (atoll.Sandbox, error) {
			return sb, atoll.Restore(t.Context(), sb, snapshot)
		},
		"restored, stopped": func(sb atoll.Sandbox, snapshot string) (atoll.Sandbox, error) {
			if err := atoll.Restore(t.Context(), sb, snapshot); err != nil {
				return nil, err
			}
			return sb, atoll.Stop(t.Context(), sb)
		},
		"restored twice": func(sb atoll.Sandbox, snapshot string) (atoll.Sandbox, error) {
			if err := atoll.Restore(t.Context(), sb, snapshot); err != nil {
				return nil, err
			}
			next, err := atoll.Snapshot(t.Context(), sb, "")
			if err != nil {
				return nil, err
			}
			if err := atoll.RemoveSnapshot(t.Context(), sb, snapshot); err != nil {
				return nil, err
			}
			return sb, atoll.Restore(t.Context(), sb, next.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(listSandboxImages(t, c))
			sb, err := d.Create(t.Context(), atoll.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			defer sb.Destroy(t.Context())
			snapshot, err := atoll.Snapshot(t.Context(), sb, "")
			if err != nil {
				t.Fatal(err)
			}
			if sb, err = use(sb, snapshot.ID); err != nil {
				t.Fatal(err)
			}
			list, err := atoll.Snapshots(t.Context(), sb)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range list {
				if err := atoll.RemoveSnapshot(t.Context(), sb, i.ID); err != nil {
					t.Error(err)
				}
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			if after := listSandboxImages(t, c); len(after) != before {
				t.Errorf("before there were %d images of sandboxes, now there are %v", before, after)
			}
		})
	}
}

// TestLateImageIsRemoved cancels a snapshot and a fork of a stopped sandbox while the engine commits its container, which the
// engine does to the end. Once there is an image, a List removes it, unless it is a complete snapshot.
func TestLateImageIsRemoved(t *testing.T) {
	d, c := newDriver(t), engineClient(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, atoll.Cmd{Shell: "head -c 100000000 /dev/urandom >/workspace/large"})
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	for name, commit := range map[string]func(context.Context) error{
		"fork":     func(ctx context.Context) error { _, err := atoll.Fork(ctx, sb, "", atoll.Spec{}); return err },
		"snapshot": func(ctx context.Context) error { _, err := atoll.Snapshot(ctx, sb, "late"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			before := len(listSandboxImages(t, c))
			for limit := 100 * time.Millisecond; len(listSandboxImages(t, c)) == before; limit *= 2 { // until the engine has begun
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				err := commit(ctx)
				cancel()
				if err == nil {
					t.Fatal("it was made before it was cancelled")
				}
				appearing, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				testenv.Poll(appearing, func() bool { return len(listSandboxImages(t, c)) > before })
				cancel()
			}
			var snapshots []atoll.SnapshotInfo
			removing, cancel := context.WithTimeout(t.Context(), 30*time.Second) // an engine that is not done refuses; the next List tries again
			defer cancel()
			testenv.Poll(removing, func() bool {
				list, err := d.List(t.Context())
				if err != nil || len(list) != 1 {
					t.Fatalf("List: %+v, %v", list, err)
				}
				if snapshots, err = atoll.Snapshots(t.Context(), sb); err != nil {
					t.Fatal(err)
				}
				return len(listSandboxImages(t, c)) == before+len(snapshots)
			})
			if after := listSandboxImages(t, c); len(after) != before+len(snapshots) {
				t.Errorf("there are %d snapshots, and the images %v", len(snapshots), after)
			}
			for _, s := range snapshots {
				if err := atoll.RemoveSnapshot(t.Context(), sb, s.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
