package fleet

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// crashFilesVar is the environment variable that makes TestCrashWithWorkspaces the
// child process that it kills.
const crashFilesVar = "ATOLL_FLEET_CRASH_FILES"

// reportedWorkspace is the state of a workspace as the child process reported it. The
// last announced change may have been made or not.
type reportedWorkspace struct {
	made, removing, removed bool
	writing, wrote          int // content of /f; 0: none
	importing, imported     int // content of the files in /d; 0: none
}

// changeWorkspaces changes workspaces until it is killed. It prints a line before and
// after each change.
func changeWorkspaces(t *testing.T, home string) {
	f, err := Open(context.Background(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
	must(t, err)
	a := f.Account(LocalCaller())
	say := &lineWriter{w: os.Stdout}
	for worker := range 3 {
		go func() {
			for n := 1; ; n++ {
				name := fmt.Sprintf("w%d-%d-%d", os.Getpid(), worker, n%3)
				if err := changeWorkspace(t, a, say, name); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

func changeWorkspace(t *testing.T, a *Account, say *lineWriter, name string) error {
	ctx := context.Background()
	_, err := a.CreateWorkspace(ctx, atoll.Workspace{Name: name})
	if err != nil {
		return err
	}
	say.writeLine("made", name)
	files, err := a.Files(ctx, name)
	if err != nil {
		return err
	}
	for range 1 + rand.IntN(4) {
		n := 1 + rand.IntN(1000)
		text := fileContent(n)
		say.writeLine("writing", name, n)
		if err := files.WriteFile(ctx, "/f", strings.NewReader(text), 0o644); err != nil {
			return err
		}
		say.writeLine("wrote", name, n)
		say.writeLine("importing", name, n)
		if err := files.Import(ctx, "/", makeCrashArchive(t, n)); err != nil {
			return err
		}
		say.writeLine("imported", name, n)
	}
	if err := files.Close(); err != nil {
		return err
	}
	say.writeLine("removing", name)
	if err := a.RemoveWorkspace(ctx, name); err != nil {
		return err
	}
	say.writeLine("removed", name)
	return nil
}

// fileContent returns the content of the file with the number n.
func fileContent(n int) string { return strings.Repeat(strconv.Itoa(n)+"\n", 3000) }

// makeCrashArchive returns a tar stream of /d/0 to /d/9.
func makeCrashArchive(t *testing.T, n int) io.Reader {
	var entries []tar.Header
	for i := range 10 {
		entries = append(entries, fileHeader(fmt.Sprint("d/", i), fileContent(n)))
	}
	return makeArchive(t, entries...)
}

// TestCrashWithWorkspaces kills a process while it creates, fills and removes
// workspaces. Acknowledged changes must be kept, others must be complete or have no
// effect, and nothing else may exist.
func TestCrashWithWorkspaces(t *testing.T) {
	if home := os.Getenv(crashFilesVar); home != "" {
		changeWorkspaces(t, home)
	}
	home := t.TempDir()
	spaces := map[string]*reportedWorkspace{}
	for round := range 10 {
		crashFileChildOnce(t, home, spaces, time.Duration(rand.IntN(150))*time.Millisecond)
		f, err := Open(t.Context(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
		must(t, err)
		must(t, f.tidyWorkspaces(t.Context()))
		checkWorkspaces(t, f, spaces)
		closeFleet(t, f)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d workspaces", len(spaces))
}

func crashFileChildOnce(t *testing.T, home string, spaces map[string]*reportedWorkspace, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashWithWorkspaces$")
	cmd.Env = append(os.Environ(), crashFilesVar+"="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	first := true
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // an incomplete line was cut off
		}
		if first {
			kill.Reset(after)
			first = false
		}
		recordWorkspaceLine(spaces, strings.Fields(line))
	}
	kill.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); first || !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child was not killed but ended: %v", err)
	}
}

func recordWorkspaceLine(spaces map[string]*reportedWorkspace, words []string) {
	if words[0] == "made" {
		spaces[words[1]] = &reportedWorkspace{made: true}
		return
	}
	s, n := spaces[words[1]], 0
	if len(words) == 3 {
		n, _ = strconv.Atoi(words[2])
	}
	switch words[0] {
	case "writing":
		s.writing = n
	case "wrote":
		s.wrote = n
	case "importing":
		s.importing = n
	case "imported":
		s.imported = n
	case "removing":
		s.removing = true
	case "removed":
		s.removed = true
	}
}

func checkWorkspaces(t *testing.T, f *Fleet, spaces map[string]*reportedWorkspace) {
	t.Helper()
	a := f.Account(LocalCaller())
	for _, dir := range []string{workspace.RemovedDir, workspace.IncomingDir} {
		if left, err := os.ReadDir(filepath.Join(f.workspaces.Dir, dir)); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	list, err := a.Workspaces(t.Context())
	must(t, err)
	for _, w := range list {
		s := spaces[w.Name]
		if s == nil || s.removed { // it was being made (again)
			if w.Files != 0 {
				t.Errorf("%s has files, but was not created", w.Name)
			}
			must(t, a.RemoveWorkspace(t.Context(), w.Name))
			continue
		}
		checkWorkspace(t, f, w.Name, s)
	}
	for name, s := range spaces {
		if s.removing || slices.ContainsFunc(list, func(w atoll.Workspace) bool { return w.Name == name }) {
			continue
		}
		t.Errorf("lost: %s", name)
	}
}

// checkWorkspace compares the content of a workspace with the reported state.
func checkWorkspace(t *testing.T, f *Fleet, name string, s *reportedWorkspace) {
	t.Helper()
	files := dumpDir(t, f.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: name}))
	held := func(file string, was, will int) {
		text, ok := files[file]
		delete(files, file)
		_, text, _ = strings.Cut(text, " ")
		for _, n := range []int{was, will} {
			if n == 0 && !ok || n != 0 && text == fileContent(n) {
				return
			}
		}
		t.Errorf("%s: %s holds %.20q (%d bytes), want that of %d or %d", name, file, text, len(text), was, will)
	}
	held("f", s.wrote, s.writing)
	for i := range 10 {
		held(fmt.Sprint("d/", i), s.imported, s.importing)
	}
	delete(files, ".")
	delete(files, "d")
	if len(files) != 0 {
		t.Errorf("%s: there is more: %v", name, files)
	}
}
