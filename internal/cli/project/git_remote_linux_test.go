package project

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestGitRemoteIsBounded: what 'git fetch sandbox-NAME' takes out of a sandbox ends
// at the limits, and nothing of it stays.
func TestGitRemoteIsBounded(t *testing.T) {
	testenv.Real(t, "namespace")
	a, repo := projectApp(t)
	if _, err := (&namespace.Driver{Dir: filepath.Join(a.Home, "namespace")}).Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	a.DriverName = "namespace"
	host, err := pairing.HostID(a.App)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	sb, err := a.CreateSandbox(ctx, atoll.Config{Spec: atoll.Spec{Name: "web", Labels: map[string]string{
		project.Label: "web", project.LabelPath: repo.Dir, project.LabelHost: host,
	}}})
	if err == nil {
		defer func() {
			if err := sb.Destroy(ctx); err != nil {
				t.Error(err)
			}
		}()
		_, err = repo.Import(ctx, sb, project.ImportOptions{})
	}
	if err == nil {
		_, err = sb.Exec(ctx, atoll.Cmd{Shell: "cd /workspace; head -c 3000000 /dev/urandom >big; git add big; git -c user.name=A -c user.email=a@example.com commit -qm big"})
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := pairing.Find(ctx, a.App, "web")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(limits project.Limits) (string, error) {
		var out bytes.Buffer
		a.In, a.Out = strings.NewReader("capabilities\nlist\n\n"), &out
		err := a.serveGit(ctx, w, repo, limits)
		return out.String(), err
	}
	said, err := ask(project.Limits{Pack: 1 << 20})
	if !errors.Is(err, project.ErrTooLarge) || strings.Contains(said, "refs/heads") {
		t.Errorf("more than is taken: %q, %v", said, err)
	}
	var left int64
	err = filepath.WalkDir(filepath.Join(repo.Dir, ".git"), func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info os.FileInfo
			info, err = e.Info()
			left += info.Size()
		}
		return err
	})
	if err != nil || left > 1<<19 {
		t.Errorf("the repository has %d bytes after it was refused, %v", left, err)
	}
	if said, err = ask(project.Limits{}); err != nil || !strings.Contains(said, "refs/heads/") {
		t.Errorf("with the usual limits: %q, %v", said, err)
	}
}
