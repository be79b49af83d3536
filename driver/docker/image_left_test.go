package docker_test

import (
	"testing"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
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
