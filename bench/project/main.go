// Command project measures the import of a repository into a sandbox, the sync
// of its changes, the update with the host's and the status, beside git's own
// clone, fetch and pull between two directories of this machine, in one run. The
// aims at 20,000 files: status 100 ms, sync 250 ms, update twice git fetch.
//
//	ATOLL_HELPERS=.cache/helpers go run ./bench/project -files 20000 -rounds 10
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/project"
)

func main() {
	files := flag.Int("files", 1000, "number of files in the repository")
	rounds := flag.Int("rounds", 10, "rounds of each measurement")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *files, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench/project:", err)
		os.Exit(1)
	}
}

// run measures in a temporary directory.
func run(ctx context.Context, files, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo := filepath.Join(dir, "repo")
	if err := makeRepo(ctx, repo, files); err != nil {
		return err
	}
	d := &namespace.Driver{Dir: filepath.Join(dir, "namespace")}
	defer func() { err = errors.Join(err, d.Close()) }()
	var t times
	for range rounds {
		if err := t.runRound(ctx, d, dir, repo); err != nil {
			return err
		}
	}
	return t.print(files)
}

// times are the durations of each step, in the order of the first round.
type times struct {
	names []string
	took  map[string][]time.Duration
}

func (t *times) timeStep(name string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if t.took == nil {
		t.took = make(map[string][]time.Duration)
	}
	if t.took[name] == nil {
		t.names = append(t.names, name)
	}
	t.took[name] = append(t.took[name], time.Since(began))
	return nil
}

func (t *times) print(files int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d files\tp50\tmost\t\n", files)
	for _, name := range t.names {
		all := t.took[name]
		slices.Sort(all)
		fmt.Fprintf(w, "%s\t%v\t%v\t\n", name, all[len(all)/2].Round(100*time.Microsecond), all[len(all)-1].Round(100*time.Microsecond))
	}
	return w.Flush()
}

// runRound imports a repository and syncs small changes, and does the same
// with git alone.
func (t *times) runRound(ctx context.Context, d *namespace.Driver, dir, repo string) (err error) {
	work := filepath.Join(dir, "work")
	clone := filepath.Join(dir, "clone")
	if err := runCommand(ctx, dir, "cp", "-a", repo, work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work), os.RemoveAll(clone)) }()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	r, err := project.Open(ctx, work)
	if err != nil {
		return err
	}
	commit := "echo x >>f0; git add f0; git -c user.name=x -c user.email=x@localhost commit -qm x; "
	inside := func(text string) error {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "cd /workspace; " + text})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("%s: %s", text, exit.Stderr)
		}
		return err
	}
	fetch := project.FetchOptions{Name: "bench"}
	sync := func() error {
		_, err := r.Sync(ctx, sb, fetch)
		if errors.Is(err, project.ErrNoNewWork) {
			err = nil
		}
		return err
	}
	status := func() error {
		dry := fetch
		dry.DryRun = true
		got, err := r.Sync(ctx, sb, dry)
		if err != nil && !errors.Is(err, project.ErrNoNewWork) {
			return err
		}
		_, err = r.ReadLedger(ctx, fetch.Name, got)
		return err
	}
	homeCommit := func() error { return runCommand(ctx, work, "sh", "-c", commit) }
	for _, step := range []struct {
		name    string
		prepare func() error
		f       func() error
	}{
		{"carry in", nil, func() error { _, err := r.Import(ctx, sb, project.ImportOptions{}); return err }},
		{"git clone", nil, func() error { return runCommand(ctx, dir, "git", "clone", "-q", "--no-local", work, clone) }},
		{"status", nil, status},
		{"git status", nil, func() error { return runCommand(ctx, work, "git", "status", "--porcelain") }},
		{"sync of a small commit", func() error { return inside(commit) }, sync},
		{"sync of a small commit and work", func() error { return inside(commit + "echo y >>f1") }, sync},
		{"sync of nothing", nil, sync},
		{"status of work", nil, status},
		{"update of a small commit", homeCommit, func() error {
			_, err := r.Update(ctx, sb, project.UpdateOptions{Name: fetch.Name})
			return err
		}},
		{"git fetch of a small commit", homeCommit, func() error { return runCommand(ctx, clone, "git", "fetch", "-q") }},
		{"rescue", nil, func() error { _, err := r.Rescue(ctx, sb, fetch); return err }},
		{"git pull of a small commit", homeCommit, func() error { return runCommand(ctx, clone, "git", "pull", "-q", "--ff-only") }},
	} {
		if step.prepare != nil {
			if err := step.prepare(); err != nil {
				return err
			}
		}
		if err := t.timeStep(step.name, step.f); err != nil {
			return err
		}
	}
	return nil
}

// makeRepo creates a repository with many small files.
func makeRepo(ctx context.Context, repo string, files int) error {
	if err := runCommand(ctx, filepath.Dir(repo), "git", "init", "-q", "-b", "main", repo); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("commit refs/heads/main\ncommitter x <x@localhost> 1000000000 +0000\ndata 1\nx\n")
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i/100, i)
		if i < 2 {
			name = fmt.Sprintf("f%d", i)
		}
		text := strings.Repeat(fmt.Sprintln("line", i), 50)
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	cmd := exec.CommandContext(ctx, "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin, cmd.Stderr = repo, strings.NewReader(b.String()), os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return runCommand(ctx, repo, "git", "reset", "-q", "--hard")
}

func runCommand(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd.Run()
}
