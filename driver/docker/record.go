package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// The labels of a sandbox's container. They are enough to find a sandbox again on this engine.
const (
	labelHome    = "atoll.home"    // id of its home: the content of Dir/home
	labelID      = "atoll.id"      //
	labelName    = "atoll.name"    // for users who list containers
	labelSpec    = "atoll.spec"    // the Spec as JSON, without what is secret
	labelCreated = "atoll.created" // creation of the sandbox: a restored container is newer
	labelFirst   = "atoll.first"   // not empty: the sandbox was created with it, so that it has no files before it is started
)

// containerName returns the name of a sandbox's container.
func containerName(id string) string { return "atoll-" + id }

// sandboxLabels returns the labels of a sandbox's container.
func sandboxLabels(home, id string, spec *atoll.Spec, created time.Time) (map[string]string, error) {
	kept := *spec
	kept.Env = nil // the guest has it; labels are not secret
	kept.Network.Headers = nil
	b, err := json.Marshal(&kept)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		labelHome: home, labelID: id, labelName: spec.Name, labelSpec: string(b), labelCreated: created.UTC().Format(time.RFC3339Nano),
	}, nil
}

// specOf returns the spec in the labels of a container.
func specOf(labels map[string]string) (atoll.Spec, error) {
	var spec atoll.Spec
	if err := json.Unmarshal([]byte(labels[labelSpec]), &spec); err != nil {
		return spec, fmt.Errorf("%w: the container's label %s: %w", atoll.ErrUnavailable, labelSpec, err)
	}
	return spec, nil
}

// createdOf returns when a sandbox was created, or when its container was.
func createdOf(labels map[string]string, container string) time.Time {
	if t := parseTime(labels[labelCreated]); !t.IsZero() {
		return t
	}
	return parseTime(container)
}

func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{} // Docker's value for never is no time either
	}
	return t
}

// baseDir returns the directory of all sandboxes on this host.
func (d *Driver) baseDir() string {
	if d.Dir != "" {
		return d.Dir
	}
	if home := os.Getenv("ATOLL_HOME"); home != "" {
		return filepath.Join(home, "docker")
	}
	if home, err := os.UserHomeDir(); err == nil && os.Getuid() != 0 {
		return filepath.Join(home, ".local", "share", "atoll", "docker")
	}
	return "/var/lib/atoll/docker"
}

func (d *Driver) sandboxDir(id string) string { return filepath.Join(d.baseDir(), id) }

// homeID returns the id that distinguishes the containers of this home from those of others on the
// same engine.
func homeID(dir string) (string, error) {
	path := filepath.Join(dir, "home")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = newHome(dir, path); err != nil {
			return "", fmt.Errorf("home of sandboxes: %w", err)
		}
	}
	id := strings.TrimSpace(string(b))
	if err == nil {
		err = atoll.CheckID(id)
	}
	return id, err
}

// newHome gives a home its id. Of several processes at once, the first wins.
func newHome(dir, path string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := atomicfile.Create(path, []byte(atoll.NewID()+"\n"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// lastUse returns when a sandbox was last used: the time of its directory, which every operation
// sets.
func lastUse(dir string, created time.Time) time.Time {
	info, err := os.Stat(dir)
	if err != nil || info.ModTime().Before(created) {
		return created
	}
	return info.ModTime()
}
