package project_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// killer runs operations in processes of their own and kills these.
type killer struct {
	t      *testing.T
	driver *namespace.Driver
	sb     atoll.Sandbox
	whole  time.Duration // of a sync that was not killed; 0: not measured yet
}

func newKiller(t *testing.T) *killer {
	d, sb := lossSandbox(t)
	return &killer{t: t, driver: d, sb: sb}
}

// randomOperation is what a child of a random test does until it is killed.
type randomOperation struct {
	What     string // sync, update, merge, apply, apply-to, down, restore or import
	Mode     project.UpdateMode
	Branch   string
	Target   string
	Imported string
	Time     time.Time
}

// randomChild does the operation that the environment names.
func randomChild(ctx context.Context, r *project.Repo, sb atoll.Sandbox) error {
	var o randomOperation
	if err := json.Unmarshal([]byte(os.Getenv("ATOLL_LOSS_OPERATION")), &o); err != nil {
		return err
	}
	f := project.FetchOptions{Name: "box", ImportedTree: o.Imported}
	var err error
	switch o.What {
	case "sync":
		_, err = r.Sync(ctx, sb, f)
	case "update":
		_, err = r.Update(ctx, sb, project.UpdateOptions{Name: "box", Mode: o.Mode})
	case "merge":
		_, err = r.Merge(ctx, project.MergeOptions{Name: "box", Branch: o.Branch, ImportedTree: o.Imported})
	case "apply":
		_, err = r.Apply(ctx, project.MergeOptions{Name: "box", Branch: o.Branch, Target: o.Target, ImportedTree: o.Imported})
	case "down":
		_, err = r.Rescue(ctx, sb, f)
	case "restore":
		_, err = r.Restore(ctx, "box", o.Time, o.Target)
	case "import":
		var p *project.ImportPlan
		if p, err = r.PlanImport(ctx, project.ImportOptions{}); err == nil {
			err = errors.Join(p.Execute(ctx, sb), p.Record(ctx, "box"), p.Close())
		}
	}
	return err
}

// kill starts an operation in a process of its own and kills that at a random instant: alone, or with its gits.
func (m *machine) kill() {
	o := randomOperation{What: rapid.SampledFrom([]string{"sync", "update", "merge", "apply", "down", "restore", "import"}).Draw(m.t, "killed"), Imported: m.imported}
	m.count++
	switch o.What {
	case "update":
		o.Mode = rapid.SampledFrom([]project.UpdateMode{project.UpdateForward, project.UpdateMerge, project.UpdateRebase}).Draw(m.t, "mode")
	case "merge", "apply":
		all := m.fetch()
		if len(all) == 0 {
			return
		}
		o.Branch = rapid.SampledFrom(all).Draw(m.t, "merged")
		if o.What == "apply" {
			o.Target = rapid.SampledFrom([]string{"", "side", "new-" + strconv.Itoa(m.count)}).Draw(m.t, "to")
		}
	case "restore":
		all, err := m.repo.Rescues(m.ctx, "box")
		if err != nil {
			m.t.Fatal(err)
		}
		if len(all) == 0 {
			return
		}
		o.Time, o.Target = rapid.SampledFrom(all).Draw(m.t, "restored").Time, "killed-"+strconv.Itoa(m.count)
	case "import":
		m.down()
		m.inside.must(m.t, "rm -rf /tmp/side-*; find . -mindepth 1 -delete")
	}
	b, err := json.Marshal(o)
	if err != nil {
		m.t.Fatal(err)
	}
	k := m.killer
	run := func(what string, after time.Duration, all bool) time.Duration {
		return killed(k.t, what, k.driver, k.sb, m.dir, after, all, "ATOLL_LOSS_OPERATION="+string(b))
	}
	if k.whole == 0 {
		k.whole = killed(k.t, "fetch", k.driver, k.sb, m.dir, time.Hour, false)
	}
	instant := time.Duration(rapid.IntRange(10, 150).Draw(m.t, "percent"))
	run("random", instant*k.whole/100, rapid.Bool().Draw(m.t, "with its gits"))
	m.endInside()
	if o.What == "import" {
		m.importAll() // removes the remains of the killed one
	}
	if rapid.Bool().Draw(m.t, "unlocked") {
		m.host.must(m.t, "find .git -name '*.lock' -delete")
	}
}

// endInside ends the gits of a killed operation inside, which may wait for minutes for its input, and removes their lock files.
func (m *machine) endInside() {
	_, _ = m.inside.run(`for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != git ] || kill ${p#/proc/}; done 2>/dev/null`)
	testenv.WaitFor(m.killer.t, "git inside ends", func() bool {
		out, _ := m.inside.run("cat /proc/[0-9]*/comm 2>/dev/null")
		return !strings.Contains(out+"\n", "git\n")
	})
	_, _ = m.inside.run("[ ! -d .git ] || find .git -name '*.lock' -delete")
}

var lockFile = regexp.MustCompile(`\S+\.lock`)

// unlock removes the lock file that an error names: no git is running.
func (m *machine) unlock(refusal error) {
	name := lockFile.FindString(refusal.Error())
	err := errors.New("it names none")
	if filepath.IsAbs(name) {
		err = os.Remove(name)
	}
	if err != nil {
		m.t.Fatalf("%v: %v", refusal, err)
	}
}

// retryLocked runs an operation, and removes the lock files that its refusals name.
func (m *machine) retryLocked(what string, run func() error, answers ...error) error {
	var err error
	for range 4 {
		if err = run(); !errors.Is(err, project.ErrLocked) {
			break
		}
		m.unlock(err)
	}
	m.unexpected(what, err, answers...)
	return err
}
