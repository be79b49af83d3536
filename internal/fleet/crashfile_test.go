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

// crashFiles, in the environment, makes TestCrashOfFiles the child that it kills.
const crashFiles = "ATOLL_FLEET_CRASH_FILES"

// space is a workspace as far as the child told. Of what it said it would do, the
// last may be done or not.
type space struct {
	made, removing, removed bool
	writing, wrote          int // content of /f; 0: none
	importing, imported     int // content of the files in /d; 0: none
}

// crashWorkFiles changes workspaces until it is killed. It says before each step what
// it will do, and after it that it did.
func crashWorkFiles(t *testing.T, home string) {
	f, err := Open(context.Background(), placed(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
	must(t, err)
	a := f.For(LocalCaller())
	say := &teller{w: os.Stdout}
	for worker := range 3 {
		go func() {
			for n := 1; ; n++ {
				name := fmt.Sprintf("w%d-%d-%d", os.Getpid(), worker, n%3)
				if err := crashSpace(t, a, say, name); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

func crashSpace(t *testing.T, a *Account, say *teller, name string) error {
	ctx := context.Background()
	_, err := a.CreateWorkspace(ctx, atoll.Workspace{Name: name})
	if err != nil {
		return err
	}
	say.say("made", name)
	files, err := a.Files(ctx, name)
	if err != nil {
		return err
	}
	for range 1 + rand.IntN(4) {
		n := 1 + rand.IntN(1000)
		text := content(n)
		say.say("writing", name, n)
		if err := files.WriteFile(ctx, "/f", strings.NewReader(text), 0o644); err != nil {
			return err
		}
		say.say("wrote", name, n)
		say.say("importing", name, n)
		if err := files.Import(ctx, "/", crashArchive(t, n)); err != nil {
			return err
		}
		say.say("imported", name, n)
	}
	if err := files.Close(); err != nil {
		return err
	}
	say.say("removing", name)
	if err := a.RemoveWorkspace(ctx, name); err != nil {
		return err
	}
	say.say("removed", name)
	return nil
}

// content is what a file of the number n holds.
func content(n int) string { return strings.Repeat(strconv.Itoa(n)+"\n", 3000) }

// crashArchive makes a tar stream of /d/0 to /d/9.
func crashArchive(t *testing.T, n int) io.Reader {
	var entries []tar.Header
	for i := range 10 {
		entries = append(entries, fileIn(fmt.Sprint("d/", i), content(n)))
	}
	return archiveOf(t, entries...)
}

// TestCrashOfFiles kills a process while it makes, fills and removes workspaces.
// What it had acknowledged is there; what it had not is whole or gone; nothing
// else is anywhere.
func TestCrashOfFiles(t *testing.T) {
	if home := os.Getenv(crashFiles); home != "" {
		crashWorkFiles(t, home)
	}
	home := t.TempDir()
	spaces := map[string]*space{}
	for round := range 10 {
		crashFilesOnce(t, home, spaces, time.Duration(rand.IntN(150))*time.Millisecond)
		f, err := Open(t.Context(), placed(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
		must(t, err)
		must(t, f.tidyWorkspaces(t.Context()))
		checkSpaces(t, f, spaces)
		closeFleet(t, f)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d workspaces", len(spaces))
}

func crashFilesOnce(t *testing.T, home string, spaces map[string]*space, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashOfFiles$")
	cmd.Env = append(os.Environ(), crashFiles+"="+home)
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
			break // what has no end was cut off
		}
		if first {
			kill.Reset(after)
			first = false
		}
		hearSpace(spaces, strings.Fields(line))
	}
	kill.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); first || !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child was not killed but ended: %v", err)
	}
}

func hearSpace(spaces map[string]*space, words []string) {
	if words[0] == "made" {
		spaces[words[1]] = &space{made: true}
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

func checkSpaces(t *testing.T, f *Fleet, spaces map[string]*space) {
	t.Helper()
	a := f.For(LocalCaller())
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
				t.Errorf("%s has files, and nobody made it", w.Name)
			}
			must(t, a.RemoveWorkspace(t.Context(), w.Name))
			continue
		}
		checkSpace(t, f, w.Name, s)
	}
	for name, s := range spaces {
		if s.removing || slices.ContainsFunc(list, func(w atoll.Workspace) bool { return w.Name == name }) {
			continue
		}
		t.Errorf("lost: %s", name)
	}
}

// checkSpace compares what a workspace holds with what was told.
func checkSpace(t *testing.T, f *Fleet, name string, s *space) {
	t.Helper()
	files := dump(t, f.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: name}))
	held := func(file string, was, will int) {
		text, ok := files[file]
		delete(files, file)
		_, text, _ = strings.Cut(text, " ")
		for _, n := range []int{was, will} {
			if n == 0 && !ok || n != 0 && text == content(n) {
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
