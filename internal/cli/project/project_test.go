package project

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// projectApp is an app with a home of its own, and an empty repository.
func projectApp(t *testing.T) (a commands, repo *project.Repo) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not there")
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ATOLL_") && name != "ATOLL_HELPERS" && name != "ATOLL_TEST" && name != "ATOLL_MUST" {
			t.Setenv(name, "") // an empty one is none
		}
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("ATOLL_HOME", filepath.Join(dir, "home"))
	top := filepath.Join(dir, "My Web")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", top).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	repo, err := project.Open(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	a = commands{&app.App{Home: filepath.Join(dir, "home"), Wiring: app.Wiring{
		NewDrivers: func(*config.Config, string) []atoll.Driver {
			return []atoll.Driver{
				&virtual.Driver{Dir: filepath.Join(dir, "home", "sandboxes")},
				&namespace.Driver{Dir: filepath.Join(dir, "home", "namespace")},
			}
		},
		NewRescuer: pairing.NewRescuer,
	}}}
	if a.Config, err = config.Load(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(a.Disconnect(ctx), a.CloseDrivers()); err != nil {
			t.Error(err)
		}
	})
	return a, repo
}

// makeProject makes a sandbox with the labels of a working tree.
func makeProject(t *testing.T, a commands, name, path, host string) {
	t.Helper()
	cfg := atoll.Config{Spec: atoll.Spec{Name: name, Labels: map[string]string{
		project.Label: name, project.LabelPath: path, project.LabelHost: host, project.LabelMode: string(project.AutoIdle),
	}}}
	if path == "" {
		cfg.Labels = nil
	}
	if _, err := a.CreateSandbox(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func TestProjectIsFound(t *testing.T) {
	a, repo := projectApp(t)
	here, err := pairing.HostID(a.App)
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(repo.Dir, "deep", "down")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(sub)
	if _, err := pairing.Find(t.Context(), a.App, ""); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "'atoll up'") {
		t.Errorf("no sandbox: %v", err)
	}
	makeProject(t, a, "box", "", "")
	makeProject(t, a, "far", repo.Dir, "another")
	makeProject(t, a, "gone", filepath.Join(repo.Dir, "gone"), here)
	makeProject(t, a, "web", repo.Dir, here)

	w, err := pairing.Find(t.Context(), a.App, "")
	if err != nil {
		t.Fatal(err)
	}
	if w.Name() != "web" || w.Repo == nil || w.Repo.Dir != repo.Dir || w.Mode != project.AutoIdle {
		t.Errorf("here: %+v", w)
	}
	for name, home := range map[string]bool{"web": true, "we": true, "far": false, "gone": false} {
		w, err := pairing.Find(t.Context(), a.App, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := w.RequireRepo(); (err == nil) != home || err != nil && !errors.Is(err, project.ErrNoRepository) {
			t.Errorf("%s: home: %v", name, err)
		}
	}
	for _, name := range []string{"box", "none"} {
		if _, err := pairing.Find(t.Context(), a.App, name); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	makeProject(t, a, "web-2", repo.Dir, here)
	if _, err := pairing.Find(t.Context(), a.App, ""); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "web, web-2") {
		t.Errorf("two: %v", err)
	}
	t.Chdir("/")
	if _, err := pairing.Find(t.Context(), a.App, ""); !errors.Is(err, project.ErrNoRepository) {
		t.Errorf("no repository: %v", err)
	}
}

func TestHostIDIsMadeOnce(t *testing.T) {
	a := &app.App{Home: filepath.Join(t.TempDir(), "home")}
	t.Setenv("ATOLL_HOME", a.Home)
	var wg sync.WaitGroup
	ids := make([]string, 16)
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = pairing.HostID(a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("ids differ: %q", ids)
		}
	}
	left, err := os.ReadDir(a.Home)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(a.Home, pairing.HostFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pairing.HostID(a); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("empty: %v", err)
	}
}

// TestExitIsDocumented holds that a documented status reaches the shell, and
// that the reason is still to be found.
func TestExitIsDocumented(t *testing.T) {
	err := exitcode.With(3, project.ErrConflict)
	var e exitcode.Error
	if !errors.As(err, &e) || e.Code != 3 || !errors.Is(err, project.ErrConflict) || exitcode.With(3, nil) != nil {
		t.Errorf("%v", err)
	}
}

// TestAgentAgain: the agent of a project's files is there again when a sandbox was
// off, if somebody has allowed this one; another one that is named goes before it.
func TestAgentAgain(t *testing.T) {
	a, repo := projectApp(t)
	f := &projectfile.File{Agent: "codex", Sources: []string{projectfile.Name}}
	for _, c := range []struct {
		name, says, want string
		allowed, woke    bool
	}{
		{name: "not allowed", woke: true},
		{name: "allowed", woke: true, allowed: true, want: "codex"},
		{name: "another is named", woke: true, allowed: true, says: "claude", want: "claude"},
		{name: "it ran all the time", allowed: true},
	} {
		if c.allowed {
			if err := a.askConsent(t.Context(), repo, f, true); err != nil {
				t.Fatal(err)
			}
		}
		r := &upRun{upFlags: &upFlags{agent: c.says}, repo: repo, file: f, woke: c.woke}
		if err := a.agentAgain(r); err != nil || r.agent != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, r.agent, err, c.want)
		}
	}
	other := &projectfile.File{Agent: "gemini"}
	if r := (&upRun{upFlags: &upFlags{}, repo: repo, file: other, woke: true}); a.agentAgain(r) != nil || r.agent != "" {
		t.Errorf("one that nobody has allowed: %q", r.agent)
	}
}

// TestProjectFileRefersToNoSecret lets a repository name a secret of its user's host.
func TestProjectFileRefersToNoSecret(t *testing.T) {
	v := projectfile.Variable{Name: "KEY", Host: true, From: "ATOLL_TEST_UNSET_VARIABLE", Value: "secret://vault/prod"}
	if value, ok, err := readHostVariable(v); !errors.Is(err, atoll.ErrDenied) || value != "" || ok {
		t.Errorf("%q, %v", value, err)
	}
	v.Value = "identity://sts.example.com"
	if value, ok, err := readHostVariable(v); !errors.Is(err, atoll.ErrDenied) || value != "" || ok {
		t.Errorf("%q, %v", value, err)
	}
	t.Setenv("ATOLL_TEST_SET_VARIABLE", "secret://vault/mine") // the user has set it
	v.From = "ATOLL_TEST_SET_VARIABLE"
	if value, ok, err := readHostVariable(v); err != nil || !ok || value != "secret://vault/mine" {
		t.Errorf("%q, %v", value, err)
	}
}
