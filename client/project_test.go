package client_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/project"
)

func TestProject(t *testing.T) {
	st := serve(t, "tcp")
	c := st.client(t)
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "-b", "main", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	labels := map[string]string{project.LabelPath: repo, project.LabelHost: "test"}
	sb, err := c.CreateSandbox(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web", Labels: labels}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := sb.Project(t.Context()); err != nil || p.Path != repo || p.HostBranch != "main" || p.Live || !p.IsHome() {
		t.Errorf("%+v, %v", p, err)
	}
	if r, err := sb.ActOnProject(t.Context(), client.ProjectAct{Act: client.ProjectSync}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("of a stopped sandbox: %+v, %v", r, err)
	}
	if r, err := sb.ActOnProject(t.Context(), client.ProjectAct{Act: "forget"}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an act that is none: %+v, %v", r, err)
	}
	if _, err := st.sandbox(t).Project(t.Context()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("without a repository: %v", err)
	}
}

func TestUsage(t *testing.T) {
	sb := serve(t, "tcp").sandbox(t)
	u, err := sb.Usage(t.Context(), time.Now().Add(-time.Hour), time.Time{})
	if err != nil || u.Interval <= 0 || u.Samples == nil {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := sb.Usage(t.Context(), time.Time{}, time.Time{}); err != nil || u.Samples == nil {
		t.Errorf("without bounds: %+v, %v", u, err)
	}
}
