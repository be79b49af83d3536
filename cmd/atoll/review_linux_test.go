package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/musthave"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// TestPagerOnTerminal: what is long is shown by the person's pager, which 'q' ends,
// and nothing of a hostile commit steers the terminal.
func TestPagerOnTerminal(t *testing.T) {
	if _, err := exec.LookPath("less"); err != nil {
		musthave.Skip(t, "less", "no less: %v", err)
	}
	c := newConsole(t)
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "web")
	if _, err := (&namespace.Driver{Dir: filepath.Join(home, "namespace")}).Probe(t.Context()); err != nil {
		musthave.Skip(t, "namespace", "%v", err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `git init -q "$0" && cd "$0" && git -c user.name=A -c user.email=a@example.com commit -q --allow-empty -m first`, dir).CombinedOutput(); err != nil {
		musthave.Skip(t, "git", "%v: %s", err, out)
	}
	run := func(args ...string) {
		t.Helper()
		c.atoll(home, args...)
		if code := c.ends(); code != 0 {
			t.Fatalf("%q: exit status %d: %s", args, code, c.all.String())
		}
	}
	run("up", "--no-attach", "--driver", "namespace", dir)
	defer run("rm", "--discard", "web")
	run("exec", "web", "--", "sh", "-ec", `cd /workspace; p=$(printf '\033]0;pwned\007\033[2J\302\2332J\033]52;c;cHduZWQ=\007')
		for i in $(seq 200); do echo "line $i $p"; done >long; git add long; git -c user.name="Eve$p" -c user.email=e@example.com commit -qm "subject $p"`)
	c.all.Reset()
	for _, args := range [][]string{{"diff", "web"}, {"log", "-p", "web"}} {
		c.atoll(home, args...)
		c.shows("+line 1 ")
		c.types(" ")
		c.shows("+line 9 ")
		c.types("q")
		if code := c.ends(); code != 0 {
			t.Errorf("%q, left: exit status %d", args, code)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obeyed := range []string{"\x1b]", "\x1b[2J", "\u009b", "\a"} {
		if strings.Contains(c.all.String(), obeyed) {
			t.Errorf("the terminal was sent %q", obeyed)
		}
	}
	if strings.Contains(c.all.String(), "line 150") {
		t.Error("it was not shown by screens")
	}
}

// TestGitRemoteIsBounded: what 'git fetch sandbox-NAME' takes out of a sandbox ends
// at the limits, and nothing of it stays.
func TestGitRemoteIsBounded(t *testing.T) {
	a, repo := projectApp(t)
	if _, err := (&namespace.Driver{Dir: filepath.Join(a.home, "namespace")}).Probe(t.Context()); err != nil {
		musthave.Skip(t, "namespace", "%v", err)
	}
	a.driverName = "namespace"
	host, err := a.hostID()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	sb, err := a.create(ctx, atoll.Config{Spec: atoll.Spec{Name: "web", Labels: map[string]string{
		project.Label: "web", project.LabelPath: repo.Dir, project.LabelHost: host,
	}}})
	if err == nil {
		defer func() {
			if err := sb.Destroy(ctx); err != nil {
				t.Error(err)
			}
		}()
		_, err = repo.CarryIn(ctx, sb, project.Carry{})
	}
	if err == nil {
		_, err = sb.Exec(ctx, atoll.Cmd{Shell: "cd /workspace; head -c 3000000 /dev/urandom >big; git add big; git -c user.name=A -c user.email=a@example.com commit -qm big"})
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.project(ctx, "web")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(limits project.Limits) (string, error) {
		var out bytes.Buffer
		a.in, a.out = strings.NewReader("capabilities\nlist\n\n"), &out
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
