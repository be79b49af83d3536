package atolltest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var abilityLaws = []law{
	{"SessionKeepsState", sessionKeepsState},
	{"SnapshotRestoreIsExact", snapshotRestoreIsExact},
	{"SnapshotNames", snapshotNames},
	{"ForkIsIndependent", forkIsIndependent},
	{"PackedFilesAreWhole", packedFilesAreWhole},
	{"StopKeepsFiles", stopKeepsFiles},
	{"StopKeepsRoot", stopKeepsRoot},
	{"PauseFreezes", pauseFreezes},
	{"PausedCanBeStopped", pausedCanBeStopped},
	{"PausedDeadline", pausedDeadline},
	{"StatsCount", statsCount},
	{"HistoryRemembers", historyRemembers},
}

func (e *env) executeText(sb atoll.Sandbox, text string) atoll.Result {
	e.Helper()
	r, err := atoll.Execute(e.newContext(), sb, text)
	if err != nil {
		e.Fatalf("Execute %s: %v", text, err)
	}
	return r
}

func sessionKeepsState(e *env) {
	sb := e.newSandbox()
	if !e.features.Session {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "true", Session: true})
		e.wantError(err, atoll.ErrUnsupported, "a session")
		wantEqual(e, "Execute works without", e.executeText(sb, "echo hi").Stdout, "hi\n")
		return
	}
	e.executeText(sb, "mkdir -p /tmp/s; cd /tmp/s; X='a  b'; export Y=2; f() { echo \"f $1\"; }; set -u")
	wantEqual(e, "state", e.executeText(sb, `pwd; echo "$X"; f 3; sh -c 'echo $Y'`).Stdout, "/tmp/s\na  b\nf 3\n2\n")
	r := e.executeText(sb, "cd /; exit 3; echo not")
	wantEqual(e, "exit status", r.ExitCode, 3)
	wantEqual(e, "Success", r.Success, false)
	wantEqual(e, "Command", r.Command, "cd /; exit 3; echo not")
	wantEqual(e, "the session lives on", e.executeText(sb, "pwd").Stdout, "/\n")
	wantEqual(e, "other commands are not of the session", e.runShell(sb, `echo "${X-unset}"`), "unset\n")
	_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "cd /tmp; Z=1; while :; do :; done", Session: true, Timeout: 200 * time.Millisecond})
	e.wantError(err, atoll.ErrTimeout, "a session's command past its deadline")
	wantEqual(e, "after a deadline", e.executeText(sb, `echo "$X"`).Stdout, "a  b\n")
}

func snapshotRestoreIsExact(e *env) {
	sb := e.newSandbox()
	if !e.features.Snapshot {
		_, err := atoll.Snapshot(e.newContext(), sb, "x")
		e.wantError(err, atoll.ErrUnsupported, "Snapshot")
		return
	}
	e.executeText(sb, "mkdir -p /tmp/s/d; echo one > /tmp/s/a; echo two > /tmp/s/d/b; ln -s a /tmp/s/l; chmod 640 /tmp/s/a; cd /tmp/s; V=before")
	info, err := atoll.Snapshot(e.newContext(), sb, "point")
	if err != nil {
		e.Fatalf("Snapshot: %v", err)
	}
	wantEqual(e, "Name", info.Name, "point")
	wantEqual(e, "Sandbox", info.Sandbox, sb.ID())
	e.executeText(sb, "echo changed > /tmp/s/a; rm -r /tmp/s/d; echo new > /tmp/s/new; cd /; V=after; W=added; chmod 600 /tmp/s/a")
	if err := atoll.Restore(e.newContext(), sb, "point"); err != nil {
		e.Fatalf("Restore: %v", err)
	}
	wantEqual(e, "files", e.runShell(sb, "cd /tmp/s; cat a d/b l; ls; ls -l a | cut -c1-10"), "one\ntwo\none\na\nd\nl\n-rw-r-----\n")
	if e.features.Session {
		wantEqual(e, "session", e.executeText(sb, `pwd; echo "$V ${W-unset}"`).Stdout, "/tmp/s\nbefore unset\n")
	}
	if err := atoll.Restore(e.newContext(), sb, info.ID); err != nil {
		e.Errorf("Restore by id, a second time: %v", err)
	}
	e.wantError(atoll.Restore(e.newContext(), sb, "no-such-snapshot"), atoll.ErrNotFound, "Restore of an unknown snapshot")
}

func snapshotNames(e *env) {
	if !e.features.Snapshot {
		return // SnapshotRestoreIsExact checks the refusal
	}
	sb := e.newSandbox()
	for _, name := range []string{"one", "two", ""} {
		if _, err := atoll.Snapshot(e.newContext(), sb, name); err != nil {
			e.Fatalf("Snapshot %q: %v", name, err)
		}
	}
	_, err := atoll.Snapshot(e.newContext(), sb, "one")
	e.wantError(err, atoll.ErrExists, "a name that is taken")
	_, err = atoll.Snapshot(e.newContext(), sb, "Not A Name")
	e.wantError(err, atoll.ErrInvalid, "a bad name")
	list, err := atoll.Snapshots(e.newContext(), sb)
	if err != nil {
		e.Fatalf("Snapshots: %v", err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	wantEqual(e, "names, oldest first", strings.Join(names, ","), "one,two,")
	if err := atoll.RemoveSnapshot(e.newContext(), sb, "one"); err != nil {
		e.Errorf("RemoveSnapshot: %v", err)
	}
	e.wantError(atoll.RemoveSnapshot(e.newContext(), sb, "one"), atoll.ErrNotFound, "RemoveSnapshot twice")
	e.wantError(atoll.Restore(e.newContext(), sb, "one"), atoll.ErrNotFound, "Restore of a removed snapshot")
}

func forkIsIndependent(e *env) {
	if !e.features.Fork {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.executeText(sb, "mkdir -p /tmp/f; cd /tmp/f; echo one > a; V=1")
	spec := e.newSpec()
	spec.Name = "forked"
	fork, err := atoll.Fork(e.newContext(), sb, "", spec)
	if err != nil {
		e.Fatalf("Fork: %v", err)
	}
	defer func() {
		if err := fork.Destroy(e.newContext()); err != nil {
			e.Errorf("Destroy of the fork: %v", err)
		}
	}()
	if fork.ID() == sb.ID() {
		e.Error("the fork has the same ID")
	}
	e.executeText(sb, "echo of-the-first > /tmp/f/a")
	e.executeText(fork, "echo of-the-fork > /tmp/f/b")
	wantEqual(e, "the fork's files", e.runShell(fork, "cat /tmp/f/a /tmp/f/b"), "one\nof-the-fork\n")
	wantEqual(e, "the first's files", e.runShell(sb, "cat /tmp/f/a; ls /tmp/f"), "of-the-first\na\n")
	if e.features.Session {
		wantEqual(e, "the fork's session", e.executeText(fork, `pwd; echo "$V"`).Stdout, "/tmp/f\n1\n")
	}
	s, err := fork.Status(e.newContext())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	wantEqual(e, "name", s.Name, "forked")
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	wantEqual(e, "the fork outlives the first", e.runShell(fork, "cat /tmp/f/a"), "one\n")
	_, err = atoll.Fork(e.newContext(), fork, "no-such-snapshot", e.newSpec())
	e.wantError(err, atoll.ErrNotFound, "Fork of an unknown snapshot")
}

func stopKeepsFiles(e *env) {
	if !e.features.Stop {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "mkdir kept; echo kept > kept/file; chmod 640 kept/file; ln -s file kept/link")
	for range 2 {
		if err := atoll.Stop(e.newContext(), sb); err != nil {
			e.Fatalf("Stop: %v", err)
		}
	}
	s, err := sb.Status(e.newContext())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	wantEqual(e, "State", s.State, atoll.Stopped)
	wantEqual(e, "Ready", s.Ready(), false)
	_, err = sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}})
	e.wantError(err, atoll.ErrState, "Exec in a stopped sandbox")
	for range 2 {
		if err := atoll.Start(e.newContext(), sb); err != nil {
			e.Fatalf("Start: %v", err)
		}
	}
	wantEqual(e, "the file", e.runShell(sb, "cat kept/link; ls -l kept/file | cut -c1-10"), "kept\n-rw-r-----\n")
}

// stopKeepsRoot checks files outside of the working directory.
func stopKeepsRoot(e *env) {
	if !e.features.Stop {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	e.runShell(sb, "echo kept > /tmp/kept")
	if err := atoll.Stop(e.newContext(), sb); err != nil {
		e.Fatalf("Stop: %v", err)
	}
	if err := atoll.Start(e.newContext(), sb); err != nil {
		e.Fatalf("Start: %v", err)
	}
	wantEqual(e, "the file", e.runShell(sb, "cat /tmp/kept"), "kept\n")
}

func pauseFreezes(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	busy := e.start(sb, atoll.Cmd{Shell: "echo ready; i=0; while [ ! -e /tmp/go ]; do i=$((i+1)); done"})
	busy.waitForOutput("ready")
	r := e.start(sb, atoll.Cmd{Shell: "echo ready; while [ ! -e /tmp/go ]; do echo x >> /tmp/beat; sleep 0.04; done"})
	r.waitForOutput("ready")
	for range 2 {
		if err := atoll.Pause(e.newContext(), sb); err != nil {
			e.Fatalf("Pause: %v", err)
		}
	}
	s, err := sb.Status(e.newContext())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	wantEqual(e, "State", s.State, atoll.Paused)
	wantEqual(e, "Ready", s.Ready(), false)
	_, err = sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}})
	e.wantError(err, atoll.ErrState, "Exec in a paused sandbox")
	before := e.countBeats(sb)
	select {
	case <-r.done:
		e.Errorf("a command ended in a paused sandbox: %v", r.err)
	case <-time.After(400 * time.Millisecond): // many beats
	}
	wantEqual(e, "beats while paused", e.countBeats(sb), before)
	for range 2 {
		if err := atoll.Resume(e.newContext(), sb); err != nil {
			e.Fatalf("Resume: %v", err)
		}
	}
	e.mustFinish("a command that continues after Resume", func() {
		for e.countBeats(sb) == before {
			e.runShell(sb, "sleep 0.02")
		}
	})
	e.runShell(sb, "touch /tmp/go")
	wantEqual(e, "exit status after Resume", r.waitForExit().Code, 0)
	wantEqual(e, "exit status of a busy command", busy.waitForExit().Code, 0)
}

// countBeats returns how often a command has written to /tmp/beat.
func (e *env) countBeats(sb atoll.Sandbox) int {
	e.Helper()
	b, err := atoll.ReadFile(e.newContext(), sb, "/tmp/beat")
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		e.Fatalf("reading the heart-beat file: %v", err)
	}
	return strings.Count(string(b), "x")
}

func pausedCanBeStopped(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue checks the refusal
	}
	for _, end := range []struct {
		what string
		f    func(sb atoll.Sandbox) error
	}{
		{"Destroy", func(sb atoll.Sandbox) error { return sb.Destroy(e.newContext()) }},
		{"Stop", func(sb atoll.Sandbox) error { return atoll.Stop(e.newContext(), sb) }},
	} {
		if end.what == "Stop" && !e.features.Stop {
			continue
		}
		sb := e.newSandbox()
		r := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do sleep 0.01; done"})
		r.waitForOutput("ready")
		busy := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do :; done"})
		busy.waitForOutput("ready")
		if err := atoll.Pause(e.newContext(), sb); err != nil {
			e.Fatalf("Pause: %v", err)
		}
		e.mustFinish(end.what+" of a paused sandbox", func() {
			if err := end.f(sb); err != nil {
				e.Errorf("%s: %v", end.what, err)
			}
			<-r.done
			<-busy.done
		})
		if r.err == nil || busy.err == nil {
			e.Errorf("commands of a paused sandbox survived %s", end.what)
		}
		if end.what == "Stop" {
			if err := atoll.Start(e.newContext(), sb); err != nil {
				e.Errorf("Start: %v", err)
			}
			wantEqual(e, "after Start", e.runShell(sb, "echo works"), "works\n")
		}
	}
}

func pausedDeadline(e *env) {
	if !e.features.Pause {
		return // FeaturesAreTrue checks the refusal
	}
	sb := e.newSandbox()
	r := e.start(sb, atoll.Cmd{Shell: "echo ready; while :; do :; done", Timeout: 2 * time.Second})
	e.mustFinish("a command that begins, or its deadline", func() {
		select {
		case <-r.out.changed: // it is busy
		case <-r.done: // the host was too busy: it never began
		}
	})
	if err := atoll.Pause(e.newContext(), sb); err != nil {
		e.Fatalf("Pause: %v", err)
	}
	e.mustFinish("a deadline in a paused sandbox", func() { <-r.done })
	e.wantError(r.err, atoll.ErrTimeout, "Exec")
	if err := atoll.Resume(e.newContext(), sb); err != nil {
		e.Fatalf("Resume: %v", err)
	}
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func statsCount(e *env) {
	if !e.features.Stats {
		return // FeaturesAreTrue checks that there is none
	}
	sb := e.newSandbox()
	before, err := atoll.StatsOf(e.newContext(), sb)
	if err != nil {
		e.Fatalf("StatsOf: %v", err)
	}
	e.runShell(sb, "mkdir /tmp/st; head -c 100000 /dev/zero > /tmp/st/zeros")
	after, err := atoll.StatsOf(e.newContext(), sb)
	if err != nil {
		e.Fatalf("StatsOf: %v", err)
	}
	wantEqual(e, "ID", after.ID, sb.ID())
	if d := after.DiskUsed - before.DiskUsed; d < 100_000 || d > 1_000_000 {
		e.Errorf("a file of 100,000 bytes counts as %d", d)
	}
	wantEqual(e, "more files", after.Files-before.Files, 2)
	wantEqual(e, "more commands", after.Commands-before.Commands, 1)
}

func historyRemembers(e *env) {
	if !e.features.History {
		return // FeaturesAreTrue checks that there is none
	}
	sb := e.newSandbox()
	e.executeText(sb, "echo first")
	e.executeText(sb, "echo second >&2; exit 2")
	list, err := atoll.History(e.newContext(), sb)
	if err != nil {
		e.Fatalf("History: %v", err)
	}
	if len(list) < 2 {
		e.Fatalf("history has %d entries", len(list))
	}
	list = list[len(list)-2:]
	got := fmt.Sprintf("%s|%s|%d %s|%s|%d", list[0].Command, list[0].Stdout, list[0].ExitCode, list[1].Command, list[1].Stderr, list[1].ExitCode)
	wantEqual(e, "the last two", got, "echo first|first\n|0 echo second >&2; exit 2|second\n|2")
}
