package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// lateImage is an image that may appear: the engine completes the commit of a container also when the process that asked
// for it has died or has given up, but may give it no name. Each List removes it if nothing needs it.
type lateImage struct {
	Created string `json:"created"` // its labelTime
	Sandbox string `json:"sandbox"` // id of the sandbox whose container is committed
	Fork    bool   `json:"fork,omitempty"`
}

// latePrefix begins the names of files with a lateImage in the driver's directory.
const latePrefix = ".late-"

// lateTime is how long such an image is expected.
const lateTime = 10 * time.Minute

// expectLateImage records an image that may appear.
func (d *Driver) expectLateImage(i lateImage) error {
	if i.Created == "" {
		return nil // the act of an older version
	}
	b, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(d.baseDir(), latePrefix+atoll.NewID()), b, 0o600)
}

// removeLateImage removes the image that a file expects, unless it is a complete snapshot. It ignores errors: the next call tries
// again.
func (d *Driver) removeLateImage(ctx context.Context, e *engine, file string) {
	info, err := os.Lstat(file)
	if err != nil {
		return // another process removed it
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return
	}
	var late lateImage
	if json.Unmarshal(b, &late) != nil || e.removeCommitted(ctx, &late, d.hasDir(late.Sandbox)) != nil {
		return
	}
	if time.Since(info.ModTime()) > lateTime {
		_ = os.Remove(file)
	}
}

// hasDir reports whether a sandbox has a directory on this host.
func (d *Driver) hasDir(id string) bool {
	_, err := os.Lstat(d.sandboxDir(id))
	return !errors.Is(err, fs.ErrNotExist)
}

// removeCommitted removes an image if it has appeared. A snapshot with a name is complete, and stays as long as its sandbox.
func (e *engine) removeCommitted(ctx context.Context, late *lateImage, sandboxExists bool) error {
	filters := make(client.Filters).Add("label", labelHome+"="+e.home, labelID+"="+late.Sandbox, labelTime+"="+late.Created)
	r, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: filters})
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range r.Items {
		if len(i.RepoTags) > 0 && !late.Fork && sandboxExists {
			continue
		}
		errs = append(errs, e.untagImage(ctx, i.ID))
	}
	return errors.Join(errs...)
}
