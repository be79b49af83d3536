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
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// The labels of a sandbox's container. With them a sandbox is found again by
// whoever shares this host's home, when nothing else is left.
const (
	labelHome    = "atoll.home"    // whose it is: the content of Dir/home
	labelID      = "atoll.id"      //
	labelName    = "atoll.name"    // for people who list containers
	labelSpec    = "atoll.spec"    // the Spec as JSON, without what is secret
	labelCreated = "atoll.created" // when the sandbox was: a restored container is newer
)

// containerName is that of a sandbox's container.
func containerName(id string) string { return "atoll-" + id }

// labels are those of the container of a sandbox.
func labels(home, id string, spec *atoll.Spec, created time.Time) (map[string]string, error) {
	kept := *spec
	kept.Env = nil // the guest has it; labels are shown to many
	kept.Network.Headers = nil
	b, err := json.Marshal(&kept)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		labelHome: home, labelID: id, labelName: spec.Name, labelSpec: string(b), labelCreated: created.UTC().Format(time.RFC3339Nano),
	}, nil
}

// specOf reads the spec of a sandbox from the labels of its container.
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
		return time.Time{} // Docker's word for never is no time either
	}
	return t
}

// dir is where this host's side is kept.
func (d *Driver) dir() string {
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

func (d *Driver) sandboxDir(id string) string { return filepath.Join(d.dir(), id) }

// homeID returns what tells this home's containers from those of others on the
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

// newHome gives a home its id, once: of several at a time one wins.
func newHome(dir, path string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := whole.Create(path, []byte(atoll.NewID()+"\n"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// lastUse is when a sandbox was last used: the time of its directory, which
// each operation sets.
func lastUse(dir string, created time.Time) time.Time {
	info, err := os.Stat(dir)
	if err != nil || info.ModTime().Before(created) {
		return created
	}
	return info.ModTime()
}
